// What a service uses, on the runtime that runs the tests: Node, Bun or Deno.

import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { cliFile, type CliProcess, type CliResult, Sandbox, until } from "../support/cli.ts";

const isNode = process.versions["bun"] === undefined && process.versions["deno"] === undefined;

let sandbox: Sandbox;
beforeEach(() => {
  sandbox = new Sandbox();
});

interface Worker {
  readonly workerId: number;
  readonly state: string;
  readonly clean: boolean;
  readonly releasedAt?: number;
}

async function workers(registry = sandbox.registry): Promise<Worker[]> {
  return JSON.parse(await sandbox.read(["workers", "--registry", registry, "--json"])) as Worker[];
}

/** A daemon on Node, on this sandbox's registry. Returns its URL. */
async function daemonOnNode(): Promise<string> {
  const args = [cliFile, "daemon", "--registry", sandbox.registry, "--json", "--listen", "127.0.0.1:0"];
  const daemon = sandbox.started(spawn("node", args, sandbox.surroundings()));
  const { url } = JSON.parse(await daemon.line()) as { url: string };
  return url;
}

describe("the command line", () => {
  test("20 processes at once make IDs from one file, and none comes twice", async () => {
    const args = ["id", "--registry", sandbox.registry, "-n", "50"];
    const results = await Promise.all(Array.from({ length: 20 }, () => sandbox.run(args)));
    expect(results.map(({ code, stderr }) => `${code}${stderr}`)).toEqual(Array.from({ length: 20 }, () => "0"));
    const ids = results.flatMap(({ stdout }) => stdout.trimEnd().split("\n"));
    expect(new Set(ids).size).toBe(1000);
  });

  test.each(["SIGTERM", "SIGINT"] as const)("assign holds a worker ID until %s, and gives it back", async (signal) => {
    const process = sandbox.start(["assign", "--registry", sandbox.registry, "--json"]);
    expect(JSON.parse(await process.line())).toMatchObject({ workerId: 0 });
    expect(await workers()).toMatchObject([{ workerId: 0, state: "live" }]);
    process.signal(signal);
    expect((await process.ended).stderr).toBe("");
    expect(await workers()).toMatchObject([{ workerId: 0, releasedAt: expect.any(Number) as number }]);
  });

  test("exec starts a program with its worker ID, and ends with the program's code", async () => {
    const result = await sandbox.run([
      "exec",
      "--registry",
      sandbox.registry,
      "--worker-id",
      "33",
      "--",
      "sh",
      "-c",
      "echo $SNOWLEASE_WORKER_ID; exit 7",
    ]);
    expect(result).toEqual({ code: 7, stdout: "33\n", stderr: "" });
    expect(await workers()).toMatchObject([{ workerId: 33, releasedAt: expect.any(Number) as number }]);
  });

  test("a daemon on Node leases to it", async () => {
    const registry = await daemonOnNode();
    const ids = (await sandbox.read(["id", "--registry", registry, "-n", "100"])).trimEnd().split("\n");
    expect(new Set(ids).size).toBe(100);
    expect(await workers(registry)).toMatchObject([{ workerId: 0, state: "free", clean: true }]);
  });

  test.skipIf(isNode)("a daemon needs Node", async () => {
    const result = await sandbox.run(["daemon", "--registry", sandbox.registry, "--listen", "127.0.0.1:0"]);
    expect(result).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(
        /^snowlease: CONFIG_INVALID: Expected Node\.js for a daemon, got (?:Bun|Deno) \d.*\n$/,
      ) as string,
    });
  });
});

/** Leases one of two worker IDs, prints it, and makes IDs in a file until SIGTERM. */
const maker = `
  import { snowlease } from "snowlease";
  import { appendFileSync } from "node:fs";
  const ids = await snowlease({ registry: process.env.REGISTRY, pool: "0-1", window: 2000, claimTimeout: 30000 });
  const made = () => {
    const lines = [];
    try {
      while (lines.length < 50) lines.push(ids.nextString() + "\\n");
    } catch (error) {
      if (!error.retryable) throw error; // A busy machine may renew late: the next handful follows.
    }
    return lines.join("");
  };
  appendFileSync(process.env.FILE, made());
  console.log(ids.lease.workerId);
  const timer = setInterval(() => appendFileSync(process.env.FILE, made()), 5);
  process.on("SIGTERM", () => (clearInterval(timer), ids.close()));`;

