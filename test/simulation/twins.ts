import { SnowleaseError } from "../../src/id/errors.ts";
import type { Registry } from "../../src/rule/registry.ts";
import type { Machine, World } from "./world.ts";

type Method = "claim" | "renew" | "release";

/**
 * A process that will be copied, and its copy: until they part, the copy gets all answers to the process, and
 * sends nothing. So it has the same state at any moment, whatever the state consists of.
 */
export class Twins {
  readonly #world: World;
  readonly #calls: Promise<unknown>[] = [];
  /** The copy waits for these: a call that the process has not made yet, or one without an answer. */
  readonly #waiting = new Set<() => void>();
  #seconds = 0;
  #areParted = false;

  constructor(world: World) {
    this.#world = world;
  }

  first(registry: Registry): Registry {
    return this.#each(registry, (method, request) => {
      const call = this.#call(registry, method, request);
      if (!this.#areParted) {
        this.#calls.push(call);
        call.catch(() => undefined);
      }
      return call;
    });
  }

  second(own: Registry): Registry {
    return this.#each(own, (method, request) => {
      const call = this.#areParted ? undefined : this.#calls[this.#seconds++];
      if (this.#areParted) return this.#call(own, method, request);
      if (call === undefined) throw new Error("The second of two twins asked before the first.");
      return new Promise((resolve, reject) => {
        // Connections are not copied.
        const part = (): void =>
          reject(new SnowleaseError("REGISTRY_UNAVAILABLE", "No connection in this simulation."));
        this.#waiting.add(part);
        call.finally(() => this.#waiting.delete(part)).then(resolve, reject);
      });
    });
  }

  part(second: Machine): void {
    this.#areParted = true;
    for (const part of this.#waiting) this.#world.later(second, part);
    this.#waiting.clear();
  }

  #call(registry: Registry, method: Method, request: never): Promise<unknown> {
    return (registry[method] as (request: never) => Promise<unknown>)(request);
  }

  #each(registry: Registry, call: (method: Method, request: never) => Promise<unknown>): Registry {
    const methods = (["claim", "renew", "release"] as const).map((method) => [
      method,
      (request: never) => call(method, request),
    ]);
    return { ...registry, ...Object.fromEntries(methods) } as Registry;
  }
}
