import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import { createClient } from "redis";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { Sandbox, until } from "../support/cli.ts";
import { type DaemonProcess, startDaemonProcess } from "../support/daemon-process.ts";
import { redisMissing } from "../support/redis.ts";

const programs = join(import.meta.dirname, "../support/resp-clients");
const cache = join(homedir(), ".cache/snowlease");
const [redisPy, jedis] = ["8.1.0", "6.0.0"];

const pom = `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>test</groupId><artifactId>test</artifactId><version>1</version><dependencies><dependency>
<groupId>redis.clients</groupId><artifactId>jedis</artifactId><version>${jedis}</version></dependency></dependencies></project>`;

let sandbox: Sandbox;
beforeEach(() => {
  sandbox = new Sandbox();
});

/** A folder of the cache, filled once; tests that fill it at the same time do not collide. */
function cached(name: string, fill: (folder: string) => void): string {
  const folder = join(cache, name);
  if (existsSync(folder)) return folder;
  mkdirSync(cache, { recursive: true });
  const next = mkdtempSync(join(cache, `${name}.`));
  try {
    fill(next);
    if (!existsSync(folder)) renameSync(next, folder);
  } finally {
    rmSync(next, { recursive: true, force: true });
  }
  return folder;
}

/** Clients that are programs of their own: the command for each, before the port; undefined if its language is not installed. */
const languages: Readonly<Record<string, () => { command: string[]; env?: Record<string, string> } | undefined>> = {
  "redis-py"() {
    if (!has("python3", "--version")) return undefined;
    const folder = cached(`redis-py-${redisPy}`, (target) => {
      execFileSync("python3", ["-m", "pip", "install", "-q", "--target", target, `redis==${redisPy}`]);
    });
    return { command: ["python3", join(programs, "client.py")], env: { PYTHONPATH: folder } };
  },
  jedis() {
    if (!has("java", "--version") || !has("mvn", "--version")) return undefined;
    const folder = cached(`jedis-${jedis}`, (target) => {
      writeFileSync(join(target, "pom.xml"), pom);
      const copy = ["-q", "-B", "dependency:copy-dependencies", `-DoutputDirectory=${target}/lib`];
      execFileSync("mvn", copy, { cwd: target });
    });
    return { command: ["java", "-cp", `${folder}/lib/*`, join(programs, "Client.java")] };
  },
  phpredis() {
    if (spawnSync("php", ["-r", "exit(class_exists('Redis') ? 0 : 1);"]).status !== 0) return undefined;
    return { command: ["php", join(programs, "client.php")] };
  },
};

function has(program: string, ...args: string[]): boolean {
  return spawnSync(program, args, { stdio: "ignore" }).status === 0;
}

async function start(resp: string, port = 0, ...flags: string[]): Promise<DaemonProcess> {
  const daemon = await startDaemonProcess(sandbox.registry, port, ["--resp", resp, ...flags]);
  onTestFinished(async () => void (await daemon.end("SIGKILL")));
  return daemon;
}

/** A client that collects IDs until it is ended. */
interface Collector {
  readonly name: string;
  readonly ids: () => readonly string[];
  end(): Promise<void>;
}

