import { configInvalid } from "../id/errors.ts";
import { type OperationName, requiredOperations, wrapRegistry } from "../registries/wrap.ts";
import { isTrialName } from "../rule/drop.ts";
import type { Registry } from "../rule/registry.ts";

/** All operations on a namespace. */
const operations: readonly OperationName[] = [
  ...requiredOperations.filter((name) => name !== "ping"),
  "takeBlocks",
  "pinAll",
  "unpinAll",
  "receiptKey",
  "endQuarantine",
  "separate",
  "dropNamespace",
  "rehearse",
];

/** What a proof did to a store. */
export interface ProofTrail {
  /** Calls of registries. */
  calls: number;
  /** Namespaces that may exist. */
  readonly namespaces: Set<string>;
  /** Once true, no registry of this trail does anything but drop namespaces. */
  hasEnded: boolean;
}

/** The same registry, which touches the namespaces of trials alone, and notes them. */
export function guarded(registry: Registry, trail: ProofTrail): Registry {
  // What is about the whole store is no business of a proof.
  const { acceptClock: _, verify: __, namespaces: ___, ...others } = registry;
  const counted = wrapRegistry({ ...others }, ["ping"], (_, run) => {
    trail.calls++;
    return run();
  });
  return wrapRegistry<Registry, OperationName>(counted, operations, async ({ method, args: [argument] }, run) => {
    const namespace = typeof argument === "string" ? argument : (argument as { readonly namespace: string }).namespace;
    if (!isTrialName(namespace)) {
      throw configInvalid(`Expected the namespace of a trial, got \`${namespace}\`: a proof touches no other one.`);
    }
    if (method !== "dropNamespace") {
      if (trail.hasEnded) throw configInvalid("This proof has ended: it makes no more calls.");
      trail.namespaces.add(namespace);
    }
    return count(run);
  });

  function count(run: () => Promise<unknown>): Promise<unknown> {
    trail.calls++;
    return run();
  }
}
