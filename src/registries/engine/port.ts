import type { SnowleaseError } from "../../id/errors.ts";
import type { Era, NamespaceState } from "../../rule/era.ts";
import type { NamespaceLimits } from "../../rule/limits.ts";
import type { NewNamespace } from "../../rule/new-namespace.ts";
import type { PoolView } from "../../rule/pool.ts";
import type { GrantingStore, HistoryRow, HolderLabel, Registry, WorkerState } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";

/*
 * The port of a store, with two verbs. The store reads what an operation asks for, and commits what the operation decided, as data. The
 * indexes are the store's own business: it derives their changes from a record before and after.
 */

/** The contents of a name: a namespace, or none. If there is none, an era may be noted for a later one. */
export type Standing =
  | { readonly made: NewNamespace; readonly noted?: undefined }
  | { readonly made?: undefined; readonly noted?: Era | undefined };

/** The reads of all operations: lookups by key, or of the first few entries of an ordered index. */
export interface StoreReads extends PoolView {
  /** Records above a worker ID, in ascending order. Records with another state may be left out. */
  page(after: number, limit: number, state: WorkerState | undefined): Part<Stored>;
  /** Ended claims of a worker ID with a fence below `before`, newest first. */
  ended(workerId: number, before: number, limit: number): Part<HistoryRow>;
}

/** Some rows of a list: at most `limit`, or fewer if more would keep the process busy for long. */
export interface Part<Row> {
  readonly rows: readonly Row[];
  /** The `after` or `before` of the next read: the place of the last row that this read looked at. Undefined at the end of the list. */
  readonly next: number | undefined;
}

/** A read: the name of its method, then the arguments. */
export type StoreRead = {
  readonly [Name in keyof StoreReads]: readonly [Name, ...Parameters<StoreReads[Name]>];
}[keyof StoreReads];

/** What was read: the store at one moment. `byId` returns the same object each time. */
export interface StoreView extends StoreReads {
  /** The store's clock, Unix ms. */
  readonly clock: number;
  readonly standing: Standing;
  /** Why a claim cannot make a missing namespace. Absent if it can. */
  readonly refusal?: SnowleaseError | undefined;
  /** Programs without windows that also take worker IDs here. Absent if there can be no such program. */
  readonly others?: Others | undefined;
  /** How long after `clock` a claim beside such programs may still be stored, ms. Absent: 0. */
  readonly lateness?: number | undefined;
  /** Shows a holder that another store has replaced this one. Absent if no other store can. */
  readonly store?: GrantingStore | undefined;
  /** No window of a namespace with this layout begins before this time, Unix ms. Absent: 0. */
  readonly earliest?: ((layout: string) => number) | undefined;
  /** Whether the session of a record's holder has ended. Then the claim may end early. Absent if the store sees no sessions. */
  readonly isGone?: ((record: Stored) => boolean) | undefined;
  /**
   * Refuses the store's clock for a namespace with this tolerance, if the clock is known to be wrong. Absent if the store cannot know that.
   * @throws SnowleaseError CLOCK_SKEW
   */
  checkClock?(limits: Pick<NamespaceLimits, "maxClockSkew">): void;
}

/** What the reads have shown about programs that take worker IDs without a window. */
export interface Others {
  /** Whether there are such programs. Each may have used any worker ID that Snowlease did not hold all the time. */
  readonly seen: boolean;
  /** The program that has taken a worker ID. */
  takenBy(workerId: number): HolderLabel | undefined;
  /** Whether the mark is there which shows these programs that the holder of our record has the worker ID. */
  isMarked(workerId: number): boolean;
}

/** A record that replaces the one that was read. */
export interface Replacement {
  readonly workerId: number;
  /** The same object that the store returned. Undefined if there was no record. */
  readonly before: Stored | undefined;
  /** Undefined: the record is deleted. The same as `before`: the record only has to be unchanged. */
  readonly after: Stored | undefined;
  /** Nothing is granted with the record. The decision only rests on it. */
  readonly isEvidence?: boolean;
  /**
   * The claim that ends with this change, for the history. A claim that goes on has no row there, because its record contains everything.
   */
  readonly ended?: HistoryRow | undefined;
}

/**
 * The decision of an operation. It takes effect as a whole, and only if `standing` and all records in `before` are unchanged. A store that
 * cannot do that checks after its writes, before it reports that they are done.
 */
export interface StoreChanges {
  /** The same object that the store returned, even if it stays: the operation decided for these contents. */
  readonly standing: Standing;
  /** The contents of the name from then on. If a namespace is deleted, so are all its records and claims. Undefined: no change. */
  readonly becomes?: Standing | undefined;
  readonly records: readonly Replacement[];
}

/** The record of a worker ID as it is. The decision of an operation rests on it. */
export function unchanged(workerId: number, record: Stored | undefined): Replacement {
  return { workerId, before: record, after: record, isEvidence: true };
}

/** What an operation returns once its changes are stored. */
export interface Outcome<Answer> {
  /** An error is thrown after the commit, so that the proof that the store forgot something stays stored. */
  readonly answer: Answer | SnowleaseError;
  readonly changes?: StoreChanges | undefined;
}

/** An operation yields reads that fit in one round trip, takes what they found, and decides. It has no clock and no store of its own. */
export type Operation<Answer> = Generator<readonly StoreRead[], Outcome<Answer>, StoreView>;

/** The circumstances in which an operation begins. */
interface Circumstances {
  /** How long the operation had to wait before it began, ms. The caller's clock went on meanwhile. */
  readonly waited: number;
  /** The changes of earlier attempts whose answers were lost. Some of them may be stored. */
  readonly sent: readonly StoreChanges[];
}

/**
 * `claim`, `renew`, `release`: from a holder. `once`: if the answer to its changes is lost, there is no second attempt, because it would
 * undo later changes of others.
 */
export type OperationKind = "read" | "claim" | "renew" | "release" | "write" | "once";

/** How a store runs an operation. */
export type RunOperation = <Answer>(
  namespace: string,
  kind: OperationKind,
  begin: (circumstances: Circumstances) => Operation<Answer>,
) => Promise<Answer>;

/** What only the store can do or knows. */
export interface StoreRest extends Pick<
  Registry,
  "kind" | "scope" | "ping" | "rehearse" | "verify" | "acceptClock" | "close"
> {
  /** Names the store in errors. */
  readonly title: string;
  /** Whether its reads look at only a part of a large pool, if that is enough. Default false. */
  readonly samples?: boolean;
  /** Whether its views show programs without windows. Default false. */
  readonly hasOthers?: boolean;
  /**
   * Deletes some of the ended claims whose window ended before a time, Unix ms. The last claim of each worker ID stays: the one of its
   * record. `isDone`: none is left to delete.
   */
  prune(namespace: string, before: number): Promise<{ readonly pruned: number; readonly isDone: boolean }>;
}

/** A record as people see it: if the session of its holder has ended, its claim has ended, too. */
export function recordAsSeen({ isGone }: Pick<StoreView, "isGone">, record: Stored): Stored {
  return isGone?.(record) === true ? { ...record, token: undefined } : record;
}

/** The namespace as the rule sees it. */
export function stateOf({ info, era }: NewNamespace, clock: number): NamespaceState {
  const { era: name, quarantineEnd, opensAt } = era;
  return { era: name, quarantineEnd, opensAt, info, clock };
}
