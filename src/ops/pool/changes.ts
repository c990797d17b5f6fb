import type { HolderLabel, WorkerRecord } from "../../rule/registry.ts";
import type { Picture } from "./pool-watch.ts";

/** A change of a worker ID between two pictures of its pool. */
export interface Change {
  readonly workerId: number;
  /** `gone`: no longer live, in a pool of which only live worker IDs are known one by one. */
  readonly what: "claimed" | "given back" | "ended" | "expired" | "gone" | "pinned" | "unpinned";
  /** The present holder, or the last one. */
  readonly holder?: HolderLabel | undefined;
}

/** The changes from one picture of a pool to the next. Empty in a large pool while not all live worker IDs are known. */
export function changes(before: Picture, after: Picture): readonly Change[] {
  const [old, now] = [recordsOf(before), recordsOf(after)];
  if (old === undefined || now === undefined) return [];
  const found: Change[] = [];
  for (const [workerId, record] of now) {
    const previous = old.get(workerId);
    const isNew = record.state === "live" && (previous?.state !== "live" || previous.fence !== record.fence);
    if (isNew) found.push({ workerId, what: "claimed", holder: record.holder });
    if (previous?.state === "live" && record.state !== "live")
      found.push({ workerId, what: endOf(record), holder: previous.holder });
    if (record.pinned !== previous?.pinned)
      found.push({ workerId, what: record.pinned === undefined ? "unpinned" : "pinned" });
  }
  for (const [workerId, { state, holder, pinned }] of old) {
    if (now.has(workerId)) continue;
    if (state === "live") found.push({ workerId, what: "gone", holder });
    else if (pinned !== undefined) found.push({ workerId, what: "unpinned" });
  }
  return found.toSorted((one, other) => one.workerId - other.workerId);
}

function endOf({ clean, releasedAt, claimedAt = 0 }: WorkerRecord): Change["what"] {
  if (clean) return "given back";
  return releasedAt !== undefined && releasedAt >= claimedAt ? "ended" : "expired";
}

function recordsOf({ cells, holders, counts, read }: Picture): ReadonlyMap<number, WorkerRecord> | undefined {
  const isOneByOne = cells[0] !== undefined && cells[0].first === cells[0].last;
  if (isOneByOne) {
    return new Map(cells.flatMap(({ record }) => (record === undefined ? [] : [[record.workerId, record] as const])));
  }
  if (read < 1 || counts.live > holders.length) return undefined;
  return new Map(holders.map((record) => [record.workerId, record]));
}
