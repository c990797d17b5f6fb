import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { cliFile, Sandbox, until } from "../support/cli.ts";
import { isAlive } from "../support/servers.ts";
import { WallClock } from "../support/wall-clock.ts";

const support = (name: string): string => fileURLToPath(new URL(`../support/${name}`, import.meta.url));

let sandbox: Sandbox;
beforeEach(() => {
  sandbox = new Sandbox();
});

function idsIn(name: string): bigint[] {
  const file = join(sandbox.work, name);
  // The last line of a killed program may be half written: such an ID never got out.
  return existsSync(file) ? readFileSync(file, "utf8").split("\n").slice(0, -1).map(BigInt) : [];
}

function expectDistinct(ids: readonly bigint[], least: number): void {
  expect(ids.length).toBeGreaterThan(least);
  expect(new Set(ids).size).toBe(ids.length);
}

test("children killed with -9 and started at once, the clock set back each time, repeat no ID", async () => {
  const clock = new WallClock();
  const script = [process.execPath, support("succession.mjs"), join(sandbox.work, "ids"), "0.9", "1.8", "2.7", "1"];
  const running = sandbox.start(["exec", "--registry", sandbox.registry, "--", ...script], clock.environment);
  const result = await running.ended;
  expect(result).toMatchObject({ code: 0, stderr: "" });
  expect(result.stdout.match(/killed/g)).toHaveLength(4);
  const ids = idsIn("ids");
  expectDistinct(ids, 4000);
  expect(new Set(ids.map((id) => defaultLayout.decompose(id).workerId))).toEqual(new Set([0]));
});

test("a child that outlives its `exec` stops in time for the next one to use the same worker ID", async () => {
  const run = (name: string): string[] => [process.execPath, support("borrower.mjs"), join(sandbox.work, name)];
  // The child asks for far more than the borrowed lease has.
  const env = { SNOWLEASE_WINDOW: "60s" };
  const args = ["exec", "--registry", sandbox.registry, "--worker-id", "7", "--window", "2s", "--"];
  const tellPid = (name: string): string[] => ["sh", "-c", 'echo $$; exec "$0" "$@"', ...run(name)];

  const first = sandbox.start([...args, ...tellPid("first")], env);
  const child = Number(await first.line());
  onTestFinished(() => {
    if (isAlive(child)) process.kill(child, "SIGKILL");
  });
  await until(() => idsIn("first").length > 1000);
  first.signal("SIGKILL");
  await until(() => !isAlive(first.pid));
  expect(isAlive(child)).toBe(true);

  const second = sandbox.start([...args, ...tellPid("second")], env);
  await second.line();
  await until(() => idsIn("second").length > 1000);
  expect(isAlive(child)).toBe(true);
  second.signal("SIGTERM");
  await second.ended;
  const [before, after] = [idsIn("first"), idsIn("second")];
  expectDistinct([...before, ...after], 2000);
  expect(new Set([...before, ...after].map((id) => defaultLayout.decompose(id).workerId))).toEqual(new Set([7]));
});

test("many children at the same time make IDs of one worker ID, and never the same", async () => {
  const names = ["one", "two", "three", "four"];
  const script = `
    import { spawn } from "node:child_process";
    const children = ${JSON.stringify(names)}.map((name) =>
      spawn(process.execPath, [${JSON.stringify(cliFile)}, "id", "-n", "20000"], { stdio: ["ignore", "pipe", "inherit"] }));
    const outputs = await Promise.all(children.map(async (child) => (await child.stdout.toArray()).join("")));
    process.stdout.write(outputs.join(""));
  `;
  const program = [process.execPath, "--input-type=module", "-e", script];
  const running = sandbox.start(["exec", "--registry", sandbox.registry, "--", ...program]);
  const { code, stdout, stderr } = await running.ended;
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  const ids = stdout.split("\n").slice(0, -1).map(BigInt);
  expectDistinct(ids, 79_999);
  expect(new Set(ids.map((id) => defaultLayout.decompose(id).workerId)).size).toBe(1);
});

