import { isSnowleaseError, type ErrorCode } from "../../../src/id/errors.ts";
import { operationsBy, ask, requiredOperations } from "../../../src/registries/wrap.ts";
import type { Fault, Wrap } from "./fault.ts";

const open = "a namespace with an open window or a pin is not dropped, nor one of another id, and nothing changes";
const ahead = "a window that was given back ahead of the clock is in the way of a drop";
const inQuarantine = "a namespace in quarantine is not dropped";
const emptied = "a namespace is dropped with its records and its history, and another one stays";
const later = "a namespace that is made where one was dropped grants later times and higher fences, after a quarantine";
const late = "late requests of a dropped namespace change nothing, before and after one of its name is made";
const layout = "where a namespace was dropped that was used, another layout is LAYOUT_MISMATCH";
const storm =
  "the windows granted for a worker ID never overlap, also where a namespace is dropped beside claims and renewals and made again";
const unknown = "to drop an unknown namespace is NOT_FOUND";
const final = "of a trial's namespace nothing stays after a final drop, which may be repeated";

/** Reports success where the rule refuses a drop with this code. */
function droppingDespite(code: ErrorCode): Wrap {
  return (registry, clock) => ({
    dropNamespace: (request) =>
      (registry.dropNamespace?.(request) ?? Promise.resolve({})).catch((error: unknown) => {
        if (!isSnowleaseError(error, code)) throw error;
        return { grantsFrom: clock.now() + 1500 };
      }),
  });
}

/** Makes a namespace with a dropped one's name as if there had been none. */
const forgetting: Wrap = (registry) => {
  const drops = new Map<string, number>();
  const named = (namespace: string): string => `${namespace}${"_c".repeat(drops.get(namespace) ?? 0)}`;
  const renamed = <Argument>(argument: Argument): Argument =>
    (typeof argument === "string"
      ? named(argument)
      : { ...argument, namespace: named((argument as { namespace: string }).namespace) }) as Argument;
  const operations = [...requiredOperations.filter((name) => name !== "ping"), "receiptKey", "endQuarantine"] as const;
  return {
    ...operationsBy(operations, ({ method, args: [first, ...rest] }) =>
      ask(registry, { method, args: [renamed(first), ...rest] } as never),
    ),
    async dropNamespace(request) {
      const answer = await registry.dropNamespace?.(renamed(request));
      drops.set(request.namespace, (drops.get(request.namespace) ?? 0) + 1);
      return answer ?? {};
    },
  };
};

/** Mistakes in how namespaces end. */
export const dropFaults: readonly Fault[] = [
  {
    fault: "drops nothing",
    rejectedBy: [emptied],
    wrap: (_, clock) => ({ dropNamespace: async () => ({ grantsFrom: clock.now() + 1500 }) }),
  },
  { fault: "drops what is in use", rejectedBy: [open, ahead], wrap: droppingDespite("WORKER_ID_HELD") },
  { fault: "drops a namespace in quarantine", rejectedBy: [inQuarantine], wrap: droppingDespite("QUARANTINE") },
  { fault: "answers the drop of what it does not know", rejectedBy: [unknown], wrap: droppingDespite("NOT_FOUND") },
  { fault: "forgets that it dropped a namespace", rejectedBy: [later, layout, storm], wrap: forgetting },
  {
    fault: "drops the namespace of that name, whichever it is",
    rejectedBy: [open, late],
    wrap: (registry) => ({
      async dropNamespace(request) {
        const { id = "" } = (await registry.describe(request.namespace)) ?? {};
        return (await registry.dropNamespace?.({ ...request, id })) ?? {};
      },
    }),
  },
  {
    fault: "drops no namespace for good",
    rejectedBy: [final],
    wrap: (registry) => ({
      dropNamespace: async (request) => (await registry.dropNamespace?.({ ...request, final: false })) ?? {},
    }),
  },
];
