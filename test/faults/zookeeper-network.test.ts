import { spawn } from "node:child_process";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import zookeeper from "node-zookeeper-client";
import { isSnowleaseError } from "../../src/id/errors.ts";
import type { Registry } from "../../src/rule/registry.ts";
import type { SnowleaseOptions } from "../../src/snowlease.ts";
import { tokenIn } from "../../src/registries/zookeeper/nodes.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { cuts, loseToAnother } from "../support/cut-off.ts";
import { failure } from "../support/failures.ts";
import { blackHole, FaultProxy } from "../support/fault-proxy.ts";
import { eventually } from "../support/holder.ts";
import { type Maker, startMaker } from "../support/maker.ts";
import { patience } from "../support/patience.ts";
import { freePort } from "../support/servers.ts";
import { expectWhole, liveIn, makeNode, readTree } from "../support/zookeeper-tree.ts";
import { openZooKeeper, ZooKeeper, zooKeeperMissing } from "../support/zookeeper.ts";

const operationTimeout = 400;
const dist = pathToFileURL(join(import.meta.dirname, "../../dist/index.js")).href;

describe.skipIf(zooKeeperMissing !== undefined)(zooKeeperMissing ?? "ZooKeeper over a network", () => {
  let ensemble: ZooKeeper;
  let port: number;
  let proxy: FaultProxy;
  /** Sees what is so, past the proxy. */
  let direct: Registry;
  let namespace: string;
  let tests = 0;
  const open: Registry[] = [];

  beforeAll(async () => {
    ensemble = await ZooKeeper.start();
    port = ensemble.servers[0]?.port ?? 0;
  });
  afterAll(() => ensemble.remove());

  beforeEach(async () => {
    namespace = `test${++tests}`;
    proxy = await FaultProxy.start(port);
    direct = await remember(ensemble.url());
    await direct.ping();
  });
  afterEach(async () => {
    await Promise.all(open.splice(0).map((registry) => registry.close()));
    await proxy.stop();
  });

  async function remember(url: string, timeout?: number): Promise<Registry> {
    const registry = await openZooKeeper(url, timeout);
    open.push(registry);
    return registry;
  }

  const through = (timeout = operationTimeout, rest = ""): Promise<Registry> =>
    remember(`zookeeper://127.0.0.1:${proxy.port}${rest}`, timeout);
  const ask = (wish: Parameters<typeof claimRequest>[0] = {}): ReturnType<typeof claimRequest> =>
    claimRequest({ namespace, ...wish });

  /** Asks again where a busy machine took longer than the deadline, as a lease does. */
  async function answered<Answer>(call: () => Promise<Answer>): Promise<Answer> {
    for (;;) {
      try {
        return await call();
      } catch (error) {
        if (!isSnowleaseError(error, "REGISTRY_UNAVAILABLE")) throw error;
      }
    }
  }

  /** How many requests the server has received. */
  async function received(): Promise<number> {
    return (await ensemble.servers[0]?.received()) ?? 0;
  }

  /** Every node but those of sessions and of clocks. */
  async function dump(): Promise<Map<string, string>> {
    const tree = await readTree(port, `/snowlease/${namespace}`);
    return new Map([...tree].filter(([path]) => tokenIn(path.split("/").at(-1) ?? "") === undefined));
  }

  async function expectAllWhole(): Promise<void> {
    expectWhole(await readTree(port), namespace);
  }

  /** On a busy machine a claim may take longer than its deadline: it is asked again. */
  const make = (options: SnowleaseOptions): Promise<Maker> =>
    startMaker({ namespace, operationTimeout, claimTimeout: 30_000, ...options });

  describe("an operation that gets no answer", () => {
    const faults: Record<string, () => void> = {
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
      test("a connection that a server takes and never answers is given up, and another one is made", async () => {
        let connections = 0;
        const server = createServer((socket) => {
          socket.on("error", () => undefined);
          if (connections++ === 0) return;
          const further = connect(port, "127.0.0.1").on("error", () => undefined);
          socket.pipe(further).pipe(socket);
        }).listen(0, "127.0.0.1");
        onTestFinished(() => void server.close());
        await once(server, "listening");
        const registry = await remember(`zookeeper://127.0.0.1:${(server.address() as AddressInfo).port}`, patience);
        await granted(registry, ask());
        expect(connections).toBe(2);
      });

      test(`${fault}, before a claim: refused in time, and granted once after healing`, async () => {
        const registry = await through();
        const request = ask();
        cause();
        expect(await failure(registry.claim(request))).toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
        proxy.heal();
        const grant = await answered(() => granted(registry, { ...request, clock: Date.now() }));
        expect(grant).toMatchObject({ workerId: 0, fence: 1 });
        expect(await direct.workers(namespace)).toHaveLength(1);
      });

      test(`${fault}, during a claim, a renewal and a give-back: each is done once`, async () => {
        const registry = await through();
        await direct.init({ namespace, layout: ask().layout });
        // The answer to the transaction is what gets lost: what was read before has arrived.
        const request = ask();
        for (let wait = 2; wait < 14; wait += 3) {
          await answered(() => registry.ping());
          const asked = failure(registry.claim(request)).catch(() => undefined);
          await sleep(wait);
          cause();
          const failed = await asked;
          expect(failed?.code ?? "REGISTRY_UNAVAILABLE").toBe("REGISTRY_UNAVAILABLE");
          const [done] = await direct.workers(namespace);
          proxy.heal();
          await sleep(20);
          const grant = await answered(() => granted(registry, { ...request, clock: Date.now() }));
          expect(grant).toMatchObject({ workerId: 0, fence: 1 });
          // What was granted unheard was granted: asking again moves nothing.
          if (done !== undefined) expect(grant).toMatchObject({ from: done.from, until: done.until });
        }
        const key = keyOf(request, await answered(() => granted(registry, { ...request, clock: Date.now() })));
        for (let wait = 0; wait < 9; wait += 3) {
          await answered(() => registry.ping());
          const asked = registry.renew({ ...key, clock: Date.now(), window: 2000 }).catch(() => undefined);
          await sleep(wait);
          cause();
          await asked;
          proxy.heal();
          const renew = (): Promise<unknown> => registry.renew({ ...key, clock: Date.now(), window: 2000 });
          expect(await answered(renew)).toMatchObject({ outcome: "renewed" });
        }
        const { from } = await answered(() => granted(registry, { ...request, clock: Date.now() }));
        const release = { ...key, clock: Date.now(), used: { until: from + 5 } };
        const asked = registry.release(release).catch(() => undefined);
        await sleep(4);
        cause();
        await asked;
        proxy.heal();
        const released = await answered(() => registry.release({ ...release, clock: Date.now() }));
        expect(released).toEqual({ outcome: "released" });
        expect(await direct.worker(namespace, 0)).toMatchObject({ state: "free", clean: true, until: from + 5 });
        expect(await direct.history(namespace, 0)).toMatchObject([{ end: "released", until: from + 5 }]);
        await expectAllWhole();
      });
    }

    test("a connection that breaks off in time is not waited for: the next one is asked, and the answer read back", async () => {
      const registry = await through(5000);
      const request = ask();
      const grant = await answered(() => granted(registry, request));
      for (let wait = 0; wait < 8; wait++) {
        const renewal = registry.renew({ ...keyOf(request, grant), clock: Date.now(), window: 2000 });
        await sleep(wait);
        proxy.reset();
        expect(await renewal).toMatchObject({ outcome: "renewed", from: grant.from });
      }
      await expectAllWhole();
    });

    test("one that gave up does not take the others on the same connection with it", async () => {
      const registry = await through(10_000);
      await registry.ping();
      proxy.set({ delay: 20 });
      const answers = await Promise.all(
        Array.from({ length: 200 }, (_, i) =>
          granted(registry, ask({ holder: { host: `h${i}`, ip: "10.0.0.1", pid: i, instance: "" } })),
        ),
      );
      expect(new Set(answers.map(({ workerId }) => workerId)).size).toBe(200);
      expect(proxy.open).toBe(1);
      await expectAllWhole();
    });
  });

  describe("what answers in its place", () => {
    /** Something that listens, and what it does with who connects. */
    async function listen(talk: (socket: Socket) => void): Promise<number> {
      const server = createServer(talk);
      const sockets = new Set<Socket>();
      server.on("connection", (socket) => {
        sockets.add(socket);
        socket.on("error", () => undefined);
      });
      server.listen(0, "127.0.0.1");
      await once(server, "listening");
      onTestFinished(() => {
        for (const socket of sockets) socket.destroy();
        server.close();
      });
      return (server.address() as AddressInfo).port;
    }

    const int = (...numbers: number[]): Buffer =>
      Buffer.concat(
        numbers.map((number) => {
          const bytes = Buffer.alloc(4);
          bytes.writeInt32BE(number);
          return bytes;
        }),
      );
    /** What a server says to a client that connects: a session of 10 s. */
    const welcome = Buffer.concat([int(36, 0, 10_000), Buffer.alloc(8, 1), int(16), Buffer.alloc(16, 2)]);
    /** An answer to the first request: its header with this code. */
    const reply = (code: number): Buffer => Buffer.concat([int(16, 0), Buffer.alloc(8), int(code)]);

    const strangers: Record<string, (socket: Socket) => void> = {
      "keeps silent": () => undefined,
      "hangs up": (socket) => socket.end(),
      resets: (socket) => socket.resetAndDestroy(),
      "speaks HTTP": (socket) => void socket.end("HTTP/1.1 400 Bad Request\r\n\r\n"),
      "says too little": (socket) => void socket.write(int(2, 0)),
      "says something random": (socket) => void socket.write(Buffer.from(Array.from({ length: 300 }, (_, i) => i % 7))),
      "never ends what it says": (socket) => {
        const more = (): void =>
          void (socket.destroyed || socket.write(Buffer.alloc(1 << 20, 0x41), () => setImmediate(more)));
        more();
      },
      "lets a client in and keeps silent then": (socket) => void socket.write(welcome),
      "lets a client in and talks nonsense then": (socket) => {
        socket.write(welcome);
        socket.write(Buffer.from(Array.from({ length: 300 }, (_, i) => i % 7)));
      },
      // SESSIONMOVED and others the driver does not know, and throws where nobody catches.
      "answers with a code that the driver does not know": (socket) => {
        socket.once("data", () => {
          socket.write(welcome);
          socket.once("data", () => socket.write(reply(-118)));
        });
      },
      "answers with a failure": (socket) => {
        socket.once("data", () => {
          socket.write(welcome);
          socket.once("data", () => socket.write(reply(-1)));
        });
      },
    };

    for (const [what, talk] of Object.entries(strangers)) {
      test(`one that ${what}: REGISTRY_UNAVAILABLE, and the program ends`, async () => {
        const url = `zookeeper://127.0.0.1:${await listen(talk)}`;
        const script = `
          import { registryAssigner, snowlease } from ${JSON.stringify(dist)};
          try {
            await snowlease({ registry: ${JSON.stringify(url)}, operationTimeout: ${operationTimeout} });
          } catch (error) {
            console.log(error.code, error.message.split("\\n").length);
          }`;
        expect(await programOf(script)).toEqual({ said: "REGISTRY_UNAVAILABLE 1\n", code: 0 });
      });
    }

    test("none at all: REGISTRY_UNAVAILABLE, and it says that nobody listens", async () => {
      const registry = await remember(`zookeeper://127.0.0.1:${await freePort()}`, operationTimeout);
      const error = await failure(registry.ping());
      expect(error.code).toBe("REGISTRY_UNAVAILABLE");
      expect(error.message).toContain("ECONNREFUSED");
    });

    test("one of three is there: it is found", async () => {
      const silent = await listen(() => undefined);
      const url = `zookeeper://127.0.0.1:${silent},127.0.0.1:${await freePort()},127.0.0.1:${port}`;
      for (let i = 0; i < 6; i++) await (await remember(url, 3000)).ping();
    });
  });

  /** Runs a program to its end: what it said, and how it ended. `heard`: what to do when it says something. */
  async function programOf(
    script: string,
    heard: () => void = () => undefined,
  ): Promise<{ said: string; code: number }> {
    const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    let said = "";
    child.stdout.once("data", heard);
    child.stdout.on("data", (bytes) => (said += String(bytes)));
    const [code] = (await once(child, "close")) as [number];
    return { said, code };
  }

  describe("a program that is done", () => {
    const program = (url: string, lines: string, leased?: () => void): Promise<{ said: string; code: number }> =>
      programOf(
        `
        import { snowlease } from ${JSON.stringify(dist)};
        const ids = await snowlease({ registry: ${JSON.stringify(url)}, namespace: ${JSON.stringify(namespace)}, window: 900, operationTimeout: 2000 });
        ids.next();
        console.log("leased");
        ${lines}`,
        leased,
      );

    test("ends, although its lease is idle", async () => {
      expect(await program(ensemble.url(), "")).toEqual({ said: "leased\n", code: 0 });
    });

    test("ends after it closed, and its session with it", async () => {
      expect(await program(ensemble.url(), "await ids.close();")).toEqual({ said: "leased\n", code: 0 });
      expect(liveIn(await readTree(port, `/snowlease/${namespace}`))).toEqual([]);
      expect(await direct.worker(namespace, 0)).toMatchObject({ state: "free", clean: true });
    });

    test("ends when the server is gone", async () => {
      const url = `zookeeper://127.0.0.1:${proxy.port}`;
      const ended = program(url, "await new Promise((resolve) => setTimeout(resolve, 1500));", () => {
        proxy.set({ refuse: true });
        proxy.reset();
      });
      expect(await ended).toEqual({ said: "leased\n", code: 0 });
    });

    test("ends when the server has fallen silent", async () => {
      const url = `zookeeper://127.0.0.1:${proxy.port}`;
      const wait = "await new Promise((resolve) => setTimeout(resolve, 1500));";
      const ended = program(url, wait, () => proxy.set(blackHole));
      expect(await ended).toEqual({ said: "leased\n", code: 0 });
    });
  });

  describe("a holder", () => {
    for (const [fault, cut] of Object.entries(cuts)) {
      test(`${fault}: goes on to \`until\`, stops, and goes on after healing`, async () => {
        const registry = `zookeeper://127.0.0.1:${proxy.port}?sessionTimeout=600ms`;
        const one = await make({ registry, window: 1500 });
        const { workerId, fence } = one.snowflake.lease;
        await sleep(200);
        proxy.set(cut);
        if ("refuse" in cut) proxy.reset();
        // Where the server hears nothing, the session ends long before the window: the claim is shown as given up.
        const live = fault === "nothing arrives at the client";
        await eventually(
          () => direct.worker(namespace, workerId),
          (record) => live || record?.state === "resting",
        );
        // The window stays closed.
        expect(await direct.claim(ask({ workerId }))).toMatchObject({ outcome: "held", live });
        await eventually(async () => one.failures.get("LEASE_EXPIRED"), Boolean);
        const cutOff = one.ids.length;
        const stored = await direct.worker(namespace, workerId);
        expect(one.snowflake.lease.until).toBeLessThanOrEqual(stored?.until ?? 0);
        expect(stored).toMatchObject({ fence });

        proxy.heal();
        await one.made(cutOff + 1000);
        await one.stop();
        expect(one.snowflake.lease).toMatchObject({ workerId, fence, state: "held" });
        // The new session says so, too.
        expect(await direct.worker(namespace, workerId)).toMatchObject({ state: "live", fence });
        await one.snowflake.close();
        expect(new Set(one.ids).size).toBe(one.ids.length);
        expect(await direct.worker(namespace, workerId)).toMatchObject({ state: "free", clean: true });
        await expectAllWhole();
      });
    }

    test("cut off past its window loses its number to somebody else, and takes another one after healing", async () => {
      const registry = `zookeeper://127.0.0.1:${proxy.port}`;
      await loseToAnother(make, proxy, { registry, past: ensemble.url(), window: 800 });
      // Of its two sessions' nodes only the one is left whose token the record holds.
      expect(liveIn(await readTree(port, `/snowlease/${namespace}`))).toEqual([0]);
      // Another holder may renew while the tree is read, node by node.
      await vi.waitFor(expectAllWhole, { timeout: patience });
    });

    test("whose session has ended may be released without force, and is lost then", async () => {
      const registry = await through(operationTimeout, "?sessionTimeout=600ms");
      const request = ask({ window: 60_000 });
      const grant = await answered(() => granted(registry, request));
      const release = { namespace, workerId: 0, force: false };
      expect(await direct.forceRelease(release)).toMatchObject({ outcome: "live" });
      proxy.set(blackHole);
      await eventually(
        () => direct.forceRelease(release),
        ({ outcome }) => outcome === "released",
      );
      proxy.heal();
      const renewal = { ...keyOf(request, grant), clock: Date.now(), window: 60_000 };
      expect(await answered(() => registry.renew(renewal))).toEqual({ outcome: "lost", reason: "released" });
      expect(await direct.worker(namespace, 0)).toMatchObject({ state: "resting", until: grant.until });
      await expectAllWhole();
    });
  });

  /*
   * A transaction that nobody waits for any more may still arrive. Each of these holds one back on the way, lets its sender give
   * up, lets somebody else have the number, and then lets it arrive.
   */
  describe("a transaction that arrives late", () => {
    const pool = { first: 0, last: 0 };
    const delay = 60;

    /** Lets what a registry reads through, and holds back what it writes then. */
    async function heldBack(asked: () => Promise<unknown>): Promise<() => Promise<void>> {
      proxy.set({ delay });
      const failed = failure(asked());
      // The read is on its way back.
      await sleep(1.5 * delay);
      proxy.set({ delay, toServer: "hold" });
      expect(await failed).toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
      // A server lets nothing more in over a connection whose session has come back over another one.
      proxy.set({ refuse: true });
      return async () => {
        const before = await received();
        proxy.heal();
        await eventually(received, (count) => count > before + 1);
        await sleep(50);
      };
    }

    async function expectUntouched(arrive: () => Promise<void>): Promise<void> {
      const request = ask({ pool, holder: { host: "beta", ip: "10.0.0.2", pid: 815, instance: "" } });
      const grant = await granted(direct, request);
      const key = keyOf(request, grant);
      const checkpoint = { timestamp: grant.from, sequence: 3 };
      await direct.renew({ ...key, clock: Date.now(), window: 2000, checkpoint });
      const before = await dump();
      await arrive();
      expect(await dump()).toEqual(before);
      expect(await direct.renew({ ...key, clock: Date.now(), window: 2000 })).toMatchObject({ outcome: "renewed" });
      await expectAllWhole();
    }

    test("a renewal, after its holder has given the number back and another one has it", async () => {
      const registry = await through();
      const request = ask({ pool });
      const grant = await answered(() => granted(registry, request));
      const key = keyOf(request, grant);
      const arrive = await heldBack(() => registry.renew({ ...key, clock: Date.now(), window: 60_000 }));
      await direct.release({ ...key, clock: Date.now(), used: { until: grant.from } });
      await expectUntouched(arrive);
    });

    test("a give-back, after the window has passed and another one has the number", async () => {
      const registry = await through();
      const request = ask({ pool, window: 100 });
      const grant = await answered(() => granted(registry, request));
      const release = { ...keyOf(request, grant), clock: Date.now(), used: { until: grant.from } };
      await expectUntouched(await heldBack(() => registry.release(release)));
    });

    test("a claim, after its holder asked again, gave the number back, and another one has it", async () => {
      const registry = await through();
      await direct.init({ namespace, layout: ask().layout });
      const request = ask({ pool, workerId: 0 });
      const arrive = await heldBack(() => registry.claim(request));
      const grant = await granted(direct, { ...request, clock: Date.now() });
      await direct.release({ ...keyOf(request, grant), clock: Date.now(), used: { until: grant.from } });
      await expectUntouched(arrive);
    });

    /** Holds a number, and sees that nothing becomes of it when something arrives that was sent before. */
    async function expectHeld(arrive: () => Promise<void>): Promise<void> {
      const request = ask({ workerId: 0, window: 60_000 });
      const key = keyOf(request, await granted(direct, request));
      await direct.renew({ ...key, clock: Date.now(), window: 60_000 });
      const before = await dump();
      await arrive();
      expect(await dump()).toEqual(before);
      expect(await direct.claim(ask({ workerId: 0 }))).toMatchObject({ outcome: "held", live: true });
    }

    // A number that was only ever pinned has its record taken away, and the next one's versions begin anew.
    test("an unpinning, after another one unpinned the number and somebody has it", async () => {
      const registry = await through();
      await direct.init({ namespace, layout: ask().layout });
      await direct.pin(namespace, 0, "kept");
      await direct.pin(namespace, 0, "kept for long");
      await answered(() => registry.ping());
      const arrive = await heldBack(() => registry.unpin(namespace, 0));
      expect(await direct.unpin(namespace, 0)).toBe(true);
      await expectHeld(arrive);
    });

    test("a claim of a number that was pinned for its host, after it was unpinned and somebody has it", async () => {
      const registry = await through();
      await direct.init({ namespace, layout: ask().layout });
      const owner = { ip: "10.0.0.9" };
      await direct.pin(namespace, 0, "kept", owner);
      await answered(() => registry.ping());
      const holder = { host: "late", ip: owner.ip, pid: 1, instance: "" };
      const arrive = await heldBack(() => registry.claim(ask({ workerId: 0, holder, window: 100 })));
      expect(await direct.unpin(namespace, 0)).toBe(true);
      const request = ask({ workerId: 0, window: 60_000 });
      const key = keyOf(request, await granted(direct, request));
      const before = await dump();
      await arrive();
      expect(await dump()).toEqual(before);
      expect(await direct.renew({ ...key, clock: Date.now(), window: 60_000 })).toMatchObject({ outcome: "renewed" });
    });

    test("a pin with another reason, after the number was unpinned and somebody has it", async () => {
      const registry = await through();
      await direct.init({ namespace, layout: ask().layout });
      await direct.pin(namespace, 0, "kept");
      await direct.pin(namespace, 0, "kept for long");
      await answered(() => registry.ping());
      const arrive = await heldBack(() => registry.pin(namespace, 0, "another reason"));
      expect(await direct.unpin(namespace, 0)).toBe(true);
      await expectHeld(arrive);
    });
  });

  test("a connection over which more was asked than the driver can number goes on", async () => {
    const created = vi.spyOn(zookeeper, "createClient");
    onTestFinished(() => created.mockRestore());
    const registry = await through(5000);
    await registry.ping();
    const client = created.mock.results.at(-1)?.value as { connectionManager: { xid: number } };
    client.connectionManager.xid = 2 ** 31 - 2;
    const request = ask();
    const key = keyOf(request, await granted(registry, request));
    expect(await registry.renew({ ...key, clock: Date.now(), window: 2000 })).toMatchObject({ outcome: "renewed" });
    expect(created).toHaveBeenCalledTimes(1);
  });

  test("a connection that has died without a word is noticed, and its session kept, though nobody asks anything", async () => {
    const registry = await through(operationTimeout, "?sessionTimeout=6s");
    await answered(() => granted(registry, ask({ window: 60_000 })));
    const [before] = liveIn(await readTree(port, `/snowlease/${namespace}`));
    expect(before).toBe(0);
    proxy.set(blackHole);
    await sleep(2500);
    // The old connection stays dead; whoever connects anew gets through.
    proxy.set({});
    await sleep(6000);
    expect(await direct.worker(namespace, 0)).toMatchObject({ state: "live" });
  });

  test("a number that was only pinned is found again, however far the numbers in use have come", async () => {
    const pool = { first: 0, last: 19 };
    const from = (host: string): ReturnType<typeof claimRequest> =>
      ask({ pool, window: 60_000, holder: { host, ip: "10.0.0.1", pid: 1, instance: "" } });
    await direct.init({ namespace, layout: ask().layout });
    for (const workerId of [1, 13]) await direct.pin(namespace, workerId, "kept");
    for (let i = 0; i < 18; i++) await granted(direct, from(`host-${i}`));
    expect(await direct.claim(from("one"))).toMatchObject({ outcome: "exhausted" });
    for (const workerId of [13, 1]) {
      await direct.unpin(namespace, workerId);
      expect(await granted(direct, from(`late-${workerId}`))).toMatchObject({ workerId, fence: 1 });
    }
    await expectAllWhole();
  });

  test("with a login its nodes are its own: others are told whether they lack one or have another one", async () => {
    await makeNode(port, "/vault");
    const at = (login: string): Promise<Registry> => remember(`zookeeper://${login}127.0.0.1:${port}/vault`);
    const [mine, anonymous, other] = [await at("ada:s3cret@"), await at(""), await at("eve:s3cret@")];
    const request = ask();
    const grant = await granted(mine, request);
    const key = keyOf(request, grant);
    for (const [registry, code] of [
      [anonymous, "UNAUTHORIZED"],
      [other, "FORBIDDEN"],
    ] as const) {
      for (const refused of [registry.claim(ask()), registry.ping(), registry.workers(namespace)]) {
        const error = await failure(refused);
        expect(error.code).toBe(code);
        expect(error.message).not.toContain("s3cret");
      }
    }
    expect(await mine.renew({ ...key, clock: Date.now(), window: 2000 })).toMatchObject({ outcome: "renewed" });
    // Somebody with the same login is the same.
    const again = await at("ada:s3cret@");
    expect(await again.release({ ...key, clock: Date.now() })).toEqual({ outcome: "released" });
  });

  test("a chroot that is not there is told", async () => {
    const mine = await remember(`zookeeper://ada:s3cret@127.0.0.1:${port}/nowhere`);
    const error = await failure(mine.init({ namespace, layout: ask().layout }));
    expect(error).toMatchObject({ code: "CONFIG_INVALID" });
    expect(error.message).toContain("/nowhere");
    expect(error.message).not.toContain("s3cret");
  });
});
