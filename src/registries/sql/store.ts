import { isIn, type PoolBounds } from "../../id/pool-bounds.ts";
import type { Stored } from "../../rule/window.ts";
import { unusedRecord } from "../../rule/pin.ts";
import { eraMark } from "../../rule/new-namespace.ts";
import { type Era, nextEra } from "../../rule/era.ts";
import { Beaten, Changed, Unanswered } from "../engine/operate.ts";
import { type Answers, askAll, type Attempt, type AttemptOptions } from "../engine/optimistic.ts";
import {
  type OperationKind,
  type Replacement,
  type Standing,
  stateOf,
  type StoreChanges,
  type StoreRead,
} from "../engine/port.ts";
import { together } from "../together.ts";
import { type AssignRow, isForeign, isOurs, take } from "./assign.ts";
import { Foreigners, giveBack, noteBeside, noteForeigners, restingNumbers } from "./beside.ts";
import { erase } from "./erase.ts";
import { isMissingTables, missingTables, NoTables, type SqlPlace } from "./errors.ts";
import type { SqlDatabase, SqlTools } from "./database.ts";
import {
  conditions,
  entriesOf,
  guard,
  type MetaEntries,
  noteIn,
  poolOfNext,
  putNamespace,
  putNote,
  setEntry,
  type SqlNamespace,
} from "./namespace.ts";
import { SqlReader } from "./reader.ts";
import { columnsOf, endedColumns, foreign, inPool, numberOf, type StoredRow, textOf } from "./records.ts";
import type { Transaction } from "./transaction.ts";
import { drawVersion } from "./version.ts";

/** What a registry remembers between operations. */
export interface SqlMemory {
  /** A namespace that exists: `ping` tries to write to its tables. */
  namespace?: string;
  /** Namespaces whose tables have to be dropped, and whether Java processes were seen there. */
  readonly forgotten: Map<string, boolean>;
}

/** The purpose of an attempt. */
interface SqlAttemptOptions extends Pick<AttemptOptions, "kind" | "races" | "spread"> {
  readonly memory: SqlMemory;
}

/** What was read about a namespace that does not exist. */
interface Nothing {
  readonly tables: boolean;
  readonly clock: number;
  readonly entries: MetaEntries;
}

/**
 * The operations that rest on earlier acknowledged writes. An operator's other requests rest only on the namespace that the operator has
 * seen, on any server.
 */
const guarded: ReadonlySet<OperationKind> = new Set<OperationKind>(["claim", "renew", "release", "once"]);

/** How long after its read a claim beside Java processes may still take its worker ID, ms. */
const longestLateness = 1000;

/** One attempt at an operation, on the tables of a namespace. */
export class SqlAttempt implements Attempt {
  readonly #tx: Transaction;
  readonly #place: SqlPlace;
  readonly #database: SqlDatabase;
  readonly #memory: SqlMemory;
  readonly #kind: OperationKind;
  readonly #races: number;
  readonly #reader: SqlReader;
  #state: SqlNamespace | undefined;
  #nothing: Nothing | undefined;
  /** The worker IDs that a claim gives back to Java processes. */
  #resting: readonly StoredRow[] = [];

  constructor({ tx, place }: SqlTools, database: SqlDatabase, { memory, kind, races, spread }: SqlAttemptOptions) {
    this.#tx = tx;
    this.#place = place;
    this.#database = database;
    this.#memory = memory;
    this.#kind = kind;
    this.#races = races;
    const looks = kind === "claim" || kind === "read";
    this.#reader = new SqlReader(tx, place, { version: database.schema.version, spread, looks });
  }

