import { isSnowleaseError } from "../../src/id/errors.ts";
import { Lease } from "../../src/lease/lease.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { Snowflake } from "../../src/generator/snowflake.ts";
import type { Fleet } from "./fleet.ts";
import { type Judge, last } from "./judge.ts";
import type { Scenario } from "./scenario.ts";
import type { Leasing } from "./store.ts";
import { Machine, type World } from "./world.ts";

/**
 * All processes are dead. When the longest window has passed, by the slowest clock, and at most one quarantine, each worker ID of the pool
 * can be claimed and makes IDs that are not made yet.
 */
export async function aftermath(
  world: World,
  server: Machine,
  store: Leasing,
  { options }: Scenario,
  judge: Judge,
  fleet: Fleet,
): Promise<void> {
  const { maxClockSkew = 0 } = options.limits ?? {};
  const behind = Math.max(0, judge.latest - server.now());
  // A window may have ended in the middle of a tick; no holder may use that tick.
  world.advance(behind + options.window + maxClockSkew + options.layout.tick);
  let quarantines = 1;
  const { first, last: end } = options.pool;
  for (let workerId = first; workerId <= end; workerId++) {
    const clock = new Machine(world, server.offset);
    const host = { registry: store as Registry, clock, makeToken: () => fleet.token() };
    const holder = { host: "c", ip: "", pid: 1, instance: "" };
    const wish = { ...options, workerId, claimTimeout: 0, operationTimeout: 0, holder };
    try {
      const claim = (): Promise<Lease> =>
        Lease.claim(host, wish).catch((error: unknown) => {
          if (quarantines-- <= 0 || !isSnowleaseError(error, "QUARANTINE")) throw error;
          world.advance((error.details.retryAfterMs ?? 0) + options.layout.tick);
          return claim();
        });
      const lease = await claim();
      // So may a quarantine.
      world.advance(options.layout.tick);
      judge.made(new Snowflake(lease).next(), last, last);
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error);
      judge.accuse(`Worker ${workerId} cannot be had after all windows have passed: ${text}`);
    }
  }
}
