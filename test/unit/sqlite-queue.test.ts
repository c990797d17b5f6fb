import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import type { Registry } from "../../src/rule/registry.ts";
import type { SqliteConnection } from "../../src/registries/sqlite/driver.ts";
import { claimRequest, layout, namespace, newFolder, openRaw, openSqlite } from "../support/sqlite.ts";

const dist = pathToFileURL(join(import.meta.dirname, "../../dist/registries/sqlite/registry.js")).href;

/** A registry's file whose lock another connection has. */
async function lockedFile(name = "registry.db"): Promise<{ path: string; queue: string; raw: SqliteConnection }> {
  const path = join(newFolder(), name);
  const made = await openSqlite(path);
  await made.init({ namespace, layout });
  const raw = await openRaw(path);
  raw.exec("BEGIN IMMEDIATE");
  return { path, queue: `${path}-queue`, raw };
}

async function claimed(registry: Registry): Promise<number> {
  const answer = await registry.claim(claimRequest({ clock: Date.now() }));
  if (answer.outcome !== "granted") throw new Error(answer.outcome);
  return answer.workerId;
}

/** How many processes wait. */
function length(queue: string): number {
  return existsSync(queue) ? readdirSync(queue).length : 0;
}

async function untilWaiting(queue: string, count: number): Promise<void> {
  while (length(queue) < count) await sleep(2);
}

/**
 * Stops a process that waits first. Its place may count as a dead one's, and go: its name is there a moment before it listens.
 * Returns a function that waits until this many others wait, too.
 */
function stopFirst(first: Claimer, queue: string): (count: number) => Promise<void> {
  const [place] = readdirSync(queue);
  first.signal("SIGSTOP");
  const others = (): string[] => readdirSync(queue).filter((name) => name !== place);
  return async (count) => {
    while (others().length < count) await sleep(2);
  };
}

/** A process of its own that claims one worker ID, and prints it. */
class Claimer {
  readonly #child: ChildProcess;
  stdout = "";

