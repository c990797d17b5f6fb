import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import type { SnowleaseOptions } from "../../src/snowlease.ts";
import { blackHole, type FaultProxy } from "./fault-proxy.ts";
import { eventually } from "./holder.ts";
import type { Maker } from "./maker.ts";

/** Ways in which a proxy cuts a holder off from its registry. */
export const cuts = {
  "a black hole": blackHole,
  "nothing arrives at the server": { toServer: "drop" },
  "nothing arrives at the client": { toClient: "drop" },
  "connections are refused": { refuse: true },
} as const;

/**
 * Cuts a holder off until its window has passed. Another holder gets its worker ID, and after healing the first holder takes another
 * worker ID.
 * @param registry its URL through the proxy; `past` is its URL without the proxy.
 */
export async function loseToAnother(
  make: (options: SnowleaseOptions) => Promise<Maker>,
  proxy: FaultProxy,
  { registry, past, window }: { readonly registry: string; readonly past: string; readonly window: number },
): Promise<void> {
  const pool = "0-0";
  const one = await make({ registry, window, pool, host: "one" });
  await sleep(100);
  proxy.set(blackHole);
  const two = await make({ registry: past, window, pool, host: "two", claimTimeout: 30_000 });
  await two.made(1000);
  proxy.heal();
  await eventually(
    async () => one.snowflake.lease.state,
    (state) => state === "switching",
  );
  const made = one.ids.length;
  await two.stop();
  await two.snowflake.close();
  await one.made(made + 1000);
  await one.stop();
  const all = [...one.ids, ...two.ids];
  expect(new Set(all).size).toBe(all.length);
  expect(one.snowflake.lease.fence).toBe(3);
}
