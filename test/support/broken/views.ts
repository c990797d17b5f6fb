import { SnowleaseError } from "../../../src/id/errors.ts";
import { defaultLimits } from "../../../src/rule/limits.ts";
import type { Grant, Registry } from "../../../src/rule/registry.ts";
import { asking, type Fault, showing, telling } from "./fault.ts";

/** The layout that a namespace has, whatever layout the request names. */
async function layoutOf(registry: Registry, namespace: string, asked: string): Promise<string> {
  return (await registry.describe(namespace))?.layout ?? asked;
}

/** Mistakes in what can be read. */
export const viewFaults: readonly Fault[] = [
  {
    fault: "shows what it is about to store",
    rejectedBy: [
      "a grant is stored before it is answered",
      "a renewal moves `until` to one window after the later clock, and keeps `from`",
    ],
    wrap: showing(({ until }) => ({ until: until - 1 })),
  },
  {
    fault: "cuts labels short",
    rejectedBy: ["labels of holders are returned unchanged"],
    wrap: asking(({ holder }) => ({ holder: { ...holder, instance: holder.instance.slice(0, 64) } })),
  },
  {
    fault: "does not say since when",
    rejectedBy: ["the record of a claimed worker ID has everything from the claim"],
    wrap: showing(() => ({ claimedAt: undefined })),
  },
  {
    fault: "lists worker IDs as they come",
    rejectedBy: ["worker IDs are listed in ascending order, page by page"],
    wrap: (registry) => ({ workers: async (...args) => (await registry.workers(...args)).toReversed() }),
  },
  {
    fault: "lists worker IDs whatever their state",
    rejectedBy: ["worker IDs are listed by state"],
    wrap: (registry) => ({ workers: (namespace, page) => registry.workers(namespace, { ...page, state: undefined }) }),
  },
  {
    fault: "filters a page after it was cut",
    rejectedBy: ["worker IDs are listed by state"],
    wrap: (registry) => ({
      workers: async (namespace, page = {}) => {
        const cut = await registry.workers(namespace, { ...page, state: undefined });
        return cut.filter(({ state }) => state === (page.state ?? state));
      },
    }),
  },
  {
    fault: "knows every worker ID",
    rejectedBy: ["an unused worker ID has no record and no history", "namespaces are independent of each other"],
    wrap: (registry) => ({
      worker: async (namespace, workerId) => {
        const unused = { state: "free", fence: 0, from: 0, until: 0, seenClock: 0, clean: false } as const;
        return (await registry.worker(namespace, workerId)) ?? { workerId, ...unused };
      },
    }),
  },
  {
    fault: "shows tokens",
    rejectedBy: ["no answer and no error contains a token"],
    wrap: (registry, clock) => {
      const tokens = new Map<number, string>();
      return {
        ...showing(({ workerId }) => ({ token: tokens.get(workerId) }))(registry, clock),
        claim: async (request) => {
          const answer = await registry.claim(request);
          if (answer.outcome === "granted") tokens.set(answer.workerId, request.token);
          return answer;
        },
      };
    },
  },
  {
    fault: "loses history rows",
    rejectedBy: [
      "the history has a row for each claim, oldest first, with the final window",
      "the history of a span has the claims that could use a time in it",
    ],
    wrap: telling((rows) => rows.slice(-1)),
  },
  {
    fault: "has no final `until` in the history",
    rejectedBy: ["the history has a row for each claim, oldest first, with the final window"],
    wrap: (registry) => {
      const grants = new Map<string, Grant>();
      return {
        claim: async (request) => {
          const answer = await registry.claim(request);
          if (answer.outcome === "granted") grants.set([answer.workerId, answer.fence].join(), answer);
          return answer;
        },
        history: async (...args) => {
          const rows = await registry.history(...args);
          return rows.map((row) => ({
            ...row,
            until: grants.get([row.workerId, row.fence].join())?.until ?? row.until,
          }));
        },
      };
    },
  },
  {
    fault: "does not say how a claim ended",
    rejectedBy: ["the history says how an operator ended a claim"],
    wrap: telling((rows) => rows.map((row) => ({ ...row, end: row.end && "released" }))),
  },
  {
    fault: "does not say what was continued",
    rejectedBy: ["the history shows where a continued claim begins"],
    wrap: telling((rows) => rows.map(({ continuedFrom: _, ...row }) => row)),
  },
  {
    fault: "forgets what was used before a quarantine",
    rejectedBy: ["the history has the times that a holder used before a quarantine"],
    wrap: (registry) => ({
      history: async (namespace, workerId, range = {}) => {
        const rows = await registry.history(namespace, workerId, range);
        return rows.filter(({ from }) => from < (range.until ?? Infinity));
      },
    }),
  },
  {
    fault: "ignores the span of the history",
    rejectedBy: ["the history of a span has the claims that could use a time in it"],
    wrap: (registry) => ({ history: (namespace, workerId) => registry.history(namespace, workerId) }),
  },
  {
    fault: "limits the history to the oldest rows",
    rejectedBy: ["a limited history has the newest rows, oldest first"],
    wrap: (registry) => ({
      history: async (namespace, workerId, range = {}) => {
        const rows = await registry.history(namespace, workerId, { ...range, limit: undefined });
        return rows.slice(0, range.limit);
      },
    }),
  },
  {
    fault: "prunes the last row of a worker ID, too",
    rejectedBy: ["prune deletes rows whose window ended before a time, and keeps the last row of each worker ID"],
    wrap: (registry) => {
      let pruned = -Infinity;
      return {
        prune: (namespace, before) => {
          pruned = before;
          return registry.prune(namespace, before);
        },
        history: async (...args) => (await registry.history(...args)).filter(({ until }) => until >= pruned),
      };
    },
  },
];

