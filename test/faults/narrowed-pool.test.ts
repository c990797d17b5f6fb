import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import type { Snowflake } from "../../src/generator/snowflake.ts";
import { snowlease } from "../../src/snowlease.ts";
import { namespace } from "../support/failover.ts";
import { failure } from "../support/failures.ts";
import { openRedis, redisMissing, RedisServer } from "../support/redis.ts";

const stores = [
  {
    name: "sqlite",
    missing: undefined,
    start: async (): Promise<string> => {
      const folder = mkdtempSync(join(tmpdir(), "snowlease-narrowed-"));
      onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
      return `sqlite:${join(folder, "registry.db")}`;
    },
  },
  {
    name: "redis",
    missing: redisMissing,
    start: async (): Promise<string> => {
      const server = await RedisServer.start();
      onTestFinished(() => server.remove());
      const registry = await openRedis(server.url());
      await registry.init({ new: true, namespace, layout: defaultLayout.fingerprint });
      await registry.close();
      return server.url();
    },
  },
];

describe.each(stores)("a pool in $name that is narrowed, moved and widened under its holders", ({ missing, start }) => {
  test.skipIf(missing !== undefined)("keeps to its limits, and no ID comes twice", async () => {
    const registry = await start();
    const made: bigint[] = [];
    const open = (pool: string): Promise<Snowflake> =>
      snowlease({ registry, namespace, pool, window: "60s", operationTimeout: "20s", claimTimeout: 0 });
    const use = (ids: Snowflake): void => void made.push(...ids.take(500));
    const wide = await Promise.all(Array.from({ length: 8 }, () => open("0-7")));
    wide.forEach(use);
    const staying = wide.filter((ids) => ids.lease.workerId % 4 === 3);
    for (const ids of wide) if (!staying.includes(ids)) await ids.close();

    for (const [pool, first, last] of [
      ["0-3", 0, 3],
      ["2-5", 2, 5],
      ["0-7", 0, 7],
      ["4-7", 4, 7],
      ["0-7", 0, 7],
    ] as const) {
      const room =
        last - first + 1 - staying.filter((ids) => ids.lease.workerId >= first && ids.lease.workerId <= last).length;
      const some = await Promise.all(Array.from({ length: room }, () => open(pool)));
      [...staying, ...some].forEach(use);
      const ids = some.map(({ lease }) => lease.workerId);
      expect(Math.min(...ids)).toBeGreaterThanOrEqual(first);
      expect(Math.max(...ids)).toBeLessThanOrEqual(last);
      expect(await failure(open(pool))).toMatchObject({ code: "POOL_EXHAUSTED" });
      for (const each of some) await each.close();
    }
    for (const ids of staying) await ids.close();
    expect(new Set(made).size).toBe(made.length);
    expect(made.length).toBeGreaterThan(10_000);
  });
});
