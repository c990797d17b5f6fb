import type { Grant, ReleaseRequest, Usage } from "../../../src/rule/registry.ts";
import type { Leasing } from "../store.ts";
import type { Variant } from "../variant.ts";

/** A way to break the rule, and the violations that it must lead to. */
export interface Broken {
  readonly name: string;
  readonly variant: () => Variant;
  /** Each of these must be found. */
  readonly found: readonly RegExp[];
  /**
   * Where it is found out by few histories: the seed of one. The search begins there, so that it takes no minute; where a change of the
   * simulation moves it, the search goes on. Default: the first one.
   */
  readonly near?: number;
}

export const twice = /^ID \d+ was made by holder \d+ and again/;
export const outside = /^ID \d+ was made by holder \d+ outside/;
export const overlap = /^Windows of worker/;
export const refused = /Expected `(?:recentFrom|until)`|Expected the checkpoint/;

/** Gives holders other grants, and the store other releases, than the real ones. */
export function distorting(
  grant: (grant: Grant) => Grant,
  used: (used: Usage, request: ReleaseRequest) => Usage,
): (store: Leasing) => Leasing {
  return (store) => ({
    ...store,
    async claim(request) {
      const answer = await store.claim(request);
      return answer.outcome === "granted" ? grant(answer) : answer;
    },
    release: (request) =>
      store.release(request.used === undefined ? request : { ...request, used: used(request.used, request) }),
  });
}

export const asGranted = (grant: Grant): Grant => grant;
export const asUsed = (used: Usage): Usage => used;

/** Runs a kind of holder that knows where its granted windows really begin. */
export function knowingBegin(
  grant: (grant: Grant) => Grant,
  used: (used: Usage, begin: number, request: ReleaseRequest) => Usage,
): Variant {
  const begins = new Map<string, number>();
  return {
    view: distorting(
      (granted) => {
        begins.set(`${granted.workerId}/${granted.fence}`, granted.from);
        return grant(granted);
      },
      (usage, request) => used(usage, begins.get(`${request.workerId}/${request.fence}`) ?? 0, request),
    ),
  };
}

/** Runs a kind of holder that reports its progress only at its end: with earlier reports, the store could notice the fault. */
export function inSilence(variant: Variant): Variant {
  return {
    ...variant,
    view: (store) => ({
      ...(variant.view?.(store) ?? store),
      renew: ({ checkpoint: _, ...request }) => store.renew(request),
    }),
  };
}
