import BTreeModule from "sorted-btree";
import type { PoolBounds } from "../../core/layout.ts";
import type { PoolView } from "../../core/pool.ts";
import type { Stored } from "../../core/window.ts";

// Published as CommonJS: in Node its class is the default export's default, a bundler or test runner may have unwrapped it.
const BTree = "default" in BTreeModule ? BTreeModule.default : BTreeModule;

type Key = readonly [until: number, workerId: number];
type Index = InstanceType<typeof BTree<Key, Stored>>;

/** The records of one namespace, with the ordered indexes that keep a claim's cost the same at any fill. */
export class Records implements PoolView {
  readonly #byId: InstanceType<typeof BTree<number, Stored>> = new BTree<number, Stored>();
  readonly #byToken = new Map<string, number>();
  readonly #byUntil = newIndex();
  readonly #byHost = new Map<string, Index>();
  readonly #byOwner = new Map<string, Index>();
  /** Numbers without a record, as ranges in ascending order that do not touch. */
  #gaps: PoolBounds[] = [{ first: 0, last: Number.MAX_SAFE_INTEGER }];

  put(record: Stored): void {
    const { workerId, token } = record;
    const before = this.#byId.get(workerId);
    if (before === undefined) this.#fillGap(workerId);
    else this.#unindex(before);
    this.#byId.set(workerId, record);
    if (token !== undefined) this.#byToken.set(token, workerId);
    const key: Key = [record.until, workerId];
    for (const index of this.#indexesOf(record)) index.set(key, record);
  }

  /** Takes a record away that was never claimed, so that its number is unused again. */
  forget(workerId: number): void {
    const record = this.#byId.get(workerId);
    if (record === undefined) return;
    this.#unindex(record);
    this.#byId.delete(workerId);
    this.#gaps = [...this.#gaps, { first: workerId, last: workerId }].toSorted((a, b) => a.first - b.first);
  }

  byToken(token: string): Stored | undefined {
    const workerId = this.#byToken.get(token);
    return workerId === undefined ? undefined : this.#byId.get(workerId);
  }

  byId(workerId: number): Stored | undefined {
    return this.#byId.get(workerId);
  }

  firstUnused(pool: PoolBounds): number | undefined {
    const gap = this.#gaps.find(({ last }) => last >= pool.first);
    if (gap === undefined || gap.first > pool.last) return undefined;
    return Math.max(gap.first, pool.first);
  }

  oldest(pool: PoolBounds, limit: number): readonly Stored[] {
    return firstOf(this.#byUntil, pool, limit);
  }

  oldestOfHost(pool: PoolBounds, host: string, limit: number): readonly Stored[] {
    return firstOf(this.#byHost.get(host), pool, limit);
  }

  keptFor(pool: PoolBounds, ip: string, limit: number): readonly Stored[] {
    return firstOf(this.#byOwner.get(ip), pool, limit);
  }

  newestOfHost(pool: PoolBounds, host: string): Stored | undefined {
    for (const [, record] of this.#byHost.get(host)?.entriesReversed() ?? []) if (within(record, pool)) return record;
    return undefined;
  }

  /** All records above a worker ID, in ascending order. */
  *ascending(after: number): Generator<Stored> {
    for (const [workerId, record] of this.#byId.entries(after)) if (workerId > after) yield record;
  }

  #unindex(record: Stored): void {
    if (record.token !== undefined) this.#byToken.delete(record.token);
    const key: Key = [record.until, record.workerId];
    for (const index of this.#indexesOf(record)) index.delete(key);
  }

  /** Where claims look for a record. */
  #indexesOf({ pinned, owner, holder }: Stored): readonly Index[] {
    if (pinned === undefined) return [this.#byUntil, indexIn(this.#byHost, holder?.host ?? "")];
    return owner === undefined ? [] : [indexIn(this.#byOwner, owner)];
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

function indexIn(indexes: Map<string, Index>, name: string): Index {
  const index = indexes.get(name) ?? newIndex();
  indexes.set(name, index);
  return index;
}

function newIndex(): Index {
  return new BTree<Key, Stored>(undefined, ([untilA, a], [untilB, b]) => untilA - untilB || a - b);
}

function within({ workerId }: Stored, { first, last }: PoolBounds): boolean {
  return workerId >= first && workerId <= last;
}

function firstOf(index: Index | undefined, pool: PoolBounds, limit: number): readonly Stored[] {
  const found: Stored[] = [];
  for (const [, record] of index?.entries() ?? []) {
    if (found.length >= limit) break;
    if (within(record, pool)) found.push(record);
  }
  return found;
}
