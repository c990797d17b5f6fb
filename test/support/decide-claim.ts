import { claimFrom, claimReads, type Decision, type PoolRead, type PoolView } from "../../src/rule/pool.ts";
import type { NamespaceState } from "../../src/rule/era.ts";
import type { ClaimRequest } from "../../src/rule/registry.ts";

/** Decides a claim with one view. `answering`: the view that answers some reads. Default: the same view for all reads. */
export function decideClaim(
  view: PoolView,
  request: ClaimRequest,
  state: NamespaceState,
  answering: (reads: readonly PoolRead[]) => PoolView = () => view,
): Decision {
  const steps = claimFrom(answering(claimReads(request)), request, state);
  let step = steps.next();
  while (step.done !== true) step = steps.next(answering(step.value));
  return step.value;
}
