import type { FaultProxy } from "../test/support/fault-proxy.ts";
import type { WallClock } from "../test/support/holder.ts";
import type { LateProxy } from "../test/support/late-proxy.ts";
import type { Registry } from "../src/rule/registry.ts";

/** The namespace of all leases. */
export const namespace = "orders";

/** Small limits, ms, so that windows pass and quarantines end during the run. */
export const limits = { maxWindow: 1500, maxClockSkew: 1000 };

/** A process that holders depend on. */
export interface Server {
  /** The process IDs of the server. A database has a process for each connection. */
  pids(): readonly number[];
  kill(): Promise<void>;
  /** Asks the server to end, and waits until it has ended. */
  end(): Promise<void>;
  /** Starts the server again, with the data that it had saved. */
  start(): Promise<void>;
  readonly clock?: WallClock | undefined;
}

/** A way in which an operator puts an older copy of a store in its place. */
export interface Restore {
  readonly how: string;
  /** Takes a copy. Resolves to a function that puts it back. */
  copy(): Promise<PutBack>;
}

/** Puts a copy back. It calls `placed` when the older copy is in its place. The store may still have to start then. */
export type PutBack = (placed: () => void) => Promise<void>;

/** A registry, with everything that can be done to it. */
export interface Scene {
  /** The URL for this holder. Each holder has its own way to the registry. */
  url(holder: number): string;
  /** The networks. The first ones are between a holder and the registry, one for each holder, if there are any. */
  readonly links: readonly (readonly FaultProxy[])[];
  /**
   * For each holder, proxies that can keep a write until an older copy has taken the store's place. Undefined if they cannot recognize
   * writes.
   */
  readonly late?: readonly (readonly LateProxy[])[] | undefined;
  readonly servers: readonly Server[];
  /** Cuts one server off from the others. */
  readonly cut?: { isolate(): void; rejoin(): void } | undefined;
  /** Puts another server in the primary's place. Resolves to false if that is not possible at the moment. */
  failOver?(): Promise<boolean>;
  /** The ways to put the store back to an older copy. */
  readonly restores: readonly Restore[];
  /** Whether a restart, or another primary, begins a quarantine. */
  readonly doubtsRestarts: boolean;
  /** Mean time between faults of servers, ms. */
  readonly serverEvery: number;
  /** How far the registry's own clock may have been ahead of the time, ms. */
  readonly ahead: number;
  /** A client that bypasses all networks, to look at what is left after the run. */
  readonly registry: Registry;
  /** Whether the IDs can be compared with the registry's history: it forgets nothing that it acknowledged. */
  readonly remembers: boolean;
  /** How many of the last claims of a worker ID the registry keeps; undefined if it keeps all. */
  readonly keptClaims?: number;
  remove(): Promise<void>;
}
