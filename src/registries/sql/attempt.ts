import { forgottenNamespace } from "../../rule/quarantine.ts";
import { readReceipt } from "../../rule/receipt.ts";
import type { ClaimRequest, HistoryRow, InitRequest } from "../../rule/registry.ts";
import type { Era } from "../../rule/era.ts";
import type { NamespaceLimits } from "../../rule/limits.ts";
import { eraMark, type NewNamespace } from "../../rule/new-namespace.ts";
import { eraToNote, type UnknownNamespace } from "../../rule/unknown-namespace.ts";
import type { Stored } from "../../rule/window.ts";
import type { StoreAttempt, ClaimAttempt, RecordChange, Snapshot, SnapshotPurpose } from "../compare-and-set/store.ts";
import { isOurs } from "./assign.ts";
import { beginClaim } from "./claim.ts";
import { dropTables, erase } from "./erase.ts";
import type { SqlDatabase, SqlTry } from "./execute.ts";
import { isMissingTables } from "./errors.ts";
import { noteEnd } from "./history.ts";
import { makeTables } from "./init.ts";
import {
  entriesOf,
  guard,
  type MetaEntries,
  noteIn,
  putNote,
  readNamespace,
  setEntry,
  setEra,
  type SqlNamespace,
} from "./namespace-state.ts";
import { numberOf, readRecord, type StoredRow } from "./records.ts";
import type { Transaction } from "./transaction.ts";
import { together } from "../together.ts";
import { hold, put, putPinned, unpin } from "./write.ts";

/** What a registry remembers between operations. */
export interface SqlMemory {
  /** How many races the last beaten claim lost, and when: while many processes claim at once, each claim chooses by lot. */
  rush: { readonly races: number; readonly at: number };
  /** A namespace that exists: `ping` tries to write to its tables. */
  namespace?: string;
}

/** The record of a worker ID as it was read; undefined where there was none. */
interface ReadRow {
  readonly row: StoredRow | undefined;
  readonly workerId: number;
}

/** One attempt at an operation, on the tables of a namespace. */
export class SqlAttempt implements StoreAttempt<StoredRow> {
  readonly waited: number;
  readonly #try: SqlTry;
  readonly tx: Transaction;
  readonly #database: SqlDatabase;
  readonly #memory: SqlMemory;
  #read: SqlNamespace | undefined;
  /** The rows of the table `meta` where there is no namespace. */
  #entries: MetaEntries = new Map();

  constructor(tried: SqlTry, database: SqlDatabase, memory: SqlMemory) {
    this.waited = tried.waited;
    this.#try = tried;
    this.tx = tried.tx;
    this.#database = database;
    this.#memory = memory;
  }