test("`assign` inside `exec` has no worker ID of its own to give, and says where it is", async () => {
  const program = [process.execPath, cliFile, "assign", "--once"];
  const { code, stdout, stderr } = await sandbox.start(["exec", "--registry", sandbox.registry, "--", ...program])
    .ended;
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  expect(stderr).toMatch(/^snowlease: CONFIG_INVALID: .*SNOWLEASE_WORKER_ID/);
});

test("one child after the other, each giving back, needs no wait and no second worker ID", async () => {
  const script = 'for i in 1 2 3 4; do "$0" "$1" id -n 3000 || exit 9; done';
  const program = ["sh", "-c", script, process.execPath, cliFile];
  const { code, stdout, stderr } = await sandbox.start(["exec", "--registry", sandbox.registry, "--", ...program])
    .ended;
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  const ids = stdout.trimEnd().split("\n").map(BigInt);
  expectDistinct(ids, 11_999);
  expect(new Set(ids.map((id) => defaultLayout.decompose(id).workerId))).toEqual(new Set([0]));
});

test("a child in another namespace claims for itself", async () => {
  const script =
    '"$0" "$1" id -n 1; "$0" "$1" id -n 1 --namespace other --registry "$2"; "$0" "$1" workers --registry "$2"';
  const program = ["sh", "-c", script, process.execPath, cliFile, `sqlite:${join(sandbox.work, "other.db")}`];
  const { code, stdout } = await sandbox.start([
    "exec",
    "--registry",
    sandbox.registry,
    "--worker-id",
    "7",
    "--",
    ...program,
  ]).ended;
  // The last command reads the registry that it names, where the default namespace is unused, not the lent lease.
  expect(code).toBe(2);
  const [borrowed = "", own = ""] = stdout.split("\n");
  expect(defaultLayout.decompose(BigInt(borrowed)).workerId).toBe(7);
  expect(defaultLayout.decompose(BigInt(own)).workerId).toBe(0);
});

test("a child that asks for another worker ID is refused with both numbers; in another registry it claims there", async () => {
  const script = '"$0" "$1" id -n 1 --worker-id 99; "$0" "$1" id -n 1 --worker-id 99 --registry "$2"';
  const program = ["sh", "-c", script, process.execPath, cliFile, `sqlite:${join(sandbox.work, "other.db")}`];
  const args = ["exec", "--registry", "sqlite:./registry.db", "--worker-id", "7", "--", ...program];
  const { code, stdout, stderr } = await sandbox.start(args).ended;
  expect(stderr).toMatch(/^snowlease: CONFIG_INVALID: Expected `workerId` to be 7, .*got `99`; [^\n]*\n$/);
  expect({ code, workerId: defaultLayout.decompose(BigInt(stdout)).workerId }).toEqual({ code: 0, workerId: 99 });
});

test("a child that names the registry and the worker ID of the lease borrows it", async () => {
  const args = ["--registry", "sqlite:./registry.db", "--worker-id", "7"];
  const inner = [process.execPath, cliFile, "id", "-n", "5", "--claim-timeout", "0", ...args];
  const { code, stderr } = await sandbox.start(["exec", ...args, "--", ...inner]).ended;
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
});

test("a borrowed lease can be lent on", async () => {
  const inner = [process.execPath, cliFile, "exec", "--", process.execPath, cliFile, "id", "-n", "5"];
  const { code, stdout, stderr } = await sandbox.start([
    "exec",
    "--registry",
    sandbox.registry,
    "--worker-id",
    "7",
    "--",
    ...inner,
  ]).ended;
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  const ids = stdout.trimEnd().split("\n").map(BigInt);
  expectDistinct(ids, 4);
  expect(ids.map((id) => defaultLayout.decompose(id).workerId)).toEqual([7, 7, 7, 7, 7]);
});

test("the workers of a cluster make IDs on the lease of their primary, although they name the registry themselves", async () => {
  const { code, stdout, stderr } = await sandbox.started(
    spawn(process.execPath, [support("cluster-app.mjs"), sandbox.registry], sandbox.surroundings()),
  ).ended;
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  const ids = stdout.trimEnd().split("\n").map(BigInt);
  expectDistinct(ids, 7999);
  expect(new Set(ids.map((id) => defaultLayout.decompose(id).workerId))).toEqual(new Set([0]));
});
