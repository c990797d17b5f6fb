import { type Clock, systemClock } from "../../lease/clock.ts";
import type { Era } from "../../rule/era.ts";
import type { Registry } from "../../rule/registry.ts";
import { operationsInOneStep } from "../in-one-step/registry.ts";
import type { StepWork } from "../in-one-step/store.ts";
import { MemoryNamespace } from "./namespace.ts";

const durability = "Nothing survives this process: for tests, and for handing a lease on inside one process.";

/** A registry in this process's memory. Each operation is one synchronous step, so it is atomic by itself. */
export function memoryRegistry({ clock = systemClock }: { readonly clock?: Clock } = {}): Registry {
  const namespaces = new Map<string, MemoryNamespace>();
  /** By the names of namespaces that do not exist. */
  const noted = new Map<string, Era>();

  async function step<Answer>(work: StepWork<Answer>): Promise<Answer> {
    let created: (() => void) | undefined;
    const answer = work({
      now: clock.now(),
      waited: 0,
      find: (namespace) => namespaces.get(namespace),
      noted: (namespace) => noted.get(namespace),
      note: (namespace, era) => void noted.set(namespace, era),
      create(namespace, made) {
        const space = new MemoryNamespace(made);
        created = () => {
          namespaces.set(namespace, space);
          noted.delete(namespace);
        };
        return space;
      },
      remove: (namespace) => void namespaces.delete(namespace),
    });
    // Not before the work has made its checks.
    created?.();
    return answer;
  }

  // Several pins at once are no faster here than one by one.
  const {
    pinAll: _,
    unpinAll: __,
    ...operations
  } = operationsInOneStep({ title: "The registry in memory", read: step, write: step });
  return {
    kind: "memory",
    ...operations,
    scope: async () => "the generators of this process",
    ping: async () => ({ clock: clock.now(), durability, lossy: true }),
    close: async () => undefined,
  };
}
