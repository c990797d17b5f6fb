import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { lendLease } from "../../src/lend.ts";
import { snowlease } from "../../src/snowlease.ts";
import { memoryRegistry } from "../../src/testing.ts";
import { Sandbox, until } from "../support/cli.ts";
import { isAlive } from "../support/servers.ts";

const program = fileURLToPath(new URL("../support/threaded-app.mjs", import.meta.url));
/** Threads in each program, besides its main one. */
const threads = 3;

let sandbox: Sandbox;
let folder: string;
beforeEach(() => {
  sandbox = new Sandbox();
  folder = join(sandbox.work, "ids");
  mkdirSync(folder);
});

/** The IDs of each thread of these programs, or of all. Skips a line that a kill cut off. */
function idsOf(pid?: number): readonly (readonly bigint[])[] {
  const names = readdirSync(folder).filter((name) => pid === undefined || name.startsWith(`${pid}-`));
  return names.map((name) => readFileSync(join(folder, name), "utf8").split("\n").slice(0, -1).map(BigInt));
}

/** Resolves when each thread of a program has made this many more IDs. */
async function eachMakes(pid: number, more: number): Promise<void> {
  const counts = (): number[] => idsOf(pid).map(({ length }) => length);
  await until(() => counts().length === 1 + threads);
  const before = counts();
  await until(() => counts().every((count, i) => count - (before[i] ?? 0) >= more));
}

function expectDistinct(ids: readonly bigint[]): void {
  expect(new Set(ids).size).toBe(ids.length);
}

const workersOf = (ids: readonly bigint[]): Set<number> =>
  new Set(ids.map((id) => defaultLayout.decompose(id).workerId));

/** Ends a program in any state. */
async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const end = once(child, "exit");
  child.kill("SIGKILL");
  await end;
}

test("threads of several programs in one `exec`, one killed with -9 and one stopped in the middle: no ID twice", async () => {
  const start = `"$0" "$1" "$2" ${threads} & echo $!; all="$all $!";`;
  const script = `${start} ${start} ${start} read line; ${start} read line; kill -9 $all 2>/dev/null; exit 0`;
  const shell = ["sh", "-c", script, process.execPath, program, folder];
  const running = sandbox.start(["exec", "--registry", sandbox.registry, "--", ...shell]);
  const pids: number[] = [];
  const started = async (): Promise<number> => {
    const pid = Number(await running.line());
    pids.push(pid);
    return pid;
  };
  onTestFinished(() => {
    for (const pid of pids) if (isAlive(pid)) process.kill(pid, "SIGKILL");
  });
  const [one, two, three] = [await started(), await started(), await started()];
  for (const pid of pids) await eachMakes(pid, 300);
  process.kill(one, "SIGKILL");
  process.kill(two, "SIGSTOP");
  running.write("\n");
  const four = await started();
  await Promise.all([three, four].map((pid) => eachMakes(pid, 300)));
  process.kill(two, "SIGCONT");
  await Promise.all([two, three, four].map((pid) => eachMakes(pid, 300)));
  running.write("\n");
  expect(await running.ended).toMatchObject({ code: 0, stderr: "" });
  const all = idsOf();
  expect(all.length).toBe(4 * (1 + threads));
  expectDistinct(all.flat());
  expect(workersOf(all.flat())).toEqual(new Set([0]));
});

test("their lender gives up its worker ID three times while they hold blocks: they follow, and make no ID twice", async () => {
  const namespace = "default";
  const registry = memoryRegistry();
  const ids = await snowlease({ registry, namespace, window: 6000, shared: true });
  onTestFinished(() => ids.close());
  await using lender = await lendLease(ids);
  const children = [1, 2].map(() => {
    const env = { ...sandbox.surroundings().env, ...lender.env };
    const child = spawn(process.execPath, [program, folder, String(threads)], { env, stdio: "inherit" });
    onTestFinished(() => kill(child));
    return child.pid ?? 0;
  });
  const own: bigint[] = [];
  const held = [ids.lease.workerId];
  for (let round = 0; round < 3; round++) {
    await Promise.all(children.map((pid) => eachMakes(pid, 300)));
    own.push(...ids.take(50));
    const { workerId } = ids.lease;
    await registry.forceRelease({ namespace, workerId, force: true });
    await ids.lease.renew();
    // A renewal that was under way does not see it; the next one does.
    await until(() => ids.lease.state === "held" && ids.lease.workerId !== workerId);
    const { workerId: next } = ids.lease;
    held.push(next);
    await until(() => idsOf().every((made) => workersOf(made.slice(-1)).has(next)));
  }
  await Promise.all(children.map((pid) => eachMakes(pid, 300)));
  const all = [...own, ...idsOf().flat()];
  expectDistinct(all);
  // On a slow machine the window of a given-up worker ID has passed, and the worker ID comes again.
  expect(workersOf(all)).toEqual(new Set(held));
  for (const workerId of workersOf(all)) {
    const windows = await registry.history(namespace, workerId);
    const made = all.map((id) => defaultLayout.decompose(id)).filter((parts) => parts.workerId === workerId);
    for (const { timestamp } of made) {
      if (!windows.some(({ from, until: end }) => timestamp >= from && timestamp < end)) expect.fail(`${timestamp}`);
    }
  }
}, 180_000);
