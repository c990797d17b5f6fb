import type { Lease, LeaseSnapshot } from "../../../src/lease/lease.ts";
import type { Grant } from "../../../src/rule/registry.ts";
import { Snowflake } from "../../../src/generator/snowflake.ts";
import type { Variant } from "../variant.ts";
import {
  asGranted,
  asUsed,
  type Broken,
  distorting,
  inSilence,
  knowingBegin,
  outside,
  refused,
  twice,
} from "./distort.ts";

/*
 * Holders that each break one part of the rule, as plausible mistakes would. The simulation has to find all of them.
 */

/** Gives back only its own usage: the next holder makes inherited IDs again. */
function recentsNotMerged(): Variant {
  const inherited = new Map<number, Grant>();
  const emptied = Uint8Array.of(1);
  return {
    traits: { lends: false, leads: false, forgets: false, unsteady: false },
    view: distorting(
      (grant) => {
        inherited.set(grant.fence * 4 + grant.workerId, grant);
        return grant;
      },
      (used, { fence, workerId }) => {
        const grant = inherited.get(fence * 4 + workerId);
        const silent = used.checkpoint === undefined || used.checkpoint.timestamp < (grant?.from ?? 0);
        return used.recents !== undefined && grant?.recents !== undefined && silent
          ? { ...used, recents: { from: used.recents.from, bytes: emptied } }
          : used;
      },
    ),
  };
}

/** Reports ticks that an earlier holder used as unused. The registry knows better, and refuses. */
const recentsReachBelow: Variant = {
  view: distorting(asGranted, (used) =>
    used.recents === undefined ? used : { ...used, recents: { ...used.recents, from: used.recents.from - 3000 } },
  ),
};

/** Believes that its inherited recents are empty, so that it makes those IDs again. */
const recentsIgnored: Variant = {
  view: distorting(
    (grant) =>
      grant.recents === undefined
        ? grant
        : { ...grant, recents: { from: grant.recents.from, bytes: Uint8Array.of(1) } },
    asUsed,
  ),
};

/** Goes on with the window that it has just given back. */
const goesOnAfterRelease: Variant = {
  kind: {
    hold(lease) {
      let snowflake = new Snowflake(lease);
      return {
        emit: () => snowflake.next(),
        close() {
          const { snapshot } = lease;
          const closing = snowflake.close();
          if (snapshot !== undefined) snowflake = new Snowflake(frozen(lease, snapshot));
          return closing;
        },
      };
    },
  },
};

/** A lease that never learns of its end. */
function frozen(lease: Lease, snapshot: LeaseSnapshot): Lease {
  const { clock, layout, namespace } = lease;
  const { workerId, from, until } = snapshot;
  const ghost = { clock, layout, namespace, workerId, from, until, snapshot, state: "held" };
  return { ...ghost, attach() {}, noteRollback() {}, look() {}, close: async () => {} } as unknown as Lease;
}

/** Ignores the end of its window: so does every other system that trusts a lease, a pid or a heartbeat. */
const windowNotChecked: Variant = {
  view: (store) => ({
    ...store,
    async claim(request) {
      const answer = await store.claim(request);
      return answer.outcome === "granted" ? { ...answer, until: answer.until + 1e9 } : answer;
    },
    release: ({ used: _, ...request }) => store.release(request),
  }),
};

/** Ignores the begin of its window, and reports so little of its usage that the store cannot notice. */
const beginNotChecked = (): Variant =>
  knowingBegin(
    ({ recents: _, ...grant }) => ({ ...grant, from: grant.from - 20_000 }),
    ({ until }, begin) => ({ until: Math.max(begin, until) }),
  );

/** Gives back a window that ends before its last used tick, which it had reported. The store notices. */
const lastTickForgotten = (): Variant =>
  knowingBegin(asGranted, ({ checkpoint }, begin) => ({
    until: Math.max(begin, checkpoint?.timestamp ?? begin),
    checkpoint,
  }));

/** The same by a holder that never reports its progress. */
const lastTickForgottenInSilence = (): Variant =>
  inSilence(
    knowingBegin(asGranted, ({ checkpoint }, begin) => ({ until: Math.max(begin, checkpoint?.timestamp ?? begin) })),
  );

export const brokenHolders: readonly Broken[] = [
  { name: "recents not merged", variant: recentsNotMerged, found: [twice], near: 3066 },
  { name: "recents reaching below recentFrom", variant: () => recentsReachBelow, found: [refused] },
  { name: "inherited recents ignored", variant: () => recentsIgnored, found: [twice] },
  { name: "goes on after release", variant: () => goesOnAfterRelease, found: [twice, outside] },
  { name: "end of the window not checked", variant: () => windowNotChecked, found: [twice, outside] },
  { name: "beginning of the window not checked", variant: beginNotChecked, found: [twice, outside] },
  { name: "last tick forgotten, though told", variant: lastTickForgotten, found: [refused] },
  { name: "last tick forgotten in silence", variant: lastTickForgottenInSilence, found: [twice] },
];
