import { expect, onTestFinished, test } from "vitest";
import { stuckIn } from "../../prove/pool.ts";
import { limits, namespace } from "../../prove/scene.ts";
import { defaultLayout } from "../../src/id/layout.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { memoryRegistry } from "../../src/registries/memory/registry.ts";
import { claimRequest, granted } from "../support/claims.ts";

const pool = { first: 0, last: 1 };
/** By a clock that is this far behind, all windows have passed already. */
const noRest = -60_000;

async function newRegistry(): Promise<Registry> {
  const registry = memoryRegistry();
  onTestFinished(() => registry.close());
  await registry.init({ namespace, layout: defaultLayout.fingerprint, ...limits });
  return registry;
}

test("the proof suite waits for windows to pass", async () => {
  const registry = await newRegistry();
  await granted(registry, claimRequest({ namespace, workerId: 1, window: 300 }));
  expect(await stuckIn(registry, pool, 0)).toEqual([]);
});

test("it finds a worker ID that no holder can get, and says why", async () => {
  const registry = await newRegistry();
  await registry.pin(namespace, 0, "for a test");
  const stuck = await stuckIn(registry, pool, noRest);
  expect(stuck).toHaveLength(1);
  expect(stuck[0]).toMatch(/^0: .*"pinned".*for a test/);
});

test("it finds one that is granted but never opens", async () => {
  const registry = await newRegistry();
  const claim: Registry["claim"] = async (request) => {
    const answer = await registry.claim(request);
    return answer.outcome === "granted" ? { ...answer, from: answer.until } : answer;
  };
  const stuck = await stuckIn({ ...registry, claim }, pool, noRest);
  expect(stuck.map((words) => words[0])).toEqual(["0", "1"]);
});
