import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { isSnowleaseError } from "../../src/id/errors.ts";
import { defaultLayout } from "../../src/id/layout.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { databases, type DatabaseServer } from "../support/databases.ts";
import { driveStandIn, oracleStandIn } from "../support/oracle.ts";
import { openRedis, redisMissing, RedisServer, spoilRecord } from "../support/redis.ts";
import { openSql } from "../support/sql.ts";
import { newFolder, openRaw, openSqlite } from "../support/sqlite.ts";

const layout = defaultLayout.fingerprint;
const namespace = "orders";
const workerId = 7;

/** What a later version adds to a store, and this version does not know. */
interface Additions {
  /** Adds it beside a holder of this version, while that one is connected. */
  add(): Promise<void>;
  /** Writes a value into each addition: to the record of worker ID 7, its history and the namespace. */
  write(value: string): Promise<void>;
  /** The values of the record, then those of the namespace. */
  values(): Promise<readonly unknown[]>;
  /** The value that the history of worker ID 7 has at a fence. */
  noted(fence: number): Promise<unknown>;
}

/** Does all that holders and operators do, as this version, while a later one writes into the same record. */
async function liveBeside(registry: Registry, additions: Additions): Promise<void> {
  await registry.init({ namespace, layout, new: true });
  const holder = { host: "beta", ip: "10.0.0.2", pid: 2, instance: "" };
  const request = claimRequest({ workerId, holder });
  const first = await granted(registry, request);
  let key = keyOf(request, first);
  await additions.add();
  let written = "";
  let writes = 0;

  /** The later version writes, this version does one operation, and the later version finds what it wrote. */
  async function step<Answer>(name: string, work: () => Promise<Answer>): Promise<Answer> {
    written = `write ${++writes}`;
    await additions.write(written);
    const answer = await work();
    for (const value of await additions.values()) expect([name, value]).toEqual([name, written]);
    return answer;
  }
  const renew = async (): Promise<void> => {
    const answer = await step("renew", () => registry.renew({ ...key, clock: Date.now(), window: 3000 }));
    expect(answer.outcome).toBe("renewed");
  };
  /** Returns what the later version had written last when the claim began. */
  const claim = async (): Promise<string> => {
    const wish = claimRequest({ workerId, holder });
    key = keyOf(wish, await step("claim", () => granted(registry, wish)));
    const before = written;
    // The same claim, whose answer was lost.
    await step("claim again", () => granted(registry, wish));
    return before;
  };

  await renew();
  const released = await step("release", async () => {
    const { until } = (await registry.worker(namespace, workerId)) ?? { until: 0 };
    return registry.release({ ...key, clock: Date.now(), used: { until: Math.min(until, first.from + 1) } });
  });
  expect(released.outcome).toBe("released");
  const before = await claim();
  expect(await additions.noted(first.fence)).toBe(before);
  await renew();
  await step("pin", () => registry.pin(namespace, workerId, "broken"));
  await renew();
  await step("pin for an owner", () => registry.pin(namespace, workerId, "kept", { ip: holder.ip }));
  expect(await step("unpin", () => registry.unpin(namespace, workerId))).toBe(true);
  await renew();

  const pool = { first: 4, last: 9 };
  const other = claimRequest({ pool });
  const grant = await step("claim in another pool", () => granted(registry, other));
  await step("release of another number", () =>
    registry.release({ ...keyOf(other, grant), clock: Date.now(), used: { until: grant.from } }),
  );
  await step("pin of an unused number", () => registry.pin(namespace, 99, "never used"));
  expect(await step("unpin of an unused number", () => registry.unpin(namespace, 99))).toBe(true);
  await renew();

  const { fence } = key;
  const forced = { namespace, workerId, fence, force: true, resetWindow: true };
  expect((await step("force release", () => registry.forceRelease(forced))).outcome).toBe("released");
  await claim();
  await step("looks", async () => {
    expect((await registry.worker(namespace, workerId))?.fence).toBe(key.fence);
    expect((await registry.workers(namespace)).map((each) => each.workerId)).toContain(workerId);
    const rows = await registry.history(namespace, workerId);
    expect(rows.map((row) => row.end)).toEqual(["released", "reset", undefined]);
    expect(await registry.describe(namespace)).toMatchObject({ layout });
    await registry.init({ namespace, layout });
    await registry.rehearse?.(namespace);
    await registry.verify?.();
    await registry.ping();
  });
  expect(await step("prune", () => registry.prune(namespace, first.until - 1e6))).toBe(0);
  expect(await step("prune all", () => registry.prune(namespace, Date.now() + 1e6))).toBeGreaterThanOrEqual(2);
  await renew();

  // A holder that never gives back, and the next one.
  await step("reset", () =>
    registry.forceRelease({ namespace, workerId, force: true, fence: key.fence, resetWindow: true }),
  );
  const silent = await step("short claim", () => granted(registry, claimRequest({ workerId, holder, window: 20 })));
  while ((await registry.ping()).clock <= silent.until) await sleep(10);
  await claim();
  const ends = (await registry.history(namespace, workerId)).map(({ end }) => end);
  expect(ends.slice(-2)).toEqual(["taken-over", undefined]);
}

