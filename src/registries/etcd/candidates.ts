import type { PoolBounds } from "../../id/pool-bounds.ts";
import { recordIn } from "../../rule/era.ts";
import type { ClaimRequest } from "../../rule/registry.ts";
import { isFree, type Stored } from "../../rule/window.ts";
import { type ClaimReader, together } from "../compare-and-set/decide.ts";
import { Beaten, Changed } from "../compare-and-set/store.ts";
import type { EtcdBands } from "./bands.ts";
import { endOf, type Keys, numberIn, placeIn, slotOf } from "./keys.ts";
import { type EtcdRecord, readNumber, readRecord } from "./records.ts";
import type { EtcdNamespace } from "./store.ts";
import { type Entry, type EtcdTransaction, mostConditions } from "./transaction.ts";

/** How many keys of records a search for an unused number lists: in its first read, and at most. */
const [page, longestPage] = [64, 16_384];
/** Of so many slots a claim reads each; of more, so many by lot at first, and then so many at a time. */
const [fewSlots, sampled, readTogether] = [8, 4, 64];
/** How far a hint may lag behind the numbers in use. */
const hintLag = 32;

/** Where a worker ID stands in an index. */
interface Place {
  readonly workerId: number;
  /** The end of its window, Unix ms. */
  readonly until: number;
  /** What its key begins with. */
  readonly part: string;
}

/** What a claim reads of the records of one namespace. */
export class EtcdCandidates implements ClaimReader {
  /** The hint that a search for an unused number began at; undefined where it began at the first number. */
  hint: Entry | undefined;
  /** The records that the decision reads. */
  readonly rows: Map<Stored, EtcdRecord> = new Map();
  /** Where a key of an index named no record that stands there. */
  readonly #stale = new Set<string>();
  readonly #tx: EtcdTransaction;
  readonly #keys: Keys;
  readonly #state: EtcdNamespace;
  readonly #bands: EtcdBands;
  readonly #request: ClaimRequest;
  /** Among how many equally good worker IDs to choose by lot: other claims reach for the first of them at this moment. */
  readonly #spread: number;

  constructor(
    tx: EtcdTransaction,
    keys: Keys,
    state: EtcdNamespace,
    { bands, request, spread }: { readonly bands: EtcdBands; readonly request: ClaimRequest; readonly spread: number },
  ) {
    this.#tx = tx;
    this.#keys = keys;
    this.#state = state;
    this.#bands = bands;
    this.#request = request;
    this.#spread = spread;
  }

  async byToken(token: string): Promise<Stored | undefined> {
    const entry = await this.#tx.get(this.#keys.token(token));
    const record = entry && (await this.byId(readNumber(entry)));
    return record?.token === token ? record : undefined;
  }

  async byId(workerId: number): Promise<Stored | undefined> {
    if (!Number.isSafeInteger(workerId)) return undefined;
    const entry = await this.#tx.get(this.#keys.worker(workerId));
    if (entry === undefined) return undefined;
    const row = readRecord(entry, workerId);
    this.rows.set(row.record, row);
    return row.record;
  }

