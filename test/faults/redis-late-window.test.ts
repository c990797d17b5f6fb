import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { Sandbox } from "../support/cli.ts";
import { namespace } from "../support/failover.ts";
import { openRedis, redisMissing, RedisServer } from "../support/redis.ts";

const layout = defaultLayout.fingerprint;

// Beside programs that keep no window, ours begin by `maxClockSkew` later.
describe.skipIf(redisMissing !== undefined)(redisMissing ?? "a window that opens later than it is claimed", () => {
  let server: RedisServer;
  let registry: Registry;

  beforeEach(async () => {
    server = await RedisServer.start();
    registry = await openRedis(server.url());
  });
  afterEach(async () => {
    await registry.close();
    await server.remove();
  });

  async function run(command: string, ...rest: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
    const sandbox = new Sandbox();
    return sandbox.run([command, "--registry", server.url("?beside=westid"), "--namespace", namespace, ...rest]);
  }

  test.each([
    { command: "exec", rest: ["--", process.execPath, "-e", "console.log(Date.now())"] },
    { command: "assign", rest: ["--once"] },
  ])("$command that may not wait for it tells nobody of the number, and gives it back", async ({ command, rest }) => {
    await registry.init({ new: true, namespace, layout, maxClockSkew: 10_000 });
    const { code, stdout, stderr } = await run(command, "--claim-timeout", "1s", ...rest);
    expect(stderr).toMatch(/^snowlease: WINDOW_NOT_OPEN: .* opens at .*--claim-timeout/);
    expect(stdout).toBe("");
    expect(code).toBe(4);
    expect(await registry.worker(namespace, 0)).toMatchObject({ state: "free", clean: true });
  });

  test("id says that it waits for it, and prints IDs of it", async () => {
    await registry.init({ new: true, namespace, layout, maxClockSkew: 10_000 });
    const { code, stdout, stderr } = await run("id", "-n", "3");
    expect(stderr).toMatch(/^snowlease: The window of worker 0 opens at .*, in [\w ]+: waiting for it\.[^\n]*\n$/);
    expect(code).toBe(0);
    const [claim] = await registry.history(namespace, 0);
    const ids = stdout.trimEnd().split("\n").map(BigInt);
    expect(new Set(ids).size).toBe(3);
    for (const id of ids) expect(defaultLayout.decompose(id).timestamp).toBeGreaterThanOrEqual(claim?.from ?? Infinity);
  });

  test("id waits no longer than it was told to", async () => {
    await registry.init({ new: true, namespace, layout, maxClockSkew: 10_000 });
    const { code, stdout, stderr } = await run("id", "--claim-timeout", "10ms");
    expect(stderr).toMatch(/^snowlease: WINDOW_NOT_OPEN: .* opens at .*--claim-timeout[^\n]*\n$/);
    expect({ code, stdout }).toEqual({ code: 4, stdout: "" });
    expect(await registry.worker(namespace, 0)).toMatchObject({ state: "free", clean: true });
  });

  test("exec waits for it, says so, and only then runs the program", async () => {
    await registry.init({ new: true, namespace, layout, maxClockSkew: 2000 });
    const script = ["--", process.execPath, "-e", "console.log(Date.now())"];
    const { code, stdout, stderr } = await run("exec", ...script);
    expect(stderr).toMatch(/^snowlease: The window of worker 0 opens at \S+, in [\w ]+: waiting for it\.[^\n]*\n$/);
    expect(code).toBe(0);
    const [claim] = await registry.history(namespace, 0);
    expect(Number(stdout)).toBeGreaterThanOrEqual(claim?.from ?? Infinity);
  });
});
