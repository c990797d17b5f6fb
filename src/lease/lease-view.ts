import type { Clock } from "./clock.ts";
import type { LeaseEvents } from "./events.ts";
import type { Layout } from "../id/layout.ts";
import type { Checkpoint, Recents, GrantingStore, Usage } from "../rule/registry.ts";

/**
 * A worker ID together with the window that belongs to it: one immutable object, replaced as a whole, so that nobody ever
 * combines an old worker ID with a new window. `generation` rises with each claim.
 */
export interface LeaseSnapshot {
  readonly generation: number;
  readonly workerId: number;
  readonly fence: number;
  readonly from: number;
  readonly until: number;
  /** Lowest Unix ms that may be used: `from`, or where the inherited recents begin. */
  readonly knownFrom: number;
  readonly recents?: Recents | undefined;
  /** The holder's wall clock when it got the grant. */
  readonly since: number;
  /** Others use the same window: sequences have to be taken, block by block. */
  readonly shared: boolean;
  /** The store that granted it, where that can be told from another one. */
  readonly store?: GrantingStore | undefined;
}

/** Whoever hands out ticks and sequences of a lease, and so knows what was used. A lease has at most one. */
export interface UsageTracker {
  /** The newest tick handed out in the present claim. */
  checkpoint(): Checkpoint | undefined;
  /** Hands out nothing more in this claim, and tells what it handed out. Synchronous: nothing may slip in between. */
  seal(): Usage | undefined;
}

/** What a generator needs to know of a lease. */
export interface LeaseView {
  readonly namespace: string;
  readonly layout: Layout;
  readonly clock: Clock;
  readonly state: LeaseState;
  /** The worker ID now; while none is held, the last one. */
  readonly workerId: number;
  /** Begin of the window, Unix ms. */
  readonly from: number;
  /** End of the window, Unix ms; IDs carry only timestamps before it. */
  readonly until: number;
  /** Worker ID and window as one; undefined while nothing may be handed out. */
  readonly snapshot: LeaseSnapshot | undefined;
  /** In how many ms the next renewal is due. */
  readonly renewsIn: number;
  attach(ledger: UsageTracker): void;
  /** Calls a listener at each change of window, worker ID or state. Returns the function that takes it away again. */
  onChange(listener: () => void): () => void;
  /**
   * Tells the lease what a generator saw the wall clock do, and which rung of the ladder it stands on. `switch`, said as long as it
   * lasts: the lease is to be given up. `stop`: the same, where no other worker ID would help.
   */
  noteRollback(behind: number, action: LeaseEvents["clock.rollback"]["action"]): void;
  /** Loses the lease at once where another store stands in place of the one that granted it. A look at the file system at most. */
  look(): void;
  close(): Promise<void>;
}

/** held: usable. switching: lost, another worker ID is being claimed. The others are ends. */
export type LeaseState = "held" | "switching" | "lost" | "closed" | "orphaned";
