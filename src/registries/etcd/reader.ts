import { isIn, type PoolBounds } from "../../id/pool-bounds.ts";
import { Layout } from "../../id/layout.ts";
import { byAge } from "../../rule/pool.ts";
import type { HistoryRow, WorkerState } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";
import type { StoreReader } from "../engine/optimistic.ts";
import { Beaten } from "../engine/operate.ts";
import type { Part, Standing } from "../engine/port.ts";
import { shuffled } from "../shuffled.ts";
import { together } from "../together.ts";
import { endOf, type Keys, numberIn, placeIn, slotOf, slotSize } from "./keys.ts";
import { type EtcdRecord, readEra, readMeta, readNumber, readRecord, readRow } from "./records.ts";
import { type Entry, type EtcdTransaction, type KeyWrite, mostConditions } from "./transaction.ts";

/** How many keys of records a search for an unused worker ID lists: in its first read, and at most. */
const [page, longestPage] = [64, 16_384];
/**
 * If there are at most `fewSlots` slots, a claim sees the oldest records of all. If there are more, it sees the oldest of each slot, of at
 * most `sampled` random slots. A search of all slots reads `readTogether` slots at a time.
 */
const [fewSlots, sampled, readTogether] = [4, 32, 100];
/** A search that passes this many used worker IDs moves the place where the next search begins. */
const longestPassed = 32;
/** The most keys of a host, or of a slot, that a claim looks at. Further keys belong to other pools, or end later. */
const mostLookedAt = 512;
/** The most records, and rows of history, of one list. With all of their recents, the records have some 9 MB. */
const [recordPage, rowPage] = [100, 500];

/** What stands under the name of a namespace, as its keys have it. */
interface Begin {
  readonly standing: Standing;
  /** The clock of the member that answered, Unix ms. */
  readonly clock: number;
  readonly meta: Entry | undefined;
  readonly note: Entry | undefined;
}

/** The place of a worker ID in an index. */
interface IndexEntry {
  readonly workerId: number;
  /** The end of its window, Unix ms. */
  readonly until: number;
  readonly entry: Entry;
  /** The beginning of its key. */
  readonly part: string;
}

/** The reads of one attempt on the keys of a namespace. */
export class EtcdReader implements StoreReader {
  /** The records that were read, as their keys have them. */
  readonly rows: Map<Stored, EtcdRecord> = new Map();
  /** The keys of tokens that were read. */
  readonly tokens: Map<string, Entry> = new Map();
  /** The write that moves the place where the next search for an unused worker ID begins. The claim stores it. */
  next: KeyWrite | undefined;
  readonly #tx: EtcdTransaction;
  readonly #keys: Keys;
  /** A claim chooses one of this many equally good worker IDs at random. */
  readonly #spread: number;
  readonly #now: () => number;
  #begun: Promise<Begin> | undefined;
  /**
   * Whether this reader has seen that each worker ID of the pool has a record. `#oldest`: the oldest records, if it has looked at
   * all slots.
   */
  #isFull = false;
  #oldest: readonly Stored[] | undefined;
  /** Keys of an index that did not match the record that was read after them. */
  readonly #doubtful = new Set<IndexEntry>();

  /** `now`: the clock of the member that answered last. */
  constructor(
    tx: EtcdTransaction,
    keys: Keys,
    { spread, now }: { readonly spread: number; readonly now: () => number },
  ) {
    this.#tx = tx;
    this.#keys = keys;
    this.#spread = spread;
    this.#now = now;
  }

  /** What stands under the name of the namespace, as this attempt read it first. */
  begin(): Promise<Begin> {
    this.#begun ??= this.#begin();
    return this.#begun;
  }

