import type { HistoryRow, Registry, RemoveRequest, WorkerRecord } from "../../../src/rule/registry.ts";
import type { Fault } from "./fault.ts";

const whole = "a removed namespace is unknown, with its worker IDs and their history; other namespaces stay";
const behind = "a namespace that is made again after its removal begins behind each window that it granted";
const byEra = "a namespace is removed only in the era that the operator names";
const noted = "a removed namespace stays noted: it is not new, unless the operator lets it be forgotten";
const race = "no window comes again that was granted while the namespace was removed";
const many = "a namespace with many worker IDs is removed as a whole";

/** A mistake in what a removal asks the store for. */
function removing(change: (request: RemoveRequest, registry: Registry) => Promise<RemoveRequest>): Fault["wrap"] {
  return (registry) => ({ remove: async (request) => registry.remove?.(await change(request, registry)) });
}

/** Mistakes in how a namespace is removed. */
export const removalFaults: readonly Fault[] = [
  {
    fault: "keeps the history of a namespace that it removes",
    rejectedBy: [whole],
    wrap: (registry) => {
      const kept: HistoryRow[] = [];
      return {
        remove: async (request) => {
          kept.push(...(await registry.history(request.namespace, 7)));
          await registry.remove?.(request);
        },
        history: async (namespace, workerId, range) => [
          ...kept.filter((row) => row.workerId === workerId),
          ...(await registry.history(namespace, workerId, range)),
        ],
      };
    },
  },
  {
    fault: "removes the namespaces whose names begin like the removed one",
    rejectedBy: [whole],
    wrap: removing(async (request, registry) => {
      const namespace = `${request.namespace}_b`;
      const { era } = (await registry.describe(namespace)) ?? {};
      if (era !== undefined) await registry.remove?.({ namespace, era });
      return request;
    }),
  },
  {
    fault: "makes a removed namespace again for any claim",
    rejectedBy: ["a claim that asks for what cannot be granted makes no removed namespace again"],
    wrap: (registry) => {
      const removed = new Set<string>();
      return {
        remove: async (request) => {
          await registry.remove?.(request);
          removed.add(request.namespace);
        },
        claim: async (request) => {
          const { namespace, layout, limits } = request;
          if (removed.has(namespace)) await registry.init({ namespace, layout, ...limits });
          return registry.claim(request);
        },
      };
    },
  },
  {
    fault: "lets an operator end the quarantine of a removed namespace",
    rejectedBy: [behind, "no operator ends the quarantine of a removed namespace"],
    wrap: (registry, clock) => {
      const opens = new Map<string, number>();
      return {
        endQuarantine: async ({ namespace }) => {
          opens.set(namespace, clock.now() + 1);
          return {};
        },
        describe: async (namespace) => {
          const info = await registry.describe(namespace);
          return info && opens.has(namespace) ? { ...info, quarantineUntil: opens.get(namespace) } : info;
        },
      };
    },
  },
  {
    fault: "leaves no note of a removed namespace",
    rejectedBy: [behind, noted, race],
    wrap: removing(async (request) => ({ ...request, forget: true })),
  },
  {
    fault: "removes a namespace of whatever era",
    rejectedBy: [byEra],
    wrap: removing(async (request, registry) => {
      const { era = request.era } = (await registry.describe(request.namespace)) ?? {};
      return { ...request, era };
    }),
  },
  {
    fault: "notes a removed namespace that is to be forgotten",
    rejectedBy: [noted],
    wrap: removing(async (request) => ({ ...request, forget: false })),
  },
  {
    fault: "makes a removed namespace again for its holder",
    rejectedBy: ["a holder of a removed namespace is refused, and its namespace stays away"],
    wrap: (registry) => {
      const layouts = new Map<string, string>();
      return {
        remove: async (request) => {
          const { layout } = (await registry.describe(request.namespace)) ?? {};
          await registry.remove?.(request);
          if (layout !== undefined) layouts.set(request.namespace, layout);
        },
        renew: async (request) => {
          const layout = layouts.get(request.namespace);
          if (layout !== undefined) await registry.init({ namespace: request.namespace, layout });
          return registry.renew(request);
        },
      };
    },
  },
  {
    fault: "removes as many worker IDs as one answer lists",
    rejectedBy: [many],
    wrap: (registry) => {
      const kept: WorkerRecord[] = [];
      return {
        remove: async (request) => {
          kept.push(...(await registry.workers(request.namespace)).slice(100));
          await registry.remove?.(request);
        },
        workers: async (namespace, page) => [...(await registry.workers(namespace, page)), ...kept],
      };
    },
  },
];
