import { setImmediate as turn } from "node:timers/promises";
import { checkNew, presentNamespace } from "../../rule/namespace.ts";
import type { HistoryRow, Registry, WorkerRecord } from "../../rule/registry.ts";
import { lastUse } from "../../rule/removal.ts";
import { storedToken } from "../../rule/token.ts";
import { unusedRecord } from "../../rule/pin.ts";
import { shownMarked, shownRecord, type Stored } from "../../rule/window.ts";
import { claim } from "./claim.ts";
import { presentRow } from "./history.ts";
import { release, renew } from "./holder.ts";
import { describe, init, look, receiptKey } from "./namespace.ts";
import { endQuarantine, erase, forceRelease, pinAll, seal, separate, unpinAll } from "./operator.ts";
import { type Part, recordAsSeen, type RunOperation, type StoreRead, type StoreRest, type StoreView } from "./port.ts";

/** The highest count of rows in one answer. */
const longestPage = 10_000;

/** The registry in a store. `pinsTogether`: whether it commits many pins at once. */
export function registryOf(
  store: StoreRest,
  { run, pinsTogether }: { readonly run: RunOperation; readonly pinsTogether: boolean },
): Registry {
  const { kind, title, hasOthers = false, scope, ping, rehearse, verify, acceptClock, close } = store;

  const lookUp = <Answer>(
    namespace: string,
    reads: readonly StoreRead[],
    found: (view: StoreView) => Answer,
  ): Promise<Answer> => run(namespace, "read", () => look(reads, found));
  const pinTogether: NonNullable<Registry["pinAll"]> = (namespace, pins) =>
    run(namespace, "write", () => pinAll(namespace, pins, title));
  const unpinTogether: NonNullable<Registry["unpinAll"]> = (namespace, workerIds) =>
    run(namespace, "once", () => unpinAll(workerIds));

  const registry: Registry = {
    kind,
    ...(scope && { scope }),
    ...(rehearse && { rehearse }),
    ...(verify && { verify }),
    ...(acceptClock && { acceptClock }),
    ping,
    close,

    async init(request) {
      const info = await run(request.namespace, "write", () => init(request, title));
      await checkNew(registry, request, info);
      return info;
    },
    describe: (namespace) => run(namespace, "read", describe),
    receiptKey: (namespace) => run(namespace, "read", receiptKey),

    claim: (request) => run(request.namespace, "claim", ({ waited }) => claim(present(request, waited), store)),
    renew: (request) => run(request.namespace, "renew", ({ waited }) => renew(present(request, waited), title)),
    release: (request) => run(request.namespace, "release", ({ waited }) => release(present(request, waited), title)),

    forceRelease: (request) => run(request.namespace, "once", () => forceRelease(request)),
    pin: (namespace, workerId, reason, owner) => pinTogether(namespace, [{ workerId, reason, owner }]),
    unpin: async (namespace, workerId) => (await unpinTogether(namespace, [workerId])).length > 0,
    ...(pinsTogether && { pinAll: pinTogether, unpinAll: unpinTogether }),
    endQuarantine: (request) => run(request.namespace, "write", () => endQuarantine(request)),
    separate: (request) => run(request.namespace, "write", ({ sent }) => separate(request, { title, sent })),

    async remove(request) {
      const { namespace } = request;
      const id = await run(namespace, "write", ({ sent }) => seal(request, sent));
      const last = await lastUse(registry, namespace);
      while (!(await run(namespace, "write", () => erase(request, { id, last })))) await turn();
    },

    worker: (namespace, workerId) =>
      lookUp(namespace, [["byId", workerId]], (view) => {
        const isTaken = view.others?.takenBy(workerId) !== undefined;
        const record = view.byId(workerId) ?? (isTaken ? unusedRecord(workerId) : undefined);
        return record && shown(view, record);
      }),

    async workers(namespace, { state, after = -1, limit = 1000 } = {}) {
      if (state === "foreign" && !hasOthers) return [];
      // Few of these records may have this state.
      const wanted = (left: number): number => (state === undefined ? left : longestPage);
      return partByPart<WorkerRecord>(after, limit, (next, left) =>
        lookUp(namespace, [["page", next, wanted(left), state]], (view) => {
          const part = view.page(next, wanted(left), state);
          const rows = part.rows.map((record) => shown(view, record));
          return { rows: rows.filter((record) => state === undefined || record.state === state), next: part.next };
        }),
      );
    },

    async history(namespace, workerId, { from = -Infinity, until = Infinity, limit = 1000 } = {}) {
      const fits = (row: HistoryRow): boolean => row.until > from && (row.continuedFrom ?? row.from) < until;
      const isWhole = from === -Infinity && until === Infinity;
      const newestFirst = await partByPart<HistoryRow>(Number.MAX_SAFE_INTEGER, limit, (before, left) => {
        // Few of these rows may fit.
        const wanted = isWhole ? left : longestPage;
        const reads: readonly StoreRead[] = [
          ["byId", workerId],
          ["ended", workerId, before, wanted],
        ];
        return lookUp(namespace, reads, (view) => {
          const record = view.byId(workerId);
          const { rows, next } = view.ended(workerId, before, wanted);
          const live = record && presentRow(record);
          // The live claim may have ended between two reads. If only its record was put back, it may also be older than its history.
          const isHere =
            live && live.fence < before && live.fence > (next ?? -1) && !rows.some((row) => isSame(row, live));
          const all = isHere ? [live, ...rows].toSorted((a, b) => b.fence - a.fence) : rows;
          // No older claim ends later than a window that was granted when the last of these began. Windows do not end in their order if an
          // operator has reset one.
          const { maxWindow = 0, maxClockSkew = 0 } = view.standing.made?.info ?? {};
          const longest = maxWindow + maxClockSkew;
          const isPast = rows.length > 0 && rows.every((row) => Math.max(row.until, row.claimedAt + longest) <= from);
          return { rows: all.filter(fits), next: isPast ? undefined : next };
        });
      });
      return newestFirst.toReversed();
    },

    async prune(namespace, before) {
      await presentNamespace(registry, namespace);
      for (let sum = 0; ;) {
        const { pruned, isDone } = await store.prune(namespace, before);
        sum += pruned;
        if (isDone) return sum;
      }
    },
  };
  return registry;
}

function isSame(a: HistoryRow, b: HistoryRow): boolean {
  return a.fence === b.fence && a.claimedAt === b.claimedAt;
}

function shown(view: StoreView, stored: Stored): WorkerRecord {
  const { clock, others } = view;
  const record = shownRecord(recordAsSeen(view, stored), clock);
  const holder = others?.takenBy(stored.workerId);
  if (holder !== undefined) return { ...record, state: "foreign", holder };
  return others?.isMarked(stored.workerId) === true ? shownMarked(record) : record;
}

/**
 * The request with its clock as of now. The caller's clock went on while the operation waited. Without the difference, it would look set
 * back.
 */
function present<Request extends { readonly token: string; readonly clock: number }>(
  request: Request,
  waited: number,
): Request {
  return { ...request, token: storedToken(request.token), clock: request.clock + waited };
}

/** Reads a list part by part. Between two parts, the event loop can run other work. */
async function partByPart<Row>(
  start: number,
  limit: number,
  read: (next: number, left: number) => Promise<Part<Row>>,
): Promise<readonly Row[]> {
  const most = Math.min(limit, longestPage);
  const found: Row[] = [];
  for (let next: number | undefined = start; next !== undefined && found.length < most;) {
    if (next !== start) await turn();
    const part: Part<Row> = await read(next, most - found.length);
    found.push(...part.rows);
    next = part.next;
  }
  return found.slice(0, most);
}
