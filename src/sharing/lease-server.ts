import { configInvalid, SnowleaseError, timeText } from "../id/errors.ts";
import type { Lease, LeaseSnapshot } from "../lease/lease.ts";
import type { BlocksRequest, ClaimKey, ClaimRequest, Lost, Registry, WorkerRecord, Turns } from "../rule/registry.ts";
import { checkTurns, isTurnOf } from "../rule/turn.ts";
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
const released: Lost = { outcome: "lost", reason: "released" };

/** How many children are remembered: more than ever run at once. A child that is forgotten has lost its lease, and claims again. */
const mostKnown = 10_000;

/**
 * How far a child's clock may be ahead of the lender's, ms. A child that is further ahead finds only blocks of times that its clock has
 * passed.
 */
const mostAhead = longestAhead - 1000;

/** A child that asks for no blocks for this long no longer counts, ms. */
const childTimeout = 10_000;

/**
 * How far ahead a child of a limited server may have more than one block of a span, ms. Before that, each other child gets its first block
 * of the span.
 */
const moreAhead = 1000;

/** A claim of a child. */
interface Borrower {
  /** The generation of the lease's claim in which the child claimed. */
  readonly generation: number;
  turn: string | undefined;
  /** The end of the window in the last answer to the child, Unix ms. */
  until: number;
  /** Spans of which the child has blocks. */
  readonly spans: Set<number>;
}

/** A registry of one lent lease. */
export interface LeaseServer extends Registry {
  readonly takeBlocks: NonNullable<Registry["takeBlocks"]>;
  /** How many processes took blocks lately. */
  readonly borrowers: number;
  /** Whether the window of any borrower may be open. */
  readonly isInUse: boolean;
  /** Whether a claim with this worker ID and fence was made here. */
  lends(key: Pick<ClaimKey, "workerId" | "fence">): boolean;
}

/** What a lease server offers. */
export interface LeaseServerOptions {
  /**
   * How many processes may take blocks at once; none of them can take all blocks. Default: any number, and late processes may find no
   * blocks.
   */
  readonly most?: number | undefined;
  /**
   * Whether all borrowers can see the file of the lease's registry, so that they notice at once when another file replaces it. Default
   * true.
   */
  readonly showsStore?: boolean | undefined;
}

/**
 * A registry with one worker ID, that of the lease, for other processes of the lease's holder: its children, or the programs of a machine.
 * All of them claim it together, with the lease's own fence and window, and then take blocks of it. A child that dies loses only the
 * blocks that it has taken. When the lease is lost or ends, every claim here is lost.
 *
 * Also refuses another namespace, worker ID or pool (CONFIG_INVALID), a lease whose window has passed (LEASE_EXPIRED, retryable), and one
 * process more than `most` (RATE_LIMITED).
 */
