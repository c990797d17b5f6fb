import type { LateStore } from "../../../src/conformance.ts";
import type { Registry } from "../../../src/rule/registry.ts";
import type { Fault } from "./fault.ts";

/** The store checks writes only by a version that repeats, so the older copy takes them. */
function takingAll(registry: Registry): LateStore {
  let arrive = (): void => undefined;
  let isKept = false;
  const arrived = new Promise<void>((resolve) => (arrive = resolve));
  const kept =
    <Request, Answer>(ask: (request: Request) => Promise<Answer>, taken: Answer) =>
    async (request: Request): Promise<Answer> => {
      if (!isKept) return ask(request);
      await arrived;
      return taken;
    };
  const window = { workerId: 0, fence: 1, from: 0, until: 1, clock: 0 };
  return {
    registry: {
      ...registry,
      claim: kept(registry.claim, { outcome: "granted", ...window }),
      renew: kept(registry.renew, { outcome: "renewed", ...window }),
      release: kept(registry.release, { outcome: "released" }),
    },
    async keepNext() {
      isKept = true;
    },
    // A copy in which the worker ID has no holder.
    copy: async () => async () => {
      const [record] = await registry.workers("orders");
      if (record?.state === "live")
        await registry.forceRelease({
          namespace: "orders",
          workerId: 0,
          force: true,
          fence: record.fence,
          resetWindow: true,
        });
    },
    arrive: () => arrive(),
  };
}

export const lateFaults: readonly Fault[] = [
  {
    fault: "takes a write that was decided by another copy of the store",
    rejectedBy: [
      "a renewal that was decided before the store was put back changes nothing of the claim that stands there",
      "a give-back that was decided before the store was put back changes nothing of the claim that stands there",
      "a claim that was decided before the store was put back takes no number from its holder",
    ],
    wrap: () => ({}),
    late: takingAll,
  },
];
