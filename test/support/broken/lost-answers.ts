import type { LossyStore } from "../../../src/conformance.ts";
import type { Registry } from "../../../src/rule/registry.ts";
import type { Fault } from "./fault.ts";

/** The client repeats a request as it was, except for the changes here. */
interface Again {
  readonly claim?: Registry["claim"];
  readonly renew?: Registry["renew"];
  readonly release?: Registry["release"];
}

/** A client that sends a request again if its answer was lost. */
function repeating(registry: Registry, again: Again = {}): LossyStore {
  let kept: (() => void) | undefined;
  let lose = (): void => undefined;
  const lost = new Promise<void>((resolve) => (lose = resolve));
  const twice =
    <Request extends readonly unknown[], Answer>(
      ask: (...request: Request) => Promise<Answer>,
      repeat: (...request: Request) => Promise<Answer> = ask,
    ) =>
    async (...request: Request): Promise<Answer> => {
      const answer = await ask(...request);
      if (kept === undefined) return answer;
      kept();
      await lost;
      return repeat(...request);
    };
  return {
    registry: {
      ...registry,
      claim: twice(registry.claim, again.claim),
      renew: twice(registry.renew, again.renew),
      release: twice(registry.release, again.release),
      forceRelease: twice(registry.forceRelease),
      unpin: twice(registry.unpin),
    },
    keepAnswer: () => new Promise((resolve) => (kept = resolve)),
    lose: () => lose(),
  };
}

/** Mistakes in what becomes of a request whose answer was lost. */
export const lostAnswerFaults: readonly Fault[] = [
  {
    fault: "repeats what an operator asked for, whatever happened since",
    rejectedBy: [
      "a forced release that names no claim whose answer is lost ends no claim that was made since",
      "an unpin whose answer is lost takes no pin away that was made since",
    ],
    wrap: () => ({}),
    lossy: (registry) => repeating(registry),
  },
  {
    fault: "takes a claim that it sends again for another one",
    rejectedBy: ["a claim whose answer is lost is granted once"],
    wrap: () => ({}),
    lossy: (registry) =>
      repeating(registry, {
        claim: ({ workerId: _, ...request }) => registry.claim({ ...request, token: `${request.token}again` }),
      }),
  },
  {
    fault: "takes a renewal that it sends again for another process's",
    rejectedBy: ["a renewal whose answer is lost is no other process's"],
    wrap: () => ({}),
    lossy: (registry) =>
      repeating(registry, { renew: (request) => registry.renew({ ...request, nextTurn: "another" }) }),
  },
  {
    fault: "gives back whatever has the worker ID when a give-back is sent again",
    rejectedBy: ["a give-back whose answer is lost ends no claim that was made since"],
    wrap: () => ({}),
    lossy: (registry) =>
      repeating(registry, {
        async release({ namespace, workerId }) {
          await registry.forceRelease({ namespace, workerId, force: true });
          return { outcome: "released" };
        },
      }),
  },
];
