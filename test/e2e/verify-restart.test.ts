import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { Sandbox } from "../support/cli.ts";
import { redisMissing, RedisServer } from "../support/redis.ts";
import { expectWell, minutes, verify } from "../support/verify.ts";

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
});

describe("on a daemon", () => {
  test("all is well", { timeout: 10 * minutes }, async () => {
    const sandbox = new Sandbox();
    const { url } = await sandbox.serve();
    const done = await verify(sandbox, url, ["--nemesis", "10s"]);
    expectWell(done);
    expect(done.report).toMatchObject({ kind: "daemon", behind: "sqlite" });
  });
});
