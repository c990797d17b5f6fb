import { Redis } from "ioredis";
import { Redis as Redis5 } from "ioredis-5";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { claimRequest, granted } from "../support/claims.ts";
import { namespace } from "../support/failover.ts";
import { failure } from "../support/failures.ts";
import { openByClient } from "../support/ready-clients.ts";
import { openRedis, redisMissing, RedisServer } from "../support/redis.ts";
import { Sentinels } from "../support/redis-groups.ts";

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "the database that a Redis URL or client names", () => {
  let server: RedisServer;
  let replica: RedisServer;
  let sentinels: Sentinels;

  beforeAll(async () => {
    server = await RedisServer.start();
    replica = await RedisServer.start(["--repl-diskless-sync-delay", "0"]);
    await replica.follow(server.port);
    sentinels = await Sentinels.watch(server);
  });
  afterAll(async () => {
    await sentinels.remove();
    await replica.remove();
    await server.remove();
  });

  const init = (registry: Registry): Promise<unknown> =>
    registry.init({ new: true, namespace, layout: defaultLayout.fingerprint });

  /** The ways to name a database of this server. */
  const ways: Record<string, (database: number) => Promise<Registry>> = {
    "a URL": (db) => openRedis(server.url(`/${db}`)),
    "a URL of sentinels": (db) => openRedis(sentinels.url(`/${db}`)),
    "a client of ioredis": (db) => openByClient(new Redis({ port: server.port, db, lazyConnect: true })),
    "a client of ioredis 5": (db) => openByClient(new Redis5({ port: server.port, db, lazyConnect: true })),
    "a client behind sentinels": (db) =>
      openByClient(
        new Redis({ sentinels: sentinels.ports.map((port) => ({ port })), name: "ids", db, lazyConnect: true }),
      ),
  };

  async function opened(way: string, database: number): Promise<Registry> {
    const registry = await ways[way]?.(database);
    if (registry === undefined) throw new Error(`There is no way ${way}.`);
    onTestFinished(() => registry.close());
    return registry;
  }

  /** The numbers of databases in which there is anything. */
  async function filled(): Promise<number[]> {
    return [...(await server.client().info("keyspace")).matchAll(/^db(\d+):/gm)].map(([, n]) => Number(n));
  }

  test.each(Object.keys(ways))(
    "%s: one that the server does not have is refused, and none other is used",
    async (way) => {
      await server.client().flushall();
      const registry = await opened(way, 99);
      const asked = [
        () => init(registry),
        () => registry.claim(claimRequest()),
        () => registry.describe(namespace),
        () => registry.ping(),
      ];
      // All at once: none may be sent while another one still finds out.
      for (const error of await Promise.all(asked.map((ask) => failure(ask())))) {
        expect([error.code, error.retryable]).toEqual(["CONFIG_INVALID", false]);
        expect(error.message).toMatch(
          /^Redis [\w.:,]+ has no database 99 \(ERR DB index is out of range\); name one below its setting `databases`\.$/,
        );
      }
      expect(await filled()).toEqual([]);
    },
  );

  test.each(Object.keys(ways))("%s: one that it has is used, before and after the connection was lost", async (way) => {
    await server.client().flushall();
    const registry = await opened(way, 7);
    await init(registry);
    const place = way.includes("sentinels")
      ? /^all who use database 7 of the primary `ids` of Redis /
      : /^all who use database 7 of Redis /;
    expect(await registry.scope?.(namespace)).toMatch(place);
    await server.client().call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    await Promise.all([granted(registry, claimRequest()), granted(registry, claimRequest())]);
    expect(await registry.workers(namespace)).toHaveLength(2);
    expect(await filled()).toEqual([7]);
  });

  test("a user who may not select one is refused, and no other database is used", async () => {
    const client = server.client();
    await client.flushall();
    await client.call("ACL", "SETUSER", "ids", "on", ">pw", "~*", "+@all", "-select");
    const url = server.url("/7").replace("redis://", "redis://ids:pw@");
    const registry = await openRedis(url);
    onTestFinished(() => registry.close());
    expect((await failure(init(registry))).code).toBe("FORBIDDEN");
    expect(await filled()).toEqual([]);
  });
});
