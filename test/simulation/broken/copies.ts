import type { Registry } from "../../../src/rule/registry.ts";
import type { Variant } from "../variant.ts";
import { rules, type Rules } from "../store.ts";
import { type Broken, twice } from "./distort.ts";

/*
 * Stores and holders that each break one part of the rule for copied processes.
 */

function copied(broken: Partial<Rules>): Variant {
  return {
    traits: { forgets: true, copies: true, lends: false, goesBack: false, unsteady: false, leads: true },
    rules: { ...rules, ...broken },
  };
}

const turnIgnored = copied({
  decideRenewal: (state, before, request, mark) =>
    rules.decideRenewal(state, before && { ...before, turn: undefined }, request, mark),
});

/** Takes the give-back of a copy whose turn has passed for that of the other one. */
const giveBackOfCopy = copied({
  decideRelease: (state, before, request, mark) =>
    rules.decideRelease(state, before && { ...before, turn: undefined }, request, mark),
});

/** Grants the window of a claim once more, although its holder has renewed it. */
const claimRepeated = copied({
  decideClaim(view, request, state) {
    const byToken: typeof view.byToken = (token) => {
      const record = view.byToken(token);
      return record && { ...record, turn: undefined };
    };
    const others = ["byId", "firstUnused", "oldest", "oldestOfHost", "pinnedFor", "newestOfHost"] as const;
    const bound = Object.fromEntries(others.map((name) => [name, (view[name] as () => unknown).bind(view)]));
    return rules.decideClaim({ ...view, ...bound, byToken }, request, state);
  },
});

/** Draws another turn for each try of a renewal, and names none of the sent ones. */
function redrawn(registry: Registry): Registry {
  let [turn, drawn]: [string | undefined, number] = [undefined, 0];
  return {
    ...registry,
    async renew(request) {
      const nextTurn = `${request.token.slice(0, 16)}${(++drawn).toString(16).padStart(16, "0")}`;
      const answer = await registry.renew({ ...request, turn, nextTurn, sentTurns: [] });
      if (answer.outcome !== "renewed") return answer;
      turn = answer.turn;
      return { ...answer, turn: request.nextTurn };
    },
    async claim(request) {
      turn = undefined;
      return registry.claim(request);
    },
    release: (request) => registry.release({ ...request, turn, nextTurn: undefined }),
  };
}

/** Keeps a turn until it is answered, even after its window has passed. */
function kept(registry: Registry): Registry {
  let pending: string | undefined;
  return {
    ...registry,
    async renew(request) {
      pending ??= request.nextTurn;
      const sent = pending;
      const answer = await registry.renew({ ...request, nextTurn: sent, sentTurns: [] });
      if (answer.outcome !== "renewed") return answer;
      pending = undefined;
      return { ...answer, turn: request.nextTurn };
    },
    async claim(request) {
      pending = undefined;
      return registry.claim(request);
    },
  };
}

export const brokenCopies: readonly Broken[] = [
  { name: "turns ignored", variant: () => turnIgnored, found: [twice], near: 4895 },
  { name: "the give-back of a copy taken as clean", variant: () => giveBackOfCopy, found: [twice], near: 4895 },
  {
    name: "a claim repeated after its renewal",
    variant: () => claimRepeated,
    found: [/^A claim of worker \d+ was repeated/],
  },
  {
    name: "a turn drawn anew after a lost answer, and the ones before not named",
    variant: () => ({ traits: { forgets: false, lends: false }, holding: redrawn }),
    found: [/hears that it was cloned/],
  },
  {
    name: "a turn kept after its window has passed",
    variant: () => ({ traits: { copies: true, lends: false, forgets: false, unsteady: false }, holding: kept }),
    found: [twice],
    near: 8093,
  },
];
