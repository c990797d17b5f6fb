import { isIn, type PoolBounds } from "../../id/pool-bounds.ts";
import { unusedRecord } from "../../rule/pin.ts";
import { byAge, look } from "../../rule/pool.ts";
import type { HistoryRow, HolderLabel } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";
import { Beaten } from "../engine/operate.ts";
import type { StoreReader } from "../engine/optimistic.ts";
import type { Others, Part } from "../engine/port.ts";
import { shuffled } from "../shuffled.ts";
import { together } from "../together.ts";
import { type AssignRow, assignRow, foreignHolder, isForeign, isOurs, largestInt, readRow } from "./assign.ts";
import { Foreigners } from "./beside.ts";
import type { SqlParameters } from "./dialect.ts";
import type { SqlPlace } from "./errors.ts";
import { nextEntry, readNamespace, type SqlNamespace, stay } from "./namespace.ts";
import {
  everyNumber,
  historyRowOf,
  inPool,
  numberOf,
  ownerPlace,
  readRecord,
  type StoredRow,
  storedRowOf,
} from "./records.ts";
import type { Transaction } from "./transaction.ts";
import { drawVersion } from "./version.ts";

/** How many worker IDs a search for an unused one lists: in its first batch, and at most. */
const [page, longestPage] = [64, 16_384];
/** In a pool of up to this size, a claim looks at each record. In a larger pool, it looks at so many random ranges of this length. */
const [smallPool, ranges, rangeLength] = [1024, 4, 256];
/** How many worker IDs after a foreign one are checked with it: as many as westid has. */
const foreignSpan = 1023;
/** How many rows one read lists. */
const rowPage = 500;

/** The reads of one attempt on the tables of a namespace, and what they show about other programs. */
export class SqlReader implements StoreReader, Others {
  /** The records that were read, with their rows. */
  readonly rows: Map<Stored, StoredRow> = new Map();
  readonly #tx: Transaction;
  readonly #place: SqlPlace;
  readonly #version: number;
  /** Among how many equally good worker IDs to choose at random. */
  readonly #spread: number;
  /** Whether it looks for worker IDs that another program has and that have no record. */
  readonly #looks: boolean;
  #begun: Promise<SqlNamespace> | undefined;
  #state: SqlNamespace | undefined;
  /** What is known about a worker ID: its record, and its row for Java processes. */
  readonly #numbers = new Map<
    number,
    { readonly record?: Stored | undefined; readonly assignRow: AssignRow | undefined }
  >();
  /** Whether this attempt has seen that each worker ID of the pool has a record. */
  #isFull = false;
  /** `#first`: the records of the pool among the oldest of the namespace. `#exact`: the oldest of the pool, if they are known. */
  #first: Promise<readonly Stored[]> | undefined;
  #exact: readonly Stored[] | undefined;

  /** `version`: the version of the schema. `looks`: whether worker IDs matter that another program has and that have no record. */
  constructor(
    tx: Transaction,
    place: SqlPlace,
    { version, spread, looks }: { readonly version: number; readonly spread: number; readonly looks: boolean },
  ) {
    this.#tx = tx;
    this.#place = place;
    this.#version = version;
    this.#spread = spread;
    this.#looks = looks;
  }

  /** The namespace at the first read. @throws SnowleaseError SCHEMA_INCOMPATIBLE if there is none. */
  begin(): Promise<SqlNamespace> {
    this.#begun ??= readNamespace(this.#tx, this.#place, this.#version).then((state) => (this.#state = state));
    return this.#begun;
  }

  get seen(): boolean {
    return this.#state?.beside === true;
  }

  takenBy(workerId: number): HolderLabel | undefined {
    const { record, assignRow: row } = this.#numbers.get(workerId) ?? {};
    return isForeign(row, record) ? foreignHolder(row) : undefined;
  }

  isMarked(workerId: number): boolean {
    const { record, assignRow: row } = this.#numbers.get(workerId) ?? {};
    return record !== undefined && isOurs(row, record);
  }

  async byToken(token: string): Promise<Stored | undefined> {
    const row = await this.#tx.get("claim.by-token", { token });
    return row && this.#shown(storedRowOf(row));
  }

