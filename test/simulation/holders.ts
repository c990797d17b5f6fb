import type { Lease } from "../../src/lease/lease.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { Ring } from "../../src/generator/ring.ts";
import { Snowflake } from "../../src/generator/snowflake.ts";
import { LeaseClient } from "../../src/sharing/lease-client.ts";
import type { SharedUsageTracker } from "../../src/sharing/usage-tracker.ts";
import { leaseServer } from "../../src/sharing/lease-server.ts";
import { joinLease } from "../../src/sharing/joined-lease.ts";
import { SharedSnowflake } from "../../src/sharing/shared-snowflake.ts";
import type { Tally } from "./events.ts";
import type { Scenario } from "./scenario.ts";
import type { Random } from "./world.ts";

/** A holder as the simulation sees it: makes IDs, and ends in one way or another. */
export interface Holder {
  emit(): bigint;
  close(): Promise<void>;
  /** The registry for its child processes. */
  readonly lent?: Registry | undefined;
}

/** A rollback of some seconds is already too large to be reported, so that leases switch because of it, too. */
const rollback = { maxWait: 500, maxTell: 3000 };

const [mostThreads, joins, ends] = [4, 0.3, 0.1];

/** How a holder begins. */
export interface Kind {
  /** Whether it claims as one that leads the clock. */
  readonly leads?: boolean | undefined;
  hold(lease: Lease, random: Random, tally: Tally): Holder;
}

const wall: Kind = {
  hold(lease) {
    const snowflake = new Snowflake(lease, { rollback });
    return { emit: () => snowflake.next(), close: () => snowflake.close() };
  },
};

/** Makes IDs ahead of the clock, as far as its window reaches. */
export const leading: Kind = {
  leads: true,
  hold(lease) {
    const snowflake = new Snowflake(lease, { mode: "lead" });
    return { emit: () => snowflake.next(), close: () => snowflake.close() };
  },
};

/** The same with prepared IDs: some are never emitted, but lie in the window. */
const prepared: Kind = {
  leads: true,
  hold(lease) {
    const ring = new Ring(new Snowflake(lease, { mode: "lead" }), { boost: 2 });
    return { emit: () => ring.next(), close: () => ring.close() };
  },
};

/** Shares its lease with threads and with child processes. */
export const lending: Kind = {
  hold(lease, random, tally) {
    const ids = new SharedSnowflake(lease, { rollback });
    const lent = leaseServer(lease, ids.blocks as SharedUsageTracker);
    return { ...threaded(ids, random, tally), lent };
  },
};

/** The generators of a lease and of other threads, one after the other. Threads come, and go with or without closing. */
function threaded(ids: SharedSnowflake, random: Random, tally: Tally): Holder {
  const threads: Pick<Snowflake<never>, "next" | "close">[] = [];
  return {
    emit() {
      if (threads.length < mostThreads && random.chance(joins)) {
        threads.push(joinLease(ids.share(), { clock: ids.lease.clock }));
        tally.count("thread that joined");
      } else if (random.chance(ends)) {
        const thread = threads.shift();
        if (random.chance(0.5)) void thread?.close();
        else if (thread !== undefined) tally.count("thread that ended without a word");
      }
      const maker = random.pick([ids, ...threads]);
      const id = maker.next();
      if (maker !== ids) tally.count("ID by a thread");
      return id;
    },
    close: () => ids.close(),
  };
}

export function honest({ lends, leads }: Scenario, random: Random): Kind {
  if (lends && random.chance(0.8)) return lending;
  if (leads) return random.pick([leading, leading, prepared, wall]);
  return random.pick([wall, wall, wall, wall, leading, prepared]);
}

/** A child process, on a lease of its parent's: goes on with its blocks, whatever happens to the parent. */
export async function child(lease: Lease, random: Random, tally: Tally): Promise<Holder> {
  const hasThreads = random.chance(0.4);
  const blocks = await LeaseClient.open(lease, hasThreads).catch(async (error: unknown) => {
    await lease.close();
    throw error;
  });
  if (hasThreads) return threaded(new SharedSnowflake(lease, { rollback }, undefined, blocks), random, tally);
  const snowflake = new Snowflake(lease, { rollback, share: blocks });
  return { emit: () => snowflake.next(), close: () => snowflake.close() };
}
