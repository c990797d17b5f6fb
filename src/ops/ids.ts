import { monotonic } from "../clock.ts";
import { isSnowleaseError, SnowleaseError } from "../id/errors.ts";
import { Layout } from "../id/layout.ts";
import type { PoolBounds } from "../id/pool-bounds.ts";
import { Lease, type LeaseHost, type LeaseOptions } from "../lease/lease.ts";
import { defaultLimits } from "../rule/limits.ts";
import { Snowflake } from "../generator/snowflake.ts";
import { defaultWindow } from "../lease/window-length.ts";
import { LeaseClient } from "../sharing/lease-client.ts";
import { type LeaseServer, leaseServer } from "../sharing/lease-server.ts";
import { SharedSnowflake } from "../sharing/shared-snowflake.ts";

/** Makes IDs for clients. */
export interface IdMaker {
  /** Whether there is a lease in this namespace. Otherwise the next `take` claims one. */
  holds(namespace: string): boolean;
  /**
   * Makes `count` IDs, in ascending order, once the clock allows them. Rejects like `Snowflake.nextAsync`, like a claim, and with
   * RATE_LIMITED if another lease would be too many and each present lease is in use.
   * @param checkWanted throws when the caller has gone. It is called during the wait.
   */
  take(namespace: string, count: number, checkWanted?: () => void): Promise<BigUint64Array>;
  /**
   * Fills an array from its start with as many IDs as are possible without waiting. Returns their number. It is 0 if there is no lease
   * in this namespace, or its tick is used up. `take` waits for more.
   */
  fillNow(namespace: string, target: BigUint64Array): number;
  /** How many bits an ID of this namespace has. Undefined without a lease. */
  bitsIn(namespace: string): number | undefined;
  /** Releases each worker ID that no request uses. A later request may claim one again. Rejects when a release failed. */
  releaseIdle(): Promise<void>;
  /** Releases every worker ID. No ID is made after this. Rejects when a release failed. */
  close(): Promise<void>;
}

/** Lends leases to other processes. */
export interface LeaseLender {
  /**
   * The lease server of this namespace. Claims a lease if there is none. Rejects like a claim, and with CONFIG_INVALID if leases are
   * not lent. `fresh`: for a namespace that does not exist yet.
   */
  lend(namespace: string, fresh: Fresh): Promise<LeaseServer>;
  /** The lease server of a present lease. Undefined without one. */
  lent(namespace: string): LeaseServer | undefined;
  /** How many processes use each namespace's lease. */
  borrowers(): ReadonlyMap<string, number>;
}

/** `layout` and `limits` apply to a new namespace, `pool` to each one with these worker IDs, `window` to each one that allows it. */
export interface OwnLeaseOptions extends Omit<LeaseOptions, "namespace" | "pool" | "workerId" | "onLost"> {
  readonly pool?: PoolBounds | undefined;
  /** Most leases at once. For one more, the least recently used lease without a present request is released. Default 100. */
  readonly most?: number | undefined;
  readonly onLease?: ((lease: Lease) => void) | undefined;
  /** Called when the release of an unused worker ID failed. */
  readonly onNotReleased?: ((error: unknown, namespace: string) => void) | undefined;
  readonly onMade?: ((namespace: string, count: number) => void) | undefined;
  /** Whether other processes may borrow the leases. Default false. */
  readonly lends?: boolean | undefined;
}

/**
 * The part of the blocks of a span that limits the processes that borrow one lease. Each process prefetches one block. The rest is for
 * processes that need more, and for the daemon itself. It is 24 of 32 blocks, and less for a layout with few sequences.
 */
const borrowedShare = 3 / 4;
/** A lease is released after this many of its windows without a request. */
const idleWindows = 5;

/** The settings of a namespace that does not exist yet. */
type Fresh = Pick<OwnLeaseOptions, "layout" | "limits">;

interface NamespaceLease {
  readonly namespace: string;
  readonly generator: Promise<Snowflake>;
  /** The result of `generator`. */
  ready: Snowflake | undefined;
  /** Set once the lease is claimed, if it is lent. */
  server: LeaseServer | undefined;
  /** Aborted when the lease is released or lost. */
  readonly ended: AbortController;
  /** Number of requests that use it now. */
  users: number;
  /** Time of the last use on the monotonic clock, ms. */
  lastUse: number;
}

