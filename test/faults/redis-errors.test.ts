import { Redis } from "ioredis";
import { createConnection } from "node:net";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { isSnowleaseError, type SnowleaseError } from "../../src/id/errors.ts";
import { defaultLayout } from "../../src/id/layout.ts";
import type { ClaimKey, Grant, Refusal, Registry } from "../../src/rule/registry.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { FaultProxy } from "../support/fault-proxy.ts";
import { eventually } from "../support/holder.ts";
import { openRedis, recordAt, redisMissing, RedisServer, spoilRecord } from "../support/redis.ts";
import { ask } from "../support/servers.ts";

const namespace = "orders";
const prefix = "workerId/orders";
const layout = defaultLayout.fingerprint;
const secret = "s3cr3t";

/** The error that a promise ends in. */
async function failure(promise: Promise<unknown>): Promise<SnowleaseError> {
  try {
    await promise;
  } catch (error) {
    if (!isSnowleaseError(error)) throw error;
    expect(error.message).not.toContain("\n");
    expect(error.message).not.toContain(secret);
    return error;
  }
  throw new Error("It did not fail.");
}

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "What a Redis refuses", () => {
  let server: RedisServer;
  let client: Redis;
  let registry: Registry;
  let live: ClaimKey;
  let from: number;
  const open: Registry[] = [];

  beforeAll(async () => {
    server = await RedisServer.start();
    client = server.client();
  });
  afterAll(() => server.remove());

  /** Worker 0 is held, 1 was given back and claimed again before, 2 is pinned, 3 was given back. */
  beforeEach(async () => {
    await client.flushall();
    registry = await connect(server.url());
    await registry.init({ new: true, namespace, layout });
    const request = claimRequest();
    const grant = await granted(registry, request);
    live = keyOf(request, grant);
    from = grant.from;
    for (const workerId of [1, 1, 3]) {
      const second = claimRequest({ workerId });
      const given = await granted(registry, second);
      await registry.release({ ...keyOf(second, given), clock: Date.now(), used: { until: given.from } });
    }
    await registry.pin(namespace, 2, "broken");
  });
  afterEach(async () => {
    await Promise.all(open.splice(0).map((each) => each.close()));
  });

  async function connect(url: string, operationTimeout = 5000): Promise<Registry> {
    const made = await openRedis(url, operationTimeout);
    open.push(made);
    return made;
  }

  async function dump(): Promise<Map<string, string>> {
    const keys = (await client.keys("*")).toSorted();
    const values = await Promise.all(keys.map((key) => client.dumpBuffer(key)));
    return new Map(keys.map((key, i) => [key, values[i]?.toString("base64") ?? ""]));
  }

  const operations: Record<string, () => Promise<unknown>> = {
    init: () => registry.init({ namespace, layout }),
    describe: () => registry.describe(namespace),
    "claim any": () => registry.claim(claimRequest()),
    "claim the wanted": () => registry.claim(claimRequest({ workerId: 1 })),
    "claim what was claimed once": () => registry.claim(claimRequest({ workerId: 3 })),
    "claim in another pool": () => registry.claim(claimRequest({ pool: { first: 0, last: 511 } })),
    renew: () =>
      registry.renew({ ...live, clock: Date.now(), window: 3000, checkpoint: { timestamp: from, sequence: 1 } }),
    release: () => registry.release({ ...live, clock: Date.now(), used: { until: from + 1 } }),
    workers: () => registry.workers(namespace),
    worker: () => registry.worker(namespace, 0),
    history: () => registry.history(namespace, 1),
    forceRelease: () => registry.forceRelease({ namespace, workerId: 0, force: true }),
    pin: () => registry.pin(namespace, 1, "no reason"),
    unpin: () => registry.unpin(namespace, 2),
    prune: () => registry.prune(namespace, Date.now() + 1e6),
  };

  /** What each key is, and the operations that must notice when it is something else. */
  const keys: Record<string, { type: string; noticed: readonly string[] }> = {
    meta: { type: "hash", noticed: Object.keys(operations).filter((name) => name !== "prune") },
    "window:0": { type: "hash", noticed: ["renew", "release", "workers", "worker", "forceRelease"] },
    "window:1": { type: "hash", noticed: ["claim the wanted", "claim any", "workers", "history", "pin"] },
    "window:2": { type: "hash", noticed: ["workers", "unpin"] },
    "use:0": { type: "string", noticed: ["renew", "release", "workers", "worker", "forceRelease"] },
    "use:1": { type: "string", noticed: ["claim the wanted", "claim any", "workers", "pin"] },
    unused: { type: "zset", noticed: ["workers", "pin", "unpin"] },
    resting: { type: "zset", noticed: ["claim any", "claim the wanted", "renew", "release", "forceRelease"] },
    "host:alpha": { type: "zset", noticed: ["claim any", "claim the wanted", "renew", "release", "forceRelease"] },
    foreign: { type: "zset", noticed: [] },
    token: { type: "hash", noticed: ["claim any", "claim the wanted", "release", "forceRelease"] },
    "pid:lease@10.0.0.1": { type: "list", noticed: ["claim any", "claim the wanted", "release", "forceRelease"] },
    "history:1": { type: "zset", noticed: ["claim any", "claim the wanted", "history", "prune"] },
    "history:3": { type: "zset", noticed: ["claim what was claimed once"] },
    prunable: { type: "zset", noticed: ["claim what was claimed once", "prune"] },
  };

  for (const [name, { type, noticed }] of Object.entries(keys)) {
    for (const [operation, run] of Object.entries(operations)) {
      test(`something else at \`${name}\`: ${operation} says so or does without it, and leaves nothing half written`, async () => {
        const key = `${prefix}:${name}`;
        await client.del(key);
        await (type === "list" ? client.set(key, "theirs") : client.rpush(key, "theirs"));
        // The first claim of a pool with new limits files its records anew: a step of its own, which stands whatever follows, or is
        // not done at all where one of them cannot be read.
        const files = operation === "claim in another pool" && !name.startsWith("window:");
        if (files) await run().catch(() => undefined);
        const before = await dump();
        const error = await run().then(
          () => undefined,
          (thrown: unknown) => thrown,
        );
        if (noticed.includes(operation) || error !== undefined) {
          expect(error).toMatchObject({ code: "SCHEMA_INCOMPATIBLE" });
          expect((error as Error).message).toMatch(/^Redis 127.0.0.1:\d+ .*; use another namespace\.$/);
          expect(await dump()).toEqual(before);
        } else {
          expect((await dump()).get(key)).toBe(before.get(key));
        }
      });
    }
  }

  const whole = ["fence", "from", "until", "seenClock", "knownFrom", "claimedAt"];
  const maybe = ["recentFrom", "lastTimestamp", "lastSequence", "releasedAt", "continuedFrom"];
  for (const field of [...whole, ...maybe]) {
    for (const nonsense of [
      '"abc"',
      '""',
      '"1700000000000"',
      '"1\\r\\n2"',
      '"\\u0000"',
      "1.5",
      "-7",
      "NaN",
      "Infinity",
      "9".repeat(30),
      "true",
      "{}",
    ]) {
      test(`a record whose \`${field}\` is ${nonsense}: says so, and nothing is half written`, async () => {
        for (const workerId of [0, 1]) await spoilRecord(client, `${prefix}:window:${workerId}`, field, nonsense);
        const before = await dump();
        const those = ["claim any", "claim the wanted", "renew", "release", "workers", "worker", "forceRelease", "pin"];
        for (const operation of those) {
          const error = await failure(operations[operation]?.() ?? Promise.resolve());
          expect([operation, error.code]).toEqual([operation, "SCHEMA_INCOMPATIBLE"]);
          expect(error.message).toMatch(new RegExp(`\`${field}\` at the key \`${prefix}:window:[01]\``));
        }
        expect(await dump()).toEqual(before);
      });
    }
  }

  test.each(whole)("a record without `%s` says so", async (field) => {
    await spoilRecord(client, `${prefix}:window:0`, field);
    const before = await dump();
    const error = await failure(registry.worker(namespace, 0));
    expect(error).toMatchObject({ code: "SCHEMA_INCOMPATIBLE" });
    expect(error.message).toContain(`holds nothing as \`${field}\``);
    expect(await failure(registry.renew({ ...live, clock: Date.now(), window: 100 }))).toMatchObject({
      code: "SCHEMA_INCOMPATIBLE",
    });
    expect(await dump()).toEqual(before);
  });

  const window0 = `${prefix}:window:0`;
  const nonsense = "\u0000\r\n§ nonsense";
  test.each([
    "clean",
    "host",
    "ip",
    "pid",
    "instance",
    "process",
    "pinned",
    "era",
    "renewals",
    "turn",
    "ended",
    "+token",
    "+recent",
  ])(
    "a record whose `%s` is nonsense or gone: nobody gets its window, and nothing but our codes comes out",
    async (name) => {
      const field = name.replace("+", "");
      const beside = [
        () => client.hset(window0, field, nonsense),
        () => client.hset(window0, field, ""),
        () => client.hdel(window0, field),
      ];
      const within = ["true", "7", "{}", JSON.stringify(nonsense), '""', undefined].map(
        (json) => () => spoilRecord(client, window0, field, json),
      );
      for (const spoil of name === field ? within : beside) {
        await spoil();
        const until = Number((await recordAt(client, window0))?.["until"]);
        for (const operation of ["claim any", "workers", "worker", "history", "renew"]) {
          const error = await operations[operation]?.().then(
            () => undefined,
            (thrown: unknown) => thrown,
          );
          if (error !== undefined) expect(error).toMatchObject({ code: "SCHEMA_INCOMPATIBLE" });
        }
        const answer = await registry.claim(claimRequest({ workerId: 0 })).catch((error: unknown) => error);
        if (isSnowleaseError(answer)) expect(answer).toMatchObject({ code: "SCHEMA_INCOMPATIBLE" });
        else if ((answer as Grant | Refusal).outcome === "granted")
          expect((answer as Grant).from).toBeGreaterThanOrEqual(until);
        expect(Number((await recordAt(client, window0))?.["until"])).toBeGreaterThanOrEqual(until);
      }
    },
  );

  test.each(["", "7", "nonsense", "\u00c1", "\u0081\u00a1"])(
    "a record that is no record (%j) says so, and nothing is half written",
    async (text) => {
      await client.hset(window0, "record", Buffer.from(text, "latin1"));
      const before = await dump();
      for (const operation of ["renew", "release", "workers", "worker", "forceRelease"]) {
        const error = await failure(operations[operation]?.() ?? Promise.resolve());
        expect([operation, error.code]).toEqual([operation, "SCHEMA_INCOMPATIBLE"]);
        expect(error.message).toContain(`at the key \`${window0}\``);
      }
      expect(await failure(registry.claim(claimRequest({ workerId: 0 })))).toMatchObject({
        code: "SCHEMA_INCOMPATIBLE",
      });
      expect(await dump()).toEqual(before);
    },
  );

  test.each(["maxWindow", "maxClockSkew", "era", "quarantineEnd", "opensAt"])(
    "a `meta` whose `%s` is nonsense says so",
    async (field) => {
      await client.hset(`${prefix}:meta`, field, "soon");
      const before = await dump();
      for (const operation of ["claim any", "renew", "release", "init"]) {
        const error = await failure(operations[operation]?.() ?? Promise.resolve());
        expect(error).toMatchObject({ code: "SCHEMA_INCOMPATIBLE" });
        expect(error.message).toContain(`holds \`soon\` (string) as \`${field}\` at the key \`${prefix}:meta\``);
      }
      expect(await dump()).toEqual(before);
    },
  );

  test("scripts that the server forgot are sent again, each operation done once", async () => {
    for (const run of Object.values(operations)) {
      await client.script("FLUSH");
      await run();
    }
    expect((await registry.history(namespace, 0)).map(({ end }) => end)).toEqual(["released"]);
  });

  test("what a claim writes first is its record, in one piece", async () => {
    const monitor = await server.client().monitor();
    onTestFinished(() => monitor.disconnect());
    const seen: string[][] = [];
    monitor.on("monitor", (_time: string, args: string[], source: string) => {
      if (source.includes("lua") || String(args).startsWith("lua")) seen.push(args);
    });
    await registry.claim(claimRequest({ workerId: 1, window: 200 }));
    await registry.renew({ ...live, clock: Date.now(), window: 200 });
    const reads = /^(?:time|type|hget|hmget|info|get|exists|zcard|zrange|zrevrange|zrangebyscore)$/i;
    const writesOf = (key: string): string[][] =>
      seen.filter(([name = "", at]) => !reads.test(name) && at === `${prefix}:${key}`);
    await eventually(async () => writesOf("window:0").length, Boolean);
    const [first] = seen.filter(([name = ""]) => !reads.test(name));
    expect(first?.slice(0, 3)).toEqual([expect.stringMatching(/^hset$/i), `${prefix}:window:1`, "record"]);
    expect(writesOf("window:0")[0]?.slice(0, 3)).toEqual([
      expect.stringMatching(/^hset$/i),
      `${prefix}:window:0`,
      "record",
    ]);
  });

  test("no memory left: refused, nothing half written, and it goes on with more", async () => {
    await client.config("SET", "maxmemory", "1mb");
    onTestFinished(() => void client.config("SET", "maxmemory", "0"));
    const before = await dump();
    for (const operation of ["claim any", "claim the wanted", "renew", "release", "forceRelease", "pin"]) {
      const error = await failure(operations[operation]?.() ?? Promise.resolve());
      expect([operation, error.code]).toEqual([operation, "REGISTRY_UNAVAILABLE"]);
      expect(error.message).toContain("has no memory left");
    }
    expect(await dump()).toEqual(before);
    expect(await registry.workers(namespace)).toHaveLength(4);
    await client.config("SET", "maxmemory", "0");
    expect(await operations["renew"]?.()).toMatchObject({ outcome: "renewed" });
  });

  test.each(["allkeys-lru", "allkeys-lfu", "allkeys-random"])("maxmemory-policy %s is refused", async (policy) => {
    await client.config("SET", "maxmemory-policy", policy);
    onTestFinished(() => void client.config("SET", "maxmemory-policy", "noeviction"));
    const fresh = await connect(server.url());
    const before = await dump();
    const error = await failure(fresh.claim(claimRequest()));
    expect(error).toMatchObject({ code: "CONFIG_INVALID" });
    expect(error.message).toContain(policy);
    expect(await dump()).toEqual(before);
    await client.config("SET", "maxmemory-policy", "volatile-lru");
    await granted(fresh, claimRequest());
  });

  test("a replica: refused with whom to name, and nothing waits for ever", async () => {
    const replica = await RedisServer.start();
    onTestFinished(() => replica.remove());
    await replica.client().replicaof("127.0.0.1", server.port);
    await eventually(
      () => replica.client().info("replication"),
      (text) => text.includes("master_link_status:up"),
    );
    const below = await connect(replica.url(), 1000);
    const error = await failure(below.renew({ ...live, clock: Date.now(), window: 100 }));
    expect(error).toMatchObject({ code: "REGISTRY_UNAVAILABLE", retryable: true });
    expect(error.message).toContain("is a replica");
    expect(await below.workers(namespace)).toHaveLength(4);
    await replica.client().config("SET", "replica-serve-stale-data", "no");
    await server.client().config("SET", "min-replicas-to-write", "2");
    onTestFinished(() => void server.client().config("SET", "min-replicas-to-write", "0"));
    const few = await failure(operations["renew"]?.() ?? Promise.resolve());
    expect(few).toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
    expect(few.message).toContain("too few replicas");
  });

  test("a replica that cannot be reached again: the error is still that it is a replica", async () => {
    const replica = await RedisServer.start();
    onTestFinished(() => replica.remove());
    await replica.client().replicaof("127.0.0.1", 1);
    const way = await FaultProxy.start(replica.port);
    onTestFinished(() => way.stop());
    const below = await connect(`redis://127.0.0.1:${way.port}`, 1000);
    await below.ping().catch(() => undefined);
    way.set({ refuse: true });
    const { code, message } = await failure(below.renew({ ...live, clock: Date.now(), window: 100 }));
    expect([code, message]).toEqual(["REGISTRY_UNAVAILABLE", expect.stringContaining("is a replica")]);
  });

  test("a replica whose connection breaks while it is asked again: the error still says that it is a replica", async () => {
    const replica = await RedisServer.start();
    onTestFinished(() => replica.remove());
    const admin = replica.client();
    await admin.replicaof("127.0.0.1", 1);
    const way = await FaultProxy.start(replica.port);
    onTestFinished(() => way.stop());
    const below = await connect(`redis://127.0.0.1:${way.port}`, 60_000);
    const asked = failure(below.ping());
    await eventually(
      () => admin.info("commandstats"),
      (text) => text.includes("cmdstat_eval:"),
    );
    await admin.call("CLIENT", "PAUSE", 60_000, "WRITE");
    await eventually(
      () => admin.call("CLIENT", "LIST"),
      (list) => / flags=b .* cmd=eval/.test(String(list)),
    );
    way.reset();
    const { code, message } = await asked;
    expect([code, message]).toEqual(["REGISTRY_UNAVAILABLE", expect.stringContaining("read only replica")]);
  });

  test("a login that is missing, wrong, or too weak", async () => {
    const own = await RedisServer.start(["--requirepass", secret]);
    onTestFinished(() => own.remove());
    const admin = new Redis({ port: own.port, password: secret });
    onTestFinished(() => admin.disconnect());
    await admin.call(
      "ACL",
      "SETUSER",
      "weak",
      "on",
      `>${secret}`,
      "~*",
      "+@read",
      "+@connection",
      "+info",
      "+eval",
      "+evalsha",
      "+time",
    );
    await admin.call("ACL", "SETUSER", "blind", "on", `>${secret}`, "~other:*", "+@all");
    await admin.call("ACL", "SETUSER", "mute", "on", `>${secret}`, "~*", "+@connection");
    const at = (login: string): Promise<Registry> => connect(`redis://${login}127.0.0.1:${own.port}`, 2000);
    const full = await at(`:${secret}@`);
    await full.init({ new: true, namespace, layout });

    const codeOf = async (login: string, run: (registry: Registry) => Promise<unknown>): Promise<string> =>
      (await failure(run(await at(login)))).code;
    const claim = (each: Registry): Promise<unknown> => each.claim(claimRequest());
    const before = await admin.dbsize();
    expect(await codeOf("", claim)).toBe("UNAUTHORIZED");
    expect(await codeOf(`:wrong-${secret}@`, claim)).toBe("UNAUTHORIZED");
    expect(await codeOf(`nobody:${secret}@`, claim)).toBe("UNAUTHORIZED");
    expect(await codeOf(`weak:${secret}@`, claim)).toBe("FORBIDDEN");
    expect(await codeOf(`blind:${secret}@`, claim)).toBe("FORBIDDEN");
    expect(await codeOf(`mute:${secret}@`, claim)).toBe("FORBIDDEN");
    expect(await codeOf(`mute:${secret}@`, (each) => each.ping())).toBe("FORBIDDEN");
    expect(await admin.dbsize()).toBe(before);
    // A login that is taken away while it is used.
    await admin.call("ACL", "SETUSER", "leaver", "on", `>${secret}`, "~*", "+@all");
    const leaver = await at(`leaver:${secret}@`);
    await granted(leaver, claimRequest());
    await admin.call("ACL", "DELUSER", "leaver");
    await eventually(
      () => failure(leaver.describe(namespace)).then(({ code }) => code),
      (code) => code === "UNAUTHORIZED",
    );
  });

  test("a node of a cluster under a plain URL", async () => {
    const busOf = new Map<RedisServer, number>();
    const nodes = [await startNode(), await startNode()] as const;
    const [a, b] = nodes.map((node) => node.client()) as [Redis, Redis];
    await a.call("CLUSTER", "ADDSLOTSRANGE", 0, 8191);
    await b.call("CLUSTER", "ADDSLOTSRANGE", 8192, 16_383);
    await a.call("CLUSTER", "MEET", "127.0.0.1", nodes[1].port, busOf.get(nodes[1]) ?? 0);
    for (const each of [a, b]) {
      await eventually(
        () => each.call("CLUSTER", "INFO"),
        (text) => String(text).includes("cluster_state:ok"),
      );
    }
    for (const node of nodes) {
      const plain = await connect(node.url());
      const error = await failure(plain.init({ namespace, layout }));
      expect(error).toMatchObject({ code: "CONFIG_INVALID" });
      expect(error.message).toContain("redis+cluster:");
    }

    async function startNode(): Promise<RedisServer> {
      for (;;) {
        const bus = await RedisServer.start();
        const { port } = bus;
        await bus.remove();
        const node = await RedisServer.start(["--cluster-enabled", "yes", "--cluster-port", String(port)]).catch(
          () => undefined,
        );
        if (node === undefined) continue;
        onTestFinished(() => node.remove());
        busOf.set(node, port);
        return node;
      }
    }
  });

  test("a server that is loading its data", async () => {
    const own = await RedisServer.start();
    onTestFinished(() => own.remove());
    const filler = own.client();
    const { namespace: name } = live;
    const first = await connect(own.url(), 300);
    await first.init({ new: true, namespace: name, layout });
    const pipeline = filler.pipeline();
    for (let i = 0; i < 2000; i++) pipeline.set(`filler:${i}`, "x".repeat(100));
    await pipeline.exec();
    await filler.bgrewriteaof();
    await eventually(
      () => filler.info("persistence"),
      (text) => text.includes("aof_rewrite_in_progress:0"),
    );
    filler.disconnect();
    await own.kill();
    const started = own.start(["--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024"]);
    const error = await failure(
      eventually(
        () => first.describe(name).catch((thrown: SnowleaseError) => Promise.reject(thrown)),
        () => false,
      ),
    );
    expect(error).toMatchObject({ code: "REGISTRY_UNAVAILABLE", retryable: true });
    await started;
    await eventually(
      () =>
        first.describe(name).then(
          () => true,
          () => false,
        ),
      Boolean,
    );
  });

  test("a server that is busy with another script", async () => {
    const own = await RedisServer.start(["--busy-reply-threshold", "20"]);
    onTestFinished(() => own.remove());
    const busy = await connect(own.url(), 1000);
    await busy.init({ new: true, namespace, layout });
    const stuck = createConnection(own.port, "127.0.0.1");
    onTestFinished(() => void stuck.destroy());
    stuck.write('EVAL "while true do end" 0\r\n');
    await eventually(
      () => ask(own.port, "PING\r\n"),
      (said) => said.startsWith("-BUSY"),
    );
    const error = await failure(busy.claim(claimRequest()));
    expect(error).toMatchObject({ code: "REGISTRY_UNAVAILABLE", retryable: true });
    expect(error.message).toContain("busy with another script");
    // Its end is not far off for one that waits longer.
    const patient = granted(await connect(own.url(), 5000), claimRequest());
    await ask(own.port, "SCRIPT KILL\r\n");
    expect(await patient).toMatchObject({ workerId: 0 });
  });
});
