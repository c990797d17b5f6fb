import { recordIn } from "../../rule/era.ts";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import { look, byAge } from "../../rule/pool.ts";
import type { ClaimRequest } from "../../rule/registry.ts";
import { unusedRecord } from "../../rule/pin.ts";
import { isFree, type Stored } from "../../rule/window.ts";
import { type AssignRow, isForeign, readRow } from "./assign.ts";
import { together } from "../together.ts";
import type { ClaimReader } from "../compare-and-set/decide.ts";
import { searchBands } from "./bands.ts";
import type { SqlParameters } from "./dialect.ts";
import { Beaten } from "../engine/operate.ts";
import { foreign, numberOf, ownerPlace, poolName, readRecord, type StoredRow, storedRowOf } from "./records.ts";
import { ownedEntry, poolEntry, type SqlNamespace } from "./namespace-state.ts";
import { drawVersion } from "./version.ts";
import { shuffled } from "../shuffled.ts";

/** How many numbers a search for an unused one lists: in its first batch, and at most. */
const [page, longestPage] = [64, 16_384];
/** How many numbers above a foreign one are checked with it: as many as westid has. */
const foreignSpan = 1023;

/** Other programs have taken some numbers of this span, and their records do not say so yet. */
export class Foreigners extends Error {
  readonly span: PoolBounds;

  constructor(span: PoolBounds) {
    super();
    this.span = span;
  }
}

/** What a claim reads of the records of one namespace. */
export class Candidates implements ClaimReader {
  readonly #state: SqlNamespace;
  readonly #request: ClaimRequest;
  /** Among how many equally good worker IDs to choose: other claims reach for the first of them at this moment. */
  readonly #spread: number;
  /** Read in the first batch where no unused number is left. */
  #oldest: readonly Stored[] | undefined;
  /** The rows of the records that the decision reads: of one worker ID, two statements may have read two versions. */
  readonly rows: Map<Stored, StoredRow> = new Map();
  /** By number, where another program has taken one that the claim named. */
  readonly foreign: Map<number, AssignRow> = new Map();

  constructor(state: SqlNamespace, request: ClaimRequest, spread: number) {
    this.#state = state;
    this.#request = request;
    this.#spread = spread;
  }

  /** The claim read it when it began. */
  async byToken(): Promise<undefined> {}

