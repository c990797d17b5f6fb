import { Layout } from "../id/layout.ts";
import { presentNamespace } from "../rule/namespace.ts";
import type { HistoryRow, HolderLabel, Registry, WorkerRecord } from "../rule/registry.ts";
import { historyKept } from "../rule/limits.ts";
import { timeText } from "../id/errors.ts";
import { type UnheldReason, unheldReason } from "./unheld-reason.ts";
import { inspect, type Inspection, type Reading } from "./inspect.ts";

/** The parts of an ID, and the holders that may have made it. */
export interface Explanation extends Inspection {
  readonly layout: Layout;
  /** The claims whose window holds the ID's whole tick. There are several if one holder continued after another in that tick. */
  readonly holders: readonly HistoryRow[];
  /** Why there are no holders. `detail`: one sentence for people. */
  readonly unheld?: { readonly why: UnheldReason; readonly detail: string } | undefined;
  /** The registry's clock, Unix ms. */
  readonly clock: number;
}

/**
 * Takes an ID apart by its namespace's layout, and looks up the holder of its worker ID at that time.
 * @throws SnowleaseError NOT_FOUND for an unknown namespace; CONFIG_INVALID if the text is not an ID, the layout cannot hold the ID, or
 * a time is missing.
 */
export async function explain(
  registry: Registry,
  namespace: string,
  text: string,
  reading: Reading = {},
): Promise<Explanation> {
  const info = await presentNamespace(registry, namespace);
  const layout = Layout.parse(info.layout);
  const inspected = inspect(text, layout, reading);
  const { parts } = inspected;
  const { workerId, timestamp: from } = parts;
  const until = from + layout.tick;
  const met = await registry.history(namespace, workerId, { from, until });
  const { clock } = await registry.ping();
  // A holder cannot use a tick that is only partly in its window.
  const holders = met.filter((row) => (row.continuedFrom ?? row.from) <= from && until <= row.until);
  if (holders.length > 0) return { ...inspected, layout, holders, clock };
  const record = await registry.worker(namespace, workerId);
  const [before] = await registry.history(namespace, workerId, { until: from, limit: 1 });
  const [after] = await registry.history(namespace, workerId, { from: until });
  const why = unheldReason(record, from > clock + info.maxClockSkew, before !== undefined);
  const detail = detailOf(why, { workerId, record, before, after, clock });
  return { ...inspected, layout, holders, unheld: { why, detail }, clock };
}

/** The records around a time outside of every window. */
interface UnheldContext {
  readonly workerId: number;
  readonly record: WorkerRecord | undefined;
  /** The newest claim that began before the time, and the oldest claim that ended after it. */
  readonly before: HistoryRow | undefined;
  readonly after: HistoryRow | undefined;
  readonly clock: number;
}

function detailOf(why: UnheldReason, { workerId, record, before, after, clock }: UnheldContext): string {
  const holder = record?.holder;
  const earlier = before && `the window of ${holderText(before.holder)} ended at ${timeText(before.until)}`;
  const later = after && `that of ${holderText(after.holder)} began at ${timeText(after.continuedFrom ?? after.from)}`;
  switch (why) {
    case "future":
      return `that time is in the future: the registry's clock shows ${timeText(clock)}; does the ID belong to another layout or namespace?`;
    case "foreign":
      return `worker ${workerId} is taken by ${holder === undefined ? "a foreign holder" : holderText(holder)}, which records no windows and may have made it`;
    case "pinned":
      return `worker ${workerId} was not claimed yet; it is pinned (${record?.pinned}), and a program without a lease may have made the ID`;
    case "unused":
      return `worker ${workerId} was never claimed`;
    case "early":
      return `the first recorded claim of worker ${workerId} is later${later === undefined ? "" : `: ${later}`}; claims whose window ended before ${timeText(clock - historyKept)} may be forgotten`;
    case "gap":
      return `${[earlier, later].filter((part) => part !== undefined).join(", and ")}${after === undefined ? ", and it was not claimed again" : ""}`;
  }
}

/** A holder in one line: `orders-1 (10.0.0.7), pid 42`. */
export function holderText({ host, ip, pid, instance }: HolderLabel): string {
  return `${host}${ip === "" || ip === host ? "" : ` (${ip})`}, pid ${pid}${instance === "" ? "" : `, ${instance}`}`;
}

const ends: Readonly<Record<NonNullable<HistoryRow["end"]>, string>> = {
  released: "released",
  forced: "ended by an operator",
  reset: "ended by an operator, window reset",
  "taken-over": "never released",
};

/** How a claim ended, or its present state. */
export function endText({ end, until }: HistoryRow, clock: number): string {
  if (end !== undefined) return ends[end];
  return until > clock ? "live" : "never released";
}
