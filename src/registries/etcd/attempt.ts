import { isIn } from "../../id/pool-bounds.ts";
import type { Era } from "../../rule/era.ts";
import type { NamespaceLimits } from "../../rule/limits.ts";
import { checkUnnoted } from "../../rule/namespace.ts";
import { newNamespace, type NewNamespace } from "../../rule/new-namespace.ts";
import type { ClaimRequest, HistoryRow, InitRequest } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";
import { endedRow } from "../engine/history.ts";
import { together } from "../compare-and-set/decide.ts";
import {
  Changed,
  type ClaimAttempt,
  type RecordChange,
  type Snapshot,
  type SnapshotPurpose,
  type StoreAttempt,
  type StoredNamespace,
} from "../compare-and-set/store.ts";
import { beginClaim } from "./claim.ts";
import { behind, endOf, type Keys, poolIn } from "./keys.ts";
import { type EtcdRecord, eraText, metaText, readNumber, readRecord } from "./records.ts";
import type { EtcdNamespace, EtcdStore, EtcdTry, NamespaceRead } from "./store.ts";
import { type Entry, type EtcdTransaction, type Expected, type KeyWrite, mostConditions } from "./transaction.ts";
import { type KeyChange, changeOf, commit, rowWrites } from "./writes.ts";

/** One attempt at an operation, on the keys of a namespace. */
export class EtcdAttempt implements StoreAttempt<EtcdRecord> {
  readonly waited: number;
  readonly #store: EtcdStore;
  readonly #keys: Keys;
  readonly #try: EtcdTry;
  readonly #tx: EtcdTransaction;
  #read: NamespaceRead | undefined;
  /** What an `unpin` reads besides: the hints, and the key that goes with each record that is deleted. */
  #hints: readonly Entry[] = [];
  #unused: Entry | undefined;

  constructor(store: EtcdStore, keys: Keys, tried: EtcdTry) {
    this.waited = tried.waited;
    this.#store = store;
    this.#keys = keys;
    this.#try = tried;
    this.#tx = tried.tx;
  }

  async look(): Promise<EtcdNamespace | undefined> {
    return (await this.#begin()).state;
  }

  async create(layout: string, request: Partial<NamespaceLimits> & Pick<InitRequest, "new">): Promise<StoredNamespace> {
    const { state, unknown, clock } = this.#read ?? (await this.#begin());
    if (state !== undefined) return state;
    const { namespace, meta, era } = this.#keys;
    if (request.new === true) checkUnnoted(namespace, unknown?.noted?.quarantineEnd);
    const value = metaText(newNamespace(layout, request, clock, unknown?.noted));
    const writes: KeyWrite[] = [{ key: meta, value }];
    if (unknown?.note !== undefined) writes.push({ key: era, value: undefined });
    await this.#tx.commit(this.#unmade(unknown), writes);
    throw new Changed("the namespace was created");
  }

  async note(noted: Era): Promise<void> {
    const unknown = this.#read?.unknown;
    const value = eraText(noted, unknown?.note);
    await this.#tx.commit(this.#unmade(unknown), [{ key: this.#keys.era, value }]);
  }

  /** The namespace does not exist, and the note is as it was read. */
  #unmade(unknown: NamespaceRead["unknown"]): Expected[] {
    const { meta, era } = this.#keys;
    return [
      { key: meta, before: undefined },
      { key: era, before: unknown?.note },
    ];
  }

