import type { Era, NamespaceState } from "../../rule/era.ts";
import type { Decision } from "../../rule/pool.ts";
import type {
  ClaimRequest,
  HistoryRow,
  HolderLabel,
  InitRequest,
  Registry,
  WorkerRecord,
  WorkersPage,
} from "../../rule/registry.ts";
import type { NamespaceLimits } from "../../rule/limits.ts";
import type { UnknownNamespace } from "../../rule/unknown-namespace.ts";
import type { NewNamespace } from "../../rule/new-namespace.ts";
import type { Stored } from "../../rule/window.ts";

/*
 * The port of a store with compare-and-set: an operation reads what it needs, the rule decides, and one conditional write takes
 * effect only where nothing that was read has changed. A write resolves once it is done, or throws one of the errors in engine/operate.ts.
 */

/** A record as a store keeps it. A store adds what its next conditional write needs. */
export interface VersionedRecord {
  readonly record: Stored;
}

/** A namespace as an attempt reads it. */
export interface StoredNamespace extends NamespaceState {
  /** `Registry.receiptKey`. */
  readonly receiptKey?: string | undefined;
}

/** What one round trip reads. */
export interface Snapshot<Row> {
  /** Undefined where the namespace does not exist. */
  readonly state: StoredNamespace | undefined;
  /** Where it does not exist; absent where nothing can be noted either, as in a database without tables. */
  readonly unknown?: UnknownNamespace | undefined;
  /** The records that were asked for, in that order; undefined for a worker ID without one. */
  readonly records: readonly (Row | undefined)[];
}

/** What a snapshot is for. A claimer reads the claim that it remembers; a holder renews and releases; an operator does the rest. */
export type SnapshotPurpose = "claim" | "renew" | "release" | "force" | "pin" | "unpin";

/** A record to write in the place of the one that was read. */
export interface RecordChange<Row, After = Stored> {
  readonly before: Row;
  readonly after: After;
}

/** One try of an operation. It remembers what it read: its writes take effect only where all of that still stands. */
export interface StoreAttempt<Row extends VersionedRecord> {
  /** How long the operation has waited so far, ms: its caller's clock went on meanwhile. */
  readonly waited: number;
  /** Reads what is fixed for the namespace; undefined where it does not exist. */
  look(): Promise<StoredNamespace | undefined>;
  /**
   * Creates the namespace where it does not exist, in the era that is noted under its name.
   * @throws SnowleaseError CONFIG_INVALID where the request says that it is `new`, and an era is noted.
   */
  create(layout: string, request: Partial<NamespaceLimits> & Pick<InitRequest, "new">): Promise<StoredNamespace>;
  /** Notes an era under the name. Takes effect only where the namespace still does not exist, and the note is as it was read. */
  note(era: Era): Promise<void>;
  /**
   * Stores another era of the namespace that was read. Takes effect only where `before`, the record that a receipt contradicts, still
   * stands; it is left out where an operator ends a quarantine.
   */
  putEra(era: Era, before?: { readonly row: Row | undefined; readonly workerId: number }): Promise<void>;
  /** Stores another id, receipt key and era of the namespace that was read. */
  replace(made: NewNamespace): Promise<void>;
  /**
   * Deletes some of what is stored of the namespace that was read, which is sealed. Once nothing else is left, it deletes the namespace
   * itself, with `note` noted under its name, and returns true. Takes effect only where the era still stands. Repeatable.
   */
  erase(note: Era | undefined): Promise<boolean>;
  /** Makes sure that the server which writes still has the record and the era that were read: a read may lag. Throws `Beaten`. */
  confirm(before: { readonly row: Row | undefined; readonly workerId: number }): Promise<void>;
  /** Reads the namespace and these records, with what the write of this purpose depends on. */
  snapshot(purpose: SnapshotPurpose, workerIds: readonly number[]): Promise<Snapshot<Row>>;
  claim(request: ClaimRequest): Promise<ClaimAttempt>;
  renew(change: RecordChange<Row>): Promise<void>;
  /** Writes how a claim ended, to the record and to the history. */
  end(change: RecordChange<Row>, how: NonNullable<HistoryRow["end"]>): Promise<void>;
  pin(changes: readonly RecordChange<Row | undefined>[]): Promise<void>;
  /** `after` is undefined for a worker ID without a claim: its record is deleted. */
  unpin(changes: readonly RecordChange<Row, Stored | undefined>[]): Promise<void>;
}

/** One try of a claim. How it searches is the store's own. */
export interface ClaimAttempt {
  /** The store's clock, Unix ms. */
  readonly clock: number;
  /** Undefined where the namespace does not exist yet. */
  readonly state: StoredNamespace | undefined;
  /** As in a snapshot. */
  readonly unknown?: UnknownNamespace | undefined;
  /** Finds a worker ID and decides about it. */
  decide(): Promise<Decision>;
  /** Writes the record of the claim that was decided. */
  commit(after: Stored): Promise<void>;
}

/** A store with compare-and-set. */
export interface CompareAndSetStore<Row extends VersionedRecord> extends Required<
  Pick<Registry, "kind" | "worker" | "history" | "prune" | "rehearse" | "scope" | "ping" | "close">
> {
  /** Names the server in errors. */
  readonly title: string;
  /**
   * Runs attempts until one is done, within the operation's deadline. `repeatable`: whether another attempt may follow one with an
   * unknown answer, and finds out by itself whether it was done.
   */
  attempt<Answer>(
    namespace: string,
    options: { readonly repeatable: boolean },
    work: (attempt: StoreAttempt<Row>) => Promise<Answer>,
  ): Promise<Answer>;
  /** All worker IDs above `after`, in ascending order. `state`: others may be left out. */
  pages(
    namespace: string,
    page: Pick<WorkersPage, "after" | "state">,
  ): AsyncIterable<readonly WorkerRecord[], void, undefined>;
  /** Whether the holder of this record still has the number: a program without windows may have taken it. */
  isHeld(before: Row): boolean;
  /** What the store keeps of a holder's label. */
  labelOf(holder: HolderLabel): HolderLabel;
}