  constructor(path: string) {
    const script = `
      import { sqliteRegistry } from ${JSON.stringify(dist)};
      const registry = await sqliteRegistry({ path: ${JSON.stringify(path)}, operationTimeout: 60_000 });
      const answer = await registry.claim({ ...${JSON.stringify(claimRequest())}, clock: Date.now() });
      console.log(answer.workerId);
      await registry.close();`;
    this.#child = spawn(process.execPath, ["--input-type=module", "-e", script], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    this.#child.stdout?.on("data", (chunk) => (this.stdout += String(chunk)));
    onTestFinished(() => void this.#child.kill("SIGKILL"));
  }

  async end(signal?: NodeJS.Signals): Promise<void> {
    const ended = once(this.#child, "close");
    if (signal !== undefined) this.#child.kill(signal);
    await ended;
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }
}

test("registries that wait for the lock get it in the order of asking, and leave nothing behind", async () => {
  const { path, queue, raw } = await lockedFile();
  const registries = await Promise.all(Array.from({ length: 20 }, () => openSqlite(path)));
  const order: number[] = [];
  const asked: Promise<unknown>[] = [];
  for (const [i, registry] of registries.entries()) {
    asked.push(claimed(registry).then(() => order.push(i)));
    await untilWaiting(queue, i + 1);
    // Requests within one millisecond have no order.
    await sleep(2);
  }
  raw.exec("COMMIT");
  await Promise.all(asked);
  expect(order).toEqual([...registries.keys()]);
  expect(existsSync(queue)).toBe(false);
});

test("a registry that comes later does not overtake waiting ones", async () => {
  const { path, queue, raw } = await lockedFile();
  const [early, late] = [await openSqlite(path), await openSqlite(path)];
  const order: string[] = [];
  const asked = claimed(early).then(() => order.push("early"));
  await untilWaiting(queue, 1);
  // Requests within one millisecond have no order.
  await sleep(2);
  raw.exec("COMMIT");
  // The lock is free, and the waiting registry is asleep.
  await Promise.all([asked, claimed(late).then(() => order.push("late"))]);
  expect(order).toEqual(["early", "late"]);
});

test("a waiting registry does not give up while other processes write", async () => {
  const { path, raw } = await lockedFile();
  const operationTimeout = 300;
  const registry = await openSqlite(path, { operationTimeout });
  const asked = claimed(registry);
  for (const end = Date.now() + 5 * operationTimeout; Date.now() < end; await sleep(operationTimeout / 10)) {
    raw.exec("INSERT INTO operation (done_at, kind, detail) VALUES (0, '', ''); COMMIT; BEGIN IMMEDIATE");
  }
  raw.exec("COMMIT");
  expect(await asked).toBe(0);
});

test.skipIf(process.platform !== "linux")("on a crowded machine a process waits for longer", async () => {
  const { path, raw } = await lockedFile();
  const operationTimeout = 300;
  const registry = await openSqlite(path, { operationTimeout });
  // They give way to other tests.
  const loops = Array.from({ length: 12 * availableParallelism() }, () =>
    spawn("nice", ["-n", "19", "sh", "-c", "while :; do :; done"]),
  );
  onTestFinished(() => {
    for (const loop of loops) loop.kill("SIGKILL");
  });
  await Promise.all(loops.map((loop) => once(loop, "spawn")));
  const asked = claimed(registry);
  await sleep(4 * operationTimeout);
  raw.exec("COMMIT");
  expect(await asked).toBe(0);
});

test("if no process writes, all waiting registries get the error together, not one after the other", async () => {
  const { path, queue, raw } = await lockedFile();
  const [operationTimeout, count] = [400, 20];
  const registries = await Promise.all(Array.from({ length: count }, () => openSqlite(path, { operationTimeout })));
  const ends: number[] = [];
  const ended = (registry: Registry): Promise<number> => claimed(registry).finally(() => ends.push(Date.now()));
  for (const answer of await Promise.allSettled(registries.map(ended))) {
    expect(answer).toMatchObject({ reason: { code: "REGISTRY_UNAVAILABLE", retryable: true } });
    expect(String((answer as PromiseRejectedResult).reason)).toMatch(
      /locked for 400 ms in which no process wrote to it/,
    );
  }
  expect(Math.max(...ends) - Math.min(...ends)).toBeLessThan((operationTimeout * count) / 2);
  expect(existsSync(queue)).toBe(false);
  raw.exec("ROLLBACK");
  expect(await Promise.all(registries.slice(0, 1).map(claimed))).toEqual([0]);
});

test("a process that is killed while it waits holds up no other one", async () => {
  const { path, queue, raw } = await lockedFile();
  const first = new Claimer(path);
  await untilWaiting(queue, 1);
  const registry = await openSqlite(path, { operationTimeout: 60_000 });
  const asked = claimed(registry);
  await untilWaiting(queue, 2);
  await first.end("SIGKILL");
  raw.exec("COMMIT");
  expect(await asked).toBe(0);
  expect(first.stdout).toBe("");
  expect(existsSync(queue)).toBe(false);
});

test("the place of a killed process does not count", async () => {
  const { path, queue, raw } = await lockedFile();
  const first = new Claimer(path);
  await untilWaiting(queue, 1);
  await first.end("SIGKILL");
  raw.exec("COMMIT");
  expect(length(queue)).toBe(1);
  expect(await claimed(await openSqlite(path, { operationTimeout: 60_000 }))).toBe(0);
  expect(existsSync(queue)).toBe(false);
});

test("a process that is stopped while it waits holds up the others for half of `operationTimeout`, and has its turn when it goes on", async () => {
  const { path, queue, raw } = await lockedFile();
  const first = new Claimer(path);
  await untilWaiting(queue, 1);
  const untilOthersWait = stopFirst(first, queue);
  // No registry gives up before all wait, however busy the machine is.
  const registries = await Promise.all(Array.from({ length: 5 }, () => openSqlite(path, { operationTimeout: 2000 })));
  const asked = registries.map(claimed);
  await untilOthersWait(5);
  raw.exec("COMMIT");
  expect(new Set(await Promise.all(asked)).size).toBe(5);
  first.signal("SIGCONT");
  await first.end();
  expect(first.stdout).toBe("5\n");
  expect(existsSync(queue)).toBe(false);
});

test("a process that was stopped while it waited tries once more before it gives up", async () => {
  const { path, queue, raw } = await lockedFile();
  const first = new Claimer(path);
  await untilWaiting(queue, 1);
  const untilOthersWait = stopFirst(first, queue);
  // No registry gives up before all wait, however busy the machine is.
  const operationTimeout = 2000;
  const registries = await Promise.all(Array.from({ length: 5 }, () => openSqlite(path, { operationTimeout })));
  const asked = Promise.all(registries.map(claimed));
  await untilOthersWait(5);
  raw.exec("COMMIT");
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1.5 * operationTimeout);
  expect(new Set(await asked).size).toBe(5);
});

test.each([
  ["a file stands in its place", "registry.db", (queue: string) => writeFileSync(queue, "")],
  ["a path is too long for sockets", `${"r".repeat(100)}.db`, () => undefined],
  [
    "others have put something there",
    "registry.db",
    (queue: string) => {
      mkdirSync(queue);
      writeFileSync(join(queue, "1000000000000-abcdef"), "");
      writeFileSync(join(queue, "readme"), "");
      mkdirSync(join(queue, "1000000000000-fedcba"));
    },
  ],
])("where there can be no queue as %s, all get the lock in the end", async (_, name, spoil) => {
  const { path, queue, raw } = await lockedFile(name);
  spoil(queue);
  const registries = await Promise.all(Array.from({ length: 10 }, () => openSqlite(path)));
  const asked = registries.map(claimed);
  await sleep(50);
  raw.exec("COMMIT");
  expect(new Set(await Promise.all(asked)).size).toBe(10);
});

test.runIf(process.platform === "linux")("only users of a registry may wait for it", async () => {
  const { path, queue, raw } = await lockedFile();
  const asked = claimed(await openSqlite(path));
  await untilWaiting(queue, 1);
  const [place = ""] = readdirSync(queue);
  await sleep(20);
  expect(statSync(queue).mode & 0o777).toBe(statSync(join(path, "..")).mode & 0o777);
  expect(statSync(join(queue, place)).mode & 0o777).toBe(statSync(path).mode & 0o666);
  raw.exec("COMMIT");
  await asked;
});
