import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { defaultLayout } from "../../src/core/layout.ts";
import { cliFile, isAlive, Sandbox, until } from "../support/cli.ts";
import { WallClock } from "../support/holder.ts";

const support = (name: string): string => fileURLToPath(new URL(`../support/${name}`, import.meta.url));

let sandbox: Sandbox;
beforeEach(() => {
  sandbox = new Sandbox();
});

function idsIn(name: string): bigint[] {
  const file = join(sandbox.work, name);
  // The last line of a program that was killed may be half written: it never got out as an ID.
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
  // The child wishes for far more than the lease that it borrows has.
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

test("a second child at the same time is refused, and gets its turn when the first one gives back", async () => {
  const id = [process.execPath, cliFile, "id", "-n", "1"];
  const script = `
    import { spawnSync } from "node:child_process";
    import { snowlease } from ${JSON.stringify(new URL("../../dist/index.js", import.meta.url).href)};
    const [program, ...args] = ${JSON.stringify(id)};
    const ids = await snowlease();
    console.log(String(ids.next()));
    // Beside the event loop, so that this program's own lease is renewed meanwhile.
    const { spawn } = await import("node:child_process");
    const refused = spawn(program, [...args, "--claim-timeout", "0"], { stdio: ["ignore", "inherit", "pipe"] });
    let said = "";
    refused.stderr.on("data", (chunk) => (said += chunk));
    const code = await new Promise((resolve) => refused.on("close", resolve));
    console.log(JSON.stringify({ code, said, pid: process.pid }));
    await ids.close();
    process.exit(spawnSync(program, args, { stdio: "inherit" }).status);
  `;
  const program = [process.execPath, "--input-type=module", "-e", script];
  const { code, stdout, stderr } = await sandbox.start(["exec", "--registry", sandbox.registry, "--", ...program])
    .ended;
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  const [first = "", report = "", second = ""] = stdout.split("\n");
  const refusal = JSON.parse(report) as { code: number; said: string; pid: number };
  expect(refusal.code).toBe(3);
  expect(refusal.said).toMatch(new RegExp(`^snowlease: WORKER_ID_HELD: .*pid ${refusal.pid}`));
  expectDistinct([BigInt(first), BigInt(second)], 1);
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
  // The last one looks at the registry that it names, where nobody ever used the default namespace: not at what is lent.
  expect(code).toBe(2);
  const [borrowed = "", own = ""] = stdout.split("\n");
  expect(defaultLayout.decompose(BigInt(borrowed)).workerId).toBe(7);
  expect(defaultLayout.decompose(BigInt(own)).workerId).toBe(0);
});

test("a child that asks by itself for another worker ID is refused, and told both; one in another registry claims there", async () => {
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