  async #begin(): Promise<Begin> {
    const [meta, note] = await together([this.#tx.get(this.#keys.meta), this.#tx.get(this.#keys.era)]);
    const standing = meta === undefined ? { noted: note && readEra(note) } : { made: readMeta(meta) };
    return { standing, clock: this.#now(), meta, note };
  }

  async byToken(token: string): Promise<Stored | undefined> {
    const entry = await this.#tx.get(this.#keys.token(token));
    if (entry !== undefined) this.tokens.set(entry.key, entry);
    const record = entry && (await this.byId(readNumber(entry)));
    return record?.token === token ? record : undefined;
  }

  async byId(workerId: number): Promise<Stored | undefined> {
    if (!Number.isSafeInteger(workerId) || workerId < 0) return undefined;
    const entry = await this.#tx.get(this.#keys.worker(workerId));
    if (entry === undefined) return undefined;
    const row = readRecord(entry, workerId);
    this.rows.set(row.record, row);
    return row.record;
  }

  /** If other claims compete for the lowest worker IDs, chooses one of the lowest few at random. */
  async firstUnused(pool: PoolBounds, everywhere?: true): Promise<number | undefined> {
    if (everywhere === true) return this.#overlooked(pool);
    const next = await this.#tx.get(this.#keys.next(pool));
    const begin = Math.max(pool.first, next === undefined ? pool.first : readNumber(next));
    const [found, passed] = await this.#unusedFrom(begin, pool.last, page);
    if (passed - begin >= longestPassed || (found === undefined && passed > begin)) this.#beginAt(pool, passed);
    this.#isFull = found === undefined && begin === pool.first;
    return found;
  }

  /**
   * An unused worker ID anywhere in the pool. The usual search overlooks a worker ID if an operator has since deleted its record or removed
   * its pin.
   */
  async #overlooked(pool: PoolBounds): Promise<number | undefined> {
    const { worker, next } = this.#keys;
    const size = pool.last - pool.first + 1;
    if (this.#isFull && size <= longestPassed) return undefined;
    const [used, begin] = await together([
      this.#isFull ? size : this.#tx.count({ from: worker(pool.first), end: worker(pool.last + 1) }),
      this.#tx.get(next(pool)),
    ]);
    if (used < size) {
      const [found, passed] = await this.#unusedFrom(pool.first, pool.last, longestPage);
      this.#beginAt(pool, passed);
      return found;
    }
    // A claim that finds nothing commits nothing, so this commits the write itself.
    const isPassed = begin !== undefined && readNumber(begin) > pool.last;
    if (!isPassed && size > longestPassed) {
      const { meta } = await this.begin();
      const expected = [
        { key: this.#keys.meta, before: meta },
        { key: next(pool), before: begin },
      ];
      await this.#tx.commit(expected, [{ key: next(pool), value: String(pool.last + 1) }]).catch((error: unknown) => {
        if (!(error instanceof Beaten)) throw error;
      });
    }
    return undefined;
  }

  /** An unused worker ID between two, and the lowest one. If there is none, the lowest one is the number after the last. */
  async #unusedFrom(
    begin: number,
    last: number,
    width: number,
  ): Promise<readonly [found: number | undefined, lowest: number]> {
    const { worker } = this.#keys;
    const unused: number[] = [];
    let from = begin;
    for (let most = width + this.#spread; from <= last && unused.length === 0; most = Math.min(8 * most, longestPage)) {
      const end = Math.min(from + most, last + 1);
      const found = await this.#tx.list({ from: worker(from), end: worker(end), limit: most, keysOnly: true });
      const used = new Set(found.map(({ key }) => numberIn(key)));
      for (let n = from; n < end && unused.length < this.#spread; n++) if (!used.has(n)) unused.push(n);
      from = unused[0] ?? end;
    }
    return [unused[Math.floor(Math.random() * unused.length)], from];
  }

  #beginAt(pool: PoolBounds, number: number): void {
    this.next = { key: this.#keys.next(pool), value: String(number) };
  }

  /** In a large pool, the oldest of some random slots. */
  async oldest(pool: PoolBounds, limit: number, everywhere?: true): Promise<readonly Stored[]> {
    const first = slotOf(pool.first);
    const slots = Array.from({ length: slotOf(pool.last) - first + 1 }, (_, i) => first + i);
    if (everywhere === true) return this.#oldest ?? this.#oldestOf(slots, pool, limit);
    const some = slots.length <= sampled ? slots : sample(slots);
    const isExact = slots.length <= fewSlots && this.#spread === 1;
    const each = Math.ceil(this.#wanted(limit) / some.length);
    const places = await this.#placesIn(some, pool, isExact ? limit : each);
    const records = await this.#recordsAt(places.toSorted(byAge), limit);
    if (isExact && this.#doubtful.size === 0) this.#oldest = records;
    return records;
  }

  /** The oldest of all slots, or one whose window has passed. */
  async #oldestOf(slots: readonly number[], pool: PoolBounds, limit: number): Promise<readonly Stored[]> {
    const wanted = this.#wanted(limit);
    await this.#sweep();
    for (;;) {
      let places: readonly IndexEntry[] = [];
      const isOver = await this.#passed();
      for (let i = 0; i < slots.length && !places.some(isOver); i += readTogether) {
        const some = slots.slice(i, i + readTogether);
        const each = Math.max(slots.length <= fewSlots ? limit : 1, Math.ceil(wanted / some.length));
        const found = await this.#placesIn(some, pool, each);
        places = [...places, ...found].toSorted(byAge).slice(0, wanted);
      }
      const over = places.filter(isOver);
      const records = await this.#recordsOf(over.length > 0 ? byLot(over, 1) : places.slice(0, limit));
      if (this.#doubtful.size === 0) return records;
      if (!(await this.#sweep())) throw new Beaten("other claims were faster");
    }
  }

  async oldestOfHost(pool: PoolBounds, host: string, limit: number): Promise<readonly Stored[]> {
    const places = await this.#placesUnder(this.#keys.ofHost(host), pool, this.#wanted(limit));
    return this.#recordsAt(places, limit);
  }

  async pinnedFor(pool: PoolBounds, ip: string, limit: number): Promise<readonly Stored[]> {
    // Reads all of them, because no other search finds these.
    const places = await this.#placesUnder(this.#keys.ofOwner(ip), pool, limit, Infinity);
    return this.#recordsOf(places.slice(0, limit));
  }

  async newestOfHost(pool: PoolBounds, host: string): Promise<Stored | undefined> {
    const from = this.#keys.ofHost(host);
    // The newest one belongs to another pool only if the host leases from several pools.
    for (const limit of [1, page]) {
      const found = await this.#tx.list({ from, end: endOf(from), limit, descending: true, keysOnly: true });
      const places = found.map(({ key }) => placeIn(key)).filter((place) => place !== undefined);
      const newest = places.find(({ workerId }) => isIn(pool, workerId));
      if (newest !== undefined || found.length < limit) return newest && this.byId(newest.workerId);
    }
    return undefined;
  }

  /** A read costs as much as all keys of its range, so the range is wide only if there are few keys. */
  async page(after: number, limit: number, state: WorkerState | undefined): Promise<Part<Stored>> {
    const { worker } = this.#keys;
    // Perhaps only a few of them have the wanted state.
    const most = state === undefined ? Math.min(limit, recordPage) : recordPage;
    const rows: Stored[] = [];
    let end = Infinity;
    for (let [from, width] = [after + 1, recordPage]; from < end; [from, width] = [from + width, 4 * width]) {
      const range = { from: worker(from), end: worker(Math.min(from + width, end)), limit: most - rows.length };
      const [{ standing }, found] = await together([this.begin(), this.#tx.list(range)]);
      rows.push(...found.map((entry) => readRecord(entry, numberIn(entry.key) ?? -1).record));
      if (rows.length === most) return { rows, next: rows.at(-1)?.workerId };
      end = standing.made === undefined ? 0 : Layout.parse(standing.made.info.layout).pool.last + 1;
    }
    return { rows, next: undefined };
  }

  async ended(workerId: number, before: number, limit: number): Promise<Part<HistoryRow>> {
    const { claims, claim } = this.#keys;
    const most = Math.min(limit, rowPage);
    const range = { from: claims(workerId), end: claim(workerId, before), limit: most, descending: true } as const;
    const rows = (await this.#tx.list(range)).map(readRow);
    return { rows, next: rows.length === most ? rows.at(-1)?.fence : undefined };
  }

  /** More than `limit` if other claims compete for the oldest, too. */
  #wanted(limit: number): number {
    return Math.max(limit, this.#spread);
  }

  /** The oldest of each slot. */
  async #placesIn(slots: readonly number[], pool: PoolBounds, each: number): Promise<readonly IndexEntry[]> {
    const found = await together(slots.map((slot) => this.#placesUnder(this.#keys.idle(slot), pool, each)));
    return found.flat();
  }

  /**
   * The oldest of a pool, among the keys with this beginning. Keys of other pools may stand between them, so this reads on after those
   * keys.
   */
  async #placesUnder(
    part: string,
    pool: PoolBounds,
    wanted: number,
    most: number = mostLookedAt,
  ): Promise<readonly IndexEntry[]> {
    const places: IndexEntry[] = [];
    let looked = 0;
    for (let [from, width] = [part, wanted]; looked < most && places.length < wanted; width = slotSize) {
      const found = await this.#tx.list({ from, end: endOf(part), limit: width, keysOnly: true });
      for (const entry of found) {
        const place = placeIn(entry.key);
        if (place !== undefined && isIn(pool, place.workerId)) places.push({ ...place, entry, part });
      }
      if (found.length < width) break;
      looked += found.length;
      from = `${found.at(-1)?.key}\0`;
    }
    return places;
  }

  /** Reports whether a window has passed by the clock of every claimer that the registry admits. */
  async #passed(): Promise<(place: IndexEntry) => boolean> {
    const { standing, clock } = await this.begin();
    const skew = standing.made?.info.maxClockSkew ?? Infinity;
    return ({ until }) => until <= clock - skew;
  }

  /**
   * Some records of the first places. If other claims compete for them, chooses them at random. One record whose window has passed is
   * enough.
   */
  async #recordsAt(places: readonly IndexEntry[], limit: number): Promise<readonly Stored[]> {
    const first = places.slice(0, this.#spread);
    const [passed] = byLot(first.filter(await this.#passed()), 1);
    if (passed !== undefined) return this.#recordsOf([passed]);
    return this.#recordsOf(this.#spread === 1 ? places.slice(0, limit) : byLot(first, limit));
  }

  async #recordsOf(places: readonly IndexEntry[]): Promise<readonly Stored[]> {
    const found = await together(places.map(({ workerId }) => this.byId(workerId)));
    for (const [i, place] of places.entries()) if (found[i]?.until !== place.until) this.#doubtful.add(place);
    return found.filter((record) => record !== undefined);
  }

  /**
   * Removes keys that hide others in the indexes. An operator who deletes records by hand leaves such keys. Returns whether there were any.
   */
  async #sweep(): Promise<boolean> {
    const doubtful = [...this.#doubtful];
    this.#doubtful.clear();
    const parts = [...new Set(doubtful.map(({ part }) => part))];
    const found = await together(parts.map((from) => this.#tx.list({ from, end: endOf(from), limit: slotSize })));
    const listed = found.flat().filter(({ key }) => placeIn(key) !== undefined);
    const entries = [
      ...new Map([...doubtful.map(({ entry }) => entry), ...listed].map((each) => [each.key, each])).values(),
    ];
    const records = await together(entries.map(({ key }) => this.byId(numberIn(key) ?? 0)));
    const isStale = ({ key }: Entry, record: Stored | undefined): boolean =>
      record === undefined || !this.#keys.indexes(record).has(key);
    const stale = entries.filter((entry, i) => isStale(entry, records[i])).slice(0, mostConditions);
    if (stale.length === 0) return false;
    await this.#tx.commit(
      stale.map((entry) => ({ key: entry.key, before: entry })),
      stale.map(({ key }) => ({ key, value: undefined })),
    );
    return true;
  }
}

/** Some random slots. */
function sample(slots: readonly number[]): readonly number[] {
  const few = Array.from({ length: sampled }, () => slots[Math.floor(Math.random() * slots.length)] ?? 0);
  return [...new Set(few)];
}

function byLot<Item>(items: readonly Item[], count: number): readonly Item[] {
  return shuffled(items).slice(0, count);
}