  async read(reads: readonly StoreRead[]): Promise<Answers> {
    try {
      const isFirst = this.#state === undefined;
      const pool = isFirst ? this.#givenBackOf(reads) : undefined;
      const resting = pool && this.#reader.begin().then((state) => restingNumbers(state, pool));
      const [state, found] = await together([this.#reader.begin(), askAll(this.#reader, reads), resting]);
      if (isFirst) this.#resting = (await resting) ?? [];
      this.#state = state;
      this.#memory.namespace = this.#place.namespace;
      if (isFirst && guarded.has(this.#kind)) await guard(state, this.#database.dialect);
      if (isFirst && this.#kind === "claim") await this.#noteBeside(state, reads);
      const { clock, made } = state;
      return { clock, standing: { made }, others: this.#reader, lateness: latenessOf(state), found };
    } catch (error) {
      if (error instanceof Foreigners) return noteForeigners(await this.#reader.begin(), error.span);
      if (!this.#isMissing(error)) throw error;
      return this.#absent(reads, error);
    }
  }

  async commit(changes: StoreChanges): Promise<void> {
    try {
      if (this.#state === undefined) await this.#commitUnknown(changes.becomes);
      else await this.#commit(this.#state, changes);
    } catch (error) {
      if (this.#tx.unclear) throw new Unanswered("the answer to a commit was lost", { cause: error });
      if (await this.#isGone(error)) throw new Changed("the namespace was removed");
      throw error;
    }
  }

  /** Whether the namespace that was read has been removed with its tables before the write. */
  async #isGone(error: unknown): Promise<boolean> {
    return this.#state !== undefined && this.#isMissing(error) && !(await this.#lookForNote()).entries.has("layout");
  }

  /** What is stored if there is no namespace. */
  async #absent(reads: readonly StoreRead[], cause: unknown): Promise<Answers> {
    const place = this.#place;
    if (this.#memory.namespace === place.namespace) delete this.#memory.namespace;
    const nothing = await this.#lookForNote();
    if (nothing.entries.has("layout")) {
      // Another table is missing, or the namespace was made a moment ago.
      throw isMissingTables(cause) ? new Changed("the namespace was made") : cause;
    }
    if (!nothing.tables && (this.#kind === "renew" || this.#kind === "release")) throw new NoTables(place);
    this.#nothing = nothing;
    const { clock, entries } = nothing;
    const own = isMissingTables(cause) ? undefined : cause;
    const refusal = missingTables(place, own);
    return { clock, standing: { noted: noteIn(entries) }, refusal, found: reads.map(emptyAnswer) };
  }

  async #lookForNote(): Promise<Nothing> {
    const tx = this.#tx;
    try {
      // A server that accepts no writes cannot note anything either.
      const touch = this.#kind === "read" ? undefined : tx.get("session.touch");
      const [rows, server = rows[0]] = await together([tx.all("meta.read"), touch]);
      return { tables: true, clock: numberOf(server ?? { clock: 0 }, "clock"), entries: entriesOf(rows) };
    } catch (error) {
      if (!this.#isMissing(error)) throw error;
      return { tables: false, clock: 0, entries: new Map() };
    }
  }

  #isMissing(error: unknown): boolean {
    return isMissingTables(error) || this.#database.dialect.meaningOf(error)?.missing === true;
  }

  /** A claim notes that there are Java processes. */
  async #noteBeside(state: SqlNamespace, reads: readonly StoreRead[]): Promise<void> {
    if (state.beside) return;
    if (this.#database.settings.beside === "westid") await noteBeside(state);
    const named = reads.flatMap((read) => (read[0] === "byId" ? [read[1]] : []));
    const taken = named.find((workerId) => this.#reader.takenBy(workerId) !== undefined);
    if (taken !== undefined) await noteForeigners(state, { first: taken, last: taken });
  }

  /**
   * The pool in which a claim gives worker IDs back to Java processes. They only reach worker IDs from 0 upwards. If many claims race, the
   * others give back enough.
   */
  #givenBackOf(reads: readonly StoreRead[]): PoolBounds | undefined {
    if (this.#kind !== "claim" || this.#races > 0) return undefined;
    const [pool] = reads.flatMap((read) => (read[0] === "firstUnused" ? [read[1]] : []));
    if (pool !== undefined) return pool.first === 0 ? pool : undefined;
    // This claim names a worker ID, and reads nothing of its pool.
    const [last = -1] = reads.flatMap((read) => (read[0] === "byId" ? [read[1]] : []));
    return { first: 0, last };
  }

  /** Without tables nothing can be noted. The same holder then proves it again. */
  async #commitUnknown(becomes: Standing | undefined): Promise<void> {
    const { tables = false, entries = new Map() } = this.#nothing ?? {};
    if (becomes?.made !== undefined) return this.#make(becomes.made, entries);
    // The note is written even if it stays the same, because a read that lags may not know the namespace.
    const noted = becomes?.noted ?? noteIn(entries);
    if (noted !== undefined && tables) await this.#tx.write(() => putNote({ tx: this.#tx, entries }, noted));
  }

  /**
   * Notes the fixed properties of a namespace. A quarantine begins if worker IDs were used before. If an earlier quarantine was noted, its
   * note was lost with the table.
   */
  async #make(made: NonNullable<Standing["made"]>, entries: MetaEntries): Promise<void> {
    const tx = this.#tx;
    const [[row = {}], foreigner, used] = await together([
      tx.all("meta.read"),
      tx.get("assign.any-foreign"),
      tx.get("meta.used"),
    ]);
    const clock = numberOf(row, "clock");
    const era = used === undefined ? made.era : nextEra(stateOf(made, clock), clock, made.info, eraMark);
    const fixed = {
      ...made.info,
      receiptKey: made.receiptKey,
      identity: textOf(row, "identity"),
      beside: foreigner === undefined ? 0 : 1,
    };
    await tx.write(() => [
      ...putNote({ tx, entries }, era),
      ...Object.entries(fixed).map(([name, value]) => tx.change("meta.add", { name, value: String(value) })),
    ]);
    if (used !== undefined) throw new Changed("a quarantine began");
  }

  async #commit(state: SqlNamespace, { standing, becomes, records }: StoreChanges): Promise<void> {
    if (becomes !== undefined && becomes.made === undefined) return this.#erase(state, becomes.noted);
    const made = becomes?.made === standing.made ? undefined : becomes?.made;
    if (made === undefined && records.length === 0) return;
    // A read after that showed that the worker ID was free.
    const isTaken = ({ before, after }: Replacement): boolean =>
      isClaimOf(before, after) && isForeign(this.#markOf(before), before);
    if (records.some(isTaken)) throw new Beaten("another program has the number");
    await this.#tx.write(() => [
      // Before the era: the records expect the era that was read.
      ...records.flatMap((change) => this.#replace(state, change)),
      ...lowered(state, records),
      ...(made === undefined ? [] : putNamespace(state, made)),
    ]);
    const others = new Set(records.map(({ workerId }) => workerId));
    const resting = this.#resting.filter(({ record }) => !others.has(record.workerId));
    await giveBack(state, resting).catch((error: unknown) => {
      // Nothing was changed. The next claim tries again.
      const isBeaten = error instanceof Beaten || this.#database.dialect.meaningOf(error)?.raced === true;
      if (!isBeaten) throw error;
    });
  }

  /** The row for Java processes that was read with a record. */
  #markOf(before: Stored | undefined): AssignRow | undefined {
    return before && this.#reader.rows.get(before)?.assignRow;
  }

  async #erase(state: SqlNamespace, noted: Era | undefined): Promise<void> {
    const { namespace } = this.#place;
    // A namespace without any claim so far does not have this noted.
    const beside = this.#database.settings.beside === "westid";
    const gone = await erase(state, { namespace, note: noted, beside });
    if (gone === undefined) return;
    if (this.#memory.namespace === namespace) delete this.#memory.namespace;
    const drops = noted === undefined && this.#database.dialect.dropsTables?.(state.identity) === true;
    if (drops) this.#memory.forgotten.set(namespace, gone.beside);
  }

  /**
   * Replaces the record that was read. The write takes effect only if that record is unchanged, on the server and in the era that were
   * read.
   */
  #replace(state: SqlNamespace, { workerId, before, after, ended }: Replacement): readonly Promise<unknown>[] {
    const tx = this.#tx;
    const row = before && this.#reader.rows.get(before);
    if (before !== undefined && row === undefined) throw new Error(`worker ${workerId} was not read`);
    if (before === after) return this.#hold(state, workerId, row);
    if (after === undefined) return [tx.swap("record.forget", { worker_id: workerId, version: row?.version })];
    const mark = this.#markOf(before);
    const isClaim = isClaimOf(before, after);
    const isTaken = isForeign(mark, before);
    const columns = { ...columnsOf(after, isTaken ? foreign : inPool), ...conditions(state) };
    const put =
      row === undefined ? tx.swap("record.add", columns) : tx.swap("record.put", { ...columns, version: row.version });
    const writes: Promise<unknown>[] = [put];
    if (ended !== undefined) writes.push(tx.change("history.add", endedColumns(ended, !isClaim)));
    if (isClaim) {
      if (before !== undefined && ended === undefined) {
        writes.push(tx.change("history.supersede", { worker_id: workerId, fence: before.fence }));
      }
      writes.push(take(tx, after, mark));
      // Until this write, a Java process may have had the worker ID. The window begins after the IDs of a process that left in time, but
      // not of one that left later.
      if (state.beside && !this.#reader.isMarked(workerId)) {
        writes.push(tx.swap("record.in-time", { worker_id: workerId, before: state.clock + latenessOf(state) }));
      }
    } else if (this.#goesBack(state, { workerId, before, after, ended }, row)) {
      writes.push(tx.change("assign.remove", { worker_id: workerId, ...mark }));
    }
    return writes;
  }

  /**
   * Whether the row for Java processes is deleted at the end of a claim. The row shows them that the worker ID is taken until its window
   * has passed. If such processes were seen, the row stays.
   */
  #goesBack(
    { beside, clock }: SqlNamespace,
    { before, after, ended }: Replacement,
    row: StoredRow | undefined,
  ): boolean {
    if (beside || after === undefined || after.token !== undefined || ended?.end === "forced") return false;
    const isOver = before?.token !== undefined || before?.until !== after.until;
    return isOver && after.until <= clock && isOurs(row?.assignRow, after);
  }

  /**
   * Makes sure that a record is as it was read, until the transaction ends. A missing record is made and deleted again. This fails if
   * another transaction makes it.
   */
  #hold(state: SqlNamespace, workerId: number, row: StoredRow | undefined): readonly Promise<void>[] {
    const tx = this.#tx;
    if (row !== undefined) {
      return [tx.swap("record.touch", { worker_id: workerId, version: row.version, ...conditions(state) })];
    }
    const version = drawVersion();
    return [
      tx.swap("record.add", {
        ...columnsOf(unusedRecord(workerId), inPool),
        ...conditions(state),
        new_version: version,
      }),
      tx.swap("record.forget", { worker_id: workerId, version }),
    ];
  }
}

/** For a claim beside Java processes. Its window begins later by this time, but may not end later. So at least half of it is left. */
function latenessOf({ made }: SqlNamespace): number {
  return Math.min(longestLateness, Math.floor(made.info.maxWindow / 2));
}

/** Whether a record becomes the record of another claim. */
function isClaimOf(before: Stored | undefined, after: Stored | undefined): boolean {
  return after !== undefined && after.fence !== (before?.fence ?? 0);
}

/** If a record is deleted, the search for an unused worker ID begins at its worker ID or before it. */
function lowered(state: SqlNamespace, records: readonly Replacement[]): readonly Promise<void>[] {
  const gone = records.flatMap(({ workerId, before, after }) => (before && after === undefined ? [workerId] : []));
  return [...state.entries].flatMap(([name, { value }]) => {
    const pool = poolOfNext(name);
    const lowest = Math.min(...gone.filter((workerId) => pool !== undefined && isIn(pool, workerId)));
    return lowest < Number(value) ? [setEntry(state, name, lowest)] : [];
  });
}

/** The result of a read if there is no namespace. */
function emptyAnswer([name]: StoreRead): unknown {
  if (name === "page" || name === "ended") return { rows: [], next: undefined };
  return name === "oldest" || name === "oldestOfHost" || name === "pinnedFor" ? [] : undefined;
}
