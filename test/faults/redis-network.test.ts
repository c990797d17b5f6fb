import { spawn } from "node:child_process";
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { isSnowleaseError } from "../../src/id/errors.ts";
import { defaultLayout } from "../../src/id/layout.ts";
import type { ClaimRequest, Grant, Registry } from "../../src/rule/registry.ts";
import type { SnowleaseOptions } from "../../src/snowlease.ts";
import { claimRequest, granted as grantedInTime, keyOf } from "../support/claims.ts";
import { cuts, loseToAnother } from "../support/cut-off.ts";
import { failure } from "../support/failures.ts";
import { blackHole, FaultProxy } from "../support/fault-proxy.ts";
import { eventually } from "../support/holder.ts";
import { type Maker, startMaker } from "../support/maker.ts";
import { openRedis, redisMissing, RedisServer } from "../support/redis.ts";

const namespace = "orders";
const operationTimeout = 300;

/** Asks again, as a lease does, if a busy machine took longer than the deadline. */
async function answered<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (!isSnowleaseError(error, "REGISTRY_UNAVAILABLE")) throw error;
    }
  }
}

const granted = (registry: Registry, request: ClaimRequest): Promise<Grant> =>
  answered(() => grantedInTime(registry, { ...request, clock: Date.now() }));
const dist = pathToFileURL(join(import.meta.dirname, "../../dist/index.js")).href;

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "Redis over a network", () => {
  let server: RedisServer;
  let proxy: FaultProxy;
  /** Sees the true state, around the proxy. */
  let direct: Registry;
  const open: Registry[] = [];

  beforeAll(async () => {
    server = await RedisServer.start();
    // From now on the server knows the scripts: each operation is one command.
    const registry = await openRedis(server.url());
    await registry.init({ new: true, namespace, layout: defaultLayout.fingerprint });
    const request = claimRequest();
    const key = keyOf(request, await granted(registry, request));
    await registry.renew({ ...key, clock: Date.now(), window: 2000 });
    await registry.release({ ...key, clock: Date.now() });
    await registry.forceRelease({ namespace, workerId: 0, force: true });
    await registry.close();
  });
  afterAll(() => server.remove());

  beforeEach(async () => {
    await server.client().flushall();
    proxy = await FaultProxy.start(server.port);
    direct = await remember(server.url());
    await direct.init({ new: true, namespace, layout: defaultLayout.fingerprint });
  });
  afterEach(async () => {
    await Promise.all(open.splice(0).map((registry) => registry.close()));
    await proxy.stop();
  });

  async function remember(url: string, timeout?: number): Promise<Registry> {
    const registry = await openRedis(url, timeout);
    open.push(registry);
    return registry;
  }

  const through = (timeout = operationTimeout): Promise<Registry> =>
    remember(`redis://127.0.0.1:${proxy.port}`, timeout);

  /** How many scripts the server has run. */
  async function scriptsRun(): Promise<number> {
    const stats = await server.client().info("commandstats");
    const count = (name: string): number => Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
    return count("evalsha") + count("eval");
  }

  /** Every key with its value, as the server would save it. */
  async function dump(): Promise<Map<string, string>> {
    const client = server.client();
    const keys = (await client.keys("*")).toSorted();
    return new Map(
      await Promise.all(
        keys.map(async (key) => [key, (await client.dumpBuffer(key))?.toString("base64") ?? ""] as const),
      ),
    );
  }

  /** On a busy machine a claim may take longer than its deadline: the test repeats it. */
  const make = (options: SnowleaseOptions): Promise<Maker> =>
    startMaker({ namespace, operationTimeout, claimTimeout: 30_000, ...options });

  describe("an operation that gets no answer", () => {
    const faults: Record<string, () => void | Promise<void>> = {
      "a black hole": () => proxy.set(blackHole),
      "nothing arrives at the server": () => proxy.set({ toServer: "drop" }),
      "nothing arrives at the client": () => proxy.set({ toClient: "drop" }),
      "a wire slower than the deadline": () => proxy.set({ delay: operationTimeout }),
      "connections are reset and refused": () => {
        proxy.set({ refuse: true });
        proxy.reset();
      },
    };

    for (const [fault, cause] of Object.entries(faults)) {
      test(`${fault}, before a claim: refused in time, and granted once after healing`, async () => {
        const registry = await through();
        const request = claimRequest();
        await cause();
        expect(await failure(registry.claim(request))).toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
        proxy.heal();
        const grant = await granted(registry, { ...request, clock: Date.now() });
        expect(grant).toMatchObject({ workerId: 0, fence: 1 });
        expect(await direct.workers(namespace)).toHaveLength(1);
      });

      test(`${fault}, during a claim: the same token gets the same grant, and one worker ID is used`, async () => {
        const registry = await through();
        await registry.describe(namespace);
        const request = claimRequest();
        await cause();
        expect(await failure(registry.claim(request))).toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
        const [done] = await direct.workers(namespace);
        proxy.heal();
        await sleep(20);
        const grant = await granted(registry, { ...request, clock: Date.now() });
        expect(grant).toMatchObject({ workerId: 0, fence: 1 });
        // The unanswered claim was granted: repeating it changes nothing.
        if (done !== undefined) expect(grant).toMatchObject({ from: done.from, until: done.until });
        expect(await direct.workers(namespace)).toHaveLength(1);
        expect(await direct.history(namespace, 0)).toHaveLength(1);
      });

      test(`${fault}, during a renewal: the claim stands, and is renewed after healing`, async () => {
        const registry = await through();
        const request = claimRequest();
        const grant = await granted(registry, request);
        const renewal = { ...keyOf(request, grant), clock: Date.now(), window: 2000 };
        await cause();
        expect(await failure(registry.renew(renewal))).toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
        proxy.heal();
        const answer = await answered(() => registry.renew({ ...renewal, clock: Date.now() }));
        expect(answer).toMatchObject({ outcome: "renewed", from: grant.from });
        expect(await direct.worker(namespace, 0)).toMatchObject({ state: "live", fence: 1 });
      });

      test(`${fault}, during a give-back: the repeated give-back is done once`, async () => {
        const registry = await through();
        const request = claimRequest();
        const grant = await granted(registry, request);
        const release = { ...keyOf(request, grant), clock: Date.now(), used: { until: grant.from + 5 } };
        await cause();
        expect(await failure(registry.release(release))).toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
        proxy.heal();
        const answer = await answered(() => registry.release({ ...release, clock: Date.now() }));
        expect(answer).toEqual({ outcome: "released" });
        expect(await direct.worker(namespace, 0)).toMatchObject({ state: "free", clean: true, until: grant.from + 5 });
        expect(await direct.history(namespace, 0)).toMatchObject([{ end: "released", until: grant.from + 5 }]);
      });
    }

    test("a reset before the answer: the registry does not repeat the request unknown to the caller", async () => {
      const registry = await through(5000);
      const request = claimRequest();
      const grant = await granted(registry, request);
      const before = await scriptsRun();
      proxy.set({ toClient: "drop" });
      const refused = failure(registry.renew({ ...keyOf(request, grant), clock: Date.now(), window: 2000 }));
      await eventually(scriptsRun, (count) => count > before);
      proxy.heal();
      expect(await refused).toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
      expect(await scriptsRun()).toBe(before + 1);
    });

    test("the deadline covers the whole operation: sending a script leaves less time for the rest", async () => {
      const registry = await through();
      await registry.describe(namespace);
      await server.client().script("FLUSH");
      // The server answers each of the two round trips in time, but not both together.
      proxy.set({ delay: 0.35 * operationTimeout });
      expect(await failure(registry.claim(claimRequest()))).toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
    });

    test("hundreds at once share one connection", async () => {
      const warnings: Error[] = [];
      const note = (warning: Error): void => void warnings.push(warning);
      process.on("warning", note);
      onTestFinished(() => void process.off("warning", note));
      const registry = await through(5000);
      await registry.describe(namespace);
      // All calls find the connection closed, and wait for the same new one.
      proxy.reset();
      await sleep(50);
      proxy.set({ delay: 50 });
      const answers = await Promise.all(
        Array.from({ length: 300 }, (_, i) =>
          granted(registry, claimRequest({ holder: { host: `h${i}`, ip: "10.0.0.1", pid: i, instance: "" } })),
        ),
      );
      expect(new Set(answers.map(({ workerId }) => workerId)).size).toBe(300);
      expect(proxy.open).toBe(1);
      expect(warnings).toEqual([]);
    });

    test("a call whose time runs out while it connects leaves the other calls on the connection alone", async () => {
      const registry = await through(1000);
      await registry.describe(namespace);
      proxy.reset();
      await sleep(50);
      proxy.set({ delay: 200 });
      // The connection stands again after 800 ms, and the answer comes 400 ms later: too late for the first call, in time for the second.
      const first = failure(registry.describe(namespace));
      await sleep(400);
      const late = registry.describe(namespace);
      expect((await first).message).toContain("did not answer within 1000 ms; whether");
      expect(await late).toBeDefined();
    });
  });

  describe("a holder", () => {
    for (const [fault, cut] of Object.entries(cuts)) {
      test(`${fault}: goes on to \`until\`, stops, and goes on after healing`, async () => {
        const registry = `redis://127.0.0.1:${proxy.port}`;
        const one = await make({ registry, window: 1200 });
        const { workerId, fence } = one.snowflake.lease;
        await sleep(200);
        proxy.set(cut);
        const cutAt = Date.now();
        if ("refuse" in cut) proxy.reset();
        await eventually(async () => one.failures.get("LEASE_EXPIRED"), Boolean);
        const cutOff = one.ids.length;
        const stored = await direct.worker(namespace, workerId);
        const last = defaultLayout.decompose(one.ids[cutOff - 1] ?? 0n);
        // To the end of the window that the holder knows, which is at most the stored end.
        expect(last.timestamp).toBeLessThan(one.snowflake.lease.until);
        expect(last.timestamp).toBeGreaterThan(cutAt);
        expect(one.snowflake.lease.until).toBeLessThanOrEqual(stored?.until ?? 0);
        expect(stored).toMatchObject({ fence });

        proxy.heal();
        await one.made(cutOff + 1000);
        await one.stop();
        expect(one.snowflake.lease).toMatchObject({ workerId, fence, state: "held" });
        await one.snowflake.close();
        expect(new Set(one.ids).size).toBe(one.ids.length);
        expect(await direct.worker(namespace, workerId)).toMatchObject({ state: "free", clean: true });
      });
    }

    test("cut off past its window loses its worker ID to another holder, and takes another one after healing", async () => {
      const registry = `redis://127.0.0.1:${proxy.port}`;
      await loseToAnother(make, proxy, { registry, past: server.url(), window: 600 });
    });
  });

  /*
   * A command that timed out may still arrive minutes later. Each test holds a command back on its way until its sender has given up
   * and another holder has the worker ID, and then lets it arrive.
   */
  describe("a command that arrives late", () => {
    /** Runs a registry's operation and holds it back on the way to the server. The result lets it arrive, and waits until it has. */
    async function heldBack(ask: () => Promise<unknown>): Promise<() => Promise<void>> {
      proxy.set({ toServer: "hold" });
      expect(await failure(ask())).toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
      // The held-back command stays where it is; new connections get through.
      proxy.set({});
      return async () => {
        const before = await scriptsRun();
        proxy.heal();
        await eventually(scriptsRun, (count) => count > before);
      };
    }

    const pool = { first: 0, last: 0 };
    const other = { host: "beta", ip: "10.0.0.2", pid: 815, instance: "" };

    /** The next holder of the worker ID: its stored state must not change, and it must be able to go on. */
    async function expectUntouched(arrive: () => Promise<void>): Promise<void> {
      const request = claimRequest({ pool, holder: other });
      const grant = await granted(direct, request);
      const key = keyOf(request, grant);
      await direct.renew({
        ...key,
        clock: Date.now(),
        window: 2000,
        checkpoint: { timestamp: grant.from, sequence: 3 },
      });
      const before = await dump();
      await arrive();
      expect(await dump()).toEqual(before);
      const used = { until: grant.from + 1, checkpoint: { timestamp: grant.from, sequence: 5 } };
      expect(await direct.renew({ ...key, clock: Date.now(), window: 2000 })).toMatchObject({ outcome: "renewed" });
      expect(await direct.release({ ...key, clock: Date.now(), used })).toEqual({ outcome: "released" });
    }

    test("a renewal, after its holder has given the worker ID back and another holder has it", async () => {
      const registry = await through();
      const request = claimRequest({ pool });
      const grant = await granted(registry, request);
      const key = keyOf(request, grant);
      const arrive = await heldBack(() => registry.renew({ ...key, clock: Date.now(), window: 60_000 }));
      await answered(() => registry.release({ ...key, clock: Date.now(), used: { until: grant.from } }));
      await expectUntouched(arrive);
    });

    test("a renewal, after the window has passed and another holder has the worker ID", async () => {
      const registry = await through();
      const request = claimRequest({ pool, window: 100 });
      const grant = await granted(registry, request);
      const key = keyOf(request, grant);
      const arrive = await heldBack(() => registry.renew({ ...key, clock: Date.now(), window: 60_000 }));
      await expectUntouched(arrive);
    });

    test("a renewal, behind a newer one of the same holder: the window and the checkpoint stay", async () => {
      const registry = await through();
      const request = claimRequest({ pool });
      const grant = await granted(registry, request);
      const key = keyOf(request, grant);
      const early = { timestamp: grant.from, sequence: 1 };
      const arrive = await heldBack(() =>
        registry.renew({ ...key, clock: Date.now(), window: 500, checkpoint: early }),
      );
      const late = { timestamp: grant.from + 10, sequence: 0 };
      await answered(() => registry.renew({ ...key, clock: Date.now(), window: 60_000, checkpoint: late }));
      const before = await direct.worker(namespace, 0);
      await arrive();
      expect(await direct.worker(namespace, 0)).toEqual({ ...before, seenClock: expect.any(Number) });
    });

    test("a claim, after its holder asked again and gave the worker ID back, and another holder has it", async () => {
      const registry = await through();
      await registry.describe(namespace);
      const request = claimRequest({ pool });
      const arrive = await heldBack(() => registry.claim(request));
      const grant = await granted(registry, { ...request, clock: Date.now() });
      const key = keyOf(request, grant);
      await answered(() => registry.release({ ...key, clock: Date.now(), used: { until: grant.from } }));
      await expectUntouched(arrive);
    });

    test("an abandoned claim takes at most a free worker ID, and only for one window", async () => {
      const registry = await through();
      await registry.describe(namespace);
      const arrive = await heldBack(() => registry.claim(claimRequest({ window: 500 })));
      const one = claimRequest({ holder: other });
      await granted(direct, one);
      const before = await dump();
      await arrive();
      const after = await dump();
      expect(after.get("workerId/orders:window:0")).toBe(before.get("workerId/orders:window:0"));
      expect(after.get("workerId/orders:use:0")).toBe(before.get("workerId/orders:use:0"));
      expect(await direct.worker(namespace, 1)).toMatchObject({ state: "live" });
      await eventually(
        () => direct.worker(namespace, 1),
        (record) => record?.state === "free",
      );
    });

    for (const [what, knows] of [
      ["a give-back", true],
      ["a give-back without the usage", false],
    ] as const) {
      test(`${what}, after the window has passed and another holder has the worker ID`, async () => {
        const registry = await through();
        const request = claimRequest({ pool, window: 100 });
        const grant = await granted(registry, request);
        const used = knows ? { until: grant.from } : undefined;
        const release = { ...keyOf(request, grant), clock: Date.now(), used };
        const arrive = await heldBack(() => registry.release(release));
        await expectUntouched(arrive);
      });
    }

    for (const resetWindow of [false, true]) {
      test(`an operator's word ${resetWindow ? "that no holder is left" : "to end a claim"}, after another holder has the worker ID`, async () => {
        const registry = await through();
        const { fence } = await granted(registry, claimRequest({ pool, window: 100 }));
        const word = { namespace, workerId: 0, force: true, fence, resetWindow };
        await expectUntouched(await heldBack(() => registry.forceRelease(word)));
      });
    }

    test("all commands of a generator, while other holders make IDs with its worker ID: no ID twice", async () => {
      const url = `redis://127.0.0.1:${proxy.port}`;
      const options = { window: 400, pool: "0-0", claimTimeout: 10_000, operationTimeout: 150 };
      const makers = [];
      for (let round = 0; round < 4; round++) {
        const one = await make({ ...options, registry: url, host: "one" });
        makers.push(one);
        await sleep(150);
        // Renewals and the give-back get stuck on the way, each on its own connection.
        proxy.set({ toServer: "hold" });
        await eventually(async () => one.failures.get("LEASE_EXPIRED"), Boolean);
        await one.stop();
        await one.snowflake.close().catch(() => undefined);
        proxy.set({});
        // On a busy machine the holder would miss a window as short as the first holder's.
        const two = await make({ ...options, window: 4000, registry: server.url(), host: "two" });
        makers.push(two);
        await sleep(50);
        const made = two.ids.length;
        proxy.heal();
        await two.made(made + 500);
        await two.stop();
        expect(two.failures).toEqual(new Map());
        expect(two.snowflake.lease.state).toBe("held");
        await two.snowflake.close();
      }
      const all = makers.flatMap(({ ids }) => ids);
      expect(new Set(all).size).toBe(all.length);
      expect(makers.every(({ ids }) => ids.length > 500)).toBe(true);
      const fences = makers.map(({ snowflake }) => snowflake.lease.fence);
      expect(fences).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    });
  });

  describe("a server that is not a Redis", () => {
    /** Listens, and treats each connection in the given way. */
    async function listen(meet: (socket: Socket) => void): Promise<number> {
      const sockets = new Set<Socket>();
      const listener = createServer((socket) => {
        sockets.add(socket);
        socket.on("error", () => undefined);
        socket.resume();
        meet(socket);
      });
      listener.listen(0, "127.0.0.1");
      await once(listener, "listening");
      onTestFinished(() => {
        listener.close();
        for (const socket of sockets) socket.destroy();
      });
      return (listener.address() as AddressInfo).port;
    }

    const silent = (): void => undefined;
    /** Answers every command with this text. */
    const answersOf = (reply: string) => (socket: Socket) =>
      void socket.on("data", (bytes) => {
        for (const _ of String(bytes).matchAll(/^\*\d+\r\n/gm)) socket.write(reply);
      });
    const strangers: Record<string, readonly [meet: (socket: Socket) => void, code: string]> = {
      "one that accepts and keeps silent": [silent, "REGISTRY_UNAVAILABLE"],
      "one that accepts and ends": [(socket) => void socket.end(), "REGISTRY_UNAVAILABLE"],
      "one that resets": [(socket) => void socket.resetAndDestroy(), "REGISTRY_UNAVAILABLE"],
      "one that talks before the first command": [
        (socket) => void socket.write("220 mail ESMTP\r\n"),
        "REGISTRY_UNAVAILABLE",
      ],
      HTTP: [
        (socket) => void socket.once("data", () => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n")),
        "REGISTRY_UNAVAILABLE",
      ],
      "one that says OK to everything": [answersOf("+OK\r\n"), "SCHEMA_INCOMPATIBLE"],
      "one that answers everything with a number": [answersOf(":1\r\n"), "SCHEMA_INCOMPATIBLE"],
      "one that answers everything with nothing": [answersOf("$-1\r\n"), "SCHEMA_INCOMPATIBLE"],
      "one that answers everything with an empty list": [answersOf("*0\r\n"), "SCHEMA_INCOMPATIBLE"],
      "one that answers everything with lists of lists": [
        answersOf("*3\r\n$7\r\ngranted\r\n*1\r\n:1\r\n*2\r\n:1\r\n:2\r\n"),
        "SCHEMA_INCOMPATIBLE",
      ],
      "one that answers with half a reply": [answersOf("$100\r\nabc"), "REGISTRY_UNAVAILABLE"],
      "one that announces an impossible length": [answersOf("$9999999999999\r\n"), "REGISTRY_UNAVAILABLE"],
    };
    for (const [kind, [meet, code]] of Object.entries(strangers)) {
      test(`${kind}: ${code}, in one line, and no connection is left`, async () => {
        const registry = await remember(`redis://:s3cr3t@127.0.0.1:${await listen(meet)}`, 200);
        const before = process.getActiveResourcesInfo().filter((name) => name.startsWith("TCPSocket")).length;
        const errors = await Promise.all([
          failure(registry.claim(claimRequest())),
          failure(registry.workers(namespace)),
          failure(registry.ping()),
        ]);
        for (const error of errors) {
          expect(error.code).toBe(code);
          expect(error.message).not.toContain("\n");
          expect(error.message).not.toContain("s3cr3t");
        }
        await registry.close();
        const sockets = (): number =>
          process.getActiveResourcesInfo().filter((name) => name.startsWith("TCPSocket")).length;
        await eventually(
          async () => sockets(),
          (count) => count <= before,
        );
      });
    }
  });

  test("killed and started again under load: every call is answered or refused, and the registry goes on", async () => {
    const own = await RedisServer.start();
    onTestFinished(() => own.remove());
    // No lag, a short window and little skew: forgotten windows pass soon.
    const url = own.url("?maxLag=0");
    const first = await remember(url, 400);
    const limits = { maxWindow: 300, maxClockSkew: 500 };
    await first.init({ new: true, namespace, layout: defaultLayout.fingerprint, ...limits });
    const registries = [first, await remember(url, 400), await remember(url, 400)];
    const codes = new Map<string, number>();
    let grants = 0;
    let running = true;
    const fences = new Map<number, number[]>();
    const load = registries.flatMap((registry) =>
      Array.from({ length: 8 }, async (_, i) => {
        while (running) {
          const request = claimRequest({ window: 200, holder: { host: `h${i}`, ip: "", pid: i, instance: "" } });
          try {
            const grant = await granted(registry, request);
            grants++;
            fences.set(grant.workerId, [...(fences.get(grant.workerId) ?? []), grant.fence]);
            await registry.release({ ...keyOf(request, grant), clock: Date.now(), used: { until: grant.from } });
          } catch (error) {
            if (!isSnowleaseError(error)) throw error;
            codes.set(error.code, (codes.get(error.code) ?? 0) + 1);
            await sleep(5);
          }
        }
      }),
    );
    for (let round = 0; round < 3; round++) {
      const made = grants;
      await eventually(
        async () => grants,
        (count) => count > made + 100,
      );
      await own.kill();
      await sleep(round * 300);
      await own.start();
    }
    const made = grants;
    await eventually(
      async () => grants,
      (count) => count > made + 100,
    );
    running = false;
    await Promise.all(load);
    expect([...codes.keys()].toSorted()).toEqual(["QUARANTINE", "REGISTRY_UNAVAILABLE"]);
    // No fence was granted twice.
    for (const granted of fences.values()) expect(new Set(granted).size).toBe(granted.length);
  });

  describe("a program that is done", () => {
    /** Runs a program that leases, until it ends by itself. */
    function run(lines: string, url: string): { readonly said: Promise<unknown>; readonly ended: Promise<unknown[]> } {
      const script = `
        import { snowlease } from ${JSON.stringify(dist)};
        const ids = await snowlease({ registry: ${JSON.stringify(url)}, namespace: "orders", window: 900, operationTimeout: 300 });
        ids.next();
        console.log("leased");
        ${lines}`;
      const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      onTestFinished(() => void child.kill("SIGKILL"));
      return { said: once(child.stdout, "data"), ended: once(child, "exit") };
    }

    test("ends, although its lease is idle", async () => {
      expect(await run("", server.url()).ended).toEqual([0, null]);
    });

    test("ends after it closed", async () => {
      expect(await run("await ids.close();", server.url()).ended).toEqual([0, null]);
    });

    test("ends when the server is gone", async () => {
      const own = await RedisServer.start();
      onTestFinished(() => own.remove());
      const registry = await remember(own.url());
      await registry.init({ new: true, namespace, layout: defaultLayout.fingerprint });
      // Long enough to see some renewals fail.
      const program = run("await new Promise((resolve) => setTimeout(resolve, 1500));", own.url());
      await program.said;
      await own.kill();
      expect(await program.ended).toEqual([0, null]);
    });

    test("ends when the server has fallen silent", async () => {
      const program = run(
        "await new Promise((resolve) => setTimeout(resolve, 1500));",
        `redis://127.0.0.1:${proxy.port}`,
      );
      await program.said;
      proxy.set(blackHole);
      expect(await program.ended).toEqual([0, null]);
    });

    test("ends when it is refused, and prints the reason", async () => {
      const program = run("", "redis://127.0.0.1:1");
      expect(await program.ended).toEqual([1, null]);
    });
  });
});
