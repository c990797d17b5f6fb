import { recordIn } from "../../rule/era.ts";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import { look, type PoolView } from "../../rule/pool.ts";
import type { ClaimRequest } from "../../rule/registry.ts";
import { unusedRecord } from "../../rule/pin.ts";
import { isFree, type Stored } from "../../rule/window.ts";
import { type AssignRow, isForeign, readRow } from "./assign.ts";
import { namesIn } from "./bands.ts";
import { type Parameters, Raced } from "./dialect.ts";
import { foreign, type Kept, keptOf, numberOf, ownersPlace, poolName } from "./records.ts";
import { ownedEntry, poolEntry, type Space } from "./namespace-state.ts";
import { together, type Unit } from "./transaction.ts";

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

/** Does the reading that a decision asked for. */
function readOf(unread: unknown): Promise<void> {
  if (!(unread instanceof Unread)) throw unread;
  return unread.read();
}

/** What a claim sees of the records of one namespace: each of them is read when it is first asked for, and then stays. */
export class Candidates implements PoolView {
  readonly #unit: Unit;
  readonly #space: Space;
  readonly #request: ClaimRequest;
  /** How many equally good ones to choose among: others reach for the first of them at this moment. */
  readonly #spread: number;
  readonly #seen = new Map<string, unknown>();
  /** By the record itself: of one worker ID two statements may have read two versions. */
  readonly #kept = new Map<Stored, Kept>();
  readonly #foreign = new Map<number, AssignRow>();

  constructor(unit: Unit, space: Space, request: ClaimRequest, spread: number) {
    this.#unit = unit;
    this.#space = space;
    this.#request = request;
    this.#spread = spread;
  }

  /** Decides, reading what the decision asks for. @throws Foreigners */
  async decide<Answer>(decision: (view: PoolView) => Answer): Promise<Answer> {
    if (this.#request.workerId === undefined) await this.#readAhead();
    for (;;) {
      try {
        return decision(this);
      } catch (unread) {
        await readOf(unread);
      }
    }
  }

  /** Reads together what the claim of just any number asks for, nearly always. */
  async #readAhead(): Promise<void> {
    const { pool, holder, preferred = [], reuse } = this.#request;
    const asks: (() => unknown)[] = [() => this.newestOfHost(pool, holder.host)];
    if (reuse !== "never") {
      asks.push(() => this.pinnedFor(pool, holder.ip, look));
      for (const workerId of preferred.slice(0, look)) asks.push(() => this.byId(workerId));
      asks.push(() => this.oldestOfHost(pool, holder.host, look));
    }
    const isUsedUp = this.#hint(pool).from > pool.last;
    asks.push(() => (isUsedUp ? this.oldest(pool, look) : this.firstUnused(pool)));
    await together(
      asks.map((ask) => {
        try {
          return ask();
        } catch (unread) {
          return readOf(unread);
        }
      }),
    );
  }

  /** Who has taken a number that was asked for by its number, where that is nobody of ours. */
  foreignAt(workerId: number): AssignRow | undefined {
    return this.#foreign.get(workerId);
  }

  /** How a record that a decision was shown stands in its table. */
  keptOf(record: Stored): Kept | undefined {
    return this.#kept.get(record);
  }

  byToken(): undefined {
    // It was looked for before.
    return undefined;
  }

