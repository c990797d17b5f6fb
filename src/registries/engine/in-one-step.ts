import { SnowleaseError } from "../../id/errors.ts";
import type { Registry } from "../../rule/registry.ts";
import type { RunOperation, StoreChanges, StoreRest, StoreView } from "./port.ts";
import { registryOf } from "./registry.ts";

/** A store that runs code between reading and writing. */
export interface AtomicStore extends StoreRest {
  /**
   * Runs one step on what stands under a name. Nothing else changes that between the step's reads and its commit, in this process or another
   * one: the code is synchronous, and the store keeps others away, or runs it again where one was faster. Resolves to what the code returned
   * once all of it is durable: what the step changed, and what it read that another step had changed. Where the code throws, or the write
   * fails, nothing has changed for later steps either. `writes`: whether it may change anything; where not, too, it sees each change that
   * was acknowledged.
   */
  atomically<Answer>(namespace: string, writes: boolean, work: (step: AtomicStep) => Answer): Promise<Answer>;
}

/** A store during one step. */
export interface AtomicStep {
  /** How long the operation waited until the step began, ms. */
  readonly waited: number;
  readonly view: StoreView;
  /** Changes what was read; called once at most, behind all reads. */
  commit(changes: StoreChanges): void;
}

/** The registry in such a store: each operation is one step. */
export function inOneStep(store: AtomicStore): Registry {
  const run: RunOperation = async (namespace, kind, begin) => {
    const answer = await store.atomically(namespace, kind !== "read", ({ waited, view, commit }) => {
      const operation = begin({ waited, sent: [] });
      let next = operation.next();
      while (next.done !== true) next = operation.next(view);
      const { answer, changes } = next.value;
      if (changes !== undefined) commit(changes);
      return answer;
    });
    if (answer instanceof SnowleaseError) throw answer;
    return answer;
  };
  return registryOf(store, { run, pinsTogether: true });
}
