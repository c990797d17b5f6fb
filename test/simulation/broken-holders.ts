import type { Lease, Tenure } from "../../src/core/lease.ts";
import type { Grant, Registry, ReleaseRequest, Usage } from "../../src/core/registry.ts";
import { Ring } from "../../src/core/ring.ts";
import { Snowflake } from "../../src/core/snowflake.ts";
import { type HolderKind, leading } from "./history.ts";

/*
 * Holders that break the rule in one way each, as plausible mistakes would. The simulation has to find every one of them.
 */

/** Lets a holder see grants, and the registry its releases, otherwise than they are. */
function distorting(
  grant: (grant: Grant) => Grant,
  used: (used: Usage, request: ReleaseRequest) => Usage,
): (registry: Registry) => Registry {
  return (registry) => ({
    ...registry,
    async claim(request) {
      const answer = await registry.claim(request);
      return answer.outcome === "granted" ? grant(answer) : answer;
    },
    release: (request) =>
      registry.release(request.used === undefined ? request : { ...request, used: used(request.used, request) }),
  });
}

const asGranted = (grant: Grant): Grant => grant;
const asUsed = (used: Usage): Usage => used;

/** Gives back only what it used itself: what it inherited is forgotten, and made again by the next one. */
function recentsNotMerged(): HolderKind {
  const inherited = new Map<number, Grant>();
  const emptied = Uint8Array.of(1);
  return {
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

/** Says of ticks that another holder used that nobody did. The registry knows better, and refuses. */
const recentsReachBelow: HolderKind = {
  view: distorting(asGranted, (used) =>
    used.recents === undefined ? used : { ...used, recents: { ...used.recents, from: used.recents.from - 3000 } },
  ),
};

/** Believes that what it inherited lists nothing, so that it makes those IDs again. */
const recentsIgnored: HolderKind = {
  view: distorting(
    (grant) =>
      grant.recents === undefined
        ? grant
        : { ...grant, recents: { from: grant.recents.from, bytes: Uint8Array.of(1) } },
    asUsed,
  ),
};

/** Goes on with the window that it has just given back. */
const goesOnAfterRelease: HolderKind = {
  make(lease) {
    let snowflake = new Snowflake(lease);
    return {
      emit: () => snowflake.next(),
      close() {
        const { tenure } = lease;
        const closing = snowflake.close();
        if (tenure !== undefined) snowflake = new Snowflake(frozen(lease, tenure));
        return closing;
      },
    };
  },
};

/** A lease that never hears that it has ended. */
function frozen(lease: Lease, tenure: Tenure): Lease {
  const { clock, layout, namespace } = lease;
  const { workerId, from, until } = tenure;
  const ghost = { clock, layout, namespace, workerId, from, until, tenure, state: "held" };
  return { ...ghost, attach() {}, noteRollback() {}, close: async () => {} } as unknown as Lease;
}

/** Does not look at the end of its window: what every peer does that trusts a lease, a pid or a heartbeat. */
const windowNotChecked: HolderKind = {
  view: (registry) => ({
    ...registry,
    async claim(request) {
      const answer = await registry.claim(request);
      return answer.outcome === "granted" ? { ...answer, until: answer.until + 1e9 } : answer;
    },
    release: ({ used: _, ...request }) => registry.release(request),
  }),
};

/** Runs a kind of holder that knows where the windows it was granted really begin. */
function knowingBegin(grant: (grant: Grant) => Grant, used: (used: Usage, begin: number) => Usage): HolderKind {
  const begins = new Map<string, number>();
  return {
    view: distorting(
      (granted) => {
        begins.set(`${granted.workerId}/${granted.fence}`, granted.from);
        return grant(granted);
      },
      (usage, { workerId, fence }) => used(usage, begins.get(`${workerId}/${fence}`) ?? 0),
    ),
  };
}

/** Does not look at the beginning of its window; and says so little of what it used that the registry cannot see it. */
const beginNotChecked = (): HolderKind =>
  knowingBegin(
    ({ recents: _, ...grant }) => ({ ...grant, from: grant.from - 20_000 }),
    ({ until }, begin) => ({ until: Math.max(begin, until) }),
  );

/** Gives back a window that ends before the last tick that it used, which it had told. The registry sees through it. */
const lastTickForgotten = (): HolderKind =>
  knowingBegin(asGranted, ({ checkpoint }, begin) => ({
    until: Math.max(begin, checkpoint?.timestamp ?? begin),
    checkpoint,
  }));

/** The same by a holder that never tells how far it has come. */
function lastTickForgottenInSilence(): HolderKind {
  const { view } = knowingBegin(asGranted, ({ checkpoint }, begin) => ({
    until: Math.max(begin, checkpoint?.timestamp ?? begin),
  }));
  return {
    view: (registry) => ({
      ...(view?.(registry) ?? registry),
      renew: ({ checkpoint: _, ...request }) => registry.renew(request),
    }),
  };
}

/** Leads the clock further than its window reaches, and says the most that the registry believes. */
function leadsPastWindow(): HolderKind {
  const ends = new Map<string, number>();
  const keyOf = ({ workerId, fence }: { workerId: number; fence: number }): string => `${workerId}/${fence}`;
  return {
    make: leading,
    view: (registry) => ({
      ...registry,
      async claim(request) {
        const answer = await registry.claim(request);
        if (answer.outcome !== "granted") return answer;
        ends.set(keyOf(answer), answer.until);
        return { ...answer, until: answer.until + 10_000 };
      },
      async renew({ checkpoint: _, ...request }) {
        const answer = await registry.renew(request);
        if (answer.outcome === "renewed") ends.set(keyOf(request), answer.until);
        return answer;
      },
      release({ used, ...request }) {
        const until = Math.min(used?.until ?? Infinity, ends.get(keyOf(request)) ?? Infinity);
        return registry.release(used === undefined ? request : { ...request, used: { until } });
      },
    }),
  };
}

/** Gives back what was prepared and not emitted, as if it had not been used; and goes on to emit it. */
function preparedGivenBack(): HolderKind {
  const emitted = new Map<string, number>();
  return {
    make(lease) {
      const ring = new Ring(new Snowflake(lease, { mode: "lead" }), { boost: 4 });
      const stock: bigint[] = [];
      return {
        emit() {
          if (stock.length === 0) for (let i = 0; i < 30; i++) stock.push(ring.next());
          const id = stock.shift() as bigint;
          emitted.set(`${lease.workerId}/${lease.fence}`, lease.layout.decompose(id).timestamp + lease.layout.tick);
          return id;
        },
        close: () => ring.close(),
      };
    },
    view: (registry) => ({
      ...registry,
      renew: ({ checkpoint: _, ...request }) => registry.renew(request),
      async release({ used, ...request }) {
        const { workerId, fence } = request;
        const { from = 0 } = (await registry.worker(request.namespace, workerId)) ?? {};
        const until = Math.max(from, emitted.get(`${workerId}/${fence}`) ?? 0);
        return registry.release(used === undefined ? request : { ...request, used: { until } });
      },
    }),
  };
}

const twice = /^ID \d+ was made by/;
const refused = /Expected `(?:recentFrom|until)`|Expected the checkpoint/;

/** Each of them must be found out, and by what it does: by an ID that was made twice, or by a registry that sees through it. */
export const brokenHolders: readonly {
  readonly name: string;
  readonly kind: () => HolderKind;
  readonly found: RegExp;
}[] = [
  { name: "recents not merged", kind: recentsNotMerged, found: twice },
  { name: "recents reaching below recentFrom", kind: () => recentsReachBelow, found: refused },
  { name: "inherited recents ignored", kind: () => recentsIgnored, found: twice },
  { name: "goes on after release", kind: () => goesOnAfterRelease, found: twice },
  { name: "end of the window not checked", kind: () => windowNotChecked, found: twice },
  { name: "beginning of the window not checked", kind: beginNotChecked, found: twice },
  { name: "leads past its window", kind: leadsPastWindow, found: twice },
  { name: "prepared IDs given back", kind: preparedGivenBack, found: twice },
  { name: "last tick forgotten, though told", kind: lastTickForgotten, found: refused },
  { name: "last tick forgotten in silence", kind: lastTickForgottenInSilence, found: twice },
];
