import { SnowleaseError } from "../core/errors.ts";
import type { Lease, Tenure } from "../core/lease.ts";
import {
  defaultLimits,
  type ClaimRequest,
  type NamespaceInfo,
  type Registry,
  type WorkerRecord,
} from "../core/registry.ts";
import {
  checkClaim,
  checkSkew,
  checkWindow,
  claimed,
  grantOf,
  isFree,
  refusalOf,
  released,
  renewed,
  rollbackOf,
  shownRecord,
  timeText,
  type Stored,
} from "../core/window.ts";

/*
 * The rule once more, one level down. A registry hands out windows of a worker ID's embedded time; this one hands out windows
 * of one such window. What it stores may live in memory: it lasts as long as the lease's own holder, and when that one dies,
 * nobody gets the worker ID before the lease's `until`, which no window lent here reaches beyond.
 */

const promise =
  "What is lent here ends with the process that lends it, inside the window that its own registry stored.";

/** Any wish is heard, ms: what is granted of it ends with the lease's own window. */
const longest = 2 ** 31 - 1;

/**
 * A registry of one worker ID, the lease's, for the child processes of its holder: one child at a time claims a window that
 * lies inside the lease's own, renews it, gives it back. A child that dies without giving back leaves the next one waiting
 * until its window has passed, so children ask for short ones.
 *
 * Takes over the accounting of the lease: it can have no generator of its own, and is given back without saying what was used.
 * When the lease is lost or ends, every claim here is lost; until then, fences are the lease's own plus the claims before.
 *
 * Refuses, besides what every registry refuses, another namespace, worker ID or pool (CONFIG_INVALID) and a lease whose window
 * has passed (LEASE_EXPIRED, retryable).
 */
export function lendingRegistry(lease: Lease): Registry {
  const { clock } = lease;
  const info: NamespaceInfo = { ...defaultLimits, maxWindow: longest, layout: lease.layout.fingerprint };
  /** What was lent of this tenure. */
  let record: Stored | undefined;
  let seen: Tenure | undefined;

  // Keeps generators off the lease, and a second registry like this one; what its children used, it cannot say for all of them.
  lease.attach({ checkpoint: () => undefined, seal: () => undefined });

  /** The lease's tenure, and in `record` what was lent of it; undefined when there is none. */
  function present(): Tenure | undefined {
    const { tenure } = lease;
    if (tenure === undefined) record = undefined;
    else if (record === undefined || tenure.generation !== seen?.generation) record = unlent(tenure);
    else if (tenure.from > seen.from) record = raised(record, tenure.from);
    seen = tenure;
    return tenure;
  }

  function checkOpen({ workerId, until }: Tenure, now: number): void {
    if (now < until) return;
    throw new SnowleaseError(
      "LEASE_EXPIRED",
      `The window of worker ${workerId} that is lent here ended at ${timeText(until)} and the clock shows ${timeText(now)}; try again when its holder has renewed it.`,
      { until, clock: now },
    );
  }

  function checkScope({ namespace, workerId, pool }: ClaimRequest, lent: number): void {
    checkNamespace(namespace);
    if ((workerId ?? lent) === lent && lent >= pool.first && lent <= pool.last) return;
    const asked = workerId ?? `one from ${pool.first} to ${pool.last}`;
    throw new SnowleaseError(
      "CONFIG_INVALID",
      `Expected \`workerId\` to be ${lent}, the only one that is lent here, got \`${asked}\`; leave worker ID and pool out, or name another registry or namespace to lease from.`,
    );
  }

  function checkNamespace(namespace: string): void {
    if (namespace === lease.namespace) return;
    throw new SnowleaseError(
      "CONFIG_INVALID",
      `Expected \`namespace\` to be \`${lease.namespace}\`, the only one that is lent here, got \`${namespace}\`; name a registry for any other.`,
    );
  }

  function shownIn(namespace: string): WorkerRecord | undefined {
    present();
    return namespace === lease.namespace && record !== undefined ? shownRecord(record, clock.now()) : undefined;
  }

  return {
    kind: "lending",

    async init({ namespace }) {
      checkNamespace(namespace);
      return info;
    },

    async describe(namespace) {
      return namespace === lease.namespace ? info : undefined;
    },

    async claim(asked) {
      const now = clock.now();
      const tenure = present();
      if (tenure === undefined || record === undefined) throw ended(lease);
      checkScope(asked, tenure.workerId);
      checkClaim(asked, now, info);
      if (record.token === asked.token) return grantOf(record, now);
      checkOpen(tenure, now);
      if (!isFree(record, asked, now)) return refusalOf(record, asked, now, info);
      const before = record;
      record = capped(claimed(before, tenure.workerId, asked, now, info), tenure);
      return grantOf(record, now, rollbackOf(before, asked, info));
    },

    async renew(request) {
      const now = clock.now();
      const tenure = present();
      checkWindow(request.window, info);
      checkSkew(request.clock, now, info);
      const next = request.workerId === record?.workerId ? renewed(record, request, now) : undefined;
      if (tenure === undefined || next === undefined) return { outcome: "lost" };
      checkOpen(tenure, now);
      record = capped(next, tenure);
      return { outcome: "renewed", from: record.from, until: record.until, clock: now };
    },

    async release(request) {
      const tenure = present();
      const next = request.workerId === record?.workerId ? released(record, request, clock.now()) : undefined;
      if (tenure === undefined || next === undefined) return { outcome: "lost" };
      record = next;
      return { outcome: "released" };
    },

    async workers(namespace, { state, after = -1 } = {}) {
      const found = shownIn(namespace);
      const listed = found !== undefined && found.workerId > after && (state ?? found.state) === found.state;
      return listed ? [found] : [];
    },

    async worker(namespace, workerId) {
      const found = shownIn(namespace);
      return found?.workerId === workerId ? found : undefined;
    },

    async history() {
      return [];
    },

    async ping() {
      return { clock: clock.now(), promise };
    },

    forceRelease: refuseOperator,
    pin: refuseOperator,
    unpin: refuseOperator,
    prune: refuseOperator,

    async close() {},
  };
}

/** Nothing of the tenure was lent yet: its window begins as one that was given back at its very start. */
function unlent({ workerId, fence, from, floor, recents }: Tenure): Stored {
  return { workerId, fence: fence - 1, from, until: from, seenClock: 0, clean: true, floor, recents };
}

/** A quarantine raised the lease's window: what was known of the time before it is void. */
function raised(record: Stored, from: number): Stored {
  const later = (time: number): number => Math.max(time, from);
  return {
    ...record,
    from: later(record.from),
    until: later(record.until),
    floor: later(record.floor),
    recents: undefined,
  };
}

/** No window that is lent reaches beyond the lease's. (What was stored before does not either: a tenure's `until` only rises.) */
function capped(record: Stored, { until }: Tenure): Stored {
  return { ...record, until: Math.min(record.until, until) };
}

function ended({ namespace, workerId, state }: Lease): SnowleaseError {
  const what = `The lease of worker ${workerId} of namespace \`${namespace}\` that was lent here`;
  return state === "switching"
    ? new SnowleaseError("LEASE_EXPIRED", `${what} was lost and another worker ID is being claimed; try again.`)
    : new SnowleaseError("LEASE_LOST", `${what} has ended (${state}); start again under a new one.`);
}

async function refuseOperator(): Promise<never> {
  throw new SnowleaseError("FORBIDDEN", "A lease that is lent knows no operators; run this against its registry.");
}
