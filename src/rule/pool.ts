import { isIn, type PoolBounds } from "../id/pool-bounds.ts";
import { claimIn, type NamespaceState, recordIn } from "./era.ts";
import { receiptOf } from "./receipt.ts";
import type { ClaimRequest, Grant, Lost, Refusal } from "./registry.ts";
import { claimed, isFree, refusalOf, rollbackOf, type Stored } from "./window.ts";

/** The reads of a claim in one namespace: lookups by key, or the first few entries of an ordered index. */
export interface PoolView {
  byToken(token: string): Stored | undefined;
  byId(workerId: number): Stored | undefined;
  /** The lowest worker ID of the pool without a record. A store that samples may miss some, except with `everywhere`. */
  firstUnused(pool: PoolBounds, everywhere?: true): number | undefined;
  /**
   * Records of the pool that are not pinned, by `until`, the oldest first. A store that samples may miss some. With `everywhere`, it misses
   * none, or finds one whose window has passed by each clock that may claim.
   */
  oldest(pool: PoolBounds, limit: number, everywhere?: true): readonly Stored[];
  /** The same, but only records whose last holder ran on this host. */
  oldestOfHost(pool: PoolBounds, host: string, limit: number): readonly Stored[];
  /** Records of the pool that are pinned for this address, by `until`, the oldest first. */
  pinnedFor(pool: PoolBounds, ip: string, limit: number): readonly Stored[];
  /** Of the records whose last holder ran on this host, the one with the newest `until`. */
  newestOfHost(pool: PoolBounds, host: string): Stored | undefined;
}

/** The order of the oldest records: by the end of the window, then by worker ID. */
export function byAge(a: Pick<Stored, "until" | "workerId">, b: Pick<Stored, "until" | "workerId">): number {
  return a.until - b.until || a.workerId - b.workerId;
}

/** The answer to a claim, and the record to store with it. */
export interface Decision {
  readonly answer: Grant | Refusal | Lost;
  /** The record to store; absent if nothing changes. */
  readonly store?: Stored | undefined;
  /** The record that `store` replaces. For a repeated claim: its own record. For a refusal: the record that prevents the grant. */
  readonly before?: Stored | undefined;
}

/**
 * How many entries of an index a claim reads. After a clock was set back, a claim may be able to continue a later entry although the first
 * one is not free.
 */
export const look = 8;

/** A read of a `PoolView`: the name of the method, then its arguments. */
export type PoolRead = {
  readonly [Name in keyof PoolView]: readonly [name: Name, ...input: Parameters<PoolView[Name]>];
}[keyof PoolView];

/** What a claim reads first: it depends on nothing that is stored. */
export function claimReads({
  token,
  workerId,
  pool,
  holder,
  reuse = "any",
  ...wish
}: ClaimRequest): readonly PoolRead[] {
  if (workerId !== undefined)
    return [
      ["byToken", token],
      ["byId", workerId],
    ];
  const reused: readonly PoolRead[] = [
    ["pinnedFor", pool, holder.ip, look],
    ...preferredIn(pool, wish).map((id) => ["byId", id] as const),
    ["oldestOfHost", pool, holder.host, look],
  ];
  return [
    ["byToken", token],
    ["newestOfHost", pool, holder.host],
    ...(reuse === "never" ? [] : reused),
    ["firstUnused", pool],
  ];
}

function preferredIn(pool: PoolBounds, { preferred = [] }: Pick<ClaimRequest, "preferred">): readonly number[] {
  return preferred.slice(0, look).filter((id) => isIn(pool, id));
}

/**
 * Decides a claim. If the claim names a worker ID, only that one counts. Otherwise the order is: a worker ID that is pinned for this host,
 * a preferred one, one that this host used before, one that was never used, the one whose window ended longest ago. The generator yields
 * the reads of its next step, and takes the view that answers them. `view`: answers the reads of `claimReads`. `samples`: the store first
 * looks at a part of a large pool; before the claim reports the pool as exhausted, it asks for all of it.
 */
export function* claimFrom(
  view: PoolView,
  request: ClaimRequest,
  state: NamespaceState,
  samples: boolean = false,
): Generator<readonly PoolRead[], Decision, PoolView> {
  const { clock, info } = state;
  const { token, workerId: wanted, pool, holder, reuse = "any" } = request;
  const free = (record: Stored): boolean => isFree(recordIn(state, record), request, clock);
  const granted = (workerId: number, before?: Stored, newest?: Stored): Decision => {
    const record = claimed(before && recordIn(state, before), workerId, request, clock, info);
    const store = claimIn(state, record, before);
    const rollback = rollbackOf(newest, request, info) ?? rollbackOf(before, request, info);
    return { answer: grantOf(state, store, rollback), store, before };
  };

  // The claim was granted before, and is repeated.
  const repeated = view.byToken(token);
  if (repeated !== undefined) return { answer: repeatedAnswer(repeated, state), before: repeated };

  if (wanted !== undefined) {
    const record = view.byId(wanted);
    if (reuse === "never" && record !== undefined && record.fence > 0) {
      return { answer: { outcome: "exhausted", pool: { first: wanted, last: wanted }, clock } };
    }
    if (record === undefined || free(record)) return granted(wanted, record);
    return { answer: refusalOf(record, request, clock, info), before: record };
  }

  const newest = view.newestOfHost(pool, holder.host);
  if (reuse !== "never") {
    const pinned = view.pinnedFor(pool, holder.ip, look).find(free);
    if (pinned !== undefined) return granted(pinned.workerId, pinned, newest);
    for (const id of preferredIn(pool, request)) {
      const record = view.byId(id);
      if (record === undefined || free(record)) return granted(id, record, newest);
    }
    const own = view.oldestOfHost(pool, holder.host, look).find(free);
    if (own !== undefined) return granted(own.workerId, own, newest);
  }
  const unused = view.firstUnused(pool);
  if (unused !== undefined) return granted(unused, undefined, newest);
  let oldest: readonly Stored[] = [];
  if (reuse !== "never") {
    oldest = (yield [["oldest", pool, look]]).oldest(pool, look);
    const rested = oldest.find(free);
    if (rested !== undefined) return granted(rested.workerId, rested, newest);
  }
  if (samples) {
    const missed = (yield [["firstUnused", pool, true]]).firstUnused(pool, true);
    if (missed !== undefined) return granted(missed, undefined, newest);
  }
  if (samples && reuse !== "never") {
    oldest = (yield [["oldest", pool, look, true]]).oldest(pool, look, true);
    const rested = oldest.find(free);
    if (rested !== undefined) return granted(rested.workerId, rested, newest);
  }
  return { answer: { outcome: "exhausted", pool, freeAt: oldest[0]?.until, clock } };
}

/** The answer to a claim that was granted before. */
function repeatedAnswer(record: Stored, state: NamespaceState): Grant | Lost {
  // The registry may have forgotten how far that window reached.
  if (record.era !== state.era) return { outcome: "lost", reason: "forgotten" };
  // The process that made the claim has its window, and has renewed it: the sender is a copy of that process.
  if (record.turn !== undefined) return { outcome: "lost", reason: "cloned" };
  return grantOf(state, record);
}

/** The answer to the claim that stored this record, at first and at each repetition. */
export function grantOf(state: NamespaceState, record: Stored, rollback?: number): Grant {
  const { workerId, fence, from, until, recents } = record;
  return {
    outcome: "granted",
    workerId,
    fence,
    from,
    until,
    clock: state.clock,
    receipt: receiptOf(state, record),
    ...(recents !== undefined && { recents }),
    ...(rollback !== undefined && { rollback }),
  };
}
