import { BTree } from "../../vendor/sorted-btree.ts";
import { type Band, bandAt, bandsIn, cutBands, isUnfiled } from "../bands.ts";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import type { PoolView } from "../../rule/pool.ts";
import type { ClaimRequest } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";

type UntilKey = readonly [until: number, workerId: number];
type UntilIndex = InstanceType<typeof BTree<UntilKey, Stored>>;

/** The records of one namespace, with the ordered indexes that keep a claim's cost the same at any fill. */
export class MemoryRecords implements PoolView {
  readonly #byId: InstanceType<typeof BTree<number, Stored>> = new BTree<number, Stored>();
  readonly #byToken = new Map<string, Stored>();
  /** The indexes that claims look into, the oldest `until` first, by the names of `#indexNames`. */
  readonly #byUntil = new Map<string, UntilIndex>();
  #bands: readonly Band[] = [];
  /** The pool at whose limits the bands were cut last. */
  #cutAt: PoolBounds | undefined;
  /** Worker IDs without a record, as ranges in ascending order. */
  #gaps: PoolBounds[] = [{ first: 0, last: Number.MAX_SAFE_INTEGER }];

  /** Cuts the bands at the limits of the claim's pool; for a claim of one worker ID only where that is in no band. */
  prepare({ pool, workerId }: Pick<ClaimRequest, "pool" | "workerId">): void {
    if (pool.first === this.#cutAt?.first && pool.last === this.#cutAt.last) return;
    if (workerId !== undefined && bandAt(this.#bands, workerId) !== undefined) return;
    const bands = cutBands(this.#bands, pool);
    const moved = bands.filter(isUnfiled).flatMap(({ first, last }) => this.#byId.getRange(first, last, true));
    for (const [, record] of moved) this.#unindex(record);
    this.#bands = bands.map((band) => ({ ...band, filed: band.last + 1 }));
    this.#cutAt = pool;
    for (const [, record] of moved) this.#index(record);
  }

  put(record: Stored): void {
    const { workerId } = record;
    const before = this.#byId.get(workerId);
    if (before === undefined) this.#fillGap(workerId);
    else this.#unindex(before);
    this.#byId.set(workerId, record);
    this.#index(record);
  }

  forget(workerId: number): void {
    const record = this.#byId.get(workerId);
    if (record === undefined) return;
    this.#unindex(record);
    this.#byId.delete(workerId);
    this.#gaps = [...this.#gaps, { first: workerId, last: workerId }].toSorted((a, b) => a.first - b.first);
  }

  byToken(token: string): Stored | undefined {
    return this.#byToken.get(token);
  }

  byId(workerId: number): Stored | undefined {
    return this.#byId.get(workerId);
  }

  firstUnused(pool: PoolBounds): number | undefined {
    const gap = this.#gaps.find(({ last }) => last >= pool.first);
    return gap === undefined || gap.first > pool.last ? undefined : Math.max(gap.first, pool.first);
  }

  oldest(pool: PoolBounds, limit: number): readonly Stored[] {
    return this.#oldestIn(this.#bandsIn(pool), pool, limit);
  }

  oldestOfHost(pool: PoolBounds, host: string, limit: number): readonly Stored[] {
    const indexes = this.#bandsIn(pool).map((band) => hostIndex(band, host));
    return this.#oldestIn(indexes, pool, limit);
  }

  pinnedFor(pool: PoolBounds, ip: string, limit: number): readonly Stored[] {
    return this.#oldestIn([ownerIndex(ip)], pool, limit);
  }

  newestOfHost(pool: PoolBounds, host: string): Stored | undefined {
    return this.#bandsIn(pool)
      .flatMap((band) => this.#byUntil.get(hostIndex(band, host))?.nextLowerPair(undefined)?.[1] ?? [])
      .toSorted((a, b) => b.until - a.until || b.workerId - a.workerId)[0];
  }

  /** All records above a worker ID, in ascending order. */
  *ascending(after: number): Generator<Stored> {
    for (const [workerId, record] of this.#byId.entries(after)) if (workerId > after) yield record;
  }

  #bandsIn(pool: PoolBounds): readonly string[] {
    return [...new Set(bandsIn(this.#bands, pool).map(({ name }) => name))];
  }

  /** The oldest few records of some indexes. */
  #oldestIn(indexes: readonly string[], { first, last }: PoolBounds, limit: number): readonly Stored[] {
    const found: Stored[] = [];
    for (const name of indexes) {
      let left = limit;
      for (const [, record] of this.#byUntil.get(name)?.entries() ?? []) {
        if (left === 0) break;
        if (record.workerId < first || record.workerId > last) continue;
        found.push(record);
        left--;
      }
    }
    return found.toSorted((a, b) => a.until - b.until || a.workerId - b.workerId).slice(0, limit);
  }

  #index(record: Stored): void {
    if (record.token !== undefined) this.#byToken.set(record.token, record);
    for (const name of this.#indexNames(record)) {
      const index = this.#byUntil.get(name) ?? new BTree<UntilKey, Stored>(undefined, compareUntil);
      index.set([record.until, record.workerId], record);
      this.#byUntil.set(name, index);
    }
  }

  #unindex(record: Stored): void {
    if (record.token !== undefined) this.#byToken.delete(record.token);
    for (const name of this.#indexNames(record)) this.#byUntil.get(name)?.delete([record.until, record.workerId]);
  }

  /** The indexes in which claims look for a record. */
  #indexNames({ workerId, pinned, owner, holder }: Stored): readonly string[] {
    if (pinned !== undefined) return owner === undefined ? [] : [ownerIndex(owner)];
    const band = bandAt(this.#bands, workerId)?.name ?? "";
    return [band, hostIndex(band, holder?.host ?? "")];
  }

  #fillGap(workerId: number): void {
    const at = this.#gaps.findIndex(({ first, last }) => workerId >= first && workerId <= last);
    const gap = this.#gaps[at];
    if (gap === undefined) return;
    const left = { first: gap.first, last: workerId - 1 };
    const right = { first: workerId + 1, last: gap.last };
    this.#gaps.splice(at, 1, ...[left, right].filter(({ first, last }) => first <= last));
  }
}

function compareUntil([untilA, a]: UntilKey, [untilB, b]: UntilKey): number {
  return untilA - untilB || a - b;
}

// The index of a whole band has the band's name, which has no space.
const hostIndex = (band: string, host: string): string => `${band} ${host}`;
const ownerIndex = (ip: string): string => `owner ${ip}`;
