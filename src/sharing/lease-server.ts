import { configInvalid, SnowleaseError, timeText } from "../id/errors.ts";
import type { Lease, LeaseSnapshot } from "../lease/lease.ts";
import type { ClaimKey, ClaimRequest, Lost, Registry, WorkerRecord } from "../rule/registry.ts";
import { checkTurns, isTurnOf, type Turns } from "../rule/turn.ts";
import { BoundedMap } from "../registries/bounded-map.ts";
import { checkSkew, checkWindow, defaultLimits, type NamespaceInfo } from "../rule/limits.ts";
import { checkClaim } from "../rule/window.ts";
import { longestAhead, type SharedUsageTracker } from "./usage-tracker.ts";

/*
 * The rule once more, one level down: a child process may use blocks of the lease's time, each handed out once. The holder's memory
 * records which blocks were taken. When the holder dies, the registry grants the worker ID to no other holder before the lease's `until`,
 * which no child exceeds.
 */

/** Longest window that a child may ask for, ms. It always gets the lease's own window. */
const longestWindow = 2 ** 31 - 1;

const cloned: Lost = { outcome: "lost", reason: "cloned" };

/** Children that are known: more than ever run at once. One that is forgotten has lost its lease, and claims again. */
const mostKnown = 10_000;

/** How far a child's clock may be ahead of ours, ms. One that is further ahead finds no block of a time that it has not passed. */
const mostAhead = longestAhead - 1000;

/** A child that asks for no blocks for this long no longer counts, ms. */
const childTimeout = 10_000;

/** A registry of one lent lease. */
export interface LeaseServer extends Registry {
  readonly takeBlocks: NonNullable<Registry["takeBlocks"]>;
  /** Processes that asked for blocks lately. */
  readonly borrowers: number;
  /** Whether a claim with this worker ID and fence was made here. */
  lends(key: Pick<ClaimKey, "workerId" | "fence">): boolean;
}

/** What a lease server offers. */
export interface LeaseServerOptions {
  /** How many processes may take blocks at once. Default: any number; those that come late may find none. */
  readonly most?: number | undefined;
  /** Whether all borrowers can see the file of the lease's registry, so that they notice at once when another one replaces it. Default true. */
  readonly showsStore?: boolean | undefined;
}

/**
 * A registry with one worker ID, that of the lease, for other processes of the lease's holder: its children, or the programs of a machine.
 * All of them claim it together, with the lease's own fence and window, and then take blocks of it. A child that dies loses only the
 * blocks that it has taken. When the lease is lost or ends, every claim here is lost.
 *
 * Also refuses a claim that does not ask for a shared window: its sender would use the whole of it (CONFIG_INVALID); another namespace,
 * worker ID or pool (CONFIG_INVALID); a lease whose window has passed (LEASE_EXPIRED, retryable); and one process more than `most`
 * (RATE_LIMITED).
 */
