import { spawnSync } from "node:child_process";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { Registry } from "../../src/rule/registry.ts";
import { makeCertificates, tlsOptions } from "../support/certificates.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { cliFile } from "../support/cli.ts";
import { startDaemonProcess } from "../support/daemon-process.ts";
import { failure } from "../support/failures.ts";
import { HolderProcess } from "../support/holder.ts";
import { openRedis, redisMissing, RedisServer } from "../support/redis.ts";
import { freePort } from "../support/servers.ts";

/** The commands that a user needs: all of these, and no others. */
const commands =
  "eval evalsha info time type exists get set del hget hmget hset hdel lrem rpush " +
  "scan zadd zcard zrange zrangebyscore zrem zremrangebyrank zrevrange zrevrangebyscore zscore";
const secret = "open-sesame";

let server: RedisServer;

/** Everything that a registry can be asked for. */
async function everything(registry: Registry, namespace: string): Promise<void> {
  const wish = { namespace, window: 500 };
  await registry.init({ new: true, namespace, layout: claimRequest().layout });
  for (let round = 0; round < 2; round++) {
    const request = claimRequest(wish);
    const grant = await granted(registry, request);
    const key = keyOf(request, grant);
    await registry.renew({ ...key, clock: Date.now(), window: 500 });
    await registry.release({ ...key, clock: Date.now(), used: { until: grant.from } });
  }
  await granted(registry, claimRequest({ ...wish, workerId: 5 }));
  // The others are taken: this one asks the index by age.
  expect(await registry.claim(claimRequest({ ...wish, pool: { first: 5, last: 5 } }))).toMatchObject({
    outcome: "exhausted",
  });
  await registry.forceRelease({ namespace, workerId: 5, force: true });
  await registry.pin(namespace, 9, "tried");
  expect(await registry.unpin(namespace, 9)).toBe(true);
  expect(await registry.workers(namespace)).toHaveLength(2);
  expect(await registry.worker(namespace, 5)).toMatchObject({ fence: 1 });
  expect((await registry.history(namespace, 0)).map(({ fence }) => fence)).toEqual([1, 2]);
  expect(await registry.prune(namespace, Date.now() + 60_000)).toBe(1);
  // A program that is not ours takes a number, and gives it back.
  const use = `workerId/${namespace}:use:12`;
  await server.client().set(use, "10.0.0.9:1");
  expect(await registry.claim(claimRequest({ ...wish, workerId: 12 }))).toMatchObject({ outcome: "foreign" });
  await server.client().del(use);
  await granted(registry, claimRequest({ ...wish, workerId: 12 }));
  // Records of the whole pool lie under two names by now.
  await granted(registry, claimRequest(wish));
  expect(await registry.describe(namespace)).toBeDefined();
}

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "a Redis that is particular about who asks", () => {
  let tlsPort: number;
  let authority: string;

  beforeAll(async () => {
    tlsPort = await freePort();
    server = await RedisServer.start();
    const { folder } = server.process;
    await server.kill();
    const certificates = makeCertificates(folder);
    authority = certificates.authority;
    await server.start(tlsOptions(certificates, tlsPort));
  });
  afterAll(() => server.remove());

  /** A user with these rights; its registry. */
  async function openAs(user: string, rights: readonly string[], password = secret): Promise<Registry> {
    const keys = ["~workerId", "~workerId:*", "~workerId/*"];
    await server.client().call("ACL", "SETUSER", user, "reset", "on", `>${secret}`, ...keys, ...rights);
    const registry = await openRedis(`redis://${user}:${password}@127.0.0.1:${server.port}`, 1000);
    onTestFinished(() => registry.close());
    return registry;
  }

  const rights = commands.split(" ").map((command) => `+${command}`);

  test("a user with the rights that are listed can do everything, and tell what it promises if it may", async () => {
    const registry = await openAs("listed", rights);
    await everything(registry, "listed");
    expect((await registry.ping()).durability).toContain("does not tell");
    const curious = await openAs("curious", [...rights, "+config|get", "+wait"]);
    expect((await curious.ping()).durability).toContain("power loss");
    const careful = await openRedis(`redis://curious:${secret}@127.0.0.1:${server.port}?wait=1`, 600);
    onTestFinished(() => careful.close());
    // There is nobody to confirm it; but it may be asked for.
    const error = await failure(careful.claim(claimRequest({ namespace: "listed" })));
    expect(error).toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
    expect(error.message).toContain("0 of 1 replicas");
    await registry.pin("listed", 9, "kept", { ip: "10.0.0.9" });
    await registry.remove?.({ namespace: "listed", era: (await registry.describe("listed"))?.era ?? "" });
    const left = await server.client().keys("workerId/listed:*");
    // Another program was seen, so marks stay until the windows have passed.
    const marks = left.filter((key) => key.startsWith("workerId/listed:use:"));
    for (const key of marks) expect(await server.client().pttl(key)).toBeGreaterThan(0);
    expect(left.filter((key) => !marks.includes(key))).toEqual(["workerId/listed:meta"]);
  });

  test.each(commands.split(" ").filter((command) => command !== "eval"))(
    "without %s it is FORBIDDEN, and the message holds no secret",
    async (command) => {
      const namespace = `without_${command}`;
      const registry = await openAs(
        namespace,
        rights.filter((right) => right !== `+${command}`),
      );
      const error = await failure(everything(registry, namespace));
      expect(error.code).toBe("FORBIDDEN");
      expect(error.message).not.toContain(secret);
      expect(error.message.split("\n")).toHaveLength(1);
    },
  );

  test("without EVAL, on a server that does not know the scripts", async () => {
    const registry = await openAs(
      "without_eval",
      rights.filter((right) => right !== "+eval"),
    );
    await server.client().script("FLUSH");
    expect(await failure(registry.describe("any"))).toMatchObject({ code: "FORBIDDEN" });
  });

  test("keys of another namespace are FORBIDDEN", async () => {
    const registry = await openAs("orders_only", ["resetkeys", "~workerId/orders", "~workerId/orders:*", ...rights]);
    await everything(registry, "orders");
    expect(await failure(registry.describe("invoices"))).toMatchObject({ code: "FORBIDDEN" });
  });

  test("a password that the server does not ask for is told, and one that it asks for is not", async () => {
    const open = await RedisServer.start();
    onTestFinished(() => open.remove());
    await open.client().call("ACL", "SETUSER", "reader", "reset", "on", ">right", "+@all", "~*");
    const told = async (login: string, { port } = open): Promise<boolean | undefined> => {
      const registry = await openRedis(`redis://${login}127.0.0.1:${port}`, 1000);
      onTestFinished(() => registry.close());
      const first = await registry.ping();
      expect((await registry.ping()).unguarded).toBe(first.unguarded);
      return first.unguarded;
    };
    for (const login of [":any@", "default:any@"]) expect(await told(login), login).toBe(true);
    for (const login of ["", "reader:right@"]) expect(await told(login), login).toBeUndefined();
    const closed = await RedisServer.start([], "right");
    onTestFinished(() => closed.remove());
    expect(await told(":right@", closed)).toBeUndefined();
    const daemon = await startDaemonProcess(open.url().replace("//", "//:any@"));
    onTestFinished(async () => void (await daemon.end("SIGKILL")));
    for (const url of [open.url().replace("//", "//:any@"), daemon.url]) {
      const found = spawnSync(process.execPath, [cliFile, "doctor", "--registry", url], { encoding: "utf8" });
      expect(found).toMatchObject({ status: 9, stderr: "" });
      expect(found.stdout).toMatch(/^warn +login +The registry's server asks for no password, /m);
    }
  });

  test("a wrong password, a user that nobody knows, none at all: UNAUTHORIZED, without the secret", async () => {
    const wrong = await openAs("somebody", rights, "guess-4711");
    const error = await failure(wrong.describe("any"));
    expect(error.code).toBe("UNAUTHORIZED");
    expect(`${error.message} ${JSON.stringify(error)} ${String(error.stack)}`).not.toMatch(/guess-4711|open-sesame/);
    const stranger = await openRedis(`redis://nobody:${secret}@127.0.0.1:${server.port}`, 1000);
    onTestFinished(() => stranger.close());
    expect(await failure(stranger.describe("any"))).toMatchObject({ code: "UNAUTHORIZED" });
    await server.client().call("ACL", "SETUSER", "default", "off");
    const anonymous = await openRedis(server.url(), 1000);
    onTestFinished(() => anonymous.close());
    expect(await failure(anonymous.describe("any"))).toMatchObject({ code: "UNAUTHORIZED" });
  });

  test("by TLS, with an authority that the machine does not know: only who is told of it gets in", async () => {
    await server.client().call("ACL", "SETUSER", "tls", "on", `>${secret}`, "~*", "+@all");
    const registry = `rediss://tls:${secret}@127.0.0.1:${tlsPort}`;
    const setup = await openRedis(`redis://tls:${secret}@127.0.0.1:${server.port}`);
    onTestFinished(() => setup.close());
    await setup.init({ new: true, namespace: "tls", layout: claimRequest().layout });
    const options = { registry, namespace: "tls", operationTimeout: 1000 };
    const trusting = new HolderProcess(options, { environment: { NODE_EXTRA_CA_CERTS: authority } });
    const doubting = new HolderProcess(options);
    onTestFinished(async () => {
      await Promise.all([trusting.kill(), doubting.kill()]);
    });
    await trusting.ask("start");
    await trusting.ask("make", { count: 100 });
    await trusting.ask("close");
    expect(new Set(trusting.ids()).size).toBe(100);
    const error = await failureOf(doubting.ask("start"));
    expect(error).toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
    expect(error.message).toMatch(/certificate/);
    expect(error.message).not.toContain(secret);
  });
});

async function failureOf(promise: Promise<unknown>): Promise<Error> {
  return promise.then(
    () => new Error("It did not fail."),
    (error: Error) => error,
  );
}
