import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { type Daemon, startDaemon } from "../../src/daemon.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { memoryRegistry } from "../../src/testing.ts";
import { Sandbox } from "../support/cli.ts";
import { root } from "../support/markdown.ts";
import { redisMissing, RedisServer } from "../support/redis.ts";
import { minutes, verify } from "../support/verify.ts";

const refusals = [
  ..."Error LEASE_EXPIRED LEASE_LOST WORKER_ID_HELD POOL_EXHAUSTED REGISTRY_UNAVAILABLE CLOCK_ROLLBACK CLOCK_SKEW".split(
    " ",
  ),
  ..."QUARANTINE SEQUENCE_EXHAUSTED MaxRetriesPerRequestError".split(" "),
];

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "on a Redis", () => {
  let server: RedisServer;
  beforeAll(async () => void (server = await RedisServer.start()));
  afterAll(() => server.remove());

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

describe("through a daemon", () => {
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
