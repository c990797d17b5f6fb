import { type Clock, systemClock } from "../../clock.ts";
import type { Registry } from "../../rule/registry.ts";
import { inOneStep } from "../engine/in-one-step.ts";
import { MemoryNamespace } from "./namespace.ts";

const durability = "Nothing survives this process: for tests, and for handing a lease on inside one process.";

/** A registry in this process's memory. Each operation is one synchronous step, so it is atomic by itself. */
export function memoryRegistry({ clock = systemClock }: { readonly clock?: Clock } = {}): Registry {
  const namespaces = new Map<string, MemoryNamespace>();
  const under = (name: string): MemoryNamespace => namespaces.get(name) ?? new MemoryNamespace({});

  return inOneStep({
    kind: "memory",
    title: "The registry in memory",

    async atomically(namespace, _, work) {
      const space = under(namespace);
      space.clock = clock.now();
      return work({
        waited: 0,
        view: space,
        commit(changes) {
          const { becomes } = changes;
          const isGone = becomes !== undefined && becomes.made === undefined;
          const kept = isGone ? new MemoryNamespace(becomes) : space;
          kept.commit(changes);
          namespaces.set(namespace, kept);
        },
      });
    },

    prune: async (namespace, before) => under(namespace).prune(before),
    scope: async () => "the generators of this process",
    ping: async () => ({ clock: clock.now(), durability, lossy: true }),
    close: async () => undefined,
  });
}