/** The memory registry as it is. Its subject claims to have connections. */
export const closing: Fault = {
  fault: "goes on after it was closed",
  rejectedBy: ["a closed registry refuses calls, and its claims stay"],
  wrap: () => ({}),
};

/** Mistakes in what is fixed for a namespace, and in the connection. */
export const namespaceFaults: readonly Fault[] = [
  {
    fault: "refuses to create a namespace twice",
    rejectedBy: ["`init` creates a namespace, and is repeatable"],
    wrap: (registry) => ({
      init: async (request) => {
        if ((await registry.describe(request.namespace)) === undefined) return registry.init(request);
        throw new SnowleaseError("CONFIG_INVALID", "It is there already.");
      },
    }),
  },
  {
    fault: "trips over two that create a namespace at once",
    rejectedBy: ["concurrent `init` calls by two clients create one namespace"],
    wrap: (registry) => {
      let running = false;
      return {
        init: async (request) => {
          if (running) throw new SnowleaseError("REGISTRY_UNAVAILABLE", "Somebody else is creating it.");
          running = true;
          return registry.init(request).finally(() => (running = false));
        },
      };
    },
  },
  {
    fault: "believes anybody that a namespace is new",
    rejectedBy: ["`init` with `new` is refused after a worker ID was used, and changes nothing"],
    wrap: (registry) => ({ init: ({ new: _, ...request }) => registry.init(request) }),
  },
  {
    fault: "does not compare limits",
    rejectedBy: ["`init` keeps the limits of the first call, and refuses others"],
    wrap: (registry) => ({
      init: async ({ namespace, layout, new: isNew, ...limits }) => {
        const isAbsent = (await registry.describe(namespace)) === undefined;
        return registry.init({ namespace, layout, new: isNew, ...(isAbsent && limits) });
      },
      claim: (request) => registry.claim({ ...request, limits: undefined }),
    }),
  },
  {
    fault: "takes what it is asked about for its scope",
    rejectedBy: ["the scope is one phrase, the same for every client, and for a namespace that does not exist yet"],
    wrap: () => ({ scope: async (namespace) => `all who use the namespace ${namespace}` }),
  },
  {
    fault: "reads the limits of a namespace before a claim creates it",
    rejectedBy: ["a claim that creates its namespace is judged by the limits that it brings"],
    wrap: (registry) => ({
      claim: async (request) => {
        const isAbsent = (await registry.describe(request.namespace)) === undefined;
        return registry.claim({ ...request, ...(isAbsent && { limits: undefined }) });
      },
    }),
  },
  {
    fault: "reads the earliest time of a namespace before a claim creates it",
    rejectedBy: ["a claim that creates its namespace is granted what one in a namespace that exists is granted"],
    wrap: (registry) => {
      const begins = new Map<string, number>();
      return {
        claim: async (request) => {
          const earliest = begins.get(request.namespace) ?? 0;
          const answer = await registry.claim(request);
          if (answer.outcome !== "granted") return answer;
          begins.set(request.namespace, answer.clock);
          return { ...answer, from: Math.max(answer.from, earliest) };
        },
        init: async (request) => {
          const info = await registry.init(request);
          begins.set(request.namespace, (await registry.ping()).clock);
          return info;
        },
      };
    },
  },
  {
    fault: "does not compare layouts",
    rejectedBy: ["a different layout is LAYOUT_MISMATCH, and changes nothing"],
    wrap: (registry) => ({
      init: async (request) => {
        return registry.init({ ...request, layout: await layoutOf(registry, request.namespace, request.layout) });
      },
      claim: async (request) => {
        return registry.claim({ ...request, layout: await layoutOf(registry, request.namespace, request.layout) });
      },
    }),
  },
  {
    fault: "grants windows of any length",
    rejectedBy: [
      "a window longer than maxWindow, or shorter than 1 ms, is CONFIG_INVALID",
      "the maxWindow and maxClockSkew of the namespace decide",
    ],
    wrap: (registry) => ({
      claim: async (request) => {
        const longest = (await registry.describe(request.namespace))?.maxWindow ?? defaultLimits.maxWindow;
        return registry.claim({ ...request, window: Math.min(longest, Math.max(1, Math.ceil(request.window))) });
      },
    }),
  },
  {
    fault: "trusts a clock that is ahead",
    rejectedBy: ["a clock too far ahead is CLOCK_SKEW", "no answer and no error contains a token"],
    wrap: asking(({ clock }, { now }) => ({ clock: Math.min(clock, now()) })),
  },
  {
    fault: "has one set of limits for all namespaces",
    rejectedBy: [
      "the maxWindow and maxClockSkew of the namespace decide",
      "a claim creates a missing namespace, with the limits of the claim",
    ],
    wrap: (registry) => ({
      init: ({ namespace, layout, new: isNew }) => registry.init({ namespace, layout, new: isNew }),
      claim: (request) => registry.claim({ ...request, limits: undefined }),
    }),
  },
  {
    fault: "creates a namespace before it looks at the claim",
    rejectedBy: ["a refused claim creates no namespace"],
    wrap: (registry) => ({
      claim: async (request) => {
        const { namespace, layout, limits } = request;
        if ((await registry.describe(namespace)) === undefined) await registry.init({ namespace, layout, ...limits });
        return registry.claim(request);
      },
    }),
  },
  {
    fault: "prunes a namespace that does not exist",
    rejectedBy: ["a namespace that does not exist is empty, and `pin` and `prune` are NOT_FOUND there"],
    wrap: (registry) => ({ prune: (...asked) => registry.prune(...asked).catch(() => 0) }),
  },
  {
    fault: "keeps all namespaces in one",
    rejectedBy: ["namespaces are independent of each other"],
    wrap: (registry) => ({
      worker: (_, workerId) => registry.worker("orders", workerId),
      workers: (_, page) => registry.workers("orders", page),
      claim: (request) => registry.claim({ ...request, namespace: "orders" }),
      renew: (request) => registry.renew({ ...request, namespace: "orders" }),
      release: (request) => registry.release({ ...request, namespace: "orders" }),
    }),
  },
  {
    fault: "has a clock that stands still",
    rejectedBy: ["`ping` returns the registry's clock and durability, `kind` its name"],
    wrap: (registry, clock) => {
      const pong = { clock: clock.now(), durability: "None." };
      return { ping: async () => pong };
    },
  },
  closing,
  {
    fault: "cannot be closed twice",
    rejectedBy: ["`close` may be repeated"],
    wrap: () => {
      let open = true;
      return {
        close: async () => {
          if (!open) throw new SnowleaseError("REGISTRY_UNAVAILABLE", "It is closed.");
          open = false;
        },
      };
    },
  },
];
