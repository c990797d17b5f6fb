import type { SnowleaseError } from "../../id/errors.ts";
import type { Era, NamespaceState } from "../../rule/era.ts";
import type { NamespaceLimits } from "../../rule/limits.ts";
import type { NewNamespace } from "../../rule/new-namespace.ts";
import type { PoolView } from "../../rule/pool.ts";
import type { GrantingStore, HistoryRow, HolderLabel, Registry, WorkerState } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";

/*
 * The port of a store: two verbs. It reads what an operation asks for, and it commits what the operation decided, as data. How it keeps
 * its indexes is its own: it derives their changes from a record before and after.
 */

/** What stands under a name: a namespace; or none, and perhaps the era that is noted for one to come. */
export type Standing =
  | { readonly made: NewNamespace; readonly noted?: undefined }
  | { readonly made?: undefined; readonly noted?: Era | undefined };

/** The reads of all operations: lookups by key, or the first few entries of an ordered index. */
export interface StoreReads extends PoolView {
  /** Records above a worker ID, in ascending order; those of other states may be left out. */
  page(after: number, limit: number, state: WorkerState | undefined): Part<Stored>;
  /** The claims of a worker ID that have ended, with a fence below `before`, newest first. */
  ended(workerId: number, before: number, limit: number): Part<HistoryRow>;
}

/** Some rows of a list: at most `limit`, fewer where more would keep the process busy for long. */
export interface Part<Row> {
  readonly rows: readonly Row[];
  /** What the next read names as `after`, or as `before`: the place of the last row that was looked at. Undefined at the end of the list. */
  readonly next: number | undefined;
}

/** A read: the name of the method that answers it, then its arguments. */
export type StoreRead = {
  readonly [Name in keyof StoreReads]: readonly [Name, ...Parameters<StoreReads[Name]>];
}[keyof StoreReads];

/** What was read: the store as it was at one moment. `byId` answers the same object each time. */
export interface StoreView extends StoreReads {
  /** The store's clock, Unix ms. */
  readonly clock: number;
  readonly standing: Standing;
  /** Why a claim makes no namespace where there is none. Absent where it makes one. */
  readonly refusal?: SnowleaseError | undefined;
  /** Programs without windows that take worker IDs here, too. Absent where no such program can. */
  readonly others?: Others | undefined;
  /** How long behind `clock` a claim beside them may still be stored, ms. Absent: 0. */
  readonly lateness?: number | undefined;
  /** By which a holder sees that another store has replaced this one. Absent where none can. */
  readonly store?: GrantingStore | undefined;
  /** No window of a namespace with this layout begins before this time, Unix ms. Absent: 0. */
  readonly earliest?: ((layout: string) => number) | undefined;
  /** Whether the session of a record's holder has ended: then its claim may end early. Absent where no session is seen. */
  readonly isGone?: ((record: Stored) => boolean) | undefined;
  /**
   * Refuses the store's clock for a namespace with this tolerance, where it is known to be wrong. Absent where that cannot be told.
   * @throws SnowleaseError CLOCK_SKEW
   */
  checkClock?(limits: Pick<NamespaceLimits, "maxClockSkew">): void;
}

/** What the reads have shown of programs that take worker IDs without keeping a window. */
export interface Others {
  /** Whether there are any: each may have used any number that was not ours all the time. */
  readonly seen: boolean;
  /** Which of them has taken a worker ID. */
  takenBy(workerId: number): HolderLabel | undefined;
  /** Whether the mark is there by which they see that the holder of our record has the worker ID. */
  isMarked(workerId: number): boolean;
}

/** A record in the place of the one that was read. */
export interface Replacement {
  readonly workerId: number;
  /** The very object that the store answered; undefined where there was no record. */
  readonly before: Stored | undefined;
  /** Undefined: the record is deleted. The same as `before`: it only has to stand still. */
  readonly after: Stored | undefined;
  /** Nothing is granted with it: the decision only rests on it. */
  readonly isEvidence?: boolean;
  /** The claim that ends with it, for the history. A claim that goes on has no row there: its record says everything. */
  readonly ended?: HistoryRow | undefined;
}

/**
 * What an operation decided. It takes effect as a whole, and only where `standing` and all records before still stand. A store that cannot do
 * that looks behind its writes, before it says that they are done.
 */
export interface StoreChanges {
  /** The very object that the store answered, also where it stays: the operation decided for what stood there. */
  readonly standing: Standing;
  /** What stands under the name from then on. With a namespace that is gone, all its records and claims are. Undefined: the same as before. */
  readonly becomes?: Standing | undefined;
  readonly records: readonly Replacement[];
}

/** The record of a worker ID as it is: what an operation decided rests on it. */
export function unchanged(workerId: number, record: Stored | undefined): Replacement {
  return { workerId, before: record, after: record, isEvidence: true };
}

/** What an operation answers once its changes are stored. */
export interface Outcome<Answer> {
  /** An error is thrown then: what shows that the store forgot something stays stored. */
  readonly answer: Answer | SnowleaseError;
  readonly changes?: StoreChanges | undefined;
}

/** An operation: yields reads that fit one round trip, takes what they found, decides. It has no clock and no store of its own. */
export type Operation<Answer> = Generator<readonly StoreRead[], Outcome<Answer>, StoreView>;

/** The circumstances in which an operation begins. */
interface Circumstances {
  /** How long it had to wait before, ms: its caller's clock went on meanwhile. */
  readonly waited: number;
  /** The changes of earlier attempts whose answers were lost: some of them may be stored. */
  readonly sent: readonly StoreChanges[];
}

/**
 * `claim`, `renew`, `release`: of a holder. `once`: where the answer to its changes is lost, it is not attempted again, because it
 * would undo what others did since.
 */
export type OperationKind = "read" | "claim" | "renew" | "release" | "write" | "once";

/** How a store runs an operation. */
export type RunOperation = <Answer>(
  namespace: string,
  kind: OperationKind,
  begin: (circumstances: Circumstances) => Operation<Answer>,
) => Promise<Answer>;

/** What only the store can do or say. */
export interface StoreRest extends Pick<
  Registry,
  "kind" | "scope" | "ping" | "rehearse" | "verify" | "acceptClock" | "close"
> {
  /** Names the store in errors. */
  readonly title: string;
  /** Whether its reads look at a part of a large pool, unless they have to look everywhere. Default false. */
  readonly samples?: boolean;
  /** Whether its views know of programs without windows. Default false. */
  readonly hasOthers?: boolean;
  /**
   * Deletes some of the claims that have ended and whose window ended before a time, Unix ms. The last claim of each worker ID stays: that of
   * its record. `isDone`: none is left to delete.
   */
  prune(namespace: string, before: number): Promise<{ readonly pruned: number; readonly isDone: boolean }>;
}

/** A record as people see it: with its claim ended where the session of its holder has ended. */
export function recordAsSeen({ isGone }: Pick<StoreView, "isGone">, record: Stored): Stored {
  return isGone?.(record) === true ? { ...record, token: undefined } : record;
}

/** The namespace as the rule sees it. */
export function stateOf({ info, era }: NewNamespace, clock: number): NamespaceState {
  const { era: name, quarantineEnd, opensAt } = era;
  return { era: name, quarantineEnd, opensAt, info, clock };
}