function program(name: string, command: readonly string[], port: string, env: Record<string, string> = {}): Collector {
  const [file = "", ...args] = command;
  const child: ChildProcess = spawn(file, [...args, port], {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const exit = once(child, "exit");
  onTestFinished(() => void child.kill("SIGKILL"));
  let text = "";
  child.stdout?.on("data", (chunk: Buffer) => (text += chunk.toString("latin1")));
  return {
    name,
    ids: () =>
      text
        .slice(0, text.lastIndexOf("\n") + 1)
        .split("\n")
        .slice(0, -1),
    async end() {
      child.kill("SIGKILL");
      await exit;
    },
  };
}

/** Calls repeatedly a function that makes IDs; the next call replaces a failed one. */
function loop(name: string, make: () => Promise<readonly unknown[]>, close: () => unknown): Collector {
  const ids: string[] = [];
  let isEnding = false;
  const running = (async () => {
    while (!isEnding) {
      const made = await make().catch(() => []);
      // The client's own form of an answer is compared, too: text, not a rounded number.
      for (const id of made) if (typeof id === "string") ids.push(id);
      if (made.length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
    }
  })();
  return {
    name,
    ids: () => ids,
    async end() {
      isEnding = true;
      await running;
      await close();
    },
  };
}

async function inProcess(port: number): Promise<Collector[]> {
  const io = new Redis({ port, host: "127.0.0.1", retryStrategy: () => 50 }).on("error", () => undefined);
  const node = createClient({ socket: { port, host: "127.0.0.1", reconnectStrategy: 50 } }).on(
    "error",
    () => undefined,
  );
  await node.connect();
  const fifty = Array.from({ length: 50 }, () => "orders");
  return [
    loop(
      "ioredis",
      async () => [
        await io.get("orders"),
        ...(await io.mget(fifty)),
        ...(await Promise.all(fifty.map((key) => io.get(key)))),
      ],
      () => io.disconnect(),
    ),
    loop(
      "node-redis",
      async () => [
        await node.get("orders"),
        ...(await node.mGet(fifty)),
        ...(await Promise.all(fifty.map((key) => node.get(key)))),
      ],
      () => node.destroy(),
    ),
  ];
}

test.skipIf(redisMissing)(
  "clients of five languages, and a daemon that is killed in the middle: no ID comes twice",
  { timeout: 300_000 },
  async () => {
    const first = await start("127.0.0.1:0");
    const { port } = new URL(first.resp);
    const collectors = await inProcess(Number(port));
    for (const [name, made] of Object.entries(languages)) {
      const found = made();
      if (found === undefined) console.warn(`NOT RUN: ${name}, whose language is not installed.`);
      else collectors.push(program(name, found.command, port, found.env));
    }
    const forever = ["sh", "-c", 'while :; do redis-cli -p "$0" -r 20 GET orders 2>/dev/null || sleep 0.1; done'];
    collectors.push(program("redis-cli", forever, port));
    const reach = (more: number): Promise<void> => {
      const goals = collectors.map(({ ids }) => ids().length + more);
      return until(() => collectors.every(({ ids }, i) => ids().length >= (goals[i] ?? 0)));
    };
    await reach(500);
    execFileSync("redis-benchmark", ["-p", port, "-n", "20000", "-P", "16", "-q", "GET", "orders"], {
      stdio: "ignore",
    });
    await first.end("SIGKILL");
    await start(`127.0.0.1:${port}`, first.port);
    await reach(500);
    for (const collector of collectors) await collector.end();

    const all = collectors.flatMap(({ name, ids }) => ids().map((id) => [id, name] as const));
    const seen = new Map<string, string>();
    for (const [id, name] of all) {
      // redis-cli prints an error of a connection as a line, too.
      if (name === "redis-cli" && !/^\d+$/.test(id)) continue;
      expect(id).toMatch(/^\d{17,20}$/);
      expect(seen.get(id), `ID ${id} of ${name}`).toBeUndefined();
      seen.set(id, name);
    }
    expect(seen.size).toBeGreaterThanOrEqual(collectors.length * 1000);
  },
);

test("libraries send a token, speak RESP3, and recognize an error by its code", async () => {
  const daemon = await start("127.0.0.1:0", 0, "--tokens", sandbox.tokens("good worker orders"));
  const { port } = new URL(daemon.resp);
  const io = new Redis({ port: Number(port), password: "good", connectionName: "app" });
  onTestFinished(() => io.disconnect());
  expect(await io.get("orders")).toMatch(/^\d+$/);
  await expect(io.get("bills")).rejects.toThrow(/^NOPERM /);
  await expect(io.incr("orders")).rejects.toThrow(/^ERR No integer/);
  await expect(io.set("orders", "1")).rejects.toThrow(/^ERR unknown command 'set'/);
  const node = createClient({ RESP: 3, url: `redis://any:good@127.0.0.1:${port}` }).on("error", () => undefined);
  await node.connect();
  onTestFinished(() => node.destroy());
  expect(await node.get("orders")).toMatch(/^\d+$/);
  expect(await node.clientGetName()).toBeNull();
  const wrong = new Redis({ port: Number(port), password: "bad", lazyConnect: true, retryStrategy: null });
  wrong.on("error", () => undefined);
  onTestFinished(() => wrong.disconnect());
  await expect(wrong.get("orders")).rejects.toThrow(/NOAUTH|WRONGPASS/);
});

test("INCR is exact in every library on a layout of 53 bits", async () => {
  const daemon = await start("127.0.0.1:0", 0, "--layout", "safe53");
  const io = new Redis({ port: Number(new URL(daemon.resp).port) });
  onTestFinished(() => io.disconnect());
  const ids = await Promise.all(Array.from({ length: 2000 }, () => io.incr("orders")));
  expect(new Set(ids).size).toBe(2000);
  expect(ids.every(Number.isSafeInteger)).toBe(true);
});
