import { highestWorkerId } from "../../id/layout.ts";
import { setImmediate as turn } from "node:timers/promises";
import { type Clock, systemClock } from "../../lease/clock.ts";
import { decideClaim } from "../../rule/pool.ts";
import {
  defaultLimits,
  type HistoryRow,
  type NamespaceInfo,
  type NamespaceLimits,
  type Registry,
  type WorkerRecord,
} from "../../rule/registry.ts";
import { checkNew } from "../../rule/namespace.ts";
import { checkPin, pinnedRecord, unpinnedRecord, unusedRecord } from "../../rule/pin.ts";
import {
  checkClaim,
  checkLayout,
  checkLimits,
  checkSkew,
  checkWindow,
  forced,
  forceRefusal,
  noNamespace,
  released,
  renewed,
  shownRecord,
  stateOf,
  type Stored,
} from "../../rule/window.ts";
import { Records } from "./records.ts";

const promise = "Nothing survives this process: for tests, and for handing a lease on inside one process.";

/** Rows that one answer lists at most. */
const longestPage = 10_000;
/** Records that are looked at in one turn of the event loop. */
const mostLookedAt = 10_000;

interface Namespace {
  readonly info: NamespaceInfo;
  readonly records: Records;
  /** Worker ID -> its claims, oldest first. */
  readonly history: Map<number, HistoryRow[]>;
}

