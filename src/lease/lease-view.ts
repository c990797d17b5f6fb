import type { Clock } from "../clock.ts";
import type { LeaseEvents } from "./events.ts";
import type { SnowleaseError } from "../id/errors.ts";
import type { Layout } from "../id/layout.ts";
import type { Checkpoint, ClaimedWindow, GrantingStore, Recents, Usage } from "../rule/registry.ts";

/**
 * A worker ID with its window: one immutable object, replaced as a whole, so that an old worker ID is never combined with a new window.
 * `generation` rises with each claim.
 */
export interface LeaseSnapshot extends ClaimedWindow {
  readonly generation: number;
  /** The first usable time, Unix ms: `from`, or the begin of the inherited recents. */
  readonly knownFrom: number;
  readonly recents?: Recents | undefined;
  /** The holder's wall clock when it got the grant. */
  readonly since: number;
  /** The window is shared: the holder takes its sequences block by block. */
  readonly shared: boolean;
  /** The store that granted it, if its replacement can be detected. */
  readonly store?: GrantingStore | undefined;
}

/**
 * Knows which ticks and sequences of a lease were handed out, by one generator or by several that share the lease. A lease has at most one
 * tracker.
 */
export interface UsageTracker {
  /** The newest tick handed out in the present claim, and the highest sequence in it. */
  checkpoint(): Checkpoint | undefined;
  /** Stops handing out in this claim, and returns the usage. Synchronous, so that no ID is made in between. */
  seal(): Usage | undefined;
}

/** A lease as its generator sees it. */
export interface LeaseView {
  readonly namespace: string;
  readonly layout: Layout;
  readonly clock: Clock;
  readonly state: LeaseState;
  /** The present worker ID; while none is held, the last one. */
  readonly workerId: number;
  /** Begin of the window, Unix ms. */
  readonly from: number;
  /** End of the window, Unix ms; IDs carry only timestamps before it. */
  readonly until: number;
  /** Worker ID and window as one object; undefined while no ID may be made. */
  readonly snapshot: LeaseSnapshot | undefined;
  /** In how many ms the next renewal is due; 1 if it is under way. */
  readonly renewsIn: number;
  /** Why the last renewal or claim failed; undefined if it succeeded, or if another thread makes them. */
  readonly failure?: SnowleaseError | undefined;
  /** Why the last request for blocks of a shared window failed; undefined as for `failure`. */
  readonly blocksFailure?: SnowleaseError | undefined;
  attach(tracker: UsageTracker): void;
  /** Calls a listener at each change of window, worker ID or state, and in a quarantine; returns the function that removes it. */
  onChange(listener: () => void): () => void;
  /**
   * The generator reports that the wall clock went back by `behind` ms, and its reaction. `switch`, reported while the rollback lasts: the
   * lease has to give up this worker ID. `stop`: the same, and no other worker ID would help.
   */
  noteRollback(behind: number, action: LeaseEvents["clock.rollback"]["action"]): void;
  /** Loses the lease at once if another store has replaced the one that granted it. Costs at most one file system call. */
  look(): void;
  close(): Promise<void>;
}

/**
 * held: usable. switching: the worker ID was lost, and the lease claims another one. suspended: given back until `resume`. lost, closed,
 * orphaned: final.
 */
export type LeaseState = "held" | "switching" | "suspended" | "lost" | "closed" | "orphaned";

/** Whether a lease in this state makes no ID any more. */
export function isOver(state: LeaseState): boolean {
  return state === "lost" || state === "closed" || state === "orphaned";
}
