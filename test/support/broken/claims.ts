import { SnowleaseError } from "../../../src/id/errors.ts";
import type {
  ClaimRequest,
  Grant,
  HolderLabel,
  Lost,
  Refusal,
  Registry,
  WorkerRecord,
} from "../../../src/rule/registry.ts";
import { asking, type Fault, granting, refusing, reopen, reset } from "./fault.ts";

async function recordsOf(registry: Registry, { namespace, pool }: ClaimRequest): Promise<WorkerRecord[]> {
  const records = await registry.workers(namespace);
  return records.filter(({ workerId }) => workerId >= pool.first && workerId <= pool.last);
}

const noHolder: HolderLabel = { host: "", ip: "", pid: 0, instance: "" };

/** Mistakes in claims. */
export const claimFaults: readonly Fault[] = [
  {
    fault: "gives every holder 0",
    rejectedBy: [
      "50 concurrent claims from two clients get 50 worker IDs",
      "the windows granted for a worker ID never overlap, after any sequence of requests",
    ],
    wrap: granting(() => ({ workerId: 0 })),
  },
  {
    fault: "lowers `until` at a claim",
    rejectedBy: ["a claim never lowers `until`"],
    wrap: granting((grant, { clock, window }) => ({ until: Math.max(clock, grant.clock) + window })),
  },
  {
    fault: "begins a window before the old one ended",
    rejectedBy: [
      "the window after a crash begins at the end of the crashed holder's window, or later",
      "the window after a give-back begins at the end of the closed window, or later",
      "the windows granted for a worker ID never overlap, after any sequence of requests",
      "the windows granted for a worker ID never overlap, with competing hosts",
    ],
    wrap: granting(({ clock }) => ({ from: clock - 10_000 })),
  },
  {
    fault: "begins a window at the clock",
    rejectedBy: [
      "a first window begins maxClockSkew before the registry's clock, and its length counts from the later clock",
    ],
    wrap: granting(({ from, clock }) => ({ from: Math.max(from, clock) })),
  },
  {
    fault: "reaches beyond the cap",
    rejectedBy: ["no window ends after the registry's clock + maxWindow + maxClockSkew"],
    wrap: granting(({ until }) => ({ until: until + 10_000 })),
  },
  {
    fault: "grants no clock",
    rejectedBy: ["a grant names a worker ID of the pool, a fence, a window and the registry's clock"],
    wrap: granting(() => ({ clock: Number.NaN })),
  },
  {
    fault: "does not raise the fence",
    rejectedBy: ["the fence of a worker ID rises with every claim"],
    wrap: (registry) => {
      const fences = new Map<string, number>();
      const real = <Key extends { token: string; fence: number }>(key: Key): Key => {
        return { ...key, fence: key.fence === 1 ? (fences.get(key.token) ?? 0) : -1 };
      };
      return {
        claim: async (request) => {
          const answer = await registry.claim(request);
          if (answer.outcome !== "granted") return answer;
          fences.set(request.token, answer.fence);
          return { ...answer, fence: 1 };
        },
        renew: (request) => registry.renew(real(request)),
        release: (request) => registry.release(real(request)),
      };
    },
  },
  {
    fault: "gives a repeated token a second worker ID",
    rejectedBy: [
      "a claim repeated with its token gets the same grant, fence and window",
      "concurrent claims with one token from two clients get one grant",
      "a claim repeated before the first renewal gets the recents again, a later one does not",
    ],
    wrap: (registry) => {
      const tokens = new Map<string, string>();
      let asked = 0;
      const real = <Key extends { token: string; workerId: number; fence: number }>(key: Key): Key => {
        return { ...key, token: tokens.get([key.token, key.workerId, key.fence].join()) ?? key.token };
      };
      return {
        claim: async (request) => {
          const token = `${request.token}${asked++}`;
          const answer = await registry.claim({ ...request, token });
          if (answer.outcome === "granted") tokens.set([request.token, answer.workerId, answer.fence].join(), token);
          return answer;
        },
        renew: (request) => registry.renew(real(request)),
        release: (request) => registry.release(real(request)),
      };
    },
  },
  {
    fault: "moves the window of a repeated token",
    rejectedBy: ["a claim repeated with its token gets the same grant, fence and window"],
    wrap: (registry) => ({
      claim: async (request) => {
        const answer = await registry.claim(request);
        if (answer.outcome !== "granted") return answer;
        const { workerId, fence } = answer;
        const renewal = await registry.renew({ ...request, workerId, fence });
        return renewal.outcome === "renewed" ? { ...answer, until: renewal.until } : answer;
      },
    }),
  },
  {
    fault: "repeats the first grant for ever",
    rejectedBy: [
      "a claim repeated with its token after a renewal gets the renewed window",
      "a claim repeated before the first renewal gets the recents again, a later one does not",
    ],
    wrap: (registry) => {
      const grants = new Map<string, Grant | Refusal | Lost>();
      return {
        claim: async (request) => {
          const key = request.namespace + request.token;
          const answer = grants.get(key) ?? (await registry.claim(request));
          if (answer.outcome === "granted") grants.set(key, answer);
          return answer;
        },
      };
    },
  },
  {
    fault: "ends the claims of a client that closes",
    rejectedBy: ["a claim belongs to its token, not to the client that made it"],
    wrap: (registry) => {
      const claims: { namespace: string; workerId: number }[] = [];
      return {
        claim: async (request) => {
          const answer = await registry.claim(request);
          if (answer.outcome === "granted") claims.push({ namespace: request.namespace, workerId: answer.workerId });
          return answer;
        },
        close: async () => {
          for (const claim of claims.splice(0)) await registry.forceRelease({ ...claim, force: true });
        },
      };
    },
  },
  {
    fault: "answers claims at once with one grant",
    rejectedBy: [
      "50 concurrent claims from two clients get 50 worker IDs",
      "of 20 concurrent claims for one worker ID exactly one is granted",
      "of concurrent claims exactly one continues",
    ],
    wrap: (registry) => {
      let running: ReturnType<Registry["claim"]> | undefined;
      return {
        claim: (request) => {
          running ??= new Promise<Grant | Refusal | Lost>((resolve, reject) => {
            setImmediate(() => {
              running = undefined;
              registry.claim(request).then(resolve, reject);
            });
          });
          return running;
        },
      };
    },
  },
  {
    fault: "gives out the highest number first",
    rejectedBy: ["unused worker IDs are granted in ascending order"],
    wrap: (registry) => ({
      claim: async (request) => {
        const taken = new Set((await recordsOf(registry, request)).map(({ workerId }) => workerId));
        const { first, last } = request.pool;
        let highest = last;
        while (highest >= first && taken.has(highest)) highest--;
        return registry.claim({ ...request, preferred: request.preferred ?? [highest] });
      },
    }),
  },
  {
    fault: "gives out the worker ID again that was used last",
    rejectedBy: [
      "an unused worker ID is granted before one that another host gave back",
      "when all worker IDs were used, the one whose window ended longest ago is granted first",
    ],
    wrap: (registry, clock) => ({
      claim: async (request) => {
        const free = (await recordsOf(registry, request)).filter(({ until }) => until <= clock.now());
        const newest = free.toSorted((a, b) => b.until - a.until).map(({ workerId }) => workerId);
        return registry.claim({ ...request, preferred: [...(request.preferred ?? []), ...newest].slice(0, 8) });
      },
    }),
  },
  {
    fault: "does not know its hosts again",
    rejectedBy: [
      "a host gets the worker ID back that it used before",
      "a host gets the worker ID of its crashed process back",
      "a host whose processes restart keeps the same worker IDs",
      "a claim for any worker ID continues after its own host's recents",
      "a claim with a clock behind its host's last one gets another worker ID, and the rollback",
    ],
    wrap: asking(({ holder, token }) => ({ holder: { ...holder, host: `${holder.host}-${token}` } })),
  },
  {
    fault: "does not ask how far a holder leads",
    rejectedBy: ["a holder that leads its clock gets a worker ID given back ahead of the clock, after all used times"],
    wrap: asking(() => ({ lead: undefined })),
  },
  {
    fault: "gives a crashed holder's worker ID at once to a holder that leads its clock",
    rejectedBy: ["a holder that leads its clock gets no worker ID that is live or was released by force"],
    wrap: (registry) => ({
      claim: async (request) => {
        const { namespace, workerId, lead = 0 } = request;
        if (workerId !== undefined && lead > 0) await reset(registry, { namespace, workerId, force: true });
        return registry.claim(request);
      },
    }),
  },
  {
    fault: "has no preference",
    rejectedBy: ["preferred worker IDs come first, in their order"],
    wrap: asking(() => ({ preferred: undefined })),
  },
  {
    fault: "leaves its pool",
    rejectedBy: [
      "a claim gets a worker ID of its pool",
      "a host's worker IDs outside the pool are not granted",
      "a pool that is narrowed, moved and widened again keeps its limits, and grants its worker IDs",
    ],
    wrap: asking(({ pool }) => ({ pool: { first: 0, last: pool.last } })),
  },
  {
    fault: "takes any wanted worker ID",
    rejectedBy: ["a requested worker ID outside the pool is CONFIG_INVALID"],
    wrap: asking(({ workerId, pool }) => ({
      pool: workerId === undefined ? pool : { first: -1, last: 1 + Math.max(pool.last, Math.ceil(workerId)) },
      workerId: workerId && Math.round(workerId),
    })),
  },
  {
    fault: "does not say when one comes free",
    rejectedBy: ["a full pool answers `exhausted`, and when the first worker ID becomes free"],
    wrap: refusing((refusal) => (refusal.outcome === "exhausted" ? { ...refusal, freeAt: undefined } : refusal)),
  },
  {
    fault: "always says when one comes free",
    rejectedBy: [
      "a pool without a worker ID that becomes free by itself answers `exhausted` without a time",
      "`reuse: never` grants each worker ID once",
    ],
    wrap: refusing((refusal) => ({
      ...refusal,
      ...(refusal.outcome === "exhausted" && { freeAt: refusal.clock + 1 }),
    })),
  },
  {
    fault: "forgets `until` when a claim ends",
    rejectedBy: [
      "a pool of resting worker IDs answers `exhausted` until their windows have passed",
      "a requested worker ID that rests is refused until its window has passed",
      "a forced release ends the claim, and the window stays closed",
      "pin and unpin keep the window closed",
      "the windows granted for a worker ID never overlap, after any sequence of requests",
    ],
    wrap: (registry) => ({
      release: async (request) => {
        const answer = await registry.release(request);
        if (request.used === undefined) await reopen(registry, request.namespace, request.workerId);
        return answer;
      },
      forceRelease: (request) => reset(registry, request),
    }),
  },
  {
    fault: "does not look at the claimer's clock",
    rejectedBy: [
      "a holder whose clock lags waits until the window has passed on its own clock",
      "a clock too far behind is CLOCK_SKEW",
    ],
    wrap: asking(({ clock }, { now }) => ({ clock: Math.max(clock, now()) })),
  },
  {
    fault: "gives numbers out again that were to be used once",
    rejectedBy: ["`reuse: never` grants each worker ID once"],
    wrap: asking(() => ({ reuse: "any" })),
  },
  {
    fault: "does not tell of a rollback",
    rejectedBy: ["a claim with a clock behind its host's last one gets another worker ID, and the rollback"],
    wrap: granting(() => ({ rollback: undefined })),
  },
  {
    fault: "takes a rollback for a holder",
    rejectedBy: ["a requested worker ID that this host used at later times is refused as a rollback"],
    wrap: refusing((refusal) => {
      if (refusal.outcome !== "rollback") return refusal;
      const { behind: _, ...rest } = refusal;
      return { ...rest, outcome: "held", live: false, holder: noHolder, since: rest.clock };
    }),
  },
  {
    fault: "takes a wanted worker ID for a wish",
    rejectedBy: [
      "of 20 concurrent claims for one worker ID exactly one is granted",
      "a requested worker ID that is held is refused, with its holder",
      "a requested unused worker ID is granted",
    ],
    wrap: asking(() => ({ workerId: undefined })),
  },
  {
    fault: "does not name the holder",
    rejectedBy: ["a requested worker ID that is held is refused, with its holder"],
    wrap: refusing((refusal) => {
      return refusal.outcome === "held" ? { ...refusal, holder: noHolder } : refusal;
    }),
  },
  {
    fault: "keeps crashed holders alive",
    rejectedBy: [
      "a requested worker ID whose holder crashed is granted after its window has passed",
      "a host gets the worker ID of its crashed process back",
    ],
    wrap: (registry) => {
      const renewals: (() => Promise<unknown>)[] = [];
      return {
        claim: async (request) => {
          for (const renew of renewals) await renew().catch(() => undefined);
          const answer = await registry.claim(request);
          if (answer.outcome === "granted") {
            const { workerId, fence } = answer;
            renewals.push(async () =>
              registry.renew({ ...request, workerId, fence, clock: (await registry.ping()).clock }),
            );
          }
          return answer;
        },
      };
    },
  },
  {
    fault: "has 1024 worker IDs and no more",
    rejectedBy: ["a pool of 4,194,304 worker IDs is served from end to end"],
    wrap: (registry) => ({
      claim: async (request) => {
        if (request.pool.last <= 1023) return registry.claim(request);
        throw new SnowleaseError("CONFIG_INVALID", "The pool is too large.");
      },
    }),
  },
];
