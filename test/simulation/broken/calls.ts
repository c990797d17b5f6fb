import type { Renewal } from "../../../src/rule/registry.ts";
import type { Leasing } from "../store.ts";
import type { Variant } from "../variant.ts";
import type { Broken } from "./distort.ts";

/*
 * Registries whose answers do not match what they did: no order of the calls explains them.
 */

const found = [/^There is no order: the calls on worker/];

function answering(view: (store: Leasing) => Partial<Leasing>): Variant {
  return {
    traits: { forgets: false, copies: false, drops: false, lends: false },
    view: (store) => ({ ...store, ...view(store) }),
  };
}

/** Repeats the answer to the previous renewal. */
const stale = (): Variant => {
  let last: Renewal | undefined;
  return answering((store) => ({
    async renew(request) {
      const answer = await store.renew(request);
      const before = last;
      last = answer.outcome === "renewed" ? answer : undefined;
      return answer.outcome === "renewed" && before !== undefined ? { ...before, turn: answer.turn } : answer;
    },
  }));
};

/** Answers each second renewal, without doing it. */
const dropped = (): Variant => {
  let renewals = 0;
  return answering((store) => ({
    async renew(request) {
      const { clock, window, nextTurn: turn, receipt } = request;
      if (renewals++ % 2 === 0) return store.renew(request);
      return { outcome: "renewed", from: 0, until: clock + window, clock, turn, receipt };
    },
  }));
};

/** Ends each claim once more when it is given back: its holder's usage is lost. */
const doubled = answering((store) => ({
  async release(request) {
    const answer = await store.release(request);
    const { namespace, workerId, fence } = request;
    await store.forceRelease({ namespace, workerId, fence, force: true });
    return answer;
  },
}));

/** Answers a release, without doing it. */
const unreleased = answering(() => ({ release: async () => ({ outcome: "released" }) }));

export const brokenCalls: readonly Broken[] = [
  { name: "renewals answered from before", variant: stale, found },
  { name: "renewals answered and not done", variant: dropped, found },
  { name: "releases done twice, once by force", variant: () => doubled, found },
  { name: "releases answered and not done", variant: () => unreleased, found },
];
