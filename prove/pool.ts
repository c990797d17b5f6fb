import { setTimeout as sleep } from "node:timers/promises";
import { isSnowleaseError } from "../src/id/errors.ts";
import type { PoolBounds } from "../src/id/pool-bounds.ts";
import type { Registry } from "../src/rule/registry.ts";
import { claimRequest } from "../test/support/claims.ts";
import { limits, namespace } from "./scene.ts";

/** How long it may take until a registry is reached again after all faults, ms. */
const patience = 60_000;
const betweenClaims = 100;

/**
 * Claims every worker ID of a pool that no holder uses any more. Returns the worker IDs that cannot be claimed, each with the reason. It
 * waits until the last window and a quarantine have passed: `maxWindow` and twice `maxClockSkew`, by a clock that was `ahead` ms ahead.
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

/** Tries to claim a worker ID. Returns why it cannot be claimed, and how long that reason is allowed. */
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
