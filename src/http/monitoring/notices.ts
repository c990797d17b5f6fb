import type { Clock } from "../../clock.ts";
import type { Registry } from "../../rule/registry.ts";
import { overdueIn } from "../../ops/pool/alarms.ts";
import type { Picture } from "../../ops/pool/pool-watch.ts";
import type { InstrumentedCall } from "../../ops/instrumented.ts";
import type { Journal, JournalEvent } from "./journal.ts";

/** How many claims may wait for their check. Further claims are not checked. */
const longestQueue = 1000;
/** The claim, its predecessor and its successor. */
const rowsAround = 3;
/** A quarantine that ends later than the reported one by at least this is another quarantine, ms. */
const sameEnd = 1000;
/** A quarantine without an end lasts until an operator restores the namespace. It is reported again after this time, ms. */
const endless = 60_000;
/** How many namespaces are remembered. */
const mostNamespaces = 1000;

/** Reports each claim of a worker ID that the last holder did not release. Reads the history for one claim at a time. No client waits. */
export function noticeTakeOvers(journal: Journal, registry: Registry): void {
  const queue: JournalEvent[] = [];
  let looking = false;

  async function look(): Promise<void> {
    looking = true;
    for (let claim = queue.shift(); claim !== undefined; claim = queue.shift()) {
      // The log and the figures already show that the registry does not answer.
      await lookAt(claim).catch(() => undefined);
    }
    looking = false;
  }

  async function lookAt({ namespace, workerId = 0, fence, own }: JournalEvent): Promise<void> {
    const rows = await registry.history(namespace, workerId, { limit: rowsAround });
    const previous = rows[rows.findIndex((row) => row.fence === fence) - 1];
    if (previous?.end !== "taken-over") return;
    const { host, ip, pid, instance } = previous.holder;
    const facts = { namespace, workerId, fence, previousFence: previous.fence, host, ip, pid, instance };
    journal.warn({ event: "taken-over", ...(own === true && { own }), ...facts }, "its last holder never gave it back");
  }

  journal.on(({ event }) => {
    const isClaim = event.event === "claimed" || event.event === "switched";
    // The first claim of a worker ID has no holder before it.
    if (!isClaim || event.fence === 1 || queue.length >= longestQueue) return;
    queue.push(event);
    if (!looking) void look();
  });
}

/** Reports each quarantine once. The caller must pass every call of the registry to the returned function. */
export function noticeQuarantine(journal: Journal, clock: Clock): (call: InstrumentedCall) => void {
  /** Namespace -> end of its quarantine, Unix ms. */
  const ends = new Map<string, number>();

  return ({ namespace, error }) => {
    if (error?.code !== "QUARANTINE" || namespace === undefined) return;
    const now = clock.now();
    const { retryAfterMs } = error.details;
    const until = now + (retryAfterMs ?? endless);
    const reported = ends.get(namespace) ?? 0;
    // An earlier end is not a new quarantine: an operator ended the reported one.
    const isKnown = now < reported + sameEnd && until < reported + sameEnd;
    if (retryAfterMs === undefined ? now < reported : isKnown) return;
    if (ends.size >= mostNamespaces) ends.clear();
    ends.set(namespace, until);
    journal.warn({ event: "quarantine", namespace, ...(retryAfterMs !== undefined && { until }) }, error.message);
  };
}

/** Reports overdue renewals when their number rises. The caller must pass every picture of a pool to the returned function. */
export function noticeOverdue(journal: Journal): (picture: Picture) => void {
  /** Namespace -> number of overdue renewals at the last picture. */
  const told = new Map<string, number>();

  return (picture) => {
    const { namespace, overdue } = picture;
    const { count, first } = overdue;
    const before = told.get(namespace) ?? 0;
    if (told.size >= mostNamespaces) told.clear();
    told.set(namespace, count);
    const alarm = overdueIn(picture);
    if (count <= before || alarm === undefined) return;
    const facts = { namespace, workerId: first?.workerId, count, until: first?.until };
    journal.warn({ event: "overdue", ...facts }, `${alarm.title}: ${alarm.text}`);
  };
}
