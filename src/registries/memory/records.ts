import BTreeModule from "sorted-btree";
import { isIn, type PoolBounds } from "../../id/pool-bounds.ts";
import { type PoolView, byAge } from "../../rule/pool.ts";
import type { Stored } from "../../rule/window.ts";

// The package is CommonJS. In Node, its class is the `default` of the default export. A bundler or test runner may have unwrapped it.
const BTree = "default" in BTreeModule ? BTreeModule.default : BTreeModule;

type AgeKey = readonly [until: number, workerId: number];
type AgeIndex = InstanceType<typeof BTree<AgeKey, Stored>>;

/** How many entries of an index by age a claim looks at. If more of them are of other pools, it looks at each record of its own pool. */
const mostLookedAt = 1000;

/** The records of one namespace, with the ordered indexes that claims look into. */
export class MemoryRecords implements PoolView {
  readonly #byId: InstanceType<typeof BTree<number, Stored>> = new BTree<number, Stored>();
  readonly #byToken = new Map<string, Stored>();
  /** The oldest `until` first, by the names of `indexesOf`. */
  readonly #byAge = new Map<string, AgeIndex>();
  /** Worker IDs without a record, as ranges in ascending order. */
  #gaps: PoolBounds[] = [{ first: 0, last: Number.MAX_SAFE_INTEGER }];

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
    return this.#oldestIn(everybody, pool, limit);
  }

  oldestOfHost(pool: PoolBounds, host: string, limit: number): readonly Stored[] {
    return this.#oldestIn(ofHost(host), pool, limit);
  }

  pinnedFor(pool: PoolBounds, ip: string, limit: number): readonly Stored[] {
    return this.#oldestIn(ofOwner(ip), pool, limit);
  }

  newestOfHost(pool: PoolBounds, host: string): Stored | undefined {
    const index = this.#byAge.get(ofHost(host));
    let looked = 0;
    for (let pair = index?.nextLowerPair(undefined); pair !== undefined; pair = index?.nextLowerPair(pair[0])) {
      if (isIn(pool, pair[1].workerId)) return pair[1];
      if (++looked === mostLookedAt) return this.#inPool(ofHost(host), pool).at(-1);
    }
    return undefined;
  }

  /** All records above a worker ID, in ascending order. */
  *ascending(after: number): Generator<Stored> {
    for (const [workerId, record] of this.#byId.entries(after)) if (workerId > after) yield record;
  }

  #oldestIn(name: string, pool: PoolBounds, limit: number): readonly Stored[] {
    const found: Stored[] = [];
    let looked = 0;
    for (const [, record] of this.#byAge.get(name)?.entries() ?? []) {
      if (found.length === limit) break;
      if (looked++ === mostLookedAt) return this.#inPool(name, pool).slice(0, limit);
      if (isIn(pool, record.workerId)) found.push(record);
    }
    return found;
  }

  /** The records of a pool that an index contains, in its order. */
  #inPool(name: string, { first, last }: PoolBounds): readonly Stored[] {
    return this.#byId
      .getRange(first, last, true)
      .flatMap(([, record]) => (indexesOf(record).includes(name) ? [record] : []))
      .toSorted(byAge);
  }

  #index(record: Stored): void {
    if (record.token !== undefined) this.#byToken.set(record.token, record);
    for (const name of indexesOf(record)) {
      const index = this.#byAge.get(name) ?? new BTree<AgeKey, Stored>(undefined, compareAge);
      index.set([record.until, record.workerId], record);
      this.#byAge.set(name, index);
    }
  }

  #unindex(record: Stored): void {
    if (record.token !== undefined) this.#byToken.delete(record.token);
    for (const name of indexesOf(record)) this.#byAge.get(name)?.delete([record.until, record.workerId]);
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

const everybody = "";
const ofHost = (host: string): string => `host ${host}`;
const ofOwner = (ip: string): string => `owner ${ip}`;

/** The indexes by age in which claims look for a record. */
function indexesOf({ pinned, owner, holder }: Stored): readonly string[] {
  if (pinned !== undefined) return owner === undefined ? [] : [ofOwner(owner)];
  return [everybody, ofHost(holder?.host ?? "")];
}

function compareAge([untilA, a]: AgeKey, [untilB, b]: AgeKey): number {
  return untilA - untilB || a - b;
}
