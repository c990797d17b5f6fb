import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { conformance } from "../../src/conformance.ts";
import { type Daemon, startDaemon } from "../../src/daemon.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { memoryRegistry } from "../../src/testing.ts";
import type { VerifyReport } from "../../src/verify/verify.ts";
import { Sandbox } from "../support/cli.ts";
import { Etcd, etcdMissing } from "../support/etcd.ts";
import { root } from "../support/markdown.ts";
import { postgresMissing, PostgresServer } from "../support/postgres.ts";
import { redisMissing, RedisServer } from "../support/redis.ts";

const minutes = 60_000;

/** Runs the command on a registry, and reads its report. */
async function verify(
  sandbox: Sandbox,
  url: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<{ readonly code: number; readonly report: VerifyReport }> {
  const { code, stdout, stderr } = await sandbox.run(["verify", url, "--yes", "--json", ...args], { env });
  expect([0, 1], stderr).toContain(code);
  return { code, report: JSON.parse(stdout) as VerifyReport };
}

/** All is well, and each check of the contract was run or says why not. */
function expectWell({ code, report }: Awaited<ReturnType<typeof verify>>): void {
  expect(report.failures).toEqual([]);
  expect(code).toBe(0);
  const { passed = 0, skipped = {} } = report.contract ?? {};
  expect(passed + Object.values(skipped).flat().length).toBe(conformance.length);
  expect(report.nemesis?.ids).toBeGreaterThan(0);
  expect(report.restarts?.ids).toBeGreaterThan(0);
  expect(report.removal.removed).toBeGreaterThan(200);
}

describe.skipIf(postgresMissing !== undefined)(postgresMissing ?? "on a PostgreSQL", () => {
  let server: PostgresServer;
  beforeAll(async () => void (server = await PostgresServer.start()));
  afterAll(() => server.remove());

  test("all is well, and no table is left", { timeout: 10 * minutes }, async () => {
    expectWell(await verify(new Sandbox(), server.url(), ["--nemesis", "10s"]));
    expect(await server.query("SELECT tablename FROM pg_tables WHERE tablename LIKE 'workerid%'")).toEqual([]);
  });

  test("a user who may make no tables is told so in one line", { timeout: minutes }, async () => {
    await server.query("CREATE ROLE reader LOGIN PASSWORD 'secret'");
    await server.query("REVOKE CREATE ON SCHEMA public FROM PUBLIC");
    const url = server.url().replace(/\/\/[^@/]*@?/, "//reader:secret@");
    const { code, stdout, stderr } = await new Sandbox().run(["verify", url, "--yes"]);
    expect([code, stdout]).toEqual([8, ""]);
    expect(stderr).toMatch(/^snowlease: FORBIDDEN: [^\n]*\n$/);
    expect(stderr).not.toContain("secret");
  });
});

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "on a Redis", () => {
  let server: RedisServer;
  beforeAll(async () => void (server = await RedisServer.start()));
  afterAll(() => server.remove());

  test("all is well beside a restart of the server, and no key is left", { timeout: 10 * minutes }, async () => {
    const sandbox = new Sandbox();
    const trigger = join(sandbox.work, "restart");
    const over = new AbortController();
    onTestFinished(() => over.abort());
    let restarts = 0;
    const restarting = (async () => {
      for (; !over.signal.aborted; await sleep(20)) {
        if (!existsSync(trigger)) continue;
        await server.kill();
        await server.start();
        restarts++;
        rmSync(trigger);
      }
    })();
    const command = `touch ${trigger}; while [ -e ${trigger} ]; do sleep 0.05; done`;
    const done = await verify(sandbox, server.url(), ["--nemesis", "10s", "--restart", command]);
    over.abort();
    await restarting;
    expectWell(done);
    expect(restarts).toBe(2);
    const recovered = done.report.restarts?.cases.filter((each) => each.recovered !== undefined) ?? [];
    expect(recovered).toHaveLength(2);
    const client = new Redis(server.url());
    onTestFinished(() => client.disconnect());
    expect(await client.keys("*")).toEqual([]);
  });

  // The others of `prove` make no ID twice unless a store is put back, or a process copied: the contract finds them, below.
  test.each(["unguarded", "heartbeat", "setnx", "unfenced", "unwritten", "unused"])(
    "finds out the naive maker %s by its IDs",
    { timeout: 3 * minutes },
    async (naive) => {
      const module = join(root, "test/support/naive-ids.mjs");
      const args = ["--module", module, "--only", "restarts", "--refusals", refusals.join()];
      const env = { NAIVE: naive, NAIVE_HOST: "one-host" };
      const { code, report } = await verify(new Sandbox(), server.url(), args, env);
      expect(code).toBe(1);
      expect(report.failures.join("\n")).toMatch(/IDs were made more than once/);
    },
  );
});

