import type { Lease, LeaseSnapshot } from "../../../src/lease/lease.ts";
import { Snowflake } from "../../../src/generator/snowflake.ts";
import type { Variant } from "../variant.ts";
import { type Broken, outside, twice } from "./distort.ts";

/** After a switch, uses the new worker ID with the window of the old one. */
const keepsWindow: Variant = {
  traits: { unsteady: true, forgets: false, lends: false, leads: true },
  kind: {
    leads: true,
    hold(lease) {
      const snowflake = new Snowflake(withFirstWindow(lease), { mode: "lead" });
      return { emit: () => snowflake.next(), close: () => snowflake.close() };
    },
  },
};

function withFirstWindow(lease: Lease): Lease {
  const { snapshot: first } = lease;
  const mixed = (snapshot: LeaseSnapshot | undefined): LeaseSnapshot | undefined =>
    snapshot && first && { ...snapshot, from: first.from, knownFrom: first.knownFrom };
  return new Proxy(lease, {
    get(target, name) {
      if (name === "snapshot") return mixed(target.snapshot);
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** A store that attributes a give-back to the present holder of the worker ID: a late give-back ends the next claim. */
function takenForTheNext(): Variant {
  const holders = new Map<number, { fence: number; token: string; from: number }>();
  return {
    traits: { unsteady: true, forgets: false, lends: false },
    view: (store) => ({
      ...store,
      async claim(request) {
        const answer = await store.claim(request);
        if (answer.outcome !== "granted") return answer;
        const { workerId, fence, from } = answer;
        holders.set(workerId, { fence, token: request.token, from });
        return answer;
      },
      renew: ({ checkpoint: _, ...request }) => store.renew(request),
      release(request) {
        const { from, ...key } = holders.get(request.workerId) ?? { from: 0 };
        const { used } = request;
        return store.release({ ...request, ...key, used: used && { until: Math.max(from, used.until) } });
      },
    }),
  };
}

export const brokenSwitches: readonly Broken[] = [
  { name: "keeps the old window after a switch", variant: () => keepsWindow, found: [outside] },
  { name: "a late give-back ends the next claim", variant: takenForTheNext, found: [twice], near: 1713 },
];
