import type { SnowleaseError } from "../id/errors.ts";

/** What a lease tells about its life: event name -> what comes with it. Times are Unix ms, amounts ms. */
export interface LeaseEvents {
  /** A worker ID was claimed; `rollback`: how far this host's clock is behind what the registry saw of it before. */
  acquired: LeaseFacts & { readonly rollback?: number | undefined; readonly continued: boolean };
  /** The window was extended. */
  renewed: LeaseFacts;
  /** A renewal got no answer or was refused for now; the lease goes on until `until`. */
  "renew-failed": LeaseFacts & { readonly error: SnowleaseError };
  /** The registry says that the worker ID is no longer ours. */
  lost: LeaseFacts & { readonly error: SnowleaseError };
  /** Another worker ID took the place of a lost or abandoned one. */
  switched: LeaseFacts & { readonly previousWorkerId: number };
  /** The worker ID was given back. `clean`: the registry knows to the tick what was used. */
  released: LeaseFacts & { readonly clean: boolean };
  /** The wall clock shows less than IDs already carry; `action` is the rung of the ladder that was taken. */
  "clock.rollback": {
    readonly behind: number;
    readonly action: "continue" | "count" | "wait" | "tell" | "switch" | "stop";
  };
  /** The wall clock was stepped by `by` ms against the monotonic one. */
  "clock.jump": { readonly by: number };
  /** The registry may have forgotten something and grants nothing for a while. */
  quarantine: { readonly error: SnowleaseError };
}

/** The identity of a lease in its events; never its token. */
export interface LeaseFacts {
  readonly namespace: string;
  readonly workerId: number;
  readonly fence: number;
  readonly from: number;
  readonly until: number;
}

type Listener<Payload> = (payload: Payload) => void;

/**
 * A small typed event emitter. Listeners run in a microtask of their own, after the step that the event tells of: one that makes
 * an ID or closes the lease must not find it half done. One that throws is an uncaught error; the others still run.
 */
export class Emitter<Events extends object> {
  readonly #listeners = new Map<keyof Events, Set<Listener<never>>>();

  /** Adds a listener and returns the function that takes it away again. */
  on<Name extends keyof Events>(name: Name, listener: Listener<Events[Name]>): () => void {
    const set = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, set.add(listener));
    return () => set.delete(listener);
  }

  /** Tells every listener of this event, soon. */
  emit<Name extends keyof Events>(name: Name, payload: Events[Name]): void {
    for (const listener of this.#listeners.get(name) ?? []) {
      queueMicrotask(() => (listener as Listener<Events[Name]>)(payload));
    }
  }
}
