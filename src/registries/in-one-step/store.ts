import type { PoolView } from "../../rule/pool.ts";
import type { ClaimRequest, HistoryRow, WorkerState } from "../../rule/registry.ts";
import type { Era } from "../../rule/era.ts";
import type { NamespaceInfo } from "../../rule/limits.ts";
import type { NewNamespace } from "../../rule/new-namespace.ts";
import type { Stored } from "../../rule/window.ts";

/*
 * What a store has to offer so that `registry.ts` makes a registry of it: steps that run code between reading and writing. The
 * code is synchronous, so that nothing else of this process runs in between; against other processes the store protects it.
 */

/** A store that runs an operation as one atomic step. */
export interface StepStore {
  /** Names the store in errors. */
  readonly title: string;
  /** Runs a step that may change the store. Resolves once the changes are durable; where the work throws, there are none. */
  write<Answer>(work: StepWork<Answer>): Promise<Answer>;
  /** Runs a step that changes nothing, and sees one state of the store. */
  read<Answer>(work: StepWork<Answer>): Promise<Answer>;
}

/** The code of a step. It makes every check before it changes a record or the history. */
type StepWork<Answer> = (step: Step) => Answer;

/** A store during one step. */
export interface Step {
  /** The registry's clock, Unix ms. */
  readonly now: number;
  /** How long the operation waited for its turn, ms. */
  readonly waited: number;
  find(namespace: string): StepNamespace | undefined;
  /** The era that was noted under a name without a namespace. */
  noted(namespace: string): Era | undefined;
  /** Notes an era under a name without a namespace: `rule/unknown-namespace.ts`. */
  note(namespace: string, era: Era): void;
  /** Creates a namespace that does not exist yet, in place of what was noted under its name. */
  create(namespace: string, made: NewNamespace): StepNamespace;
  /** Deletes a namespace from which everything is erased. */
  remove(namespace: string): void;
}

/** A namespace during one step: its records, and the history of its claims. */
export interface StepNamespace extends PoolView {
  readonly info: NamespaceInfo;
  /** The present era, with `beginEra` taken into account. */
  readonly era: Era;
  /** `Registry.receiptKey`. */
  readonly receiptKey: string;
  /** Stores another era. */
  beginEra(era: Era): void;
  /** Stores another id, receipt key and era. The step asks for nothing else of this namespace. */
  replace(made: NewNamespace): void;
  /** No window begins before this, Unix ms. Read once a claim is granted. Default 0. */
  readonly earliest?: number;
  /** Refuses the registry's clock where the store knows that it is wrong. @throws SnowleaseError CLOCK_SKEW */
  checkClock?(): void;
  /** Prepares the indexes for a claim, before the claim reads any of them. */
  prepare(request: ClaimRequest): void;
  /** Stores a record. `before`: the record that it replaces; undefined where the worker ID has none. */
  put(record: Stored, before: Stored | undefined): void;
  /** Deletes the record of a worker ID that was never claimed, which makes the worker ID unused again. */
  forget(workerId: number): void;
  /** Adds a claim to the history: the newest one of its worker ID. `before`: as in `put`. */
  noteClaim(claim: HistoryRow, before: Stored | undefined): void;
  /** Notes how the claim of this record ended, and where its window then stood; changes nothing where that was noted before. */
  noteEnd(record: Stored, endedAt: number, end: NonNullable<HistoryRow["end"]>): void;
  /** Records in ascending order, from the first worker ID above `after`. `now` decides about their states. */
  list(state: WorkerState | undefined, after: number, limit: number, now: number): ListPart<Stored>;
  /** The claims of a worker ID whose fence is below `before` and whose window meets the times, newest first. */
  claims(workerId: number, times: HistoryTimes, before: number, limit: number): ListPart<HistoryRow>;
  /** Deletes claims, as the registry's `prune` does. `isDone`: none is left to delete. */
  prune(before: number): { readonly pruned: number; readonly isDone: boolean };
  /** Deletes some records, with all that belongs to them. Returns whether none is left. */
  erase(): boolean;
}

/** The times of a `HistoryRange`, Unix ms. */
export interface HistoryTimes {
  readonly from: number;
  readonly until: number;
}

/** Some rows of a list. A store answers with fewer than `limit` where more would block the event loop. */
export interface ListPart<ListRow> {
  readonly rows: readonly ListRow[];
  /** Where the next part begins; undefined at the end of the list. */
  readonly next: number | undefined;
}