/** One lease per namespace. It is claimed at the first request for IDs, and released after a time without requests. */
export function ownLeases(host: LeaseHost, options: OwnLeaseOptions): IdMaker & LeaseLender {
  // A lease needs about 0.3 MiB for the used sequences of the last ticks.
  const { onLease, onMade, onNotReleased, most = 100, lends = false, ...shared } = options;
  const { clock } = host;
  const leases = new Map<string, NamespaceLease>();
  /** Namespace -> the release of its worker ID, in progress. */
  const leaving = new Map<string, Promise<void>>();
  const stop = new AbortController();

  async function claim(namespace: string, ended: AbortController, fresh: Fresh): Promise<Snowflake> {
    const info = await host.registry.describe(namespace);
    const layout = info === undefined ? fresh.layout : Layout.parse(info.layout);
    const limits = info === undefined ? fresh.limits : undefined;
    const { maxWindow } = { ...defaultLimits, ...limits, ...info };
    const terms = { layout, limits, pool: layout.narrow({}, options.pool) };
    const window = defaultWindow(options.window, layout, maxWindow);
    const lease = await Lease.claim(host, { ...shared, ...terms, namespace, window, onLost: "switch" }, stop.signal);
    onLease?.(lease);
    lease.signal.addEventListener("abort", () => ended.abort(), { once: true });
    try {
      const generator = lends ? new SharedSnowflake(lease) : new Snowflake(lease);
      void releaseWhenIdle(namespace, ended.signal, idleWindows * window);
      return generator;
    } catch (error) {
      // Without a generator, the lease would be renewed forever.
      await lease.close().catch(() => undefined);
      throw error;
    }
  }

  /** The lease of a namespace, with one more user. */
  function enter(namespace: string, fresh: Fresh): NamespaceLease {
    const known = leases.get(namespace);
    if (known !== undefined) {
      known.users++;
      return known;
    }
    const left = [leaving.get(namespace) ?? Promise.resolve()];
    if (leases.size >= most) left.push(releaseAlone(longestUnused()));
    const ended = new AbortController();
    // Wait for the release, because the pool may have no other worker ID.
    const generator = Promise.allSettled(left).then(async () => {
      own.ready = await claim(namespace, ended, fresh);
      own.server = serverOf(own.ready);
      return own.ready;
    });
    const own: NamespaceLease = {
      namespace,
      generator,
      ready: undefined,
      server: undefined,
      ended,
      users: 1,
      lastUse: 0,
    };
    leases.set(namespace, own);
    // The next request makes a new claim, as after a restart.
    const forget = (): void => void (leases.get(namespace) === own && leases.delete(namespace));
    ended.signal.addEventListener("abort", forget, { once: true });
    generator.catch(forget);
    return own;
  }

  function longestUnused(): NamespaceLease {
    const [found] = unused().toSorted((a, b) => a.lastUse - b.lastUse);
    if (found !== undefined) return found;
    throw new SnowleaseError(
      "RATE_LIMITED",
      `This daemon makes IDs in ${most} namespaces already, and requests use each of them; try again later, or raise \`maxOwnLeases\` of the daemon.`,
      { retryAfterMs: 1000 },
    );
  }

  function unused(): readonly NamespaceLease[] {
    // `borrowers` counts only lease clients that take blocks. Others must not prevent IDs of another namespace.
    return [...leases.values()].filter(({ users, server }) => users === 0 && (server?.borrowers ?? 0) === 0);
  }

  /** Releases a worker ID. From now on no ID is made with it, even if the call fails. */
  function release({ namespace, generator, ended }: NamespaceLease): Promise<void> {
    ended.abort();
    const left = generator
      .then((generator) => generator.close())
      .finally(() => leaving.get(namespace) === left && leaving.delete(namespace));
    leaving.set(namespace, left);
    return left;
  }

  function releaseAlone(own: NamespaceLease): Promise<void> {
    return release(own).catch((error: unknown) => onNotReleased?.(error, own.namespace));
  }

  async function releaseWhenIdle(namespace: string, ended: AbortSignal, longest: number): Promise<void> {
    for (let left = longest; left > 0;) {
      await clock.sleep(left, { signal: ended, keepAlive: false });
      const own = leases.get(namespace);
      if (ended.aborted || own === undefined) return;
      left = own.users > 0 || own.server?.isInUse === true ? longest : own.lastUse + longest - monotonic(clock);
      if (left <= 0) await releaseAlone(own);
    }
  }

  /** Uses the lease of a namespace. Claims one if there is none. */
  async function withLease<Result>(
    namespace: string,
    use: (generator: Snowflake, own: NamespaceLease) => Promise<Result>,
    fresh: Fresh = options,
  ): Promise<Result> {
    if (stop.signal.aborted) throw closing();
    const own = enter(namespace, fresh);
    try {
      return await use(await own.generator, own);
    } finally {
      own.users--;
      own.lastUse = monotonic(clock);
    }
  }

  return {
    holds: (namespace) => leases.has(namespace),

    take: (namespace, count, checkWanted) =>
      withLease(namespace, async (generator) => {
        const ids = new BigUint64Array(count);
        let made = rest(generator, ids);
        const atOnce = made === count;
        while (made < count) {
          ids[made++] = await generator.nextAsync({ signal: stop.signal });
          checkWanted?.();
          if (made < count) made += rest(generator, ids.subarray(made));
        }
        onMade?.(namespace, count);
        // A request that waits for a tick may also get IDs of the ticks before it.
        return atOnce ? ids : ids.toSorted();
      }),

    fillNow(namespace, target) {
      const own = leases.get(namespace);
      if (own?.ready === undefined || stop.signal.aborted) return 0;
      const made = rest(own.ready, target);
      own.lastUse = monotonic(clock);
      if (made > 0) onMade?.(namespace, made);
      return made;
    },

    bitsIn: (namespace) => leases.get(namespace)?.ready?.lease.layout.totalBits,

    async lend(namespace, fresh) {
      if (!lends) throw lendsNothing();
      const serve = async (_: Snowflake, { server }: NamespaceLease): Promise<LeaseServer> => {
        if (server === undefined) throw lendsNothing();
        return server;
      };
      return withLease(namespace, serve, fresh);
    },
    lent: (namespace) => leases.get(namespace)?.server,
    borrowers() {
      const lent = [...leases.values()].filter(({ server }) => server !== undefined);
      return new Map(lent.map(({ namespace, server }) => [namespace, server?.borrowers ?? 0]));
    },

    releaseIdle: () => allSteps(unused().map(release)),

    close() {
      stop.abort(closing());
      // A refused claim has nothing to release.
      const closed = [...leases.values()].map((own) =>
        own.generator.then(
          () => release(own),
          () => undefined,
        ),
      );
      return allSteps([...closed, ...leaving.values()]);
    },
  };
}