describe("the library", () => {
  /** Puts this package where `npm install` puts it. */
  function linkPackage(): void {
    writeFileSync(join(sandbox.work, "package.json"), '{ "dependencies": { "snowlease": "*" } }');
    const folder = join(sandbox.work, "node_modules");
    mkdirSync(folder, { recursive: true });
    rmSync(join(folder, "snowlease"), { force: true });
    symlinkSync(join(cliFile, "../../.."), join(folder, "snowlease"));
  }

  function make(REGISTRY: string, file: string): CliProcess {
    const program = join(sandbox.work, "maker.mjs");
    writeFileSync(program, maker);
    const surroundings = sandbox.surroundings({ REGISTRY, FILE: join(sandbox.work, file) });
    return sandbox.started(spawn(process.execPath, [program], surroundings));
  }

  function made(file: string): string[] {
    return readFileSync(join(sandbox.work, file), "utf8").split("\n").slice(0, -1);
  }

  async function generation(registry: string, files: readonly string[], signal: NodeJS.Signals): Promise<string[]> {
    linkPackage();
    const processes = files.map((file) => make(registry, file));
    const workerIds = await Promise.all(processes.map((process) => process.line()));
    expect(workerIds.toSorted()).toEqual(["0", "1"]);
    await until(() => files.every((file) => made(file).length > 500));
    for (const process of processes) process.signal(signal);
    await Promise.all(processes.map((process) => process.ended));
    return files.flatMap(made);
  }

  /** Runs a program that uses the library, to its end. */
  function run(program: string): Promise<CliResult> {
    linkPackage();
    const file = join(sandbox.work, "program.mjs");
    writeFileSync(file, program);
    return sandbox.started(spawn(process.execPath, [file], sandbox.surroundings({ REGISTRY: sandbox.registry }))).ended;
  }

  test("is the same by import and by require()", async () => {
    const result = await run(`
      import { createRequire } from "node:module";
      import * as imported from "snowlease";
      const required = createRequire(import.meta.url)("snowlease");
      console.log(Object.keys(imported).filter((name) => imported[name] !== required[name]));`);
    expect(result).toMatchObject({ code: 0, stdout: "[]\n" });
  });

  /** The warnings that a worker ID was not given back; Bun and Deno print none in a process that ends. */
  const warnings = ({ stderr }: CliResult): string[] =>
    Array.from(stderr.matchAll(/\[SNOWLEASE_NOT_GIVEN_BACK\] SnowleaseWarning: (.*)/g), ([, text = ""]) =>
      text.replace(/\d{4}-\S+Z/, "TIME"),
    );

  test("gives the worker ID back where the program has nothing left to do, after its last words", async () => {
    const result = await run(`
      import { snowlease } from "snowlease";
      const ids = await snowlease({ registry: process.env.REGISTRY });
      ids.next();
      process.once("beforeExit", () => setTimeout(() => console.log(typeof ids.next()), 50));`);
    expect(result).toMatchObject({ code: 0, stdout: "bigint\n" });
    expect(warnings(result)).toEqual([]);
    expect(await workers()).toMatchObject([{ workerId: 0, clean: true, releasedAt: expect.any(Number) as number }]);
  });

  test("keeps the worker ID while each end of its work begins more of it", async () => {
    const result = await run(`
      import { snowlease } from "snowlease";
      const ids = await snowlease({ registry: process.env.REGISTRY });
      let rounds = 0;
      process.on("beforeExit", () => {
        if (rounds++ < 5) setTimeout(() => console.log(typeof ids.next(), ids.lease.fence), 20);
      });`);
    expect(result).toMatchObject({ code: 0, stdout: "bigint 1\n".repeat(5) });
    expect(await workers()).toMatchObject([{ workerId: 0, clean: true, releasedAt: expect.any(Number) as number }]);
  });

  test("warns where a program ends without waiting for close()", async () => {
    const result = await run(`
      import { snowlease } from "snowlease";
      const options = { registry: process.env.REGISTRY };
      const [left, closing, closed] = [await snowlease(options), await snowlease(options), await snowlease(options)];
      const inMemory = await snowlease({ registry: "memory:" });
      await closed.close();
      void closing.close();
      process.exit(3);`);
    expect(result.code).toBe(3);
    if (isNode) {
      expect(warnings(result)).toEqual([
        "Worker 0 of namespace `default` was not given back, and rests until TIME: the process ended without `close()`",
        "Worker 1 of namespace `default` may rest until TIME: the process ended before `close()` had; wait for it",
      ]);
    }
    const [held, , given] = await workers();
    expect(held).toMatchObject({ workerId: 0, clean: false });
    expect(held).not.toHaveProperty("releasedAt");
    expect(given).toMatchObject({ workerId: 2, clean: true });
  });

  test("warns where the worker ID cannot be given back at the end, and listens no longer than it has a lease", async () => {
    const result = await run(`
      import { openRegistry, snowlease } from "snowlease";
      const store = await openRegistry({ registry: process.env.REGISTRY });
      const listeners = () => process.listenerCount("beforeExit") + process.listenerCount("exit");
      const before = listeners();
      const many = await Promise.all(Array.from({ length: 15 }, () => snowlease({ registry: store })));
      console.log(listeners() - before);
      await Promise.all(many.map(({ close }) => close()));
      console.log(listeners() - before);
      const release = async () => { throw new Error("it is away"); };
      await snowlease({ registry: { ...store, release } });`);
    expect(result).toMatchObject({ code: 0, stdout: "2\n0\n" });
    expect(result.stderr).not.toContain("MaxListeners");
    const text = "Worker 0 of namespace `default` was not given back, and rests until TIME: it is away";
    if (isNode) expect(warnings(result)).toEqual([text]);
  });

  test.each(["a file", "a daemon"])("holders, and those after they were killed, make no ID twice: %s", async (kind) => {
    const registry = kind === "a file" ? sandbox.registry : await daemonOnNode();
    const first = await generation(registry, ["a", "b"], "SIGKILL");
    const second = await generation(registry, ["c", "d"], "SIGTERM");
    expect(new Set([...first, ...second]).size).toBe(first.length + second.length);
    expect(await workers(registry)).toMatchObject([{ clean: true }, { clean: true }]);
  });
});