  byId(workerId: number): Stored | undefined {
    return this.#once(`id ${workerId}`, async () => {
      const [[kept], found] = await together([
        this.#read("record.get", { worker_id: workerId }),
        readRow(this.#unit, workerId),
      ]);
      if (kept === undefined && found !== undefined) await this.#checkUnused(workerId);
      const row = kept === undefined ? found : kept.row;
      if (!isForeign(row, kept?.record)) return kept && this.#shown(kept);
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

  pinnedFor(pool: PoolBounds, ip: string, limit: number): readonly Stored[] {
    // Most namespaces never have such a pin.
    if (!this.#space.entries.has(ownedEntry)) return [];
    return this.#once("kept", async () => {
      const found = await this.#read("claim.oldest", { filed: ownersPlace(ip), ...pool, limit });
      return found.filter(({ row, record }) => !isForeign(row, record)).map((kept) => this.#shown(kept));
    });
  }

  newestOfHost(pool: PoolBounds, host: string): Stored | undefined {
    return this.#once("newest", async () => {
      const rows = await together(
        namesIn(this.#space, pool).map((filed) => this.#unit.get("claim.newest-of-host", { filed, ...pool, host })),
      );
      const records = rows.flatMap((row) => (row === undefined ? [] : keptOf(row).record));
      return records.toSorted((a, b) => b.until - a.until)[0];
    });
  }

  /** One whose window has passed is enough; of those that rest or are held, some are free all the same after a clock went back. */
  async #findOldest(statement: string, pool: PoolBounds, more: Parameters, limit: number): Promise<readonly Stored[]> {
    const most = Math.max(limit, this.#spread);
    const lists = await together(
      namesIn(this.#space, pool).map((filed) => this.#list(statement, { filed, ...pool, ...more, limit: most })),
    );
    const sorted = lists.flat().toSorted((a, b) => a.until - b.until || a.workerId - b.workerId);
    const ripe = Math.min(this.#request.clock, this.#space.clock);
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
        (await this.#unit.all(statement, span)).map((row) => numberOf(row, "worker_id"));
      const [kept, rows] = await together([numbers("claim.numbers"), numbers("assign.numbers")]);
      const used = new Set(kept);
      const end = used.size < limit ? pool.last + 1 : (kept.at(-1) ?? 0) + 1;
      for (let n = from; n < end && unused.length < this.#spread; n++) if (!used.has(n)) unused.push(n);
      taken = rows;
      if (unused.length > 0) break;
      from = end;
      // Whoever comes next need not pass by all of these. Where somebody else has moved the hint, it is theirs.
      const hint = { name, value: String(from), version };
      const [moved] = await this.#unit.write(() => [this.#unit.change("meta.set", hint)]);
      version += moved;
    }
    const chosen = unused[Math.floor(Math.random() * unused.length)];
    if (chosen === undefined) return undefined;
    // Behind the last one that was listed nothing is known; there, it is found out about when the row is added.
    if (!taken.includes(chosen)) return chosen;
    await this.#checkUnused(chosen);
    throw new Foreigners({ first: chosen, last: Math.min(pool.last, chosen + foreignSpan) });
  }

  /** Where a look for an unused number begins. */
  #hint(pool: PoolBounds): { name: string; from: number; version: number } {
    const name = poolEntry + poolName(pool);
    const { value, version } = this.#space.entries.get(name) ?? { value: pool.first, version: 0 };
    return { name, from: Math.max(pool.first, Number(value)), version };
  }

  /** @throws Raced where a number with a row that had no record has one now: the row came with it. */
  async #checkUnused(workerId: number): Promise<void> {
    const record = await this.#unit.get("record.get", { worker_id: workerId });
    if (record !== undefined) throw new Raced("not unused any more");
  }

  async #read(statement: string, parameters: Parameters): Promise<readonly Kept[]> {
    return (await this.#unit.all(statement, parameters)).map(keptOf);
  }

  #shown(kept: Kept): Stored {
    const record = recordIn(this.#space, kept.record, kept.era);
    this.#kept.set(record, kept);
    return record;
  }

  /** @throws Foreigners where one of them stands in an index and belongs to somebody else. */
  async #list(statement: string, parameters: Parameters): Promise<readonly Stored[]> {
    const found = await this.#read(statement, parameters);
    const taken = found.find(({ row, record }) => isForeign(row, record))?.record.workerId;
    if (taken !== undefined) throw new Foreigners({ first: taken, last: taken });
    return found.map((kept) => this.#shown(kept));
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
