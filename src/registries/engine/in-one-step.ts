import { SnowleaseError } from "../../id/errors.ts";
import type { Registry } from "../../rule/registry.ts";
import type { RunOperation, StoreChanges, StoreRest, StoreView } from "./port.ts";
import { registryOf } from "./registry.ts";

/** A store that can run code between its reads and its writes. */
export interface AtomicStore extends StoreRest {
  /**
   * Runs one step on the contents of a name. Nothing else, in this process or another one, changes these contents between the step's reads
   * and its commit. The code is synchronous, and the store excludes others, or runs the code again if another step was faster. Resolves to
   * the result of the code once everything is durable: the changes of this step, and the changes of other steps that it read. If the code
   * throws, or the write fails, later steps see no change either. `writes`: whether the step may change anything. A step that only
   * reads also sees each acknowledged change.
   */
  atomically<Answer>(namespace: string, writes: boolean, work: (step: AtomicStep) => Answer): Promise<Answer>;
}

/** A store during one step. */
export interface AtomicStep {
  /** How long the operation waited before the step began, ms. */
  readonly waited: number;
  readonly view: StoreView;
  /** Changes what was read. Called at most once, after all reads. */
  commit(changes: StoreChanges): void;
}

/** The registry in such a store. Each operation is one step. */
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
