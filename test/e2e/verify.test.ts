import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { VerifyReport } from "../../src/verify/verify.ts";
import { Sandbox } from "../support/cli.ts";
import { Etcd, etcdMissing } from "../support/etcd.ts";
import { postgresMissing, PostgresServer } from "../support/postgres.ts";
import { expectWell, minutes, verify } from "../support/verify.ts";

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
