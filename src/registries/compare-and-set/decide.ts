import type { NamespaceState } from "../../rule/era.ts";
import { claimSteps, type Decision, type PoolView } from "../../rule/pool.ts";
import type { ClaimRequest } from "../../rule/registry.ts";
import { answeredReads, askAll, type StoreReader } from "../engine/optimistic.ts";

/** The reads of a claim, in a store behind a network. */
export type ClaimReader = Pick<StoreReader, keyof PoolView>;

/** Decides a claim as `decideClaim` does, and reads what the decision asks for batch by batch. */
export async function decideByBatches(
  reader: ClaimReader,
  request: ClaimRequest,
  state: NamespaceState,
): Promise<Decision> {
  const answers = new Map<string, unknown>();
  const view = answeredReads(answers);
  const steps = claimSteps(request, state);
  let step = steps.next();
  while (step.done !== true) {
    const batch = step.value;
    const found = await askAll(reader, batch);
    for (const [i, asked] of batch.entries()) answers.set(JSON.stringify(asked), found[i]);
    step = steps.next(view);
  }
  return step.value;
}
