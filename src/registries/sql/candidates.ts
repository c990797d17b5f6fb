import type { PoolBounds } from "../../core/layout.ts";
import type { PoolView } from "../../core/pool.ts";
import type { ClaimRequest } from "../../core/registry.ts";
import { isFree, type Stored, unusedRecord } from "../../core/window.ts";
import { type AssignRow, isForeign, readRow } from "./assign.ts";
import type { Parameters } from "./dialect.ts";
import { foreign, type Kept, keptOf, numberOf, poolName } from "./records.ts";
import { ofEra, poolEntry, type Space } from "./space.ts";
import { Raced, type Unit } from "./unit.ts";

/** How many numbers a look for an unused one lists, at first and at the most. */
const [page, longestPage] = [64, 16_384];
/** How many numbers behind a foreign one are looked at with it: as many as westid has. */
const foreignSpan = 1023;

/** Numbers in this span, or some of them, are in foreign hands, and nothing here says so yet. */
export class Foreigners extends Error {
  readonly span: PoolBounds;

  constructor(span: PoolBounds) {
    super();
    this.span = span;
  }
}

/** Thrown where a decision asks for what was not read yet. */
class Unread extends Error {
  readonly read: () => Promise<void>;

  constructor(read: () => Promise<void>) {
    super();
    this.read = read;
  }
}

/** What a claim sees of the records of one namespace: each of them is read when it is first asked for, and then stays. */
export class Candidates implements PoolView {
  readonly #unit: Unit;
  readonly #space: Space;
  readonly #request: ClaimRequest;
  /** How many equally good ones to choose among: others reach for the first of them at this moment. */
  readonly #spread: number;
  readonly #seen = new Map<string, unknown>();
  readonly #kept = new Map<number, Kept>();
  readonly #foreign = new Map<number, AssignRow>();

  constructor(unit: Unit, space: Space, request: ClaimRequest, spread: number) {
    this.#unit = unit;
    this.#space = space;
    this.#request = request;
    this.#spread = spread;
  }

  /** Decides, reading what the decision asks for. @throws Foreigners */
  async decide<Answer>(decision: (view: PoolView) => Answer): Promise<Answer> {
    for (;;) {
      try {
        return decision(this);
      } catch (unread) {
        if (!(unread instanceof Unread)) throw unread;
        await unread.read();
      }
    }
  }

  /** Who has taken a number that was asked for by its number, where that is nobody of ours. */
  foreignAt(workerId: number): AssignRow | undefined {
    return this.#foreign.get(workerId);
  }

  /** How a record that was seen stands in its table. */
  keptOf(workerId: number): Kept | undefined {
    return this.#kept.get(workerId);
  }

  byToken(): undefined {
    // It was looked for before.
    return undefined;
  }