  async byId(workerId: number): Promise<Stored | undefined> {
    if (!Number.isSafeInteger(workerId)) return undefined;
    // A row without a record is another program's. Holders and operators do not need it.
    const theirs = this.#looks ? readRow(this.#tx, workerId) : undefined;
    const [stored, row] = await together([readRecord(this.#tx, workerId), theirs]);
    if (stored !== undefined) return this.#shown(stored);
    if (row !== undefined) await this.#checkUnused(workerId);
    this.#numbers.set(workerId, { assignRow: row });
    return undefined;
  }

  async firstUnused(pool: PoolBounds, everywhere?: true): Promise<number | undefined> {
    if (everywhere === true) return this.#overlooked(pool);
    const { entries } = await this.begin();
    const name = nextEntry(pool);
    const { value = pool.first, version } = entries.get(name) ?? {};
    const begin = Math.max(pool.first, Number(value));
    if (begin > pool.last) {
      // The next step asks for these records. To read them now saves a round trip.
      await this.#oldestOfAll(pool);
      return undefined;
    }
    const found = await this.#unusedFrom(begin, pool.last, { name, version });
    this.#isFull = found === undefined && begin === pool.first;
    return found;
  }

  async oldest(pool: PoolBounds, limit: number, everywhere?: true): Promise<readonly Stored[]> {
    const first = await this.#oldestOfAll(pool);
    if (this.#exact !== undefined) return this.#some(this.#exact, { limit, pool, inOrder: everywhere });
    if (everywhere === true) {
      const all = await this.#listed("claim.oldest", pool, this.#wanted(limit));
      return this.#some(all, { limit, pool, inOrder: true });
    }
    const passed = await this.#passed(first);
    if (passed.length > 0) return passed;
    const isSmall = pool.last - pool.first < smallPool;
    const found = await together(
      (isSmall ? [pool] : someOf(pool)).map((part) => this.#listed("claim.oldest-in-range", part, this.#wanted(limit))),
    );
    const each = new Map(found.flat().map((record) => [record.workerId, record]));
    const listed = [...each.values()].toSorted(byAge);
    if (isSmall) this.#exact = listed;
    return this.#some(listed, { limit, pool });
  }

  async oldestOfHost(pool: PoolBounds, host: string, limit: number): Promise<readonly Stored[]> {
    return this.#some(await this.#listed("claim.oldest-of-host", pool, this.#wanted(limit), { host }), { limit });
  }

  /** @throws Foreigners if another program has one of them, and no such program was seen before. */
  async pinnedFor(pool: PoolBounds, ip: string, limit: number): Promise<readonly Stored[]> {
    const asked = this.#tx.all("claim.oldest", { filed_under: ownerPlace + ip, ...pool, limit });
    const [found, { beside }] = await together([asked, this.begin()]);
    const rows = found.map(storedRowOf);
    const taken = rows.find(({ assignRow: row, record }) => isForeign(row, record))?.record.workerId;
    if (taken !== undefined && !beside) throw new Foreigners({ first: taken, last: taken });
    return rows.filter(({ assignRow: row, record }) => !isForeign(row, record)).map((row) => this.#shown(row));
  }

  async newestOfHost(pool: PoolBounds, host: string): Promise<Stored | undefined> {
    const row = await this.#tx.get("claim.newest-of-host", { filed_under: inPool, ...pool, host, limit: 1 });
    return row && storedRowOf(row).record;
  }

  /** The list includes worker IDs that another program has taken, without a claim of ours. */
  async page(after: number, limit: number): Promise<Part<Stored>> {
    const most = Math.min(limit, rowPage);
    const ours = (await this.#tx.all("workers.page", { after, limit: most })).map(storedRowOf);
    const last = ours.length === most ? ours.at(-1)?.record.workerId : undefined;
    const theirs = await this.#tx.all("workers.foreign", { after, last: last ?? largestInt, limit: most });
    const foreigners = theirs.map((row) => {
      const workerId = numberOf(row, "worker_id");
      this.#numbers.set(workerId, { assignRow: assignRow(row, "") });
      return unusedRecord(workerId);
    });
    const all = [...ours.map((row) => this.#shown(row)), ...foreigners].toSorted((a, b) => a.workerId - b.workerId);
    const rows = all.slice(0, most);
    return { rows, next: rows.length === most ? rows.at(-1)?.workerId : undefined };
  }

  async ended(workerId: number, before: number, limit: number): Promise<Part<HistoryRow>> {
    const most = Math.min(limit, rowPage);
    const rows = (await this.#tx.all("history.list", { worker_id: workerId, before, limit: most })).map(historyRowOf);
    return { rows, next: rows.length === most ? rows.at(-1)?.fence : undefined };
  }

  /**
   * The lowest unused worker ID. If other claims try to take it, too, a random one of the lowest few. `next`: the entry that says where the
   * next search begins.
   */
  async #unusedFrom(
    begin: number,
    last: number,
    next: { readonly name: string; readonly version: number | undefined },
  ): Promise<number | undefined> {
    let { version } = next;
    for (let [from, limit] = [begin, page]; from <= last; limit = Math.min(8 * limit, longestPage)) {
      const span = { first: from, last, limit };
      const [records, rows] = await together([
        this.#tx.all("claim.numbers", span),
        this.#tx.all("assign.numbers", span),
      ]);
      const [used, taken] = [records, rows].map((found) => new Set(found.map((row) => numberOf(row, "worker_id"))));
      const end = records.length < limit ? last + 1 : numberOf(records.at(-1) ?? {}, "worker_id") + 1;
      const unused: number[] = [];
      for (let n = from; n < end && unused.length < this.#spread; n++) if (used?.has(n) !== true) unused.push(n);
      const chosen = unused[Math.floor(Math.random() * unused.length)];
      // After the end of this list, a row of another program is found only when our row is added.
      if (chosen !== undefined && taken?.has(chosen) !== true) return chosen;
      if (chosen !== undefined) {
        await this.#checkUnused(chosen);
        throw new Foreigners({ first: chosen, last: Math.min(last, chosen + foreignSpan) });
      }
      from = end;
      version = await this.#moveNext(next.name, from, version);
    }
    return undefined;
  }

  /**
   * Saves the next claim from listing all of these again. If another claim was faster, its value stays. Returns the version of the entry.
   */
  async #moveNext(name: string, value: number, version: number | undefined): Promise<number | undefined> {
    const next = drawVersion();
    const entry = { name, value: String(value), version, new_version: next };
    const statement = version === undefined ? "meta.add" : "meta.set";
    const state = await this.begin();
    const [, moved] = await this.#tx.write(() => [stay(state), this.#tx.change(statement, entry)]);
    return moved > 0 ? next : version;
  }

  /** An unused worker ID of the whole pool. Searches may begin after one whose record was deleted since. */
  async #overlooked(pool: PoolBounds): Promise<number | undefined> {
    if (this.#isFull) return undefined;
    const row = await this.#tx.get("claim.count", { ...pool });
    if (numberOf(row ?? {}, "numbers") > pool.last - pool.first) return undefined;
    const { entries } = await this.begin();
    const name = nextEntry(pool);
    return this.#unusedFrom(pool.first, pool.last, { name, version: entries.get(name)?.version });
  }

  /** The records of the pool among the oldest of the namespace. */
  #oldestOfAll(pool: PoolBounds): Promise<readonly Stored[]> {
    const read = async (): Promise<readonly Stored[]> => {
      const wanted = this.#wanted(look);
      const all = await this.#listed("claim.oldest", everyNumber, wanted);
      const own = all.filter(({ workerId }) => isIn(pool, workerId));
      if (own.length === all.length || all.length < wanted) this.#exact = own;
      return own;
    };
    this.#first ??= read();
    return this.#first;
  }

  /** More records, if other claims try to take the oldest ones, too. */
  #wanted(limit: number): number {
    return Math.max(limit, this.#spread);
  }

  /** The first records of an index. @throws Foreigners where another program has taken one of them. */
  async #listed(
    statement: string,
    pool: PoolBounds,
    limit: number,
    more: SqlParameters = {},
  ): Promise<readonly Stored[]> {
    const found = (await this.#tx.all(statement, { filed_under: inPool, ...pool, ...more, limit })).map(storedRowOf);
    const taken = found.find(({ assignRow: row, record }) => isForeign(row, record))?.record.workerId;
    if (taken !== undefined) throw new Foreigners({ first: taken, last: taken });
    return found.map((row) => this.#shown(row));
  }

  /**
   * One of the first records whose window has passed by the clock of each admitted claimer. It is a random one if other claims try to take
   * these, too.
   */
  async #passed(listed: readonly Stored[]): Promise<readonly Stored[]> {
    const { clock, made } = await this.begin();
    const latest = clock - made.info.maxClockSkew;
    return shuffled(listed.slice(0, this.#spread).filter(({ until }) => until <= latest)).slice(0, 1);
  }

  /**
   * Some of these records, which are in order. If the window of one has passed, that one is enough. `pool`: also lists the worker IDs that
   * other programs gave back in it.
   */
  async #some(
    listed: readonly Stored[],
    {
      limit,
      pool,
      inOrder = this.#spread === 1,
    }: { readonly limit: number; readonly pool?: PoolBounds; readonly inOrder?: boolean | undefined },
  ): Promise<readonly Stored[]> {
    const passed = await this.#passed(listed);
    if (passed.length > 0) return passed;
    const some = inOrder ? listed : shuffled(listed.slice(0, this.#spread));
    const { beside } = await this.begin();
    const left = beside && pool ? await this.#listed("claim.left-by-foreigners", pool, limit) : [];
    return [...some.slice(0, limit), ...left];
  }

  #shown(row: StoredRow): Stored {
    const { record, assignRow: mark } = row;
    this.rows.set(record, row);
    this.#numbers.set(record.workerId, { record, assignRow: mark });
    return record;
  }

  /** @throws Beaten if the worker ID has a record by now: its row came with that record. */
  async #checkUnused(workerId: number): Promise<void> {
    if ((await readRecord(this.#tx, workerId)) !== undefined) throw new Beaten("not unused any more");
  }
}

/** Some random ranges of a pool. */
function someOf({ first, last }: PoolBounds): readonly PoolBounds[] {
  return Array.from({ length: ranges }, () => {
    const begin = first + Math.floor(Math.random() * (last - first + 1));
    return { first: begin, last: Math.min(last, begin + rangeLength - 1) };
  });
}
