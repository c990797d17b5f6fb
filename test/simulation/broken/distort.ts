import type { Grant, ReleaseRequest, Usage } from "../../../src/rule/registry.ts";
import type { Leasing } from "../store.ts";
import type { Variant } from "../variant.ts";

/** A way to break the rule, and what it has to be convicted of. */
export interface Broken {
  readonly name: string;
  readonly variant: () => Variant;
  /** What has to be found, each. */
  readonly found: readonly RegExp[];
}

export const twice = /^ID \d+ was made by holder \d+ and again/;
export const outside = /^ID \d+ was made by holder \d+ outside/;
export const overlap = /^Windows of worker/;
export const refused = /Expected `(?:recentFrom|until)`|Expected the checkpoint/;

/** Lets a holder see grants, and the store its releases, otherwise than they are. */
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

/** Runs a kind of holder that knows where the windows it was granted really begin. */
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

/** Runs a kind of holder that tells only at its end how far it has come: the store could see through it before. */
export function inSilence(variant: Variant): Variant {
  return {
    ...variant,
    view: (store) => ({
      ...(variant.view?.(store) ?? store),
      renew: ({ checkpoint: _, ...request }) => store.renew(request),
    }),
  };
}
