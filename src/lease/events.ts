import type { SnowleaseError } from "../id/errors.ts";
import type { ClaimedWindow, LossReason } from "../rule/registry.ts";

/** The events of a lease, with their payloads. Times are Unix ms, amounts ms. */
export interface LeaseEvents {
  /** A worker ID was claimed. `rollback`: how far this host's clock is behind the last one that the registry saw of it. */
  acquired: LeaseFacts & { readonly rollback?: number | undefined; readonly continued: boolean };
  /** The window was extended. */
  renewed: LeaseFacts;
  /** A renewal failed or was refused for now; the lease lasts until `until`. */
  "renew-failed": LeaseFacts & { readonly error: SnowleaseError };
  /** The claim is over. `doubt`: other IDs with timestamps of this span may be equal to IDs of this lease, Unix ms. */
  lost: LeaseFacts & {
    readonly error: SnowleaseError;
    readonly reason: LossReason;
    readonly doubt?: { readonly from: number; readonly until: number } | undefined;
  };
  /** Another worker ID replaces a lost or abandoned one. */
  switched: LeaseFacts & { readonly previousWorkerId: number };
  /** The worker ID was released. `clean`: the registry knows its usage to the tick. */
  released: LeaseFacts & { readonly clean: boolean };
  /** The wall clock shows a time before the newest ID. `action`: the generator's reaction. */
  "clock.rollback": {
    readonly behind: number;
    readonly action: "continue" | "count" | "wait" | "tell" | "switch" | "stop";
  };
  /** The wall clock jumped by `by` ms against the monotonic one. */
  "clock.jump": { readonly by: number };
  /**
   * The programs among which the worker IDs are unique, as one sentence: see `Registry.scope`. Each listener gets it once, if the registry
   * knows it.
   */
  scope: { readonly text: string };
  /** The registry may have forgotten writes and grants nothing until the quarantine ends. */
  quarantine: { readonly error: SnowleaseError };
}

/** The lease of an event, without its token. */
export interface LeaseFacts extends ClaimedWindow {
  readonly namespace: string;
}

type LeaseListener<Payload> = (payload: Payload) => void;

/**
 * A typed event emitter. Each listener runs in its own microtask, when the step that caused the event is complete: so it may make an ID or
 * close the lease. An error of a listener is uncaught; the other listeners still run.
 */
export class Emitter<Events extends object> {
  readonly #listeners = new Map<keyof Events, Set<LeaseListener<never>>>();

  /** Returns the function that removes the listener. */
  on<Name extends keyof Events>(name: Name, listener: LeaseListener<Events[Name]>): () => void {
    const set = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, set.add(listener));
    return () => set.delete(listener);
  }

  emit<Name extends keyof Events>(name: Name, payload: Events[Name]): void {
    for (const listener of this.#listeners.get(name) ?? []) {
      queueMicrotask(() => (listener as LeaseListener<Events[Name]>)(payload));
    }
  }
}
