import { expect, test } from "vitest";
import { layouts } from "../../src/id/layout.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { Survey } from "../../src/ops/pool/survey.ts";
import { type FakeClock, fakeClock, memoryRegistry } from "../../src/testing.ts";

const holder = { host: "here", ip: "127.0.0.1", pid: 1, instance: "" };
let tokens = 0;

function make(): { clock: FakeClock; registry: Registry; pages: string[] } {
  const clock = fakeClock();
  const memory = memoryRegistry({ clock });
  const pages: string[] = [];
  const workers: Registry["workers"] = (namespace, page) => {
    pages.push(namespace);
    return memory.workers(namespace, page);
  };
  return { clock, registry: { ...memory, workers }, pages };
}

async function claim(
  registry: Registry,
  clock: FakeClock,
  namespace: string,
  window: number,
  layout = layouts.westid,
): Promise<void> {
  const token = (++tokens).toString(16).padStart(32, "0");
  const terms = { pool: layout.pool, layout: layout.fingerprint, window, holder, clock: clock.now() };
  expect(await registry.claim({ namespace, token, ...terms })).toMatchObject({ outcome: "granted" });
}

test("worker IDs by state add up to the pool", async () => {
  const { clock, registry } = make();
  await claim(registry, clock, "orders", 1000);
  for (let i = 0; i < 3; i++) await claim(registry, clock, "orders", 60_000);
  await registry.pin("orders", 900, "kept");
  await registry.forceRelease({ namespace: "orders", workerId: 1, force: true });
  await clock.advance(2000);
  const survey = new Survey(registry, clock.now);
  await survey.step(["orders", "nowhere"]);
  expect([...survey.found.keys()]).toEqual(["orders"]);
  const counts = survey.found.get("orders")?.counts;
  expect(counts).toEqual({ live: 2, resting: 1, free: 1, pinned: 1, foreign: 0, unused: 1019 });
});

test("only the pool is counted", async () => {
  const { clock, registry } = make();
  for (let i = 0; i < 10; i++) await claim(registry, clock, "orders", 60_000);
  const survey = new Survey(registry, clock.now, { first: 4, last: 7 });
  await survey.step(["orders"]);
  expect(survey.found.get("orders")?.counts).toMatchObject({ live: 4, unused: 0 });
});

test("a large pool is counted over several steps, each of eight pages at most, and keeps no other waiting", async () => {
  const { clock, registry, pages } = make();
  for (let i = 0; i < 9500; i++) await claim(registry, clock, "large", 60_000, layouts.uid);
  await claim(registry, clock, "small", 60_000);
  const survey = new Survey(registry, clock.now);
  const live = (namespace: string): number | undefined => survey.found.get(namespace)?.counts.live;

  await survey.step(["large", "small"]);
  expect(pages.length).toBe(8);
  expect([live("large"), live("small")]).toEqual([undefined, 1]);
  await claim(registry, clock, "small", 60_000);
  await survey.step(["large", "small"]);
  expect([live("large"), live("small")]).toEqual([9500, 2]);
  expect(survey.found.get("large")?.counts.unused).toBe(2 ** 22 - 9500);
});

test("more namespaces than pages have their turns one after the other", async () => {
  const { clock, registry, pages } = make();
  const names = Array.from({ length: 20 }, (_, i) => `space_${i}`);
  for (const name of names) await claim(registry, clock, name, 60_000);
  const survey = new Survey(registry, clock.now);
  for (let step = 1; step <= 3; step++) {
    await survey.step(names);
    expect(pages.length).toBe(8 * step);
  }
  expect(survey.found.size).toBe(20);
});

test("behind a step the count of a large pool goes on by itself to its end, and then no further", async () => {
  const { clock, registry, pages } = make();
  for (let i = 0; i < 9500; i++) await claim(registry, clock, "large", 60_000, layouts.uid);
  await claim(registry, clock, "small", 60_000);
  const survey = new Survey(registry, clock.now);
  await survey.step(["large", "small"]);
  expect(survey.found.has("large")).toBe(false);
  let isCounted = false;
  void survey.goOn(clock).then(() => (isCounted = true));
  // Its pause grows with what a step takes by this clock, which stands still until the step is done.
  while (!isCounted && !survey.found.has("large")) await new Promise(setImmediate);
  await clock.advance(5000);
  expect(isCounted).toBe(true);
  expect(survey.found.get("large")?.counts.live).toBe(9500);
  expect(pages.length).toBe(11);
});

test("steps at once count no worker ID twice", async () => {
  const { clock, registry } = make();
  for (let i = 0; i < 9500; i++) await claim(registry, clock, "large", 60_000, layouts.uid);
  const survey = new Survey(registry, clock.now);
  await survey.step(["large"]);
  await Promise.all([survey.step(["large"]), survey.step(["large"])]);
  expect(survey.found.get("large")?.counts).toMatchObject({ live: 9500, unused: 2 ** 22 - 9500 });
});