/** A registry in this process's memory. Each operation is one synchronous step, so it is atomic by itself. */
export function memoryRegistry({ clock = systemClock }: { readonly clock?: Clock } = {}): Registry {
  const namespaces = new Map<string, Namespace>();

  /** The namespace, or one to be stored once nothing speaks against the request. */
  function foundOrNew(namespace: string, layout: string, limits: Partial<NamespaceLimits> = {}): Namespace {
    const found = namespaces.get(namespace);
    if (found !== undefined) return found;
    const info: NamespaceInfo = {
      layout,
      maxWindow: limits.maxWindow ?? defaultLimits.maxWindow,
      maxClockSkew: limits.maxClockSkew ?? defaultLimits.maxClockSkew,
    };
    return { info, records: new Records(), history: new Map() };
  }

  /** Notes how the newest claim of a worker ID ended, and where its window then stood. */
  function endNewest(history: HistoryRow[] | undefined, until: number, endedAt: number, end: HistoryRow["end"]): void {
    const newest = history?.at(-1);
    if (newest === undefined || history === undefined || newest.end !== undefined) return;
    history[history.length - 1] = { ...newest, until, endedAt, end };
  }

  const registry: Registry = {
    kind: "memory",

    async init(request) {
      const space = foundOrNew(request.namespace, request.layout, request);
      const { info } = space;
      checkLayout(request.namespace, request.layout, info);
      checkLimits(request.namespace, request, info);
      namespaces.set(request.namespace, space);
      await checkNew(registry, request);
      return info;
    },

    async describe(namespace) {
      return namespaces.get(namespace)?.info;
    },

    async claim(request) {
      const now = clock.now();
      const space = foundOrNew(request.namespace, request.layout, request.limits);
      const { info, records, history } = space;
      checkLimits(request.namespace, request.limits ?? {}, info);
      checkClaim(request, now, info);
      namespaces.set(request.namespace, space);
      records.prepare(request.pool, request.workerId);
      const { answer, store, before } = decideClaim(records, request, now, info);
      if (store !== undefined) {
        const { workerId, fence, from, until, recents } = store;
        const rows = history.get(workerId) ?? [];
        if (before !== undefined) endNewest(rows, before.until, now, "taken-over");
        rows.push({
          workerId,
          fence,
          from,
          until,
          continuedFrom: recents?.from,
          holder: request.holder,
          claimedAt: now,
        });
        history.set(workerId, rows);
        records.put(store);
      }
      return answer;
    },

    async renew(request) {
      const now = clock.now();
      const space = namespaces.get(request.namespace);
      if (space === undefined) return { outcome: "lost" };
      checkWindow(request.window, space.info);
      checkSkew(request.clock, now, space.info);
      const record = renewed(space.records.byId(request.workerId), request, now);
      if (record === undefined) return { outcome: "lost" };
      space.records.put(record);
      return { outcome: "renewed", from: record.from, until: record.until, clock: now };
    },

    async release(request) {
      const now = clock.now();
      const space = namespaces.get(request.namespace);
      const before = space?.records.byId(request.workerId);
      const record = released(before, request, now);
      if (space === undefined || record === undefined) return { outcome: "lost" };
      if (record !== before) {
        space.records.put(record);
        endNewest(space.history.get(request.workerId), record.until, now, "released");
      }
      return { outcome: "released" };
    },

    async workers(namespace, { state, after = -1, limit = 1000 } = {}) {
      const now = clock.now();
      const found: WorkerRecord[] = [];
      const most = Math.min(limit, longestPage);
      for (let next: number | undefined = after; next !== undefined;) {
        let looked = 0;
        const records: Iterable<Stored> = namespaces.get(namespace)?.records.ascending(next) ?? [];
        next = undefined;
        for (const record of records) {
          if (found.length >= most) break;
          if (state === undefined || stateOf(record, now) === state) found.push(shownRecord(record, now));
          if (++looked < mostLookedAt) continue;
          next = record.workerId;
          break;
        }
        // Whatever is looked for among a million records, others have their turn in between.
        if (next !== undefined) await turn();
      }
      return found;
    },

    async worker(namespace, workerId) {
      const record = namespaces.get(namespace)?.records.byId(workerId);
      return record && shownRecord(record, clock.now());
    },

    async history(namespace, workerId, { from = -Infinity, until = Infinity, limit = 1000 } = {}) {
      const space = namespaces.get(namespace);
      const live = space?.records.byId(workerId)?.until;
      return (space?.history.get(workerId) ?? [])
        .map((row) => (row.end === undefined && live !== undefined ? { ...row, until: live } : row))
        .filter((row) => row.until > from && (row.continuedFrom ?? row.from) < until)
        .slice(limit === 0 ? Infinity : -Math.min(limit, longestPage));
    },

    async forceRelease(request) {
      const { namespace, workerId, resetWindow = false } = request;
      const now = clock.now();
      const space = namespaces.get(namespace);
      const before = space?.records.byId(workerId);
      const refusal = forceRefusal(before, request, now);
      if (refusal !== undefined || space === undefined || before === undefined) return refusal ?? { outcome: "absent" };
      const record = forced(before, now, resetWindow);
      space.records.put(record);
      endNewest(space.history.get(workerId), record.until, now, resetWindow ? "reset" : "forced");
      return { outcome: "released", until: record.until };
    },

    async pin(namespace, workerId, reason, owner) {
      const space = namespaces.get(namespace);
      if (space === undefined) throw noNamespace(namespace);
      checkPin({ workerId, reason, owner }, highestWorkerId(space.info.layout), clock.now(), space.info);
      const { records } = space;
      records.put(pinnedRecord(records.byId(workerId) ?? unusedRecord(workerId), reason, owner));
    },

    async unpin(namespace, workerId) {
      const records = namespaces.get(namespace)?.records;
      const record = records?.byId(workerId);
      if (records === undefined || record?.pinned === undefined) return false;
      if (record.fence === 0) records.forget(workerId);
      else records.put(unpinnedRecord(record));
      return true;
    },

    async prune(namespace, before) {
      const space = namespaces.get(namespace);
      if (space === undefined) throw noNamespace(namespace);
      let pruned = 0;
      for (const [workerId, rows] of space.history) {
        const kept = rows.filter((row, i) => i === rows.length - 1 || row.until >= before);
        pruned += rows.length - kept.length;
        space.history.set(workerId, kept);
      }
      return pruned;
    },

    async ping() {
      return { clock: clock.now(), promise };
    },

    async close() {},
  };
  return registry;
}