  byId(workerId: number): Stored | undefined {
    return this.#once(`id ${workerId}`, async () => {
      const [kept] = await this.#read("record.get", { worker_id: workerId });
      const row = kept === undefined ? await this.#rowOfUnused(workerId) : kept.row;
      if (!isForeign(row, kept?.record)) return kept && ofEra(kept, this.#space);
      this.#foreign.set(workerId, row);
      // It has to be passed by, whatever its record says.
      return { ...unusedRecord(workerId), pinned: foreign };
    });
  }

  firstUnused(pool: PoolBounds): number | undefined {
    return this.#once(`unused ${poolName(pool)}`, () => this.#findUnused(pool));
  }

  oldest(pool: PoolBounds, limit: number): readonly Stored[] {
    return this.#once(`oldest ${limit}`, async () => {
      const found = await this.#findOldest("claim.oldest", pool, {}, limit);
      if (!this.#space.beside || found.some((record) => this.#isFree(record))) return found;
      return [...found, ...(await this.#list("claim.left-by-foreigners", { ...pool, limit }))];
    });
  }

  oldestOfHost(pool: PoolBounds, host: string, limit: number): readonly Stored[] {
    return this.#once(`host ${limit}`, () => this.#findOldest("claim.oldest-of-host", pool, { host }, limit));
  }

  newestOfHost(pool: PoolBounds, host: string): Stored | undefined {
    return this.#once("newest", async () => {
      let newest: Stored | undefined;
      for (const band of [pool, ...this.#otherBands(pool)]) {
        const row = await this.#unit.get("claim.newest-of-host", { filed: poolName(band), ...pool, host });
        const record = row && keptOf(row).record;
        if (record !== undefined && record.until > (newest?.until ?? -1)) newest = record;
      }
      return newest;
    });
  }

  /**
   * The band of the pool itself comes first: as long as it has a window that has passed, nothing else is looked at. The others
   * matter after a pool was widened, narrowed or moved: then numbers of this pool are still filed under the one before.
   */
  async #findOldest(statement: string, pool: PoolBounds, more: Parameters, limit: number): Promise<readonly Stored[]> {
    const find = (band: PoolBounds, limit: number): Promise<readonly Stored[]> =>
      this.#list(statement, { filed: poolName(band), ...pool, ...more, limit });
    const ripe = Math.min(this.#request.clock, this.#space.clock);
    const own = await find(pool, this.#spread);
    const passed = own.filter((record) => record.until <= ripe);
    if (passed.length > 0) return this.#shuffled(passed);
    const found: Stored[] = [];
    for (const band of [pool, ...this.#otherBands(pool)])
      found.push(...(await find(band, Math.max(limit, this.#spread))));
    const sorted = found.toSorted((a, b) => a.until - b.until || a.workerId - b.workerId);
    const free = sorted.filter((record) => this.#isFree(record)).slice(0, this.#spread);
    return [...this.#shuffled(free), ...sorted.filter((record) => !free.includes(record))].slice(0, limit);
  }

  /** The lowest number without a record; after a lost race, one of the lowest few. */
  async #findUnused(pool: PoolBounds): Promise<number | undefined> {
    const name = poolEntry + poolName(pool);
    const hint = this.#space.entries.get(name);
    const unused: number[] = [];
    let from = Math.max(pool.first, Number(hint?.value ?? pool.first));
    let version = hint?.version ?? 0;
    for (let limit = page; from <= pool.last && unused.length === 0; limit = Math.min(8 * limit, longestPage)) {
      const rows = await this.#unit.all("claim.numbers", { first: from, last: pool.last, limit });
      const used = new Set(rows.map((row) => numberOf(row, "worker_id")));
      const end = used.size < limit ? pool.last + 1 : numberOf(rows.at(-1) ?? {}, "worker_id") + 1;
      for (let n = from; n < end && unused.length < this.#spread; n++) if (!used.has(n)) unused.push(n);
      if (unused.length > 0) break;
      from = end;
      // Whoever comes next need not pass by all of these. Where somebody else has moved the hint, it is theirs.
      const hint = { name, value: String(from), version };
      version += await this.#unit.transaction(() => this.#unit.change("meta.set", hint));
    }
    const chosen = unused[Math.floor(Math.random() * unused.length)];
    if (chosen === undefined) return undefined;
    if ((await this.#rowOfUnused(chosen)) !== undefined) {
      throw new Foreigners({ first: chosen, last: Math.min(pool.last, chosen + foreignSpan) });
    }
    return chosen;
  }

  /** The row of a number that had no record. @throws Raced where it has one now: then the row came with it. */
  async #rowOfUnused(workerId: number): Promise<AssignRow | undefined> {
    const row = await readRow(this.#unit, workerId);
    if (row !== undefined && (await this.#unit.get("record.get", { worker_id: workerId })) !== undefined) {
      throw new Raced("not unused any more");
    }
    return row;
  }

  async #read(statement: string, parameters: Parameters): Promise<readonly Kept[]> {
    const found = (await this.#unit.all(statement, parameters)).map(keptOf);
    for (const kept of found) this.#kept.set(kept.record.workerId, kept);
    return found;
  }

  /** @throws Foreigners where one of them stands in an index and belongs to somebody else. */
  async #list(statement: string, parameters: Parameters): Promise<readonly Stored[]> {
    const found = await this.#read(statement, parameters);
    const taken = found.find(({ row, record }) => isForeign(row, record))?.record.workerId;
    if (taken !== undefined) throw new Foreigners({ first: taken, last: taken });
    return found.map((kept) => ofEra(kept, this.#space));
  }

  #otherBands(pool: PoolBounds): readonly PoolBounds[] {
    const own = poolName(pool);
    return [...this.#space.entries.keys()].flatMap((name) => {
      if (!name.startsWith(poolEntry) || name === poolEntry + own) return [];
      const [first = 0, last = 0] = name.slice(poolEntry.length).split("-").map(Number);
      return first <= pool.last && last >= pool.first ? [{ first, last }] : [];
    });
  }

  #isFree(record: Stored): boolean {
    return isFree(record, this.#request, this.#space.clock);
  }

  #shuffled(records: readonly Stored[]): readonly Stored[] {
    if (this.#spread === 1) return records;
    return records
      .map((record) => ({ record, at: Math.random() }))
      .toSorted((a, b) => a.at - b.at)
      .map(({ record }) => record);
  }

  #once<Answer>(key: string, read: () => Promise<Answer>): Answer {
    if (this.#seen.has(key)) return this.#seen.get(key) as Answer;
    throw new Unread(async () => void this.#seen.set(key, await read()));
  }
}