  async look(): Promise<SqlNamespace | undefined> {
    try {
      this.#read = await this.present();
      return this.#read;
    } catch (error) {
      if (this.#isMissing(error)) return undefined;
      throw error;
    }
  }

  async create(layout: string, request: Partial<NamespaceLimits> & Pick<InitRequest, "new">): Promise<SqlNamespace> {
    await makeTables(this.tx, this.#try.place, this.#database, layout, request);
    return this.#guarded();
  }

  async note(era: Era): Promise<void> {
    const { tx } = this;
    await tx.write(() => putNote({ tx, entries: this.#entries }, era));
  }

  async putEra(era: Era, before?: ReadRow): Promise<void> {
    const state = this.#state;
    await this.tx.write(() => [before && hold(state, before.row, before.workerId), setEra(state, era)]);
  }

  async replace({ info: { id = "" }, era, receiptKey }: NewNamespace): Promise<void> {
    const state = this.#state;
    const { identity } = state;
    // A copy on another server would begin a second quarantine for that reason.
    const entries = Object.entries({ id, receiptKey, identity });
    await this.tx.write(() => [setEra(state, era), ...entries.map(([name, value]) => setEntry(state, name, value))]);
  }

  async erase(note: Era | undefined): Promise<boolean> {
    const { place } = this.#try;
    const isDone = await erase(this.#state, place.namespace, note);
    if (!isDone) return false;
    if (this.#memory.namespace === place.namespace) delete this.#memory.namespace;
    if (note === undefined) await dropTables(this.#state, this.#database.dialect, place);
    return true;
  }

  async confirm({ row, workerId }: ReadRow): Promise<void> {
    await this.tx.write(() => [hold(this.#state, row, workerId)]);
  }

  async snapshot(_: SnapshotPurpose, workerIds: readonly number[]): Promise<Snapshot<StoredRow>> {
    const read = async (): Promise<Snapshot<StoredRow>> => {
      const [state, ...records] = await together([this.#guarded(), ...workerIds.map((id) => this.record(id))]);
      return { state, records };
    };
    return this.ifPresent(read, async () => ({ state: undefined, unknown: await this.#unknown(), records: [] }));
  }

  claim(request: ClaimRequest): Promise<ClaimAttempt> {
    const { races, place } = this.#try;
    const { settings } = this.#database;
    const begin = (): Promise<ClaimAttempt> =>
      beginClaim(this.tx, this.#guarded(), request, { races, settings, memory: this.#memory });
    const recall = readReceipt(request.recall);
    if (recall === undefined) return begin();
    return this.ifPresent(begin, async () => {
      const unknown = await this.#unknown();
      const noted = unknown && eraToNote(unknown, recall, eraMark);
      if (noted !== undefined) await this.note(noted);
      throw forgottenNamespace(`${place.title} ${place.where}`, place.namespace, recall, request.clock);
    });
  }

  async renew({ before, after }: RecordChange<StoredRow>): Promise<void> {
    await this.tx.write(() => [put(this.#state, before, after)]);
  }

  /** Java processes still see the number as taken until its window has passed; where such processes were seen, they see it for good. */
  async end({ before, after }: RecordChange<StoredRow>, how: NonNullable<HistoryRow["end"]>): Promise<void> {
    const [tx, state] = [this.tx, this.#state];
    const { assignRow } = before;
    const { workerId, until } = after;
    const stays = how === "forced" || until > state.clock || state.beside || !isOurs(assignRow, after);
    await tx.write(() => [
      put(state, before, after),
      noteEnd(tx, after, state.clock, how),
      stays || tx.change("assign.remove", { worker_id: workerId, ...assignRow }),
    ]);
  }

  pin(changes: readonly RecordChange<StoredRow | undefined>[]): Promise<void> {
    return putPinned(this.#state, changes);
  }

  unpin(changes: readonly RecordChange<StoredRow, Stored | undefined>[]): Promise<void> {
    return unpin(this.#state, changes);
  }

  /** The record of a worker ID; undefined without one, and for a value that is no integer. */
  async record(workerId: number): Promise<StoredRow | undefined> {
    return Number.isSafeInteger(workerId) ? readRecord(this.tx, workerId) : undefined;
  }

  /**
   * Answers `absent` for a namespace without tables, as other stores do for one that does not exist. Where the table `meta` is there
   * and another one is missing, the error stays.
   */
  async ifPresent<Answer>(work: () => Promise<Answer>, absent: () => Answer | Promise<Answer>): Promise<Answer> {
    try {
      return await work();
    } catch (error) {
      if (!this.#isMissing(error) || (await this.look()) !== undefined) throw error;
      return absent();
    }
  }

  /** Reads what is noted of a namespace that does not exist; undefined without the table for it. */
  async #unknown(): Promise<UnknownNamespace | undefined> {
    const { tx } = this;
    try {
      const [rows, server] = await together([tx.all("meta.read"), tx.get("session.touch")]);
      this.#entries = entriesOf(rows);
      return { clock: numberOf(server ?? {}, "clock"), noted: noteIn(this.#entries) };
    } catch (error) {
      if (this.#isMissing(error)) return undefined;
      throw error;
    }
  }

  #isMissing(error: unknown): boolean {
    return isMissingTables(error) || this.#database.dialect.meaningOf(error)?.missing === true;
  }

  get #state(): SqlNamespace {
    if (this.#read === undefined) throw new Error("a write before a read");
    return this.#read;
  }

  /** Reads the namespace. */
  async present(): Promise<SqlNamespace> {
    const { place } = this.#try;
    const state = await readNamespace(this.tx, place, this.#database.migrations.length);
    this.#memory.namespace = place.namespace;
    return state;
  }

  /** Reads the namespace, and begins a quarantine where another server answers. */
  async #guarded(): Promise<SqlNamespace> {
    this.#read = await guard(await this.present(), this.#database.dialect);
    return this.#read;
  }
}