test.skipIf(redisMissing !== undefined)(
  "the nemesis finds out a naive maker, too",
  { timeout: 3 * minutes },
  async () => {
    const server = await RedisServer.start();
    onTestFinished(() => server.remove());
    const module = join(root, "test/support/naive-ids.mjs");
    const args = ["--module", module, "--only", "nemesis", "--nemesis", "30s", "--refusals", refusals.join()];
    const { code, report } = await verify(new Sandbox(), server.url(), args, {
      NAIVE: "unwritten",
      NAIVE_HOST: "one-host",
    });
    expect(code).toBe(1);
    expect(report.nemesis?.duplicates).toBeGreaterThan(0);
  },
);

test("a module that fails, or never starts, is told", { timeout: 4 * minutes }, async () => {
  const sandbox = new Sandbox();
  await sandbox.read(["init", "--registry", sandbox.registry]);
  const text =
    "export default (options) => ({ next: () => { if (Math.random() < 0.01) throw new TypeError('odd'); return process.hrtime.bigint(); } });";
  writeFileSync(join(sandbox.work, "odd.mjs"), text);
  const args = ["--only", "nemesis", "--nemesis", "3s", "--module"];
  const odd = await verify(sandbox, sandbox.registry, [...args, join(sandbox.work, "odd.mjs")]);
  expect(odd.report.failures.join()).toContain("a process failed with TypeError: odd");
  writeFileSync(join(sandbox.work, "none.mjs"), "export default () => new Promise(() => {});");
  const none = await verify(sandbox, sandbox.registry, [...args, join(sandbox.work, "none.mjs")]);
  expect(none.report.failures.join()).toContain("a process took longer than 60 s to start");
  expect([odd.code, none.code]).toEqual([1, 1]);
});

const refusals = [
  ..."Error LEASE_EXPIRED LEASE_LOST WORKER_ID_HELD POOL_EXHAUSTED REGISTRY_UNAVAILABLE CLOCK_ROLLBACK CLOCK_SKEW".split(
    " ",
  ),
  ..."QUARANTINE SEQUENCE_EXHAUSTED MaxRetriesPerRequestError".split(" "),
];

describe.skipIf(etcdMissing !== undefined)(etcdMissing ?? "on an etcd", () => {
  let server: Etcd;
  beforeAll(async () => void (server = await Etcd.start()));
  afterAll(() => server.remove());

  test("all is well, and no key is left", { timeout: 10 * minutes }, async () => {
    const done = await verify(new Sandbox(), server.url(), ["--nemesis", "10s", "--seed", "7"]);
    expectWell(done);
    expect(done.report.seed).toBe(7);
    expect(done.report.nemesis?.connections).toBeGreaterThan(0);
    expect(done.report.notRun.join()).not.toContain("partitions");
    expect(await server.keys()).toEqual([]);
  });

  test("an interruption removes what was made, and says that it was one", { timeout: 3 * minutes }, async () => {
    const verifying = new Sandbox().start(["verify", server.url(), "--yes", "--json"]);
    while ((await server.keys()).length === 0) await sleep(50);
    verifying.signal("SIGINT");
    const { code, stdout } = await verifying.ended;
    expect(code).toBe(130);
    expect((JSON.parse(stdout) as VerifyReport).notRun).toContain("the rest: it was interrupted");
    expect(await server.keys()).toEqual([]);
  });
});

