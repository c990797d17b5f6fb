import type { PoolBounds } from "../id/pool-bounds.ts";
import type { ClaimRequest, Grant, NamespaceInfo, Refusal } from "./registry.ts";
import { claimed, grantOf, isFree, refusalOf, rollbackOf, type Stored } from "./window.ts";

/**
 * What a claim needs to see of the stored records of one namespace. Each of these costs the same however many there are: a
 * lookup by key, or the first few entries of an ordered index.
 */
export interface PoolView {
  byToken(token: string): Stored | undefined;
  byId(workerId: number): Stored | undefined;
  /** The lowest number of the pool that has no record. */
  firstUnused(pool: PoolBounds): number | undefined;
  /** Records of the pool that are not pinned, the oldest `until` first. */
  oldest(pool: PoolBounds, limit: number): readonly Stored[];
  /** The same for the records whose last holder ran on this host. */
  oldestOfHost(pool: PoolBounds, host: string, limit: number): readonly Stored[];
  /** Records of the pool that are pinned for this address, the oldest `until` first. */
  pinnedFor(pool: PoolBounds, ip: string, limit: number): readonly Stored[];
  /** The record with the newest `until` among those whose last holder ran on this host. */
  newestOfHost(pool: PoolBounds, host: string): Stored | undefined;
}

/** What a claim comes to: the answer, and what to store with it. */
export interface Decision {
  readonly answer: Grant | Refusal;
  /** The record to store; absent when nothing changes. */
  readonly store?: Stored | undefined;
  /** The record that it replaces. */
  readonly before?: Stored | undefined;
}

/**
 * How far into an index a claim looks. Its first entry is nearly always the answer; the ones behind it only matter after a
 * clock went back, when some can be continued although their window has not passed.
 */
export const look = 8;

/**
 * Decides a claim: the wanted worker ID; or one that is pinned for this host, a preferred one, one that this host used before, one never used, the one whose
 * window ended longest ago. To be run inside the registry's atomic step, with `clock` read there.
 */
export function decideClaim(view: PoolView, request: ClaimRequest, clock: number, info: NamespaceInfo): Decision {
  const repeated = view.byToken(request.token);
  if (repeated !== undefined) return { answer: grantOf(repeated, clock) };
  if (request.workerId !== undefined) return decideWanted(view, request, request.workerId, clock, info);
  return decideAny(view, request, clock, info);
}

function decideWanted(
  view: PoolView,
  request: ClaimRequest,
  workerId: number,
  clock: number,
  info: NamespaceInfo,
): Decision {
  const record = view.byId(workerId);
  if (request.reuse === "never" && record !== undefined && record.fence > 0) {
    return { answer: { outcome: "exhausted", pool: { first: workerId, last: workerId }, clock } };
  }
  if (record === undefined || isFree(record, request, clock)) return grant(record, workerId, request, clock, info);
  return { answer: refusalOf(record, request, clock, info) };
}

function decideAny(view: PoolView, request: ClaimRequest, clock: number, info: NamespaceInfo): Decision {
  const { pool, holder } = request;
  const disposable = request.reuse === "never";
  const free = (record: Stored): boolean => isFree(record, request, clock);
  const newest = view.newestOfHost(pool, holder.host);
  const rollback = newest && rollbackOf(newest, request, info);

  if (!disposable) {
    const kept = view.pinnedFor(pool, holder.ip, look).find(free);
    if (kept !== undefined) return grant(kept, kept.workerId, request, clock, info, rollback);
    for (const workerId of (request.preferred ?? []).slice(0, look)) {
      if (!Number.isInteger(workerId) || workerId < pool.first || workerId > pool.last) continue;
      const record = view.byId(workerId);
      if (record === undefined || free(record)) return grant(record, workerId, request, clock, info, rollback);
    }
    const own = view.oldestOfHost(pool, holder.host, look).find(free);
    if (own !== undefined) return grant(own, own.workerId, request, clock, info, rollback);
  }
  const unused = view.firstUnused(pool);
  if (unused !== undefined) return grant(undefined, unused, request, clock, info, rollback);
  if (disposable) return { answer: { outcome: "exhausted", pool, clock } };

  const candidates = view.oldest(pool, look);
  const rested = candidates.find(free);
  if (rested !== undefined) return grant(rested, rested.workerId, request, clock, info, rollback);
  return { answer: { outcome: "exhausted", pool, freeAt: candidates[0]?.until, clock } };
}

function grant(
  before: Stored | undefined,
  workerId: number,
  request: ClaimRequest,
  clock: number,
  info: NamespaceInfo,
  seen?: number,
): Decision {
  const store = claimed(before, workerId, request, clock, info);
  const rollback = seen ?? (before && rollbackOf(before, request, info));
  return { answer: grantOf(store, clock, rollback), store, before };
}