test("sqlite: columns and a table that a later version added are kept by every write, and break no operation", async () => {
  const path = join(newFolder(), "registry.db");
  const registry = await openSqlite(path);
  const raw = await openRaw(path);
  const one = (text: string): Record<string, unknown> => raw.prepare(text).get() ?? {};
  const places = { worker: `worker_id = ${workerId}`, namespace: `name = '${namespace}'` };
  const additions: Additions = {
    async add() {
      for (const table of ["worker", "history", "namespace", "gap", "registry", "operation"]) {
        raw.exec(`ALTER TABLE ${table} ADD COLUMN later TEXT`);
        raw.exec(`ALTER TABLE ${table} ADD COLUMN later_number INTEGER NOT NULL DEFAULT 7`);
      }
      raw.exec("CREATE TABLE later (id TEXT); CREATE INDEX worker_by_later ON worker (later)");
    },
    async write(value) {
      for (const [table, place] of Object.entries(places)) {
        raw.exec(`UPDATE ${table} SET later = '${value}' WHERE ${place}`);
      }
      raw.exec(`UPDATE history SET later = '${value}' WHERE worker_id = ${workerId} AND newest = 1`);
    },
    values: async () =>
      Object.entries(places).map(([table, at]) => one(`SELECT later FROM ${table} WHERE ${at}`)["later"]),
    noted: async (fence) =>
      one(`SELECT later FROM history WHERE worker_id = ${workerId} AND fence = ${fence}`)["later"],
  };
  await liveBeside(registry, additions);
  // A process that opens the file only now.
  await granted(await openSqlite(path), claimRequest({ workerId: 8 }));

  raw.exec("PRAGMA user_version = 9");
  const refused = await openSqlite(path)
    .then(
      (late) => late.claim(claimRequest()),
      (error: unknown) => error,
    )
    .catch((error: unknown) => error);
  expect(isSnowleaseError(refused) && refused.code).toBe("SCHEMA_INCOMPATIBLE");
});

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "Redis", () => {
  test("fields that a later version added to records and `meta` are kept by every write, and break no operation", async () => {
    const server = await RedisServer.start();
    onTestFinished(() => server.remove());
    const client = server.client();
    const [window, meta] = [`workerId/${namespace}:window:${workerId}`, `workerId/${namespace}:meta`];
    const decoded = async (script: string, ...keys: string[]): Promise<Record<string, unknown>[]> =>
      JSON.parse((await client.eval(script, keys.length, ...keys)) as string) as Record<string, unknown>[];
    const laterOf = ({ later, laterFlag, laterNumber }: Record<string, unknown>): unknown =>
      laterFlag === true && laterNumber === -1.5 ? later : "another value of another field";
    const additions: Additions = {
      async add() {
        await spoilRecord(client, window, "laterFlag", "true");
        await spoilRecord(client, window, "laterNumber", "-1.5");
        await spoilRecord(client, window, "laterList", '[1,"a"]');
      },
      async write(value) {
        await spoilRecord(client, window, "later", JSON.stringify(value));
        await client.hset(window, "later", value);
        await client.hset(meta, "later", value);
      },
      async values() {
        const [record = {}] = await decoded(
          "return cjson.encode({ cmsgpack.unpack(redis.call('HGET', KEYS[1], 'record')) })",
          window,
        );
        expect(record["laterList"]).toEqual([1, "a"]);
        return [laterOf(record), await client.hget(window, "later"), await client.hget(meta, "later")];
      },
      async noted(fence) {
        const rows = await decoded(
          "local rows = {} for i, text in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do rows[i] = cmsgpack.unpack(text) end return cjson.encode(rows)",
          `workerId/${namespace}:history:${workerId}`,
        );
        return laterOf(rows.find((row) => row["fence"] === fence) ?? {});
      },
    };
    const registry = await openRedis(server.url(), 5000);
    onTestFinished(() => registry.close());
    await liveBeside(registry, additions);
  });
});

driveStandIn();

describe.each([...databases, oracleStandIn])("$name", ({ missing, start }) => {
  describe.skipIf(missing !== undefined)(missing ?? "on a server", () => {
    let server: DatabaseServer;
    beforeAll(async () => {
      server = await start();
    });
    afterAll(() => server.remove());

    async function opened(): Promise<Registry> {
      const registry = await openSql(server.url());
      onTestFinished(() => registry.close());
      return registry;
    }

    test("columns and entries that a later version added are kept by every write, and break no operation", async () => {
      const [window, history, meta] = ["window", "history", "meta"].map((table) => `workerid_${table}_${namespace}`);
      const later = async (from: string): Promise<unknown> =>
        (await server.query(`SELECT later AS later FROM ${from}`))[0]?.["later"];
      const additions: Additions = {
        async add() {
          for (const table of [window, history, meta]) {
            await server.query(`ALTER TABLE ${table} ADD later VARCHAR(64)`);
            await server.query(`ALTER TABLE ${table} ADD later_number INTEGER DEFAULT 7 NOT NULL`);
          }
          await server.query(`INSERT INTO ${meta} (name, value, version) VALUES ('later', 'nothing', 1)`);
        },
        async write(value) {
          await server.query(
            `UPDATE ${window} SET later = '${value}', version = version + 1 WHERE worker_id = ${workerId}`,
          );
          await server.query(`UPDATE ${history} SET later = '${value}' WHERE worker_id = ${workerId} AND newest = 1`);
          await server.query(`UPDATE ${meta} SET later = '${value}'`);
          await server.query(`UPDATE ${meta} SET value = '${value}' WHERE name = 'later'`);
        },
        async values() {
          const [entry] = await server.query(`SELECT value AS value FROM ${meta} WHERE name = 'later'`);
          return [
            await later(`${window} WHERE worker_id = ${workerId}`),
            await later(`${meta} WHERE name = 'layout'`),
            await later(`${meta} WHERE name = 'era'`),
            entry?.["value"],
          ];
        },
        noted: (fence) => later(`${history} WHERE worker_id = ${workerId} AND fence = ${fence}`),
      };
      await liveBeside(await opened(), additions);
      // A process that connects only now.
      await granted(await opened(), claimRequest({ workerId: 8 }));
    });
  });
});
