import { createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { isSnowleaseError } from "../../src/id/errors.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { snowlease } from "../../src/snowlease.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { Etcd, etcdMissing, openEtcd } from "../support/etcd.ts";
import { failure } from "../support/failures.ts";
import { blackHole, FaultProxy } from "../support/fault-proxy.ts";
import { HolderProcess } from "../support/holder.ts";
import { WallClock } from "../support/wall-clock.ts";
import { Maker } from "../support/maker.ts";

const operationTimeout = 400;

describe.skipIf(etcdMissing !== undefined)(etcdMissing ?? "etcd over a network", { timeout: 120_000 }, () => {
  let server: Etcd;
  let proxy: FaultProxy;
  /** Sees the true state, around the proxy. */
  let direct: Registry;
  let namespace: string;
  let tests = 0;
  const open: Registry[] = [];

  beforeAll(async () => {
    server = await Etcd.start();
  });
  afterAll(() => server.remove());

  beforeEach(async () => {
    namespace = `test${++tests}`;
    proxy = await FaultProxy.start(server.first.port);
    direct = await opened(server.url(), 5000);
    await direct.init({ namespace, layout: claimRequest().layout });
  });
  afterEach(async () => {
    await Promise.all(open.splice(0).map((registry) => registry.close()));
    await proxy.stop();
  });

  async function opened(url: string, timeout = operationTimeout): Promise<Registry> {
    const registry = await openEtcd(url, timeout);
    open.push(registry);
    return registry;
  }

  const through = (): Promise<Registry> => opened(`etcd://127.0.0.1:${proxy.port}`);
  const ask = (): ReturnType<typeof claimRequest> => claimRequest({ namespace });

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
        // The unanswered claim was granted: repeating it changes nothing.
        if (done !== undefined) expect(grant).toMatchObject({ from: done.from, until: done.until });
      }
      const grant = await answered(() => granted(registry, { ...request, clock: Date.now() }));
      const key = keyOf(request, grant);
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
      const release = { ...key, clock: Date.now(), used: { until: grant.from + 5 } };
      const asked = registry.release(release).catch(() => undefined);
      await sleep(4);
      cause();
      await asked;
      proxy.heal();
      const released = await answered(() => registry.release({ ...release, clock: Date.now() }));
      expect(released).toEqual({ outcome: "released" });
      expect(await direct.worker(namespace, 0)).toMatchObject({ state: "free", clean: true, until: grant.from + 5 });
      expect(await direct.history(namespace, 0)).toHaveLength(1);
    });
  }

  test("an answer that arrives after the deadline changes nothing any more", async () => {
    const registry = await through();
    const request = ask();
    const key = keyOf(request, await answered(() => granted(registry, request)));
    proxy.set({ toServer: "hold" });
    expect(await failure(registry.renew({ ...key, clock: Date.now(), window: 60_000 }))).toMatchObject({
      code: "REGISTRY_UNAVAILABLE",
    });
    const before = await direct.worker(namespace, key.workerId);
    expect(await direct.release({ ...key, clock: Date.now() })).toEqual({ outcome: "released" });
    proxy.heal();
    await sleep(100);
    const after = await direct.worker(namespace, key.workerId);
    expect(after).toMatchObject({ state: "resting", until: before?.until });
  });

  test("a port that answers garbage, and one that is closed", async () => {
    const garbage = createServer((socket) => {
      socket.on("error", () => undefined);
      socket.end("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nnonsense!");
    });
    await new Promise<void>((resolve) => garbage.listen(0, "127.0.0.1", resolve));
    const { port } = garbage.address() as { port: number };
    const error = await failure((await opened(`etcd://127.0.0.1:${port}`)).ping());
    expect(error.code).toBe("REGISTRY_UNAVAILABLE");
    expect(error.message).toContain("as no etcd since 3.4 does");
    garbage.close();
    expect(await failure((await opened(`etcd://127.0.0.1:${port}`)).ping())).toMatchObject({
      code: "REGISTRY_UNAVAILABLE",
    });
  });

  test.each([60, -60])("a holder whose clock is off by %d s is refused, and writes nothing", async (step) => {
    const clock = new WallClock(step);
    const options = { registry: server.url(), namespace, window: 2000, claimTimeout: 0 };
    const holder = new HolderProcess(options, { environment: clock.environment });
    const error = await holder.ask("start").catch((failed: unknown) => failed);
    await holder.kill();
    expect(error).toMatchObject({ code: "CLOCK_SKEW" });
    expect(await direct.workers(namespace)).toEqual([]);
  });

  test("a member that stalls again and again, as with a slow disk: holders go on, and no ID comes twice", async () => {
    const makers = await Promise.all(
      Array.from({ length: 4 }, async (_, i) => {
        const options = { registry: server.url(), namespace, window: 4000, host: `host-${i}` };
        return new Maker(await snowlease(options));
      }),
    );
    for (let round = 0; round < 8; round++) {
      server.first.process.signal("SIGSTOP");
      await sleep(600);
      server.first.process.signal("SIGCONT");
      await sleep(200);
    }
    await Promise.all(makers.map((maker) => maker.stop()));
    for (const { failures, snowflake } of makers) {
      expect(failures.get("LEASE_LOST")).toBeUndefined();
      expect(snowflake.lease.fence).toBe(1);
      await snowflake.close();
    }
    const ids = makers.flatMap((maker) => maker.ids);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids.length).toBeGreaterThan(1000);
  });
});
