import { renewalPause } from "../../lease/window-length.ts";
import type { WorkerRecord } from "../../rule/registry.ts";

/** What is left of a window when a renewal that was due was not made, as a share of it. */
const late = 1 / 3;

/** A record and the registry's clock when it was read, Unix ms: a large pool takes minutes to read, in which holders renew. */
export interface ReadRecord extends WorkerRecord {
  readonly readAt: number;
}

/** Whether the holder was late with a renewal when the record was read. */
export function isOverdue({ state, until, seenClock, readAt }: ReadRecord): boolean {
  return state === "live" && until - readAt < (until - seenClock) * late;
}

/** When the renewal of a window was expected, Unix ms. */
export function renewalDue({ until, seenClock }: Pick<WorkerRecord, "until" | "seenClock">): number {
  const window = until - seenClock;
  return Math.round(until - window + renewalPause(window));
}