export function leaseServer(
  lease: Lease,
  { allocator }: SharedUsageTracker,
  { most = Infinity, showsStore = true }: LeaseServerOptions = {},
): LeaseServer {
  const { clock, layout } = lease;
  const info: NamespaceInfo = { ...defaultLimits, maxWindow: longestWindow, layout: layout.fingerprint };
  /** By token: when the claim was made, or last asked for blocks, on the wall clock. */
  const children = new Map<string, number>();
  /**
   * By token: in which claim of the lease a child claimed, and its turn, so that two copies of one child do not use the same blocks for
   * long. Worker ID and fence do not tell that claim: a store that went back in time grants the same ones again, and a child of the lender
   * before has blocks that are given a second time here.
   */
  const known = new BoundedMap<string, { readonly generation: number; readonly turn: string | undefined }>(mostKnown);
  /** Worker ID and fence of the claims of this lease that were lent. */
  const lent = new Set<string>();

  function checkOpen({ workerId, until }: LeaseSnapshot, now: number): void {
    if (now < until) return;
    throw new SnowleaseError(
      "LEASE_EXPIRED",
      `The window of worker ${workerId}, which is lent here, ended at ${timeText(until)} and the clock shows ${timeText(now)}; try again when its holder has renewed it.`,
      { until, clock: now },
    );
  }

  function checkScope({ namespace, workerId, pool }: ClaimRequest, lent: number): void {
    checkNamespace(namespace);
    if ((workerId ?? lent) === lent && lent >= pool.first && lent <= pool.last) return;
    const asked = workerId ?? `one from ${pool.first} to ${pool.last}`;
    throw configInvalid(
      `Expected \`workerId\` to be ${lent}, the only one lent here, got \`${asked}\`; leave worker ID and pool out, or name another registry or namespace to lease from.`,
    );
  }

  function checkNamespace(namespace: string): void {
    if (namespace === lease.namespace) return;
    throw configInvalid(
      `Expected \`namespace\` to be \`${lease.namespace}\`, the only one lent here, got \`${namespace}\`; name a registry for any other.`,
    );
  }

  /** The lease's claim, if it has this worker ID and fence. */
  function snapshotOf({ workerId, fence }: ClaimKey): LeaseSnapshot | undefined {
    const { snapshot } = lease;
    return snapshot?.workerId === workerId && snapshot.fence === fence ? snapshot : undefined;
  }

  /** Whether this child's claim was made in that claim of the lease. */
  function isKnownIn({ generation }: LeaseSnapshot, { token }: ClaimKey): boolean {
    return known.get(token)?.generation === generation;
  }

  /** How many children take blocks, less this one. */
  function othersThan(token: string, now: number): number {
    for (const [child, at] of children) if (Math.abs(now - at) > childTimeout) children.delete(child);
    return children.has(token) ? children.size - 1 : children.size;
  }

  function checkRoom(token: string, now: number): void {
    if (othersThan(token, now) < most) return;
    throw new SnowleaseError(
      "RATE_LIMITED",
      `The lease of namespace \`${lease.namespace}\` is lent to ${most} processes already, as many as it has blocks for; try again later, or leave \`borrow\` out to lease a worker ID for this process alone.`,
      { retryAfterMs: childTimeout },
    );
  }

  function isTurn({ token, ...sent }: ClaimKey & Turns): boolean {
    return isTurnOf({ turn: known.get(token)?.turn }, sent);
  }

  function recordsOf(namespace: string): WorkerRecord[] {
    const { snapshot } = lease;
    if (namespace !== lease.namespace || snapshot === undefined) return [];
    const { workerId, fence, from, until } = snapshot;
    const now = clock.now();
    return [{ workerId, state: now < until ? "live" : "resting", fence, from, until, seenClock: now, clean: false }];
  }

  return {
    kind: "lending",

    async init({ namespace }) {
      checkNamespace(namespace);
      return info;
    },

    describe: async (namespace) => (namespace === lease.namespace ? info : undefined),

    async claim(asked) {
      const { token, shared } = asked;
      const now = clock.now();
      const { snapshot } = lease;
      if (snapshot === undefined) throw ended(lease);
      if (shared !== true) throw notShared();
      checkScope(asked, snapshot.workerId);
      checkClaim(asked, now, info);
      if (asked.clock > now) checkSkew(asked.clock, now, { ...info, maxClockSkew: mostAhead });
      checkOpen(snapshot, now);
      if (known.get(token)?.turn !== undefined) return cloned;
      checkRoom(token, now);
      const { generation, workerId, fence, knownFrom, until } = snapshot;
      children.set(token, now);
      known.set(token, { generation, turn: undefined });
      lent.add(nameOf(snapshot));
      const store = showsStore ? snapshot.store : undefined;
      return { outcome: "granted", workerId, fence, from: knownFrom, until, clock: now, shared: true, store };
    },

    async renew(request) {
      checkTurns(request);
      const now = clock.now();
      const snapshot = snapshotOf(request);
      checkWindow(request.window, info);
      checkSkew(request.clock, now, info);
      if (snapshot === undefined) return { outcome: "lost" };
      if (!isKnownIn(snapshot, request)) return forgotten(snapshot);
      if (!isTurn(request)) return cloned;
      checkOpen(snapshot, now);
      const { token, nextTurn: turn } = request;
      const { generation } = snapshot;
      known.set(token, { generation, turn: turn ?? known.get(token)?.turn });
      return { outcome: "renewed", from: snapshot.knownFrom, until: snapshot.until, clock: now, turn };
    },

    async release(request) {
      if (!isTurn(request)) return cloned;
      children.delete(request.token);
      known.delete(request.token);
      return { outcome: snapshotOf(request) === undefined ? "lost" : "released" };
    },

    async takeBlocks(request) {
      const { token, first, spans, blocks, held } = request;
      const snapshot = snapshotOf(request);
      if (snapshot === undefined || !isKnownIn(snapshot, request)) return { outcome: "lost" };
      if (!isTurn(request)) return cloned;
      const now = clock.now();
      const others = othersThan(token, now);
      children.set(token, now);
      const last = allocator.blockLayout.spanAt(Math.min(now + longestAhead, snapshot.until - 1));
      const taken = Array.from({ length: spans }, (_, i) => {
        const span = first + i;
        return span > last ? 0 : allocator.takeShare(snapshot.generation, span, blocks, held, others);
      });
      return { outcome: "taken", blocks: taken };
    },

    async workers(namespace, { state, after = -1 } = {}) {
      return recordsOf(namespace).filter(
        (record) => record.workerId > after && (state ?? record.state) === record.state,
      );
    },

    async worker(namespace, workerId) {
      return recordsOf(namespace).find((record) => record.workerId === workerId);
    },

    history: async () => [],
    ping: async () => ({
      clock: clock.now(),
      durability: "A lent lease ends with the process that lends it, inside the window that its registry stored.",
    }),
    forceRelease: refuseOperator,
    pin: refuseOperator,
    unpin: refuseOperator,
    prune: refuseOperator,
    close: async () => {},

    get borrowers() {
      return othersThan("", clock.now());
    },
    lends: (key) => lent.has(nameOf(key)),
  };
}

/** Both lenders have given blocks of these times. */
function forgotten({ knownFrom, until }: LeaseSnapshot): Lost {
  return { outcome: "lost", reason: "forgotten", doubt: { from: knownFrom, until } };
}

function nameOf({ workerId, fence }: Pick<ClaimKey, "workerId" | "fence">): string {
  return `${workerId}/${fence}`;
}

function notShared(): SnowleaseError {
  return configInvalid(
    "Expected a claim with `shared`, since other processes use this lease, too, got one without; only a client that takes blocks can borrow it: name another registry to lease a worker ID from.",
  );
}

function ended({ namespace, workerId, state }: Lease): SnowleaseError {
  const what = `The lease of worker ${workerId} of namespace \`${namespace}\`, which was lent here,`;
  if (state === "switching") {
    return new SnowleaseError("LEASE_EXPIRED", `${what} was lost and another worker ID is being claimed; try again.`);
  }
  if (state === "suspended") {
    return new SnowleaseError("LEASE_EXPIRED", `${what} was given back by \`suspend\`; try again after \`resume\`.`);
  }
  return new SnowleaseError("LEASE_LOST", `${what} has ended (${state}); start again under a new one.`);
}

async function refuseOperator(): Promise<never> {
  throw new SnowleaseError("FORBIDDEN", "Operators cannot change a lent lease; run this against its registry.");
}
