import { setTimeout as sleep } from "node:timers/promises";
import { isSnowleaseError } from "../src/core/errors.ts";
import type { PoolBounds } from "../src/core/layout.ts";
import type { Registry } from "../src/core/registry.ts";
import { claimRequest } from "../test/support/claims.ts";
import { serverStep } from "./plan.ts";
import { limits, namespace } from "./scene.ts";

/** After so long nothing that was granted may stand in anybody's way: a quarantine and the longest window, by a clock that was ahead. */
const rest = limits.maxWindow + 2 * limits.maxClockSkew + serverStep;
/** For a registry to be reached again after all that, ms. */
const patience = 60_000;

/** Claims every worker ID of a pool when all windows have passed; returns those that nobody can have, and why not. */
export async function stuckIn(registry: Registry, pool: PoolBounds): Promise<string[]> {
  await sleep(rest);
  // A file that saw a clock set back takes the right one for a step ahead, and waits for an operator's word.
  await registry.acceptClock?.();
  const stuck: string[] = [];
  for (let workerId = pool.first; workerId <= pool.last; workerId++) {
    const answer = await reached(() =>
      registry.claim(claimRequest({ namespace, workerId, pool, window: limits.maxWindow, continues: false })),
    );
    const isOpen = answer.outcome === "granted" && answer.from <= answer.clock;
    if (!isOpen) stuck.push(`${workerId}: ${JSON.stringify(answer)}`);
  }
  return stuck;
}

async function reached<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
  const end = performance.now() + patience;
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (!isSnowleaseError(error) || !error.retryable || performance.now() > end) throw error;
      await sleep(100);
    }
  }
}