describe("on a daemon", () => {
  test("all is well", { timeout: 10 * minutes }, async () => {
    const sandbox = new Sandbox();
    const { url } = await sandbox.serve();
    const done = await verify(sandbox, url, ["--nemesis", "10s"]);
    expectWell(done);
    expect(done.report).toMatchObject({ kind: "daemon", behind: "sqlite" });
  });

  /** Mistakes of a registry that make no ID twice by themselves, as the makers of `prove` of the same names have them. */
  const mistaken: Readonly<Record<string, (registry: Registry) => Partial<Registry>>> = {
    unraised: (registry) => ({
      async claim(request) {
        const answer = await registry.claim(request);
        return answer.outcome === "granted" ? { ...answer, fence: 1 } : answer;
      },
    }),
    unreceipted: (registry) => ({
      claim: (request) => registry.claim({ ...request, recall: undefined }),
      renew: (request) => registry.renew({ ...request, receipt: undefined }),
      release: (request) => registry.release({ ...request, receipt: undefined }),
    }),
    turnless: (registry) => ({
      async renew({ turn: _, nextTurn, sentTurns: __, ...request }) {
        const answer = await registry.renew(request);
        return answer.outcome === "renewed" ? { ...answer, turn: nextTurn } : answer;
      },
    }),
  };

  test.each(Object.keys(mistaken))("finds out %s by the contract", { timeout: 5 * minutes }, async (name) => {
    const registry = memoryRegistry();
    const log = { info() {}, warn() {}, error() {} };
    const wrong = { ...registry, ...mistaken[name]?.(registry) };
    const daemon: Daemon = await startDaemon({ registry: wrong, listen: { host: "127.0.0.1", port: 0 }, log });
    onTestFinished(() => daemon.close());
    const { code, report } = await verify(new Sandbox(), daemon.url ?? "", ["--only", "contract"]);
    expect(code).toBe(1);
    expect(report.contract?.failed.length).toBeGreaterThan(0);
  });
});

describe("before anything is made", () => {
  test.each<[string, (registry: string) => string[], RegExp]>([
    [
      "without a yes, where no terminal can answer",
      (url) => [url],
      /Expected `--yes`.*This tries sqlite:.*removes them/,
    ],
    ["a registry that does not exist", () => ["sqlite:none.db", "--yes"], /registry that exists, got sqlite:none\.db/],
    ["no registry", () => ["--yes"], /Expected a named registry/],
    ["a registry twice", (url) => [url, "--registry", url, "--yes"], /the registry once/],
    ["a registry in memory", () => ["memory:", "--yes"], /several processes share, got "memory:"/],
    [
      "a part that there is not",
      (url) => [url, "--yes", "--only", "contract,all"],
      /contract, restarts, nemesis, got `all`/,
    ],
    [
      "a time that is none",
      (url) => [url, "--yes", "--nemesis", "0"],
      /`--nemesis` to be a time from 2s to 24h, got `0`/,
    ],
    ["a seed that is none", (url) => [url, "--yes", "--seed", "-1"], /`--seed`/],
    [
      "a module without a part that it takes",
      (url) => [url, "--yes", "--module", "x.mjs", "--only", "contract"],
      /the contract alone/,
    ],
    ["refusals without a module", (url) => [url, "--yes", "--refusals", "X"], /beside `--module`/],
    ["a module that is not there", (url) => [url, "--yes", "--module", "none.mjs"], /none\.mjs/],
  ])("it refuses %s", async (_, args, message) => {
    const sandbox = new Sandbox();
    await sandbox.read(["init", "--registry", sandbox.registry]);
    const { code, stdout, stderr } = await sandbox.run(["verify", ...args(sandbox.registry)]);
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(/^snowlease: CONFIG_INVALID: [^\n]*\n$/);
    expect(stderr).toMatch(message);
  });

  test(
    "a server that is down is told in one line",
    async () => {
      const { code, stdout, stderr } = await new Sandbox().run(["verify", "redis://127.0.0.1:9", "--yes"]);
      expect([code, stdout]).toEqual([5, ""]);
      expect(stderr).toMatch(/^snowlease: REGISTRY_UNAVAILABLE: [^\n]*127\.0\.0\.1:9[^\n]*\n$/);
    },
    minutes,
  );
});
