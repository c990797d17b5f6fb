import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { eventually, HolderProcess } from "../support/holder.ts";
import { openRedis, redisMissing, RedisServer } from "../support/redis.ts";

const namespace = "orders";
const dist = pathToFileURL(join(import.meta.dirname, "../../dist/index.js")).href;

interface Leased {
  readonly workerId: number;
  readonly ids: readonly string[];
}

/** A small service: on command it leases and makes IDs, and reports both. */
class Service {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  constructor(options: object, nodeOptions: readonly string[] = []) {
    const script = `
      import { once } from "node:events";
      import { snowlease } from ${JSON.stringify(dist)};
      // Loading it takes each process longer than all that is tested here.
      await import("ioredis");
      console.log("up");
      await once(process.stdin, "data");
      const ids = await snowlease(${JSON.stringify({ namespace, ...options })});
      const made = Array.from({ length: 300 }, () => ids.nextString());
      console.log(JSON.stringify({ workerId: ids.lease.workerId, ids: made }));
      process.stdin.resume();`;
    const child = spawn(process.execPath, [...nodeOptions, "--input-type=module", "-e", script], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.#child = child;
    this.#lines = createInterface(child.stdout)[Symbol.asyncIterator]();
    onTestFinished(() => void child.kill("SIGKILL"));
  }

  /** Waits until it could lease. */
  async up(): Promise<void> {
    expect(await this.#line()).toBe("up");
  }

  async lease(): Promise<Leased> {
    this.#child.stdin?.write("go\n");
    return JSON.parse(await this.#line()) as Leased;
  }

  async #line(): Promise<string> {
    const { done, value } = await this.#lines.next();
    if (done) throw new Error("The service ended.");
    return value;
  }

  async kill(): Promise<void> {
    const exit = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await exit;
  }
}

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "Many at once on a Redis", () => {
  let server: RedisServer;
  let registry: Registry;

  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server.remove());
  beforeEach(async () => {
    await server.client().flushall();
    registry = await openRedis(server.url());
    await registry.init({ new: true, namespace, layout: defaultLayout.fingerprint });
  });
  afterEach(() => registry.close());

  describe("of one host", () => {
    const rounds = 4;
    const crowd = 3;
    const options = { host: "alpha", window: 400 };

    async function expectFewNumbers(start: () => Service): Promise<void> {
      const all: string[] = [];
      const used = new Set<number>();
      for (let round = 0; round < rounds; round++) {
        const services = Array.from({ length: crowd }, start);
        await Promise.all(services.map((service) => service.up()));
        const told = await Promise.all(services.map((service) => service.lease()));
        const now = told.map(({ workerId }) => workerId);
        expect(new Set(now).size).toBe(crowd);
        for (const workerId of now) used.add(workerId);
        all.push(...told.flatMap(({ ids }) => ids));
        await Promise.all(services.map((service) => service.kill()));
        await eventually(
          () => registry.workers(namespace, { state: "free" }),
          (free) => free.length === used.size,
        );
      }
      expect(used.size).toBe(crowd);
      expect(all).toHaveLength(rounds * crowd * 300);
      expect(new Set(all).size).toBe(all.length);
    }

    test("crashed and restarted together, again and again: the same few worker IDs, no ID twice", async () => {
      await expectFewNumbers(() => new Service({ ...options, registry: server.url() }));
    });

    test("the same without the package redlock", async () => {
      const hook = `export async function resolve(name, context, next) {
        if (name === "redlock") throw Object.assign(new Error("not installed"), { code: "ERR_MODULE_NOT_FOUND" });
        return next(name, context);
      }`;
      const register = `import { register } from "node:module";
        register(${JSON.stringify(`data:text/javascript,${encodeURIComponent(hook)}`)});`;
      const nodeOptions = ["--import", `data:text/javascript,${encodeURIComponent(register)}`];
      await expectFewNumbers(() => new Service({ ...options, registry: server.url() }, nodeOptions));
    });

    test("a claim takes a dead process's worker ID first, and not a stopped process's one while others are free", async () => {
      const holders: HolderProcess[] = [];
      onTestFinished(async () => {
        await Promise.all(holders.map((holder) => holder.kill()));
      });
      const holder = async (): Promise<HolderProcess> => {
        const made = new HolderProcess({ registry: server.url(), namespace, ...options });
        holders.push(made);
        await made.ask("start");
        return made;
      };
      const stopped = await holder();
      const dead = await holder();
      const [stoppedId, deadId] = [
        await stopped.ask("make", { count: 100 }),
        await dead.ask("make", { count: 100 }),
      ].map(({ workerId }) => workerId);
      await stopped.ask("renew");
      stopped.signal("SIGSTOP");
      await dead.kill();
      await eventually(
        () => registry.workers(namespace, { state: "free" }),
        (free) => free.length === 2,
      );
      const next = await holder();
      expect((await next.ask("make", { count: 100 })).workerId).toBe(deadId);
      // It does not take the stopped process's worker ID either, though that has rested longest: there are unused worker IDs.
      const fresh = await holder();
      expect((await fresh.ask("make", { count: 100 })).workerId).toBe(2);

      stopped.signal("SIGCONT");
      const awake = await eventually(
        () => stopped.ask("make", { count: 10 }),
        ({ error }) => error === undefined,
      );
      expect(awake.workerId).toBe(stoppedId);
      expect(awake.events.map(({ name }) => name)).not.toContain("lost");
      const all = holders.flatMap((each) => each.ids());
      expect(new Set(all).size).toBe(all.length);
    });

    test("if nothing else is free, a claim takes a stopped process's worker ID, and that process takes another when it wakes", async () => {
      const holders: HolderProcess[] = [];
      onTestFinished(async () => {
        await Promise.all(holders.map((holder) => holder.kill()));
      });
      const start = async (): Promise<HolderProcess> => {
        const made = new HolderProcess({
          registry: server.url(),
          namespace,
          pool: "0-0",
          ...options,
          claimTimeout: 10_000,
        });
        holders.push(made);
        await made.ask("start");
        await made.ask("run");
        return made;
      };
      const first = await start();
      await sleep(100);
      await first.ask("renew");
      first.signal("SIGSTOP");
      const second = await start();
      await sleep(300);
      first.signal("SIGCONT");
      await eventually(
        () => first.ask("state"),
        ({ events }) => events.some(({ name }) => name === "lost"),
      );
      await second.ask("close");
      await eventually(
        () => first.ask("state"),
        ({ events }) => events.some(({ name }) => name === "switched"),
      );
      await sleep(100);
      await first.ask("close");
      const all = holders.flatMap((each) => each.ids());
      expect(all.length).toBeGreaterThan(1000);
      expect(new Set(all).size).toBe(all.length);
    });
  });
});
