import { expect, test } from "vitest";
import { type Registry } from "../../src/rule/registry.ts";
import { historyKept } from "../../src/rule/limits.ts";
import { autoPruned } from "../../src/registries/auto-prune.ts";
import { fakeClock, memoryRegistry } from "../../src/testing.ts";
import { claimRequest, granted } from "../support/claims.ts";

test("some claims delete claims that were kept long enough; a failure to do so is silent", async () => {
  const clock = fakeClock();
  const memory = memoryRegistry({ clock });
  let broken = false;
  const store: Registry = {
    ...memory,
    prune: (...range) => (broken ? Promise.reject(new Error("The line is dead.")) : memory.prune(...range)),
  };
  const registry = autoPruned(store);
  const claim = async (start: string): Promise<void> => {
    const token = start.padEnd(32, "7");
    await granted(registry, claimRequest({ token, pool: { first: 3, last: 3 }, clock: clock.now(), window: 1000 }));
    await clock.advance(2000);
  };
  const fences = async (): Promise<number[]> => (await memory.history("orders", 3)).map(({ fence }) => fence);
  await claim("1");
  await claim("2");
  await clock.advance(historyKept - 2000);
  await claim("3");
  expect(await fences()).toEqual([1, 2, 3]);
  broken = true;
  await claim("001");
  expect(await fences()).toEqual([1, 2, 3, 4]);
  broken = false;
  // The first one ended 30 days and 1 s ago by now, the second one later.
  await claim("002");
  expect(await fences()).toEqual([3, 4, 5]);
});

test("a process that looked through a namespace does not repeat that on the same day", async () => {
  const clock = fakeClock();
  const memory = memoryRegistry({ clock });
  const pruned: string[] = [];
  const registry = autoPruned({
    ...memory,
    prune(namespace, before) {
      pruned.push(namespace);
      return memory.prune(namespace, before);
    },
  });
  const day = 24 * 3_600_000;
  let claims = 0;
  const claim = (namespace: string): Promise<unknown> =>
    granted(registry, claimRequest({ namespace, token: `00${++claims}`.padEnd(32, "7"), clock: clock.now() }));
  for (const namespace of ["orders", "orders", "bills", "orders"]) await claim(namespace);
  expect(pruned).toEqual(["orders", "bills"]);
  await clock.advance(day - 1);
  await claim("orders");
  expect(pruned).toHaveLength(2);
  await clock.advance(1);
  await claim("orders");
  expect(pruned).toEqual(["orders", "bills", "orders"]);
});
