import { pinEach, unpinEach } from "../../../src/registries/pin-batches.ts";
import { asking, type Fault, granting, reopen, reset, showing } from "./fault.ts";

const several = "several pins together have the effect of single pins: all of them, or an error";

/** Mistakes in operators' actions. */
export const operatorFaults: readonly Fault[] = [
  {
    fault: "forces without `force`",
    rejectedBy: ["an operator's release of a live holder is refused without `force`, and names the holder"],
    wrap: (registry) => ({ forceRelease: (request) => registry.forceRelease({ ...request, force: true }) }),
  },
  {
    fault: "says that it ended a claim, and did not",
    rejectedBy: [
      "a forced release ends the claim, and the window stays closed",
      "an operator releases a holder whose window has passed without `force`",
      "a forced release voids the right to continue",
    ],
    wrap: (registry) => ({
      forceRelease: async (request) => {
        const record = await registry.worker(request.namespace, request.workerId);
        if (request.resetWindow || !record?.holder) return registry.forceRelease(request);
        return { outcome: "released", until: record.until };
      },
    }),
  },
  {
    fault: "opens a window early at a forced release",
    rejectedBy: [
      "a forced release ends the claim, and the window stays closed",
      "a forced release of a resting worker ID keeps its window closed",
      "the windows granted for a worker ID never overlap, after any sequence of requests",
    ],
    wrap: (registry) => ({ forceRelease: (request) => reset(registry, request) }),
  },
  {
    fault: "ends whichever claim it finds",
    rejectedBy: ["an operator's release ends the claim that it names, and no later one"],
    wrap: (registry) => ({
      forceRelease: async (request) => {
        const record = await registry.worker(request.namespace, request.workerId);
        return registry.forceRelease({ ...request, fence: record?.fence });
      },
    }),
  },
  {
    fault: "cannot open a window again",
    rejectedBy: ["only `resetWindow` lowers `until`, to the registry's clock"],
    wrap: (registry) => ({ forceRelease: (request) => registry.forceRelease({ ...request, resetWindow: false }) }),
  },
  {
    fault: "opens what a holder used again",
    rejectedBy: ["`resetWindow` keeps the times closed that a holder said that it used"],
    wrap: (registry, clock) => ({
      forceRelease: async (request) => {
        const answer = await registry.forceRelease(request);
        if (answer.outcome !== "released" || !request.resetWindow) return answer;
        return { ...answer, until: Math.min(answer.until, clock.now()) };
      },
    }),
  },
  {
    fault: "sets a window's end to the clock",
    rejectedBy: [
      "`resetWindow` never raises `until`",
      "`resetWindow` keeps the times closed that a holder said that it used",
    ],
    wrap: (registry, clock) => ({
      forceRelease: async (request) => {
        const answer = await registry.forceRelease(request);
        return answer.outcome === "released" && request.resetWindow ? { ...answer, until: clock.now() } : answer;
      },
    }),
  },
  {
    fault: "releases what was never used",
    rejectedBy: ["a forced release of an unused worker ID answers `absent`"],
    wrap: (registry) => ({
      forceRelease: async (request) => {
        const answer = await registry.forceRelease(request);
        return answer.outcome === "absent" ? { outcome: "released", until: 0 } : answer;
      },
    }),
  },
  {
    fault: "notes a pin, and gives the worker ID out all the same",
    rejectedBy: [
      "a pinned worker ID stays out of the pool",
      "an unused worker ID that is pinned is listed, and unused again after `unpin`",
      "a pool without a worker ID that becomes free by itself answers `exhausted` without a time",
    ],
    wrap: (registry, clock) => {
      const pins = new Map<number, string>();
      return {
        ...showing(({ workerId, pinned }) => ({ pinned: pins.get(workerId) ?? pinned }))(registry, clock),
        pin: async (_, workerId, reason) => void pins.set(workerId, reason),
        unpin: async (_, workerId) => pins.delete(workerId),
      };
    },
  },
  {
    fault: "pins all but the last of several",
    rejectedBy: [several],
    wrap: (registry) => ({
      pinAll: (namespace, pins) => pinEach(registry, namespace, pins.slice(0, -1)),
      unpinAll: (namespace, workerIds) => unpinEach(registry, namespace, workerIds),
    }),
  },
  {
    fault: "says of several worker IDs that all of them were pinned",
    rejectedBy: [several],
    wrap: (registry) => ({
      pinAll: (namespace, pins) => pinEach(registry, namespace, pins),
      unpinAll: async (namespace, workerIds) => {
        await unpinEach(registry, namespace, workerIds);
        return workerIds;
      },
    }),
  },
  {
    fault: "pins several over a holder that may have used less than their host",
    rejectedBy: [several],
    wrap: (registry) => ({
      pinAll: (namespace, pins) =>
        pinEach(
          registry,
          namespace,
          pins.map(({ owner, ...pin }) => ({ ...pin, owner: owner && { ip: owner.ip } })),
        ),
      unpinAll: (namespace, workerIds) => unpinEach(registry, namespace, workerIds),
    }),
  },
  {
    fault: "gives a worker ID that is pinned for one host to any",
    rejectedBy: ["a worker ID that is pinned for an address is granted only to the host at that address"],
    wrap: (registry) => {
      let ip: string | undefined;
      return {
        pin: async (namespace, workerId, reason, owner) => {
          ip = owner?.ip;
          await registry.pin(namespace, workerId, reason, owner);
        },
        claim: (request) => registry.claim({ ...request, holder: { ...request.holder, ip: ip ?? request.holder.ip } }),
      };
    },
  },
  {
    fault: "pins without an owner what is pinned for a host",
    rejectedBy: [
      "a worker ID that is pinned for an address is granted only to the host at that address",
      "a host gets the worker ID pinned for it first, unless it requests a worker ID or an unused one",
    ],
    wrap: (registry) => ({ pin: (namespace, workerId, reason) => registry.pin(namespace, workerId, reason) }),
  },
  {
    fault: "gives a host its pinned worker ID although it asks for a new one",
    rejectedBy: ["a host gets the worker ID pinned for it first, unless it requests a worker ID or an unused one"],
    wrap: asking(() => ({ reuse: "any" })),
  },
  {
    fault: "opens an owner's window at once",
    rejectedBy: ["each window of an owner begins maxClockSkew after the registry's clock, without recents"],
    wrap: granting(({ from, clock }) => ({ from: Math.min(from, clock) })),
  },
  {
    fault: "forgets what an owner has used",
    rejectedBy: ["no window of an owner begins before its `usedUntil`"],
    wrap: (registry) => ({
      pin: (namespace, workerId, reason, owner) => registry.pin(namespace, workerId, reason, owner && { ip: owner.ip }),
    }),
  },
  {
    fault: "unpins a worker ID when its owner takes it over",
    rejectedBy: ["the pin of an owner outlives its claims, and is listed"],
    wrap: (registry) => ({
      claim: async (request) => {
        const answer = await registry.claim(request);
        if (answer.outcome === "granted") await registry.unpin(request.namespace, answer.workerId);
        return answer;
      },
    }),
  },
  {
    fault: "keeps the first owner of a pin",
    rejectedBy: ["a second pin replaces the owner, and `unpin` ends its rights"],
    wrap: (registry) => ({
      pin: async (namespace, workerId, reason, owner) => {
        const ip = (await registry.worker(namespace, workerId))?.owner ?? owner?.ip;
        await registry.pin(namespace, workerId, reason, ip === undefined ? undefined : { ...owner, ip });
      },
    }),
  },
  {
    fault: "takes any owner",
    rejectedBy: ["an owner with a wrong address or an impossible `usedUntil` is refused, and nothing changes"],
    wrap: (registry) => ({
      pin: async (namespace, workerId, reason, owner) => {
        if (owner === undefined) await registry.pin(namespace, workerId, reason);
        else await registry.pin(namespace, workerId, reason, owner).catch(() => undefined);
      },
    }),
  },
  {
    fault: "ends the claim of a holder whose worker ID is pinned",
    rejectedBy: [
      "a holder keeps a worker ID that is pinned meanwhile, and its release leaves the pin",
      "pin and unpin keep a live holder's claim",
    ],
    wrap: (registry) => ({
      pin: async (namespace, workerId, reason, owner) => {
        await registry.forceRelease({ namespace, workerId, force: true });
        await registry.pin(namespace, workerId, reason, owner);
      },
    }),
  },
  {
    fault: "opens a window early at a pin",
    rejectedBy: ["pin and unpin keep the window closed"],
    wrap: (registry) => ({
      pin: async (namespace, workerId, reason, owner) => {
        await reopen(registry, namespace, workerId);
        await registry.pin(namespace, workerId, reason, owner);
      },
    }),
  },
  {
    fault: "opens a window early at an unpin",
    rejectedBy: [
      "pin and unpin keep the window closed",
      "the windows granted for a worker ID never overlap, after any sequence of requests",
    ],
    wrap: (registry) => ({
      unpin: async (namespace, workerId) => {
        await reopen(registry, namespace, workerId);
        return registry.unpin(namespace, workerId);
      },
    }),
  },
  {
    fault: "forgets a pin when the holder gives its worker ID back",
    rejectedBy: ["a holder keeps a worker ID that is pinned meanwhile, and its release leaves the pin"],
    wrap: (registry) => ({
      release: async (request) => {
        await registry.unpin(request.namespace, request.workerId);
        return registry.release(request);
      },
    }),
  },
  {
    fault: "does not give a number out again that was pinned before it was used",
    rejectedBy: ["an unused worker ID is granted again after `unpin`"],
    wrap: (registry) => ({
      unpin: async (namespace, workerId) => {
        const record = await registry.worker(namespace, workerId);
        return record?.fence === 0 ? true : registry.unpin(namespace, workerId);
      },
    }),
  },
  {
    fault: "takes any pin for any reason",
    rejectedBy: ["a pin outside the layout, or without a reason, is CONFIG_INVALID, and changes nothing"],
    wrap: (registry) => ({
      pin: async (namespace, workerId, reason, owner) => {
        const told = reason.trim() === "" ? "no reason" : reason.slice(0, 200);
        await registry.pin(namespace, workerId, told, owner).catch(() => undefined);
      },
    }),
  },
  {
    fault: "keeps the first reason of a pin",
    rejectedBy: ["a second pin replaces the reason, and `unpin` says whether there was a pin"],
    wrap: (registry) => ({
      pin: async (namespace, workerId, reason, owner) => {
        const record = await registry.worker(namespace, workerId);
        await registry.pin(namespace, workerId, record?.pinned ?? reason, owner);
      },
    }),
  },
];