/** Lease clients do not get the registry's file, because they may run in other containers. Their renewals show the end of the lease. */
function serverOf(generator: Snowflake): LeaseServer | undefined {
  if (!(generator instanceof SharedSnowflake) || generator.blocks instanceof LeaseClient) return undefined;
  const { lease, blocks } = generator;
  const most = Math.max(1, Math.floor(blocks.allocator.blockLayout.blocks * borrowedShare));
  return leaseServer(lease, blocks, { most, showsStore: false });
}

function lendsNothing(): SnowleaseError {
  return new SnowleaseError(
    "CONFIG_INVALID",
    "This daemon lends no lease; start it with `--lend`, or leave `shared` (`borrow` of a client) out to lease a worker ID of your own.",
    { lends: false },
  );
}

/** Waits for all steps, even if one fails. Then rejects with the first failure. */
export async function allSteps(steps: readonly Promise<void>[]): Promise<void> {
  const failed = (await Promise.allSettled(steps)).find((step) => step.status === "rejected");
  if (failed !== undefined) throw failed.reason;
}

/** Takes the rest of the present tick. Returns 0 if the tick is used up and the next one is not open yet. */
function rest(generator: Snowflake, target: BigUint64Array): number {
  try {
    return generator.fill(target);
  } catch (error) {
    if (isSnowleaseError(error)) return 0;
    throw error;
  }
}

function closing(): SnowleaseError {
  return new SnowleaseError(
    "REGISTRY_UNAVAILABLE",
    "This daemon is shutting down; try again in a moment, or use another daemon.",
  );
}
