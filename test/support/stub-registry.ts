import { systemClock } from "../../src/clock.ts";
import { SnowleaseError } from "../../src/id/errors.ts";
import { type Attempt, optimistic } from "../../src/registries/engine/optimistic.ts";
import type { Registry } from "../../src/rule/registry.ts";

/** A registry in a store that a test writes: how it reads, and what it does with changes. `hasOthers`: its views know other programs. */
export function stubRegistry(attempt: Attempt, { hasOthers = false }: { readonly hasOthers?: boolean } = {}): Registry {
  return optimistic({
    kind: "stub",
    title: "The stub",
    clock: systemClock,
    operationTimeout: 20_000,
    pinsTogether: true,
    hasOthers,
    silent: (lost) => new SnowleaseError("REGISTRY_UNAVAILABLE", lost.message),
    ping: async () => ({ clock: 1000, durability: "" }),
    prune: async () => ({ pruned: 0, isDone: true }),
    close: async () => undefined,
    attempt: (_namespace, _how, work) => work(attempt),
  });
}
