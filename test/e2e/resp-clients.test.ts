// Clients of Redis in several languages get IDs of a daemon in the Redis protocol.

import { execFile, spawnSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Redis } from "ioredis";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { Sandbox } from "../support/cli.ts";
import { type DaemonProcess, startDaemonProcess } from "../support/daemon-process.ts";
import { expectAudited, Maker } from "../support/examples.ts";
import { hasPython, pythonPackages } from "../support/python.ts";
import { isProgram } from "../support/servers.ts";
import { asTested, UserProject } from "../support/user-project.ts";

const run = promisify(execFile);
const programs = fileURLToPath(new URL("../support/resp-clients", import.meta.url));
/** Each ends by itself when its connection is refused: one after the other, as a shell's user would. */
const redisCli = 'while :; do redis-cli -p "$0" -r 20 GET orders 2>/dev/null | grep -xE "[0-9]+" || sleep 0.1; done';

let sandbox: Sandbox;
beforeEach(() => {
  sandbox = new Sandbox();
});

/** Installs the libraries of each language that is there. Returns the name of each client -> its command, without the port. */
async function install(): Promise<ReadonlyMap<string, readonly string[]>> {
  const project = new UserProject();
  project.copy(programs, ".");
  const jars = project.path("jars");
  const commands = new Map<string, readonly string[]>([
    ["ioredis", [process.execPath, project.path("ioredis.mjs")]],
    ["node-redis", [process.execPath, project.path("node-redis.mjs")]],
    ["redis-cli", ["sh", "-c", redisCli]],
  ]);
  await project.install(asTested("ioredis"), "redis@6.3.1");
  if (hasPython(10)) {
    commands.set("redis-py", [join(pythonPackages("redis==8.1.0"), "python3"), project.path("redis-py.py")]);
  }
  if (isThere("Jedis", "mvn", "--version")) {
    const copy = ["-q", "-B", "dependency:copy-dependencies", `-DoutputDirectory=${jars}`];
    await run("mvn", copy, { cwd: project.folder });
    commands.set("Jedis", ["java", "-cp", `${jars}/*`, project.path("Jedis.java")]);
  }
  if (isThere("phpredis", "php", "-r", "exit(class_exists('Redis') ? 0 : 1);")) {
    commands.set("phpredis", ["php", project.path("phpredis.php")]);
  }
  return commands;
}

function isThere(client: string, program: string, ...args: string[]): boolean {
  const isThere = spawnSync(program, args, { stdio: "ignore" }).status === 0;
  if (!isThere) console.warn(`NOT RUN: ${client}, since \`${[program, ...args].join(" ")}\` does not succeed.`);
  return isThere;
}

async function start(resp: string, port = 0, ...flags: string[]): Promise<DaemonProcess> {
  const daemon = await startDaemonProcess(sandbox.registry, port, ["--resp", resp, ...flags]);
  onTestFinished(async () => void (await daemon.end("SIGKILL")));
  return daemon;
}

test.skipIf(!isProgram("redis-benchmark"))(
  "clients of five languages, and a daemon that is killed in the middle: no ID comes twice",
  async () => {
    const commands = await install();
    const first = await start("127.0.0.1:0");
    const { port } = new URL(first.resp);
    const makers = Array.from(commands, ([name, command]) => new Maker(sandbox, name, [...command, port]));
    const all = (count: number): Promise<unknown> => Promise.all(makers.map((maker) => maker.made(count)));
    await all(500);
    await run("redis-benchmark", ["-p", port, "-n", "20000", "-P", "16", "-q", "GET", "orders"]);
    await first.end("SIGKILL");
    await start(`127.0.0.1:${port}`, first.port);
    await all(500);
    await Promise.all(makers.map(({ process }) => process.kill()));
    for (const maker of makers) expect(maker.ids().length).toBeGreaterThanOrEqual(1000);
    await expectAudited(
      sandbox,
      sandbox.registry,
      makers.flatMap((maker) => maker.ids()),
      "orders",
    );
  },
);

test("libraries show a token, and tell an error by its code", async () => {
  const daemon = await start("127.0.0.1:0", 0, "--tokens", sandbox.tokens("good worker orders"));
  const { port } = new URL(daemon.resp);
  const redis = connected(Number(port), "good");
  expect(await redis.get("orders")).toMatch(/^\d+$/);
  await expect(redis.get("bills")).rejects.toThrow(/^NOPERM /);
  await expect(redis.incr("orders")).rejects.toThrow(/^ERR An ID of namespace `orders` has 63 bits: /);
  await expect(redis.set("orders", "1")).rejects.toThrow(/^ERR unknown command 'set'/);
  await expect(connected(Number(port), "bad").get("orders")).rejects.toThrow(/^(?:NOAUTH|WRONGPASS) /);
});

test("INCR is exact in a library that reads integers as numbers, on a layout of 53 bits", async () => {
  const daemon = await start("127.0.0.1:0", 0, "--layout", "safe53");
  const redis = connected(Number(new URL(daemon.resp).port));
  const ids = await Promise.all(Array.from({ length: 2000 }, () => redis.incr("orders")));
  expect(new Set(ids).size).toBe(2000);
  expect(ids.every(Number.isSafeInteger)).toBe(true);
});

function connected(port: number, password?: string): Redis {
  const login = password === undefined ? {} : { password };
  const redis = new Redis({ host: "127.0.0.1", port, connectionName: "app", retryStrategy: () => null, ...login });
  redis.on("error", () => undefined);
  onTestFinished(() => redis.disconnect());
  return redis;
}
