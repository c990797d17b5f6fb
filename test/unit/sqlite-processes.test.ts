import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { claimRequest, namespace, newFolder, openSqlite } from "../support/sqlite.ts";

const dist = pathToFileURL(join(import.meta.dirname, "../../dist/registries/sqlite/registry.js")).href;

interface Acknowledged {
  readonly workerId: number;
  readonly fence: number;
  readonly until: number;
}

/** A process of its own that claims so many worker IDs one after the other, and tells each as soon as it is granted. */
class Claimer {
  readonly grants: Acknowledged[] = [];
  readonly done: Promise<unknown>;
  readonly #process: ChildProcess;
  stderr = "";

  constructor(path: string, count: number, name: string) {
    const request = { ...claimRequest({ pool: { first: 0, last: 4095 } }), token: undefined };
    const script = `
      import { randomBytes } from "node:crypto";
      import { writeSync } from "node:fs";
      import { sqliteRegistry } from ${JSON.stringify(dist)};
      const registry = await sqliteRegistry({ path: ${JSON.stringify(path)}, operationTimeout: 9000 });
      const request = ${JSON.stringify(request)};
      for (let i = 0; i < ${count}; i++) {
        const holder = { ...request.holder, host: ${JSON.stringify(name)} };
        const token = randomBytes(16).toString("hex");
        writeSync(1, JSON.stringify(await registry.claim({ ...request, holder, token, clock: Date.now() })) + "\\n");
      }
      await registry.close();`;
    const child = spawn(
      process.execPath,
      ["--disable-warning=SNOWLEASE_NEW_REGISTRY", "--input-type=module", "-e", script],
      { stdio: ["ignore", "pipe", "pipe"] },
    );
    this.#process = child;
    this.done = once(child, "close");
    child.stderr.on("data", (chunk) => (this.stderr += String(chunk)));
    createInterface(child.stdout).on("line", (line) => {
      // The last line of a process that was killed may be cut off.
      if (line.endsWith("}")) this.grants.push(JSON.parse(line) as Acknowledged);
    });
    onTestFinished(() => void child.kill("SIGKILL"));
  }

  async kill(): Promise<void> {
    this.#process.kill("SIGKILL");
    await this.done;
  }
}

test("processes that claim from one file at once get different worker IDs", async () => {
  const path = join(newFolder(), "registry.db");
  // None of them made it before: they all try to.
  const claimers = Array.from({ length: 4 }, (_, i) => new Claimer(path, 25, `host-${i}`));
  await Promise.all(claimers.map(({ done }) => done));
  expect(claimers.map(({ stderr }) => stderr)).toEqual(["", "", "", ""]);
  const ids = claimers.flatMap(({ grants }) => grants.map(({ workerId }) => workerId));
  expect(ids).toHaveLength(100);
  expect(new Set(ids).size).toBe(100);
  expect(await (await openSqlite(path)).workers(namespace)).toHaveLength(100);
});

test("what a killed process was granted is stored", async () => {
  const path = join(newFolder(), "registry.db");
  const claimers: Claimer[] = [];
  for (let round = 0; round < 3; round++) {
    const claimer = new Claimer(path, 10_000, `host-${round}`);
    claimers.push(claimer);
    while (claimer.grants.length < 20 && claimer.stderr === "") await sleep(5);
    await claimer.kill();
    expect(claimer.stderr).toBe("");
  }
  const registry = await openSqlite(path);
  const grants = claimers.flatMap(({ grants }) => grants);
  expect(new Set(grants.map(({ workerId }) => workerId)).size).toBe(grants.length);
  for (const { workerId, fence, until } of grants) {
    expect(await registry.worker(namespace, workerId)).toMatchObject({ fence, until });
  }
});

const canCount = process.platform === "linux";

test.runIf(canCount)("a registry that was closed holds no file, once what was forgotten has been collected", () => {
  const folder = newFolder();
  const script = `
    import { readdirSync, readlinkSync } from "node:fs";
    import { sqliteRegistry } from ${JSON.stringify(dist)};
    const held = () => readdirSync("/proc/self/fd").filter((fd) => {
      try { return readlinkSync("/proc/self/fd/" + fd).startsWith(${JSON.stringify(folder)}); } catch { return false; }
    }).length;
    const closed = [];
    for (let i = 0; i < 3; i++) {
      const registry = await sqliteRegistry({ path: ${JSON.stringify(join(folder, "registry.db"))}, operationTimeout: 5000 });
      await registry.workers(${JSON.stringify(namespace)});
      await registry.claim({ ...${JSON.stringify(claimRequest())}, token: String(i).padStart(32, "0"), clock: Date.now() });
      await registry.close();
      closed.push(registry);
    }
    for (let i = 0; i < 3; i++) {
      gc();
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    console.log(closed.length, held());`;
  const args = ["--expose-gc", "--input-type=module", "-e", script];
  expect(execFileSync(process.execPath, args, { encoding: "utf8" })).toBe("3 0\n");
});

test.runIf(canCount)("registries that are opened and closed in a row hold no more and more files", () => {
  const script = `
    import { readdirSync } from "node:fs";
    import { sqliteRegistry } from ${JSON.stringify(dist)};
    for (let i = 0; i < 400; i++) {
      const registry = await sqliteRegistry({ path: ${JSON.stringify(join(newFolder(), "registry.db"))}, operationTimeout: 5000 });
      await registry.workers(${JSON.stringify(namespace)});
      await registry.close();
    }
    console.log(readdirSync("/proc/self/fd").length);`;
  const open = Number(execFileSync(process.execPath, ["--input-type=module", "-e", script], { encoding: "utf8" }));
  expect(open).toBeLessThan(400);
});
