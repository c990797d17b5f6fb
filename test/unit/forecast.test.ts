import { expect, test } from "vitest";
import { layouts } from "../../src/id/layout.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { forecastText, Growth, layoutEnd, type PoolForecast } from "../../src/ops/pool/forecast.ts";
import { listWorkers } from "../../src/ops/workers.ts";
import { type FakeClock, fakeClock, memoryRegistry } from "../../src/testing.ts";

const day = 86_400_000;
const { pool, fingerprint } = layouts.westid;
let tokens = 0;

interface Fleet {
  readonly clock: FakeClock;
  readonly registry: Registry;
  readonly asked: number[];
  /** Lets this many hosts claim and crash. */
  run(count: number): Promise<void>;
  forecast(): Promise<PoolForecast | undefined>;
}

function makeFleet(): Fleet {
  const clock = fakeClock();
  const memory = memoryRegistry({ clock });
  const asked: number[] = [];
  const history: Registry["history"] = (namespace, workerId, range) => {
    asked.push(workerId);
    return memory.history(namespace, workerId, range);
  };
  const registry = { ...memory, history };
  return {
    clock,
    registry,
    asked,
    async run(count) {
      for (let i = 0; i < count; i++) {
        const holder = { host: `web-${i}`, ip: "", pid: 1, instance: "" };
        const request = {
          namespace: "orders",
          token: (++tokens).toString(16).padStart(32, "0"),
          pool,
          layout: fingerprint,
        };
        await registry.claim({
          ...request,
          window: 600_000,
          limits: { maxWindow: 600_000 },
          clock: clock.now(),
          holder,
        });
      }
    },
    async forecast() {
      const growth = new Growth(clock.now());
      let used = 0;
      for await (const record of listWorkers(registry, "orders")) {
        growth.add(record);
        if (record.state === "live") used++;
      }
      return growth.forecast(registry, "orders", pool.last + 1 - used);
    },
  };
}

test("a growing pool is full when the rest is used up at the same rate; history tells the earlier use", async () => {
  const { clock, run, forecast } = makeFleet();
  await run(100);
  await clock.advance(28 * day - 1000);
  // The same hosts again, after a deploy, and more of them.
  await run(184);
  await clock.advance(1000);
  const found = await forecast();
  expect(found).toMatchObject({ before: 100, now: 184, since: clock.now() - 28 * day });
  // 840 left, 3 more a day.
  expect(((found?.fullAt ?? 0) - clock.now()) / day).toBeCloseTo(280, 3);
  expect(forecastText(found, clock.now())).toMatch(
    /^Full in about 9 months, on 2024-09-17, at .*: 100 in use 4 weeks ago, 184 now\.$/,
  );
});

test("a shrinking or constant pool is never full", async () => {
  const { clock, run, forecast } = makeFleet();
  await run(50);
  await clock.advance(7 * day - 1000);
  await run(50);
  await clock.advance(1000);
  const found = await forecast();
  expect(found).toMatchObject({ before: 50, now: 50, since: clock.now() - 7 * day, fullAt: undefined });
  expect(forecastText(found, clock.now())).toBe("Not growing: 50 in use 7 days ago, 50 now.");
});

test("there is no forecast from less than a day, nor one for more than ten years", async () => {
  const { clock, run, forecast } = makeFleet();
  await run(3);
  expect(await forecast()).toBeUndefined();
  expect(forecastText(undefined, 0)).toMatch(/^No forecast/);
  await clock.advance(28 * day - 1000);
  await run(4);
  await clock.advance(1000);
  expect(forecastText(await forecast(), clock.now())).toMatch(/^Lasts more than 10 years/);
});

test("history is read for a sample of worker IDs, which stands for all", async () => {
  const { clock, run, forecast, asked } = makeFleet();
  await run(800);
  await clock.advance(28 * day - 1000);
  await run(1000);
  await clock.advance(1000);
  const found = await forecast();
  expect(asked.length).toBeLessThanOrEqual(128);
  expect(found?.now).toBe(1000);
  expect(found?.before).toBeGreaterThan(760);
  expect(found?.before).toBeLessThan(840);
});

test("a layout's end is reported in time", () => {
  const { endOfLife } = layouts.westid;
  expect(layoutEnd(layouts.westid, endOfLife - 3000 * day).status).toBe("ok");
  expect(layoutEnd(layouts.westid, endOfLife - 100 * day)).toMatchObject({ status: "warn" });
  expect(layoutEnd(layouts.westid, endOfLife).status).toBe("fail");
  expect(layoutEnd(layouts.scene, endOfLife).detail).toMatch(/starts again/);
});
