import { isSnowleaseError, SnowleaseError } from "../core/errors.ts";
import { Layout, type PoolBounds } from "../core/layout.ts";
import { Lease, type LeaseHost, type LeaseOptions } from "../core/lease.ts";
import { defaultLimits } from "../core/registry.ts";
import { Snowflake } from "../core/snowflake.ts";
import { usualWindow } from "../core/terms.ts";

/** Makes IDs for others. */
export interface IdSource {
  /** So many IDs, in ascending order, once the clock allows them. Rejects like `Snowflake.nextAsync`, or like a claim. */
  take(namespace: string, count: number): Promise<BigUint64Array>;
  /** Gives every worker ID back; no ID is made after this. Rejects when one could not be given back. */
  close(): Promise<void>;
}

/**
 * How a namespace's lease is claimed: `layout` and `limits` are for one that does not exist yet, `pool` is for all that have these
 * numbers, `window` for all that allow it.
 */
export interface OwnLeaseOptions extends Omit<
  LeaseOptions,
  "namespace" | "pool" | "workerId" | "preferred" | "onLost"
> {
  readonly pool?: PoolBounds | undefined;
  /** Called with each lease that was claimed. */
  readonly onLease?: ((lease: Lease) => void) | undefined;
  /** Called with how many IDs were made. */
  readonly onMade?: ((namespace: string, count: number) => void) | undefined;
}

/** One lease a namespace, claimed when the first ID is asked for and kept until the end. */
export function ownLeases(host: LeaseHost, options: OwnLeaseOptions): IdSource {
  const { onLease, onMade, ...shared } = options;
  const generators = new Map<string, Promise<Snowflake>>();
  const stop = new AbortController();

  async function claim(namespace: string): Promise<Snowflake> {
    const info = await host.registry.describe(namespace);
    const layout = info === undefined ? options.layout : Layout.parse(info.layout);
    const limits = info === undefined ? options.limits : undefined;
    const { maxWindow } = { ...defaultLimits, ...limits, ...info };
    const terms = { layout, limits, pool: layout.narrow({}, options.pool) };
    const window = usualWindow(options.window, layout, maxWindow);
    const lease = await Lease.claim(host, { ...shared, ...terms, namespace, window, onLost: "switch" }, stop.signal);
    onLease?.(lease);
    // A lease that cannot be had any more is asked for anew, as after a restart.
    lease.signal.addEventListener("abort", () => generators.delete(namespace), { once: true });
    try {
      return new Snowflake(lease);
    } catch (error) {
      // Nobody would ever use it, and it would be renewed for ever.
      await lease.close().catch(() => undefined);
      throw error;
    }
  }

  function generatorOf(namespace: string): Promise<Snowflake> {
    const known = generators.get(namespace);
    if (known !== undefined) return known;
    const claimed = claim(namespace);
    generators.set(namespace, claimed);
    claimed.catch(() => generators.delete(namespace));
    return claimed;
  }

  return {
    async take(namespace, count) {
      if (stop.signal.aborted) throw closing();
      const generator = await generatorOf(namespace);
      const ids = new BigUint64Array(count);
      let made = rest(generator, ids);
      const atOnce = made === count;
      while (made < count) {
        ids[made++] = await generator.nextAsync({ signal: stop.signal });
        if (made < count) made += rest(generator, ids.subarray(made));
      }
      onMade?.(namespace, count);
      // Who waits for a tick may get what was left of the ones before it.
      return atOnce ? ids : ids.toSorted();
    },

    async close() {
      stop.abort(closing());
      const closed = [...generators.values()].map(async (claimed) => {
        const generator = await claimed.catch(() => undefined);
        await generator?.close();
      });
      const failed = (await Promise.allSettled(closed)).find((result) => result.status === "rejected");
      if (failed !== undefined) throw failed.reason;
    },
  };
}

/** What is left of the present tick; where nothing is, the next turn waits. */
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
    "This daemon is shutting down; ask another one, or again in a moment.",
  );
}
