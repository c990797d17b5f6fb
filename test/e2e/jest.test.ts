// A service's tests under Jest as it comes, which transforms no package and has no `import()`.

import { beforeAll, expect, onTestFinished, test } from "vitest";
import { Sandbox } from "../support/cli.ts";
import { redisProgram } from "../support/redis.ts";
import { asTested, pack, sqlitePackages, UserProject } from "../support/user-project.ts";

const minutes = 60_000;
const app = new UserProject();

beforeAll(async () => {
  const { file } = await pack();
  const packages = ["ioredis", "redlock"].map(asTested);
  await app.install("--ignore-scripts", file, "jest@30.5.2", ...packages, ...sqlitePackages);
}, 5 * minutes);

async function jest(text: string, env: NodeJS.ProcessEnv = {}): Promise<string> {
  app.write("ids.test.js", text);
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  const { code, stderr } = await app.run("env", ...variables, "node", "node_modules/jest/bin/jest.js", "--ci");
  expect(code, stderr).toBe(0);
  return stderr;
}

test(
  "it leases from a file, with all kinds of help for tests, and tells errors as they are",
  { timeout: 3 * minutes },
  async () => {
    const report = await jest(`
    const { isSnowleaseError, snowlease, SnowleaseError } = require("snowlease");
    const { expectNoDuplicates, fakeClock, memoryRegistry, startHolder } = require("snowlease/testing");
    const { conformance } = require("snowlease/conformance");
    const { inOneStep } = require("snowlease/store");
    const registry = "sqlite:" + __dirname + "/jest.db";

    test("a file", async () => {
      const ids = await snowlease({ registry });
      expectNoDuplicates([...ids.take(1000)]);
      await ids.close();
    });
    test("a fake clock", async () => {
      const clock = fakeClock();
      const ids = await snowlease({ registry: memoryRegistry({ clock }), clock });
      const first = ids.next();
      await clock.advance(120_000);
      expect(ids.next()).toBeGreaterThan(first);
      await ids.close();
    });
    test("a process of its own", async () => {
      const holder = await startHolder({ registry });
      await holder.make(10);
      await holder.kill();
      expectNoDuplicates(holder.ids);
      expect(holder.ids).toHaveLength(10);
    }, 60_000);
    test("errors", async () => {
      const refused = await snowlease({ registry: "postgres://u@127.0.0.1:1/d" }).catch((error) => error);
      expect(refused).toBeInstanceOf(SnowleaseError);
      expect(isSnowleaseError(refused)).toBe(true);
      expect(refused.message).toContain("needs a driver that is not installed: run \`npm install pg\`");
      await expect(snowlease({ registry: "sqlite:" + __dirname + "/package.json/r.db" })).rejects.toThrow(SnowleaseError);
    });
    test("an assigner in a file", async () => {
      require("node:fs").writeFileSync(__dirname + "/assigner.cjs", "module.exports = { name: 'mine', assign: async () => 5 };");
      const ids = await snowlease({ registry: "memory:", assigner: __dirname + "/assigner.cjs" });
      expect(ids.lease.workerId).toBe(5);
      await ids.close();
    });
    test("other entries", () => {
      expect(conformance.length).toBeGreaterThan(100);
      expect(typeof inOneStep).toBe("function");
    });
  `);
    expect(report).toMatch(/^Tests: +6 passed, 6 total$/m);
  },
);

test.skipIf(redisProgram.missing !== undefined)(
  "it leases from Redis, whose driver a test may replace",
  async () => {
    const server = await redisProgram.start();
    onTestFinished(() => server.remove());
    expect(await new Sandbox().run(["init", "orders", "--new", "--registry", server.url()])).toMatchObject({ code: 0 });
    const report = await jest(
      `
    const { snowlease } = require("snowlease");
    test("Redis", async () => {
      const ids = await snowlease({ registry: process.env.URL, namespace: "orders" });
      expect(ids.nextString()).toMatch(/^\\d{19}$/);
      await ids.close();
    });
    test("a driver that a test replaces", async () => {
      jest.resetModules();
      jest.doMock("ioredis", () => { throw new Error("replaced"); });
      await expect(require("snowlease").snowlease({ registry: process.env.URL })).rejects.toThrow("(replaced)");
    });
  `,
      { URL: server.url() },
    );
    expect(report).toMatch(/^Tests: +2 passed, 2 total$/m);
  },
  2 * minutes,
);
