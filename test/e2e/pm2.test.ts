import { execFile, execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { Sandbox, until } from "../support/cli.ts";
import { isAlive } from "../support/servers.ts";

const require = createRequire(import.meta.url);
const program = fileURLToPath(new URL("../support/threaded-app.mjs", import.meta.url));
/** Threads in each process, besides its main thread. */
const threads = 1;

let sandbox: Sandbox;
let ids: string;
let home: string;
let env: Record<string, string>;
beforeEach(() => {
  sandbox = new Sandbox();
  ids = join(sandbox.work, "ids");
  home = join(sandbox.work, "pm2");
  mkdirSync(ids);
  env = { PM2_HOME: home, PM2_DISABLE_VERSION_CHECK: "true" };
  // pm2 first: it would start the others again.
  onTestFinished(async () => {
    for (const pid of [...managers(), ...made().keys()]) {
      if (isAlive(pid)) process.kill(pid, "SIGKILL");
      await until(() => !isAlive(pid));
    }
  });
});

/** The process of pm2, if there is one: it outlives the process that started it. */
function managers(): readonly number[] {
  const file = join(home, "pm2.pid");
  const daemon = existsSync(file) ? Number(readFileSync(file, "utf8")) : 0;
  const parents = [...made().keys()].filter(isAlive).map((pid) => {
    return Number(execFileSync("ps", ["-o", "ppid=", "-p", String(pid)], { encoding: "utf8" }));
  });
  return [daemon, ...parents].filter((pid) => pid > 1);
}

/** A file with which pm2 runs the program in this many processes in each of these modes. */
function ecosystem(...modes: readonly ("cluster" | "fork")[]): string {
  const apps = modes.map((mode) => {
    return { name: mode, script: program, args: [ids, String(threads)], exec_mode: mode, instances: 2 };
  });
  const file = join(sandbox.work, "ecosystem.config.json");
  writeFileSync(file, JSON.stringify({ apps }));
  return file;
}

/** The IDs of each process that ran, by its pid. Skips a line that a kill cut off. */
function made(): Map<number, bigint[]> {
  const all = new Map<number, bigint[]>();
  for (const name of readdirSync(ids)) {
    const pid = Number.parseInt(name, 10);
    const more = readFileSync(join(ids, name), "utf8").split("\n").slice(0, -1).map(BigInt);
    all.set(pid, [...(all.get(pid) ?? []), ...more]);
  }
  return all;
}

/** The running processes, once there are this many and each has made some more IDs. */
async function running(count: number): Promise<readonly number[]> {
  const before = made();
  const busy = (): number[] => {
    const now = made();
    return [...now.keys()].filter(
      (pid) => isAlive(pid) && (now.get(pid)?.length ?? 0) > (before.get(pid)?.length ?? 0) + 300,
    );
  };
  await until(() => busy().length === count);
  return busy();
}

function expectDistinct(all: readonly bigint[]): void {
  expect(new Set(all).size).toBe(all.length);
}

const workersOf = (all: readonly bigint[]): Set<number> =>
  new Set(all.map((id) => defaultLayout.decompose(id).workerId));

test("processes of pm2 under `snowlease exec`, in both of its modes: one worker ID, no ID twice, even if one is killed", async () => {
  const runtime = [process.execPath, require.resolve("pm2/bin/pm2-runtime"), "start", ecosystem("cluster", "fork")];
  const pm2 = sandbox.start(["exec", "--registry", sandbox.registry, "--", ...runtime], env);
  const first = await running(4);
  const [killed = 0, stopped = 0] = first;
  process.kill(killed, "SIGKILL");
  process.kill(stopped, "SIGSTOP");
  // pm2 has started another one in its place.
  const second = await running(3);
  expect(second).not.toContain(killed);
  process.kill(stopped, "SIGCONT");
  await running(4);
  pm2.signal("SIGTERM");
  await pm2.ended;
  await until(() => [...made().keys()].every((pid) => !isAlive(pid)));
  const all = [...made().values()].flat();
  expect(made().size).toBe(5);
  expectDistinct(all);
  expect(workersOf(all)).toEqual(new Set([0]));
});

test("a daemon of pm2 whose processes lease for themselves: a worker ID each, no ID twice, also across a reload", async () => {
  const run = promisify(execFile);
  const surroundings = sandbox.surroundings({ ...env, SNOWLEASE_REGISTRY: sandbox.registry, SNOWLEASE_WINDOW: "10s" });
  const pm2 = (...args: string[]): Promise<unknown> =>
    run(process.execPath, [require.resolve("pm2/bin/pm2"), ...args], surroundings);
  await pm2("start", ecosystem("cluster"));
  const first = await running(2);
  await pm2("reload", "all");
  const second = await running(2);
  expect(second.filter((pid) => first.includes(pid))).toEqual([]);
  await pm2("kill");
  await until(() => [...made().keys()].every((pid) => !isAlive(pid)));
  const all = made();
  expectDistinct([...all.values()].flat());
  for (const each of all.values()) expect(workersOf(each).size).toBe(1);
  expect(workersOf(first.flatMap((pid) => all.get(pid) ?? [])).size).toBe(2);
});