export function leaseServer(
  lease: Lease,
  { allocator }: SharedUsageTracker,
  { most = Infinity, showsStore = true }: LeaseServerOptions = {},
): LeaseServer {
  const { clock, layout } = lease;
  const info: NamespaceInfo = { ...defaultLimits, maxWindow: longestWindow, layout: layout.fingerprint };
  /** By token: the wall clock when the child claimed or last asked for blocks, and the generation of the lease's claim. */
  const children = new Map<string, { readonly at: number; readonly generation: number }>();
  /** The tokens of children that have asked for blocks. */
  const takers = new Set<string>();
  /**
   * By token: the claim of the lease in which a child claimed, and the child's turn, so that two copies of one child do not use the same
   * blocks for long. Worker ID and fence do not identify that claim: a store that went back in time grants the same ones again. Then a
   * child of the lender before has blocks that are given a second time here.
   */
  const known = new BoundedMap<string, Borrower>(mostKnown);
  /** Tokens of children that have ended. */
  const gone = new BoundedMap<string, true>(mostKnown);
  /** By worker ID and fence of each lent claim of this lease: how a child of that claim has lost its share. */
  const lent = new Map<string, Lost>();
  const forget = lease.on("lost", ({ reason, doubt, ...key }) => {
    if (lent.has(nameOf(key))) lent.set(nameOf(key), { outcome: "lost", reason, doubt });
  });

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

  /** The child of this request, with the claim of the lease in which it claimed; otherwise how it has lost its share. */
  function present(request: ClaimKey & Turns): { readonly child: Borrower; readonly snapshot: LeaseSnapshot } | Lost {
    const snapshot = snapshotOf(request);
    const child = known.get(request.token);
    if (gone.get(request.token) === true) return released;
    if (snapshot === undefined)
      return child === undefined ? { outcome: "lost" } : (lent.get(nameOf(request)) ?? released);
    if (child?.generation !== snapshot.generation) return forgotten(snapshot);
    return isTurnOf({ turn: child.turn }, request) ? { child, snapshot } : cloned;
  }

  function leave(token: string): void {
    children.delete(token);
    takers.delete(token);
    known.get(token)?.spans.clear();
  }

  /** How many other children take blocks. Children of an earlier claim have to claim again, and do not count. */
  function othersThan(token: string, now: number): number {
    const generation = lease.snapshot?.generation;
    for (const [child, last] of children) {
      if (Math.abs(now - last.at) > childTimeout || last.generation !== generation) leave(child);
    }
    return children.has(token) ? children.size - 1 : children.size;
  }

  function checkRoom(token: string, now: number): void {
    if (othersThan(token, now) < most) return;
    const oldest = Math.min(...[...children.values()].map(({ at }) => at));
    throw new SnowleaseError(
      "RATE_LIMITED",
      `The lease of namespace \`${lease.namespace}\` is lent to ${most} processes already, as many as it has blocks for; try again later, or leave \`borrow\` out to lease a worker ID for this process alone.`,
      { retryAfterMs: Math.max(1, oldest + childTimeout - now) },
    );
  }

  /** Blocks of a span for one child. In a limited server, it cannot take blocks that the others need, whatever `held` it reports. */
  function shareOf(
    span: number,
    { spans, generation }: Borrower,
    asked: BlocksRequest,
    others: number,
    soon: number,
  ): number {
    const { blocks, held } = asked;
    if (most === Infinity) return allocator.takeShare(generation, span, blocks, held, others);
    const first = spans.has(span) ? 0 : allocator.takeShare(generation, span, 1, 0, others);
    const rest = first === 0 ? blocks : blocks - 1;
    const more = span <= soon && rest > 0 ? allocator.takeShare(generation, span, rest, 1, others) : 0;
    if ((first | more) !== 0) spans.add(span);
    return (first | more) >>> 0;
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
      const { token } = asked;
      const now = clock.now();
      const { snapshot } = lease;
      if (snapshot === undefined) throw ended(lease);
      checkScope(asked, snapshot.workerId);
      checkClaim(asked, now, info);
      const ahead = most === Infinity ? mostAhead : moreAhead;
      if (asked.clock > now) checkSkew(asked.clock, now, { ...info, maxClockSkew: ahead });
      checkOpen(snapshot, now);
      const before = known.get(token);
      if (gone.get(token) === true) return released;
      if (before?.turn !== undefined) return cloned;
      checkRoom(token, now);
      const { generation, workerId, fence, knownFrom, until } = snapshot;
      children.set(token, { at: now, generation });
      const spans = before?.generation === generation ? before.spans : new Set<number>();
      known.set(token, { generation, turn: undefined, until, spans });
      lent.set(nameOf(snapshot), released);
      const store = showsStore ? snapshot.store : undefined;
      return { outcome: "granted", workerId, fence, from: knownFrom, until, clock: now, shared: true, store };
    },

    async renew(request) {
      checkTurns(request);
      const now = clock.now();
      checkWindow(request.window, info);
      checkSkew(request.clock, now, info);
      const found = present(request);
      if ("outcome" in found) return found;
      const { child, snapshot } = found;
      checkOpen(snapshot, now);
      const { nextTurn: turn } = request;
      child.turn = turn ?? child.turn;
      child.until = snapshot.until;
      return { outcome: "renewed", from: snapshot.knownFrom, until: snapshot.until, clock: now, turn };
    },

    async release(request) {
      // A repeated release: the first answer was lost.
      if (gone.get(request.token) === true) return { outcome: "released" };
      const found = present(request);
      if ("outcome" in found) return found;
      // The child's blocks stay taken. In a limited server, its place stays taken for as long.
      if (most === Infinity || !takers.has(request.token)) leave(request.token);
      takers.delete(request.token);
      known.delete(request.token);
      // A copy of the child may go on.
      gone.set(request.token, true);
      return { outcome: "released" };
    },

    async takeBlocks(request) {
      const { token, first, spans } = request;
      const found = present(request);
      if ("outcome" in found) return found;
      const { child, snapshot } = found;
      const now = clock.now();
      // The lender itself counts, too, if the others must leave it some blocks.
      const others = othersThan(token, now) + (most === Infinity ? 0 : 1);
      if (!children.has(token)) checkRoom(token, now);
      children.set(token, { at: now, generation: child.generation });
      takers.add(token);
      const { blockLayout } = allocator;
      const passed = blockLayout.spanAt(now - info.maxClockSkew);
      for (const span of child.spans) if (span < passed) child.spans.delete(span);
      // In a limited server, no further than the window that the child knows: a child that does not renew finally gets no blocks.
      const until = most === Infinity ? snapshot.until : child.until;
      const last = blockLayout.spanAt(Math.min(now + longestAhead, until - 1));
      const [oldest, soon] = [blockLayout.spanAt(snapshot.knownFrom), blockLayout.spanAt(now + moreAhead)];
      const taken = Array.from({ length: spans }, (_, i) => {
        const span = first + i;
        return span < oldest || span > last ? 0 : shareOf(span, child, request, others, soon);
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
    async close() {
      forget();
    },

    get borrowers() {
      othersThan("", clock.now());
      return takers.size;
    },
    get isInUse() {
      const now = clock.now();
      return lease.snapshot !== undefined && [...known.values()].some(({ until }) => now < until);
    },
    lends: (key) => lent.has(nameOf(key)),
  };
}

/** Both lenders have given blocks of these times. The lender before could give none further ahead by its clock, which may differ. */
function forgotten({ knownFrom, until, since }: LeaseSnapshot): Lost {
  const end = Math.min(until, since + longestAhead + defaultLimits.maxClockSkew);
  return { outcome: "lost", reason: "forgotten", doubt: { from: knownFrom, until: Math.max(knownFrom, end) } };
}

function nameOf({ workerId, fence }: Pick<ClaimKey, "workerId" | "fence">): string {
  return `${workerId}/${fence}`;
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