  /** The lowest number without a record; after a lost race, one of the lowest few. */
  async firstUnused(pool: PoolBounds): Promise<number | undefined> {
    const [hintKey, unusedKey] = [this.#keys.hint(pool), this.#keys.unused];
    const [hint, guard] = await together([this.#tx.get(hintKey), this.#tx.get(unusedKey)]);
    this.hint = hint;
    const begin = Math.max(pool.first, hint === undefined ? pool.first : readNumber(hint));
    const unused: number[] = [];
    let from = begin;
    for (
      let width = page + this.#spread;
      from <= pool.last && unused.length === 0;
      width = Math.min(8 * width, longestPage)
    ) {
      const end = Math.min(from + width, pool.last + 1);
      const { worker } = this.#keys;
      const found = await this.#tx.list({ from: worker(from), end: worker(end), limit: width, keysOnly: true });
      const used = new Set(found.map(({ key }) => numberIn(key)));
      for (let n = from; n < end && unused.length < this.#spread; n++) if (!used.has(n)) unused.push(n);
      from = unused[0] ?? end;
    }
    // Later claims need not list all of these again. Where another claim has moved the hint, its value stays.
    if (from - begin >= hintLag || (from > pool.last && from > begin)) {
      const expected = [
        { key: hintKey, before: hint },
        { key: unusedKey, before: guard },
      ];
      await this.#tx.commit(expected, [{ key: hintKey, value: String(from) }]).catch(ignoreRace);
    }
    return unused[Math.floor(Math.random() * unused.length)];
  }

  /** Of a large pool the oldest of some slots by lot, unless none of them is over: then it looks at all slots. */
  async oldest(pool: PoolBounds, limit: number): Promise<readonly Stored[]> {
    const names = this.#bands.namesIn(pool);
    const first = slotOf(pool.first);
    const slots = Array.from({ length: slotOf(pool.last) - first + 1 }, (_, i) => first + i);
    const turns = slots.length <= fewSlots ? [slots] : [sample(slots), ...chunks(slots)];
    let places: readonly Place[] = [];
    for (const some of turns) {
      const parts = names.flatMap((name) => some.map((slot) => this.#keys.idle(name, slot)));
      places = oldestOf([...places, ...(await this.#placesIn(parts, limit))], this.#most(limit));
      if (places.some((place) => this.#isOver(place))) break;
    }
    return this.#recordsAt(places, limit);
  }

  async oldestOfHost(pool: PoolBounds, host: string, limit: number): Promise<readonly Stored[]> {
    const parts = this.#bands.namesIn(pool).map((band) => this.#keys.ofHost(host, band));
    return this.#recordsAt(await this.#placesIn(parts, limit), limit);
  }

  async pinnedFor(pool: PoolBounds, ip: string, limit: number): Promise<readonly Stored[]> {
    const from = this.#keys.ofOwner(ip);
    const found = await this.#tx.list({ from, end: endOf(from), limit: page });
    const ids = found.flatMap(({ key }) => placeIn(key)?.workerId ?? []);
    return this.#read(ids.filter((id) => id >= pool.first && id <= pool.last).slice(0, limit));
  }

  async newestOfHost(pool: PoolBounds, host: string): Promise<Stored | undefined> {
    const found = await together(
      this.#bands.namesIn(pool).map((name) => {
        const from = this.#keys.ofHost(host, name);
        return this.#tx.list({ from, end: endOf(from), limit: 1, descending: true });
      }),
    );
    const places = found.flat().flatMap(({ key }) => placeIn(key) ?? []);
    const newest = places.toSorted((a, b) => b.until - a.until)[0];
    return newest && this.byId(newest.workerId);
  }

  /** The oldest of the worker IDs whose keys begin with one of these. */
  async #placesIn(parts: readonly string[], limit: number): Promise<readonly Place[]> {
    const most = this.#most(limit);
    const found = await together(
      parts.map(async (part) => {
        const keys = await this.#tx.list({ from: part, end: endOf(part), limit: most, keysOnly: true });
        return keys.flatMap(({ key }) => {
          const place = placeIn(key);
          return place === undefined ? [] : [{ ...place, part }];
        });
      }),
    );
    return oldestOf(found.flat(), most);
  }

  #most(limit: number): number {
    return Math.max(limit, this.#spread);
  }

  /** Whether the window has passed by both clocks. */
  #isOver({ until }: Place): boolean {
    return until <= Math.min(this.#request.clock, this.#state.clock);
  }

  /** The keys show the ends of the windows: only those that matter are read. One with a passed window is enough. */
  async #recordsAt(places: readonly Place[], limit: number): Promise<readonly Stored[]> {
    const passed = places.slice(0, this.#spread).filter((place) => this.#isOver(place));
    const first = passed.length > 0 ? this.#shuffled(passed).slice(0, 1) : places.slice(0, limit);
    const records = await this.#read(first.map(({ workerId }) => workerId));
    const ends = new Map(records.map((record) => [record.workerId, record.until]));
    for (const { workerId, until, part } of first) if (ends.get(workerId) !== until) this.#stale.add(part);
    return passed.length > 0 ? records : this.#freeFirst(records);
  }

  /**
   * Before a pool is called exhausted: an operator who deletes records by hand leaves keys in the indexes that hide those of others. Deletes
   * some of them, and throws `Changed` then.
   */
  async sweep(): Promise<void> {
    const parts = [...this.#stale];
    const found = await together(parts.map((from) => this.#tx.list({ from, end: endOf(from), limit: page })));
    const listed = found.flat().flatMap((entry) => {
      const place = placeIn(entry.key);
      return place === undefined ? [] : [{ entry, workerId: place.workerId }];
    });
    await this.#read(listed.map(({ workerId }) => workerId));
    const rows = new Map([...this.rows.values()].map((row) => [row.record.workerId, row]));
    const stale = listed
      .filter(({ entry: { key }, workerId }) => {
        const row = rows.get(workerId);
        return row === undefined || !this.#keys.indexes(row.record, row.band).has(key);
      })
      .slice(0, mostConditions)
      .map(({ entry }) => entry);
    if (stale.length === 0) return;
    await this.#tx.commit(
      stale.map((entry) => ({ key: entry.key, before: entry })),
      stale.map(({ key }) => ({ key, value: undefined })),
    );
    throw new Changed("keys of deleted records were in the way");
  }

  async #read(workerIds: readonly number[]): Promise<readonly Stored[]> {
    const found = await together(workerIds.map((id) => this.byId(id)));
    return found.filter((record) => record !== undefined);
  }

  #freeFirst(records: readonly Stored[]): readonly Stored[] {
    if (this.#spread === 1) return records;
    const free = records.filter((record) => isFree(recordIn(this.#state, record), this.#request, this.#state.clock));
    return [...this.#shuffled(free), ...records.filter((record) => !free.includes(record))];
  }

  #shuffled<Item>(items: readonly Item[]): readonly Item[] {
    if (this.#spread === 1) return items;
    return items
      .map((item) => ({ item, at: Math.random() }))
      .toSorted((a, b) => a.at - b.at)
      .map(({ item }) => item);
  }
}

/** A few, by lot. */
function sample(slots: readonly number[]): readonly number[] {
  return Array.from({ length: sampled }, () => slots[Math.floor(Math.random() * slots.length)] ?? 0);
}

/** All of them, as many at a time as one round trip reads. */
function chunks(slots: readonly number[]): readonly (readonly number[])[] {
  const count = Math.ceil(slots.length / readTogether);
  return Array.from({ length: count }, (_, i) => slots.slice(i * readTogether, (i + 1) * readTogether));
}

function oldestOf(places: readonly Place[], most: number): readonly Place[] {
  return places.toSorted((a, b) => a.until - b.until || a.workerId - b.workerId).slice(0, most);
}

function ignoreRace(error: unknown): void {
  if (!(error instanceof Beaten)) throw error;
}
