import { configInvalid, SnowleaseError, timeText } from "../id/errors.ts";
import type { Lease, LeaseSnapshot } from "../lease/lease.ts";
import type { ClaimKey, ClaimRequest, Lost, Registry, WorkerRecord } from "../rule/registry.ts";
import { checkTurns, isTurnOf, type Turns } from "../rule/turn.ts";
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

/** A child that asks for no blocks for this long no longer counts, ms. */
const childTimeout = 10_000;

/**
 * A registry with one worker ID, that of the lease, for child processes of the lease's holder. All of them claim it together, with the
 * lease's own fence and window, and then take blocks of it. A child that dies loses only the blocks that it has taken. When the lease is
 * lost or ends, every claim here is lost.
 *
 * Also refuses another namespace, worker ID or pool (CONFIG_INVALID) and a lease whose window has passed (LEASE_EXPIRED, retryable).
 */
export function leaseServer(lease: Lease, { allocator }: SharedUsageTracker): Registry {
  const { clock, layout } = lease;
  const info: NamespaceInfo = { ...defaultLimits, maxWindow: longestWindow, layout: layout.fingerprint };
  /** By token: when the claim last asked for blocks, on the wall clock. */
  const children = new Map<string, number>();
  /**
   * By token: the turn of each child that has renewed, so that two copies of one child do not use the same blocks for long, and the end of
   * the window that it got. The child that renewed last stands last.
   */
  const turns = new Map<string, { readonly turn: string; readonly until: number }>();

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

  /** The lease's claim, if this child's claim was made in it. */
  function snapshotOf({ workerId, fence }: ClaimKey): LeaseSnapshot | undefined {
    const { snapshot } = lease;
    return snapshot?.workerId === workerId && snapshot.fence === fence ? snapshot : undefined;
  }

  /** Notes that this child takes blocks; returns how many other children do. */
  function othersThan(token: string, now: number): number {
    children.set(token, now);
    for (const [other, at] of children) if (Math.abs(now - at) > childTimeout) children.delete(other);
    return children.size - 1;
  }

  function isTurn({ token, ...sent }: ClaimKey & Turns): boolean {
    return isTurnOf({ turn: turns.get(token)?.turn }, sent);
  }

  /** Notes a child's turn, and forgets those of ended windows: no copy of such a child makes IDs before it has renewed, and the first one is noted. */
  function noteTurn(token: string, turn: string, until: number, now: number): void {
    turns.delete(token);
    turns.set(token, { turn, until });
    for (const [other, noted] of turns) {
      if (now < noted.until) return;
      turns.delete(other);
    }
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
      const now = clock.now();
      const { snapshot } = lease;
      if (snapshot === undefined) throw ended(lease);
      checkScope(asked, snapshot.workerId);
      checkClaim(asked, now, info);
      checkOpen(snapshot, now);
      if (turns.has(asked.token)) return cloned;
      const { workerId, fence, knownFrom, until, store } = snapshot;
      return { outcome: "granted", workerId, fence, from: knownFrom, until, clock: now, shared: true, store };
    },

    async renew(request) {
      checkTurns(request);
      const now = clock.now();
      const snapshot = snapshotOf(request);
      checkWindow(request.window, info);
      checkSkew(request.clock, now, info);
      if (snapshot === undefined) return { outcome: "lost" };
      if (!isTurn(request)) return cloned;
      checkOpen(snapshot, now);
      const { token, nextTurn: turn } = request;
      if (turn !== undefined) noteTurn(token, turn, snapshot.until, now);
      return { outcome: "renewed", from: snapshot.knownFrom, until: snapshot.until, clock: now, turn };
    },

    async release(request) {
      if (!isTurn(request)) return cloned;
      children.delete(request.token);
      turns.delete(request.token);
      return { outcome: snapshotOf(request) === undefined ? "lost" : "released" };
    },

    async takeBlocks(request) {
      const { token, first, spans, blocks, held } = request;
      const snapshot = snapshotOf(request);
      if (snapshot === undefined) return { outcome: "lost" };
      if (!isTurn(request)) return cloned;
      const now = clock.now();
      const others = othersThan(token, now);
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
  };
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
