import { isSnowleaseError, SnowleaseError } from "../../../src/id/errors.ts";
import { defaultLimits } from "../../../src/rule/limits.ts";
import type { Checkpoint, Recents, RenewRequest, Renewal } from "../../../src/rule/registry.ts";
import { asking, type Fault, granting, keyOf, releasing, showing } from "./fault.ts";

const yes = ({ clock, window }: RenewRequest): Renewal => {
  return { outcome: "renewed", from: clock, until: clock + window, clock };
};

/** Mistakes in renewals, releases, and in the right to continue. */
export const holderFaults: readonly Fault[] = [
  {
    fault: "always says yes to a renewal",
    rejectedBy: [
      "a renewal with a wrong token, fence, worker ID or namespace is `lost`, and changes nothing",
      "a renewal after another holder's claim is `lost`, and changes nothing",
      "a renewal after a release without usage, or a forced one, is `lost`",
      "the windows granted for a worker ID never overlap, after any sequence of requests",
    ],
    wrap: (registry) => ({
      renew: async (request) => {
        const answer = await registry.renew(request);
        return answer.outcome === "lost" ? yes(request) : answer;
      },
    }),
  },
  {
    fault: "accepts a late renewal after a release",
    rejectedBy: ["a renewal after the release is `lost`, and keeps `until` and recents"],
    wrap: (registry) => {
      const ended = new Set<string>();
      return {
        release: async (request) => {
          const answer = await registry.release(request);
          if (answer.outcome === "released") ended.add(keyOf(request));
          return answer;
        },
        renew: async (request) => {
          const answer = await registry.renew(request);
          return answer.outcome === "lost" && ended.has(keyOf(request)) ? yes(request) : answer;
        },
      };
    },
  },
  {
    fault: "renews without storing it",
    rejectedBy: ["a renewal moves `until` to one window after the later clock, and keeps `from`"],
    wrap: (registry) => ({
      renew: async (request) => {
        const record = await registry.worker(request.namespace, request.workerId);
        const answer = await registry.renew({ ...request, window: 1 });
        const until = Math.max(record?.until ?? 0, request.clock + request.window);
        return answer.outcome === "lost" ? answer : { ...answer, until };
      },
    }),
  },
  {
    fault: "lowers `until` at a renewal",
    rejectedBy: ["a renewal never lowers `until`"],
    wrap: (registry) => ({
      renew: async (request) => {
        const answer = await registry.renew(request);
        if (answer.outcome === "lost") return answer;
        return { ...answer, until: Math.max(answer.clock, request.clock) + request.window };
      },
    }),
  },
  {
    fault: "loses renewals that come at once",
    rejectedBy: ["concurrent renewals leave the latest `until` and the highest checkpoint"],
    wrap: (registry) => {
      let running: ReturnType<typeof registry.renew> | undefined;
      return {
        renew: (request) => (running ??= registry.renew(request).finally(() => (running = undefined))),
      };
    },
  },
  {
    fault: "stores the last checkpoint that it hears",
    rejectedBy: ["a checkpoint only rises"],
    wrap: (registry, clock) => {
      const told = new Map<number, Checkpoint>();
      return {
        ...showing(({ workerId, checkpoint }) => ({ checkpoint: told.get(workerId) ?? checkpoint }))(registry, clock),
        renew: (request) => {
          if (request.checkpoint !== undefined) told.set(request.workerId, request.checkpoint);
          return registry.renew(request);
        },
      };
    },
  },
  {
    fault: "takes the window's end for the claim's",
    rejectedBy: [
      "a holder may renew after `until` while no other holder has claimed",
      "a holder whose window has passed may still give its worker ID back",
    ],
    wrap: (registry, clock) => {
      const over = async ({ namespace, workerId }: { namespace: string; workerId: number }): Promise<boolean> => {
        return ((await registry.worker(namespace, workerId))?.until ?? 0) <= clock.now();
      };
      return {
        renew: async (request) => ((await over(request)) ? { outcome: "lost" } : registry.renew(request)),
        release: async (request) => ((await over(request)) ? { outcome: "lost" } : registry.release(request)),
      };
    },
  },
  {
    fault: "renews for any window, by any clock",
    rejectedBy: ["a refused renewal changes nothing"],
    wrap: (registry, clock) => ({
      renew: (request) => {
        const window = Math.min(defaultLimits.maxWindow, Math.max(1, Math.round(request.window)));
        return registry.renew({ ...request, window, clock: clock.now() });
      },
    }),
  },
  {
    fault: "does not note a renewing holder's clock",
    rejectedBy: ["a renewal moves `until` to one window after the later clock, and keeps `from`"],
    wrap: (registry, clock) => ({
      renew: (request) => registry.renew({ ...request, clock: Math.min(request.clock, clock.now()) }),
    }),
  },
  {
    fault: "stores nothing of what a release says",
    rejectedBy: [
      "a release stores the usage and ends the claim in one step",
      "a requested worker ID that was given back is granted immediately",
      "a claim after a clean give-back, with a clock inside the recents, gets the recents",
      "a release may have any `until` in its window, both ends included",
    ],
    wrap: releasing(() => ({ used: undefined })),
  },
  {
    fault: "takes a release without usage for a clean one",
    rejectedBy: ["a release without usage ends the claim, keeps `until` and is not clean"],
    wrap: (registry) => ({
      release: async (request) => {
        const record = await registry.worker(request.namespace, request.workerId);
        return registry.release({ ...request, used: request.used ?? { until: record?.until ?? 0 } });
      },
    }),
  },
  {
    fault: "believes every release",
    rejectedBy: [
      "a second release answers `released`, and changes nothing",
      "a release after another holder's claim is `lost`, and changes nothing",
      "the holder's own release after a forced release changes nothing",
    ],
    wrap: (registry, clock) => {
      const told = new Map<number, number>();
      const shown = showing(({ workerId, until }) => ({ until: told.get(workerId) ?? until }));
      return {
        ...shown(registry, clock),
        release: async (request) => {
          await registry.release(request);
          if (request.used !== undefined) told.set(request.workerId, request.used.until);
          return { outcome: "released" };
        },
      };
    },
  },
  {
    fault: "releases whatever is named",
    rejectedBy: ["a release with a wrong token, fence, worker ID or namespace is `lost`, and changes nothing"],
    wrap: (registry) => ({
      release: async (request) => {
        const answer = await registry.release(request);
        if (answer.outcome === "lost") await registry.forceRelease({ ...request, force: true });
        return { outcome: "released" };
      },
    }),
  },
  {
    fault: "releases below `from` and above `until`",
    rejectedBy: ["a release with `until` outside its window is CONFIG_INVALID, and changes nothing"],
    wrap: (registry) => ({
      release: async (request) => {
        const record = await registry.worker(request.namespace, request.workerId);
        if (request.used === undefined || record === undefined) return registry.release(request);
        const until = Math.min(record.until, Math.max(record.from, Math.ceil(request.used.until)));
        return registry.release({ ...request, used: { ...request.used, until } });
      },
    }),
  },
  {
    fault: "lets a release end before what was used",
    rejectedBy: ["a release with `until` before what was used is CONFIG_INVALID, and changes nothing"],
    wrap: (registry) => ({
      release: async (request) => {
        const least = (await registry.worker(request.namespace, request.workerId))?.checkpoint?.timestamp ?? 0;
        const { used } = request;
        if (used === undefined || used.until > least) return registry.release(request);
        return registry.release({ ...request, used: { ...used, until: least + 1 } });
      },
    }),
  },
  {
    fault: "believes any checkpoint",
    rejectedBy: ["a checkpoint outside the times that the holder may use is CONFIG_INVALID, and changes nothing"],
    wrap: (registry) => ({
      renew: async (request) => {
        const { from = 0, until = 0 } = (await registry.worker(request.namespace, request.workerId)) ?? {};
        const { checkpoint } = request;
        if (checkpoint === undefined) return registry.renew(request);
        const timestamp = Math.min(until - 1, Math.max(from, checkpoint.timestamp));
        return registry.renew({ ...request, checkpoint: { ...checkpoint, timestamp } });
      },
    }),
  },
  {
    fault: "takes recents for a time that the holder knows nothing of",
    rejectedBy: [
      "recents that begin before the holder's knowledge are CONFIG_INVALID, and change nothing",
      "after a renewal a holder's recents may still begin where the inherited ones did, and no earlier",
    ],
    wrap: (registry) => ({
      release: async (request) => {
        const { used } = request;
        try {
          return await registry.release(request);
        } catch (error) {
          if (used === undefined || !isSnowleaseError(error, "CONFIG_INVALID")) throw error;
          return registry.release({ ...request, used: { until: used.until } });
        }
      },
    }),
  },
  {
    fault: "takes recents only from the holder's own window on",
    rejectedBy: [
      "a holder that continued hands on the recents that it inherited",
      "after a renewal a holder's recents may still begin where the inherited ones did, and no earlier",
    ],
    wrap: (registry) => ({
      release: async (request) => {
        const record = await registry.worker(request.namespace, request.workerId);
        const begin = request.used?.recents?.from;
        if (record === undefined || begin === undefined || begin >= record.from) return registry.release(request);
        throw new SnowleaseError("CONFIG_INVALID", "The recents begin before the window.");
      },
    }),
  },
  {
    fault: "alters long recents",
    rejectedBy: ["the longest recents are returned byte for byte"],
    wrap: granting(({ recents }) => ({ recents: recents && { ...recents, bytes: recents.bytes.slice(0, 4096) } })),
  },
  {
    fault: "alters recents of any length",
    rejectedBy: ["recents are returned byte for byte", "the longest recents are returned byte for byte"],
    wrap: granting(({ recents }) => ({
      recents: recents && { ...recents, bytes: recents.bytes.map((byte) => byte & 127) },
    })),
  },
  {
    fault: "does not use up the right to continue",
    rejectedBy: [
      "a holder that gets the right to continue uses it up, even if it crashes",
      "a holder that gives back without recents uses up the right to continue",
      "a claim repeated before the first renewal gets the recents again, a later one does not",
    ],
    wrap: (registry) => {
      const known = new Map<string, Recents>();
      return {
        claim: async (request) => {
          const answer = await registry.claim(request);
          if (answer.outcome !== "granted") return answer;
          const key = [request.namespace, answer.workerId].join();
          const recents = answer.recents ?? known.get(key);
          if (recents !== undefined) known.set(key, recents);
          return { ...answer, recents };
        },
      };
    },
  },
  {
    fault: "continues a holder that does not want it",
    rejectedBy: ["a holder that does not continue gets no recents, and waits until its clock is past the window"],
    wrap: asking(() => ({ continues: true })),
  },
  {
    fault: "continues without recents",
    rejectedBy: ["a worker ID given back without recents cannot be continued"],
    wrap: (registry) => ({
      release: async (request) => {
        const record = await registry.worker(request.namespace, request.workerId);
        const { used } = request;
        if (used === undefined || record === undefined) return registry.release(request);
        const recents = used.recents ?? { from: Math.min(record.from, used.until), bytes: Uint8Array.of(1) };
        return registry.release({ ...request, used: { ...used, recents } });
      },
    }),
  },
  {
    fault: "continues before the recents begin",
    rejectedBy: ["a holder whose clock is before the recents cannot continue"],
    wrap: (registry) => ({
      claim: async (request) => {
        const answer = await registry.claim(request);
        if (answer.outcome !== "held" || answer.live) return answer;
        return registry.claim({ ...request, clock: answer.freeAt - 1 }).catch(() => answer);
      },
    }),
  },
];
