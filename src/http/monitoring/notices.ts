import type { Clock } from "../../clock.ts";
import type { Registry } from "../../rule/registry.ts";
import { overdueIn } from "../../ops/pool/alarms.ts";
import type { Picture } from "../../ops/pool/pool-watch.ts";
import type { InstrumentedCall } from "../../ops/instrumented.ts";
import type { Journal, JournalEvent } from "./journal.ts";

/** Claims that wait to be checked. With more, the newest are not checked. */
const longestQueue = 1000;
/** The claim, its predecessor and its successor. */
const rowsAround = 3;
/** A later end than the reported one is another quarantine where it is later by this, ms. */
const sameEnd = 1000;
/** A quarantine without an end lasts until the namespace is put back. It is reported again after this, ms. */
const endless = 60_000;
/** In how many namespaces quarantines are remembered. */
const mostNamespaces = 1000;

/** Reports claims of a worker ID that its last holder never gave back. Reads the history one claim after the other; no client waits. */
export function noticeTakeOvers(journal: Journal, registry: Registry): void {
  const queue: JournalEvent[] = [];
  let looking = false;

  async function look(): Promise<void> {
    looking = true;
    for (let claim = queue.shift(); claim !== undefined; claim = queue.shift()) {
      // The log and the figures show already that the registry does not answer.
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
    // The first claim of a worker ID takes nothing over.
    if (!isClaim || event.fence === 1 || queue.length >= longestQueue) return;
    queue.push(event);
    if (!looking) void look();
  });
}

/** Reports each quarantine once. Returns a function that expects every call of the registry. */
export function noticeQuarantine(journal: Journal, clock: Clock): (call: InstrumentedCall) => void {
  /** Namespace -> when it ends, Unix ms. */
  const ends = new Map<string, number>();

  return ({ namespace, error }) => {
    if (error?.code !== "QUARANTINE" || namespace === undefined) return;
    const now = clock.now();
    const { retryAfterMs } = error.details;
    const until = now + (retryAfterMs ?? endless);
    const reported = ends.get(namespace) ?? 0;
    // A sooner end is no new quarantine: an operator ended the reported one.
    const isKnown = now < reported + sameEnd && until < reported + sameEnd;
    if (retryAfterMs === undefined ? now < reported : isKnown) return;
    if (ends.size >= mostNamespaces) ends.clear();
    ends.set(namespace, until);
    journal.warn({ event: "quarantine", namespace, ...(retryAfterMs !== undefined && { until }) }, error.message);
  };
}

/** Reports overdue renewals when they become more. Returns a function that expects every picture of a pool. */
export function noticeOverdue(journal: Journal): (picture: Picture) => void {
  /** Namespace -> how many there were. */
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
