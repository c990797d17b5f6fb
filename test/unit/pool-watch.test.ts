import { expect, test } from "vitest";
import { SnowleaseError } from "../../src/id/errors.ts";
import { layouts } from "../../src/id/layout.ts";
import type { PoolBounds } from "../../src/id/pool-bounds.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { type Cell, type Picture, PoolWatch } from "../../src/ops/pool/pool-watch.ts";
import { type FakeClock, fakeClock, memoryRegistry } from "../../src/testing.ts";

let tokens = 0;

function make(change: (registry: Registry) => Partial<Registry> = () => ({})): {
  clock: FakeClock;
  registry: Registry;
  claim: (workerId: number, layout?: keyof typeof layouts) => Promise<void>;
  watch: (pool?: PoolBounds) => PoolWatch;
} {
  const clock = fakeClock();
  const memory = memoryRegistry({ clock });
  const registry = { ...memory, ...change(memory) };
  return {
    clock,
    registry,
    async claim(workerId, layout = "westid") {
      const { pool, fingerprint } = layouts[layout];
      const holder = { host: `h-${workerId}`, ip: "", pid: 1, instance: "" };
      const request = { namespace: "orders", token: (++tokens).toString(16).padStart(32, "0"), workerId, pool, holder };
      await registry.claim({ ...request, layout: fingerprint, window: 60_000, clock: clock.now() });
    },
    watch: (pool) => new PoolWatch(registry, "orders", clock, pool),
  };
}

async function pictureOf(watch: PoolWatch): Promise<Picture> {
  const { picture, problem } = await watch.look();
  if (picture === undefined) throw problem ?? new Error("There is no picture.");
  return picture;
}

const total = (cells: readonly Cell[]): number =>
  cells.flatMap(({ counts }) => Object.values(counts)).reduce((sum, count) => sum + count, 0);

test("the cells are the pool, each worker ID once, whatever its size", async () => {
  for (const [layout, bounds, count] of [
    ["westid", undefined, 1024],
    ["westid", { first: 512, last: 700 }, 189],
    ["safe53", undefined, 32],
    ["uid", undefined, 512],
    ["uid", { first: 5, last: 1_000_004 }, 512],
    ["sonyflake", { first: 0, last: 1024 }, 342],
  ] as const) {
    const { claim, watch } = make();
    const { first, last } = bounds ?? layouts[layout].pool;
    for (const workerId of [first, first + 1, last]) await claim(workerId, layout);
    const { cells, counts, pool, holders, read } = await pictureOf(watch(bounds));
    expect({ layout, count: cells.length, pool, read }).toEqual({ layout, count, pool: { first, last }, read: 1 });
    expect(total(cells)).toBe(last - first + 1);
    expect(counts).toMatchObject({ live: 3, unused: last - first - 2 });
    expect(holders.map(({ workerId }) => workerId)).toEqual([first, first + 1, last]);
    expect(cells.map((cell) => cell.first)).toEqual(
      cells.map((_, i) => first + i * ((cells[0]?.last ?? 0) - first + 1)),
    );
    expect(cells.at(-1)).toMatchObject({ last, counts: { live: 1 } });
  }
});

test("a pool of millions is read a few pages a look, and shown as far as it was read", async () => {
  let pages = 0;
  const { claim, clock, watch } = make((memory) => ({
    async workers(_, { after = -1, limit = 1000 } = {}) {
      pages++;
      const [worker] = await memory.workers("orders");
      if (worker === undefined) return [];
      const rows = Math.max(0, Math.min(limit, 100_000 - after - 1));
      return Array.from({ length: rows }, (_, i) => ({ ...worker, workerId: after + 1 + i }));
    },
  }));
  await claim(0, "uid");
  const pool = watch({ first: 0, last: 199_999 });
  const first = await pictureOf(pool);
  expect(pages).toBe(32);
  expect(first.read).toBeCloseTo(0.16, 2);
  expect(first.holders.length).toBe(1000);
  for (let looks = 0; looks < 3; looks++) {
    await clock.advance(1000);
    await pool.look();
  }
  const { read, counts, cells } = await pictureOf(pool);
  expect({ read, pages }).toEqual({ read: 1, pages: 101 });
  expect(counts).toMatchObject({ live: 100_000, unused: 100_000 });
  expect(cells.length).toBeLessThanOrEqual(512);
});

test("however many readers look, the registry is asked once", async () => {
  let pings = 0;
  const { claim, clock, watch } = make((memory) => ({ ping: () => (pings++, memory.ping()) }));
  await claim(0);
  const pool = watch();
  await Promise.all([pool.look(), pool.look(), pool.look()]);
  await pool.look();
  expect(pings).toBe(1);
  await clock.advance(1000);
  await pool.look();
  expect(pings).toBe(2);
});

test("clocks are compared", async () => {
  const { claim, watch, clock } = make((memory) => ({
    ping: async () => ({ ...(await memory.ping()), clock: clock.now() - 1500 }),
  }));
  await claim(0);
  expect(await pictureOf(watch())).toMatchObject({ offset: 1500, latency: 0 });
});

test("while the registry fails or does not answer, the last picture stays, with the reason", async () => {
  let how: "answers" | "fails" | "is silent" = "answers";
  const { claim, clock, watch } = make((memory) => ({
    ping() {
      if (how === "fails") return Promise.reject(new SnowleaseError("REGISTRY_UNAVAILABLE", "Gone."));
      return how === "is silent" ? new Promise(() => undefined) : memory.ping();
    },
  }));
  const pool = watch();
  expect(await pool.look()).toEqual({ picture: undefined, problem: undefined });
  await claim(0);
  await clock.advance(1000);
  await pictureOf(pool);
  how = "fails";
  await clock.advance(1000);
  expect(await pool.look()).toMatchObject({ picture: { counts: { live: 1 } }, problem: { message: "Gone." } });
  how = "is silent";
  await clock.advance(1000);
  const late = pool.look();
  await clock.advance(3000);
  expect(await late).toMatchObject({ picture: { counts: { live: 1 } }, problem: { code: "REGISTRY_UNAVAILABLE" } });
});
