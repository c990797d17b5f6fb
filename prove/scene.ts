import type { FaultProxy } from "../test/support/fault-proxy.ts";
import type { WallClock } from "../test/support/holder.ts";
import type { LateProxy } from "../test/support/late-proxy.ts";
import type { Registry } from "../src/rule/registry.ts";

/** The namespace in which everybody leases. */
export const namespace = "orders";

/** Small, so that windows pass and quarantines end while the run lasts, ms. */
export const limits = { maxWindow: 1500, maxClockSkew: 1000 };

/** A process that holders depend on. */
export interface Server {
  /** All of it: a database has a process for each connection. */
  pids(): readonly number[];
  kill(): Promise<void>;
  /** Asks it to end, and waits until it has. */
  end(): Promise<void>;
  /** Starts it again, with what it had saved. */
  start(): Promise<void>;
  readonly clock?: WallClock | undefined;
}

/** A way in which an operator puts an older copy of a store in its place. */
export interface Restore {
  readonly how: string;
  /** Takes a copy, and returns how to put it back. */
  copy(): Promise<PutBack>;
}

/** `placed` is called once the older copy stands there; the store may still have to start. */
export type PutBack = (placed: () => void) => Promise<void>;

/** A registry with all that can be done to it. */
export interface Scene {
  /** Where this holder finds it: each has a way of its own. */
  url(holder: number): string;
  /** Networks: the first ones between a holder and the registry, one for each holder where there are any. */
  readonly links: readonly (readonly FaultProxy[])[];
  /** On the way of each holder, where writes can be told from reads: what keeps one until an older copy stands in the store's place. */
  readonly late?: readonly (readonly LateProxy[])[] | undefined;
  readonly servers: readonly Server[];
  /** Cuts one server off from the others. */
  readonly cut?: { isolate(): void; rejoin(): void } | undefined;
  /** Puts another server in the primary's place; false where none can be at the moment. */
  failOver?(): Promise<boolean>;
  /** Ways to put it back to an older copy. */
  readonly restores: readonly Restore[];
  /** Whether a restart, or another primary, begins a quarantine. */
  readonly doubtsRestarts: boolean;
  /** Mean time between faults of servers, ms. */
  readonly serverEvery: number;
  /** How far ahead of the time the registry's own clock may have been, ms. */
  readonly ahead: number;
  /** A view of its own, past all networks, for what is left when the run is over. */
  readonly registry: Registry;
  /** Whether its history may be held against the IDs: it forgets nothing that it acknowledged. */
  readonly remembers: boolean;
  /** How many of the last claims of a worker ID it keeps, where those are not all. */
  readonly keptClaims?: number;
  remove(): Promise<void>;
}
