import type { NamespaceState } from "../../rule/era.ts";
import { claimSteps, type Decision, type PoolView } from "../../rule/pool.ts";
import type { ClaimRequest } from "../../rule/registry.ts";
import { together } from "../together.ts";

/** The reads of a claim, in a store behind a network. What is asked for at the same time fits one round trip. */
export type ClaimReader = {
  readonly [Name in keyof PoolView]: (...input: Parameters<PoolView[Name]>) => Promise<ReturnType<PoolView[Name]>>;
};

/** Decides a claim as `decideClaim` does, and reads what the decision asks for batch by batch. */
export async function decideByBatches(
  reader: ClaimReader,
  request: ClaimRequest,
  state: NamespaceState,
): Promise<Decision> {
  const answers = new Map<string, unknown>();
  const answered =
    <Name extends keyof PoolView>(name: Name) =>
    (...input: Parameters<PoolView[Name]>): ReturnType<PoolView[Name]> => {
      const read = JSON.stringify([name, ...input]);
      // A read that no batch announced must not look like a worker ID without a record.
      if (!answers.has(read)) throw new Error(`the decision about a claim reads ${read}, which it did not announce`);
      return answers.get(read) as ReturnType<PoolView[Name]>;
    };
  const view: PoolView = {
    byToken: answered("byToken"),
    byId: answered("byId"),
    firstUnused: answered("firstUnused"),
    oldest: answered("oldest"),
    oldestOfHost: answered("oldestOfHost"),
    pinnedFor: answered("pinnedFor"),
    newestOfHost: answered("newestOfHost"),
  };
  const steps = claimSteps(request, state);
  let step = steps.next();
  while (step.done !== true) {
    const batch = step.value;
    const read = ([name, ...input]: (typeof batch)[number]): Promise<unknown> =>
      (reader[name] as (...input: readonly unknown[]) => Promise<unknown>).apply(reader, input);
    const found = await together(batch.map(read));
    for (const [i, asked] of batch.entries()) answers.set(JSON.stringify(asked), found[i]);
    step = steps.next(view);
  }
  return step.value;
}