  async byId(workerId: number): Promise<Stored | undefined> {
    const [stored, found] = await together([readRecord(this.#state.tx, workerId), readRow(this.#state.tx, workerId)]);
    if (stored === undefined && found !== undefined) await this.#checkUnused(workerId);
    const row = stored === undefined ? found : stored.assignRow;
    if (!isForeign(row, stored?.record)) return stored && this.#shown(stored);
    this.foreign.set(workerId, row);
    // The claim may not take it, whatever its record says.
    return { ...unusedRecord(workerId), pinned: foreign };
  }

  async firstUnused(pool: PoolBounds): Promise<number | undefined> {
    if (this.#hint(pool).from <= pool.last) return this.#findUnused(pool);
    // The next batch asks for these: reading them now saves a round trip.
    this.#oldest = await this.oldest(pool, look);
    return undefined;
  }

  async oldest(pool: PoolBounds, limit: number): Promise<readonly Stored[]> {
    if (this.#oldest !== undefined) return this.#oldest;
    const found = await this.#findOldest("claim.oldest", pool, {}, limit);
    if (!this.#state.beside || found.some((record) => this.#isFree(record))) return found;
    const left = await this.#state.tx.all("claim.left-by-foreigners", { ...pool, limit });
    return [...found, ...this.#listed(left.map(storedRowOf))];
  }

  oldestOfHost(pool: PoolBounds, host: string, limit: number): Promise<readonly Stored[]> {
    return this.#findOldest("claim.oldest-of-host", pool, { host }, limit);
  }

  async pinnedFor(pool: PoolBounds, ip: string, limit: number): Promise<readonly Stored[]> {
    // Most namespaces never have a pin with an owner.
    if (!this.#state.entries.has(ownedEntry)) return [];
    const found = await this.#state.tx.all("claim.oldest", { filed_under: ownerPlace + ip, ...pool, limit });
    const rows = found.map(storedRowOf).filter(({ assignRow, record }) => !isForeign(assignRow, record));
    return rows.map((row) => this.#shown(row));
  }

  async newestOfHost(pool: PoolBounds, host: string): Promise<Stored | undefined> {
    const rows = await searchBands(this.#state, pool, "claim.newest-of-host", { host, limit: 1 });
    return rows.map(({ record }) => record).toSorted((a, b) => b.until - a.until)[0];
  }

  /** One record with a passed window is enough. Of the others, some are free after a clock went back. */
  async #findOldest(
    statement: string,
    pool: PoolBounds,
    more: SqlParameters,
    limit: number,
  ): Promise<readonly Stored[]> {
    const most = Math.max(limit, this.#spread);
    const found = await searchBands(this.#state, pool, statement, { ...more, limit: most });
    const sorted = this.#listed(found).toSorted(byAge);
    const ripe = Math.min(this.#request.clock, this.#state.clock);
    const passed = sorted.slice(0, this.#spread).filter((record) => record.until <= ripe);
    if (passed.length > 0) return this.#shuffled(passed);
    const free = sorted.filter((record) => this.#isFree(record)).slice(0, this.#spread);
    return [...this.#shuffled(free), ...sorted.filter((record) => !free.includes(record))].slice(0, limit);
  }

  /** The lowest number without a record; after a lost race, one of the lowest few. */
  async #findUnused(pool: PoolBounds): Promise<number | undefined> {
    let { name, from, version } = this.#hint(pool);
    const unused: number[] = [];
    let taken: readonly number[] = [];
    for (let limit = page; from <= pool.last; limit = Math.min(8 * limit, longestPage)) {
      const span = { first: from, last: pool.last, limit };
      const numbers = async (statement: string): Promise<readonly number[]> =>
        (await this.#state.tx.all(statement, span)).map((row) => numberOf(row, "worker_id"));
      const [records, rows] = await together([numbers("claim.numbers"), numbers("assign.numbers")]);
      const used = new Set(records);
      const end = used.size < limit ? pool.last + 1 : (records.at(-1) ?? 0) + 1;
      for (let n = from; n < end && unused.length < this.#spread; n++) if (!used.has(n)) unused.push(n);
      taken = rows;
      if (unused.length > 0) break;
      from = end;
      // The next claim need not list all of these again. Where another claim has moved the hint, its value stays.
      const next = drawVersion();
      const hint = { name, value: String(from), version, new_version: next };
      const [moved] = await this.#state.tx.write(() => [this.#state.tx.change("meta.set", hint)]);
      if (moved > 0) version = next;
    }
    const chosen = unused[Math.floor(Math.random() * unused.length)];
    if (chosen === undefined) return undefined;
    // Behind the last number of the list, a row of another program is found only when ours is added.
    if (!taken.includes(chosen)) return chosen;
    await this.#checkUnused(chosen);
    throw new Foreigners({ first: chosen, last: Math.min(pool.last, chosen + foreignSpan) });
  }

  /** Where a search for an unused number begins. */
  #hint(pool: PoolBounds): { name: string; from: number; version: number } {
    const name = poolEntry + poolName(pool);
    const { value, version } = this.#state.entries.get(name) ?? { value: pool.first, version: 0 };
    return { name, from: Math.max(pool.first, Number(value)), version };
  }

  /** @throws Beaten where the number has a record by now: its row came with that. */
  async #checkUnused(workerId: number): Promise<void> {
    if ((await readRecord(this.#state.tx, workerId)) !== undefined) throw new Beaten("not unused any more");
  }

  #shown(row: StoredRow): Stored {
    this.rows.set(row.record, row);
    return row.record;
  }

  /** @throws Foreigners where another program has taken one of them. */
  #listed(found: readonly StoredRow[]): readonly Stored[] {
    const taken = found.find(({ assignRow, record }) => isForeign(assignRow, record))?.record.workerId;
    if (taken !== undefined) throw new Foreigners({ first: taken, last: taken });
    return found.map((row) => this.#shown(row));
  }

  #isFree(record: Stored): boolean {
    return isFree(recordIn(this.#state, record), this.#request, this.#state.clock);
  }

  #shuffled(records: readonly Stored[]): readonly Stored[] {
    return this.#spread === 1 ? records : shuffled(records);
  }
}