  async putEra(era: Era, before?: { readonly row: EtcdRecord | undefined; readonly workerId: number }): Promise<void> {
    const { meta } = this.#state;
    const own: KeyChange = { expected: [], writes: [{ key: meta.key, value: eraText(era, meta) }] };
    const record = before && { key: this.#keys.worker(before.workerId), before: before.row?.entry };
    await this.#commit([own, { expected: record === undefined ? [] : [record], writes: [] }]);
  }

  async replace(made: NewNamespace): Promise<void> {
    const { meta } = this.#state;
    await this.#commit([{ expected: [], writes: [{ key: meta.key, value: metaText(made, meta) }] }]);
  }

  async erase(note: Era | undefined): Promise<boolean> {
    const { meta } = this.#state;
    const { parts, era } = this.#keys;
    const found = await together(
      parts.map((part) => this.#tx.list({ ...part, limit: erasedTogether, keysOnly: true })),
    );
    const isLast = found.every(({ length }) => length < erasedTogether);
    // Up to the last key that was listed: a larger range would keep the cluster busy for long.
    const ends = found.map((keys, i) => (isLast ? parts[i]?.end : behind(keys.at(-1)?.key ?? "")));
    const writes = parts.flatMap(({ from }, i): KeyWrite[] => {
      const end = ends[i];
      return end === undefined || end <= from ? [] : [{ key: from, end, value: undefined }];
    });
    const rest: KeyWrite[] = [
      { key: meta.key, value: undefined },
      { key: era, value: note && eraText(note) },
    ];
    await this.#commit([{ expected: [], writes: isLast ? [...writes, ...rest] : writes }]);
    return isLast;
  }

  /** A read asks the majority, so none lags: there is nothing to confirm. */
  async confirm(): Promise<void> {}

  async snapshot(purpose: SnapshotPurpose, workerIds: readonly number[]): Promise<Snapshot<EtcdRecord>> {
    const { hints, unused } = this.#keys;
    const unpins = purpose === "unpin";
    const [{ state, unknown }, records, found, guard] = await together([
      this.#begin(),
      together(workerIds.map((id) => readAt(this.#tx, this.#keys, id))),
      unpins ? this.#tx.list({ from: hints, end: endOf(hints), limit: mostHints }) : [],
      unpins ? this.#tx.get(unused) : undefined,
    ]);
    [this.#hints, this.#unused] = [found, guard];
    return { state, unknown, records };
  }

  async claim(request: ClaimRequest): Promise<ClaimAttempt> {
    const claim = await beginClaim(this.#store, this.#keys, this.#try, request);
    this.#read = claim;
    return claim;
  }

  async renew({ before, after }: RecordChange<EtcdRecord>): Promise<void> {
    await this.#commit([changeOf(this.#keys, { before, after })]);
  }

  async end({ before, after }: RecordChange<EtcdRecord>, how: NonNullable<HistoryRow["end"]>): Promise<void> {
    const row = endedRow(before.record, after.until, this.#state.clock, how);
    await this.#commit([changeOf(this.#keys, { before, after }), rowWrites(this.#keys, row)]);
  }

  async pin(changes: readonly RecordChange<EtcdRecord | undefined>[]): Promise<void> {
    for (const change of changes) await this.#commit([changeOf(this.#keys, change)]);
  }

  async unpin(changes: readonly RecordChange<EtcdRecord, Stored | undefined>[]): Promise<void> {
    for (const { before, after } of changes) {
      const lowered = after === undefined ? [this.#lowered(before.record.workerId)] : [];
      await this.#commit([changeOf(this.#keys, { before, after }), ...lowered]);
    }
  }

  /** Lowers the hints of a number's pools, so that claims find it as unused again. */
  #lowered(workerId: number): KeyChange {
    const key = this.#keys.unused;
    const around = this.#hints.filter((hint) => {
      const pool = poolIn(hint.key);
      return pool !== undefined && isIn(pool, workerId) && readNumber(hint) > workerId;
    });
    return {
      expected: [{ key, before: this.#unused }, ...around.map((hint) => ({ key: hint.key, before: hint }))],
      writes: [
        { key, value: crypto.randomUUID() },
        ...around.map((hint) => ({ key: hint.key, value: String(workerId) })),
      ],
    };
  }

  #commit(changes: readonly KeyChange[]): Promise<string> {
    return commit(this.#tx, this.#keys, this.#state, changes);
  }

  async #begin(): Promise<NamespaceRead> {
    this.#read = await this.#store.read(this.#tx, this.#keys);
    return this.#read;
  }

  get #state(): EtcdNamespace {
    const state = this.#read?.state;
    if (state === undefined) throw new Error("a write before a read");
    return state;
  }
}

/** Keys of each kind that one transaction of a removal deletes. */
const erasedTogether = 1000;
/** Pools whose hints one transaction lowers. */
const mostHints = mostConditions - 4;

/** Reads the record of a worker ID. */
export async function readAt(tx: EtcdTransaction, keys: Keys, workerId: number): Promise<EtcdRecord | undefined> {
  if (!Number.isSafeInteger(workerId) || workerId < 0) return undefined;
  const entry = await tx.get(keys.worker(workerId));
  return entry && readRecord(entry, workerId);
}
