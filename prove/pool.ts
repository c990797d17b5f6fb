import { setTimeout as sleep } from "node:timers/promises";
import { isSnowleaseError } from "../src/id/errors.ts";
import type { PoolBounds } from "../src/id/pool-bounds.ts";
import type { Registry } from "../src/rule/registry.ts";
import { claimRequest } from "../test/support/claims.ts";
import { limits, namespace } from "./scene.ts";

/** For a registry to be reached again after all that was done to it, ms. */
const patience = 60_000;
const betweenClaims = 100;

/**
 * Claims every worker ID of a pool that no holder uses any more; returns those that no claim gets, and why not. By when the last window has
 * passed, and a quarantine: `maxWindow` and twice `maxClockSkew` later, by a clock that was so many ms ahead.
 */
export async function stuckIn(registry: Registry, pool: PoolBounds, ahead: number): Promise<string[]> {
  const began = performance.now();
  const rest = limits.maxWindow + 2 * limits.maxClockSkew + ahead;
  const stuck: string[] = [];
  for (let workerId = pool.first; workerId <= pool.last; workerId++) {
    const { token } = claimRequest();
    for (;;) {
      const asked = performance.now() - began;
      const { trouble, within } = await claim(registry, workerId, pool, token, rest);
      if (trouble === undefined) break;
      if (asked > within) {
        stuck.push(`${workerId}: ${trouble}`);
        break;
      }
      await sleep(betweenClaims);
    }
  }
  return stuck;
}

/** What stands in the way of a claim, and for how long it may. */
async function claim(
  registry: Registry,
  workerId: number,
  pool: PoolBounds,
  token: string,
  rest: number,
): Promise<{ readonly trouble?: string; readonly within: number }> {
  const request = claimRequest({ namespace, workerId, pool, token, window: limits.maxWindow, continues: false });
  try {
    const answer = await registry.claim(request);
    const isOpen = answer.outcome === "granted" && answer.from <= answer.clock;
    return isOpen ? { within: rest } : { trouble: JSON.stringify(answer), within: rest };
  } catch (error) {
    if (!isSnowleaseError(error) || !error.retryable) throw error;
    return { trouble: error.message, within: patience };
  }
}
