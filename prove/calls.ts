import type { Fact } from "./log.ts";
import type { Asked, Call } from "./sequential.ts";

/** What is answered within so many ms was sent once: no registry sends anything again so soon. */
const soonest = 10;
/** A claim is granted twice only where the first window has passed meanwhile: not within this part of it. */
const claimShare = 0.5;
/** A call that was never answered may have waited for so long before it was done, ms: several operation timeouts. */
const longestWait = 5000;

/** The calls of a life that may have had an effect. */
export function readCalls(caller: string, facts: readonly Fact[]): readonly Call[] {
  const answers = new Map(
    facts.flatMap(({ answered, time = 0 }) => (answered ? [[answered.number, { ...answered, time }]] : [])),
  );
  return facts.flatMap(({ call, time: asked = 0 }): readonly Call[] => {
    if (call === undefined) return [];
    const { number, method, request } = call;
    const { answer, error, time: answered = Infinity } = answers.get(number) ?? {};
    // Any other error says that nothing was changed.
    if (error !== undefined && error !== "REGISTRY_UNAVAILABLE") return [];
    const what = { method, request, answer } as Asked;
    if (answer === undefined) {
      return [{ ...what, caller, asked, answered: Infinity, waited: longestWait, repeated: "ever" }];
    }
    const took = answered - asked;
    const least = what.method === "claim" ? claimShare * what.request.window : soonest;
    const repeated = took < least ? undefined : "until its answer";
    return [{ ...what, caller, asked, answered, waited: Math.ceil(took), repeated }];
  });
}
