import { once } from "node:events";
import { rmSync } from "node:fs";
import { type AddressInfo, connect, createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, onTestFinished, test } from "vitest";
import type { Registry } from "../../src/rule/registry.ts";
import { snowlease } from "../../src/snowlease.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { failure } from "../support/failures.ts";
import { eventually, WallClock } from "../support/holder.ts";
import { type Maker, startMaker } from "../support/maker.ts";
import { expectWhole, readTree } from "../support/zookeeper-tree.ts";
import { openZooKeeper, ZooKeeper, zooKeeperMissing } from "../support/zookeeper.ts";

const namespace = "orders";

describe.skipIf(zooKeeperMissing !== undefined)(
  zooKeeperMissing ?? "ZooKeeper servers that are not as they were",
  { timeout: 120_000 },
  () => {
    const open: Registry[] = [];
    afterEach(async () => {
      for (const registry of open.splice(0)) await registry.close();
    });

    async function started(...how: Parameters<typeof ZooKeeper.start>): Promise<ZooKeeper> {
      const ensemble = await ZooKeeper.start(...how);
      onTestFinished(() => ensemble.remove());
      return ensemble;
    }
    async function opened(url: string, timeout = 5000): Promise<Registry> {
      const registry = await openZooKeeper(url, timeout);
      open.push(registry);
      return registry;
    }
    const make = (registry: string, options: object = {}): Promise<Maker> =>
      startMaker({ registry, namespace, pool: "0-0", window: 4000, ...options });
    function expectDistinct(...makers: readonly Maker[]): void {
      const all = makers.flatMap(({ ids }) => ids);
      expect(new Set(all).size).toBe(all.length);
      expect(all.length).toBeGreaterThan(1000);
    }

    test("one of three comes back with an empty disk, then each of the others: nothing is forgotten", async () => {
      const ensemble = await started(3);
      const registry = await opened(ensemble.url(), 20_000);
      const steady = await make(ensemble.url("?sessionTimeout=2s"), { window: 10_000 });
      const wishes = Array.from({ length: 20 }, (_, i) => claimRequest({ workerId: i + 1, window: 120_000 }));
      const grants = await Promise.all(wishes.map((request) => granted(registry, request)));
      for (const server of ensemble.servers) {
        await server.process.kill();
        rmSync(server.data, { recursive: true });
        await server.start();
        await ensemble.serving();
      }
      for (const [i, { workerId, fence, until }] of grants.entries()) {
        expect(await registry.worker(namespace, workerId)).toMatchObject({ fence, until });
        // The servers' restarts may have taken longer than a clock may be behind.
        const again = { ...(wishes[i] ?? claimRequest()), clock: Date.now() };
        expect(await granted(registry, again)).toMatchObject({ workerId, fence, until });
      }
      expect(await registry.claim(claimRequest({ workerId: 5 }))).toMatchObject({ outcome: "held" });
      const before = steady.snowflake.lease.until;
      await eventually(
        async () => steady.snowflake.lease.until,
        (until) => until > before,
      );
      expect(steady.snowflake.lease).toMatchObject({ state: "held", fence: 1 });
      await steady.stop();
      expectDistinct(steady);
      expectWhole(await readTree((await ensemble.leader()).port));
    });

    test.each([60, -60])(
      "the server's clock is set by %d s: who holds goes on to its window, and no ID comes twice",
      async (step) => {
        const clock = new WallClock();
        const ensemble = await started(1, false, { clock });
        const one = await make(ensemble.url(), { host: "one" });
        await sleep(300);
        clock.set(step);
        const registry = await opened(ensemble.url());
        expect(await failure(registry.claim(claimRequest()))).toMatchObject({ code: "CLOCK_SKEW" });
        const two = snowlease({ registry: ensemble.url(), namespace, pool: "0-0", window: 4000, host: "two" });
        expect(await failure(two)).toMatchObject({ code: "CLOCK_SKEW" });
        await eventually(async () => one.failures.get("LEASE_EXPIRED"), Boolean);
        clock.set(0);
        const made = one.ids.length;
        await one.made(made + 1000);
        await one.stop();
        expectDistinct(one);
      },
    );

    test.each([7, -7])("the server's clock is set by %d s, which is tolerated: no ID comes twice", async (step) => {
      const clock = new WallClock();
      const ensemble = await started(1, false, { clock });
      const one = await make(ensemble.url(), { window: 1500, host: "one" });
      await sleep(300);
      clock.set(step);
      await sleep(600);
      await one.stop();
      await one.snowflake.close();
      const two = await make(ensemble.url(), { window: 1500, host: "two", claimTimeout: 60_000 });
      clock.set(-step);
      await two.made(1000);
      await two.stop();
      expectDistinct(one, two);
    });

    test("a server that only reads: refused in time, and the claim goes on once there is a majority", async () => {
      const ensemble = await started(3, false, { readOnly: true });
      const registry = await opened(ensemble.url("?sessionTimeout=2s"), 20_000);
      const request = claimRequest({ window: 120_000 });
      const key = keyOf(request, await granted(registry, request));
      const [last, ...others] = ensemble.servers;
      await Promise.all(others.map(({ process }) => process.kill()));
      await eventually(
        async () => last?.mode(),
        (mode) => mode === "read",
      );
      const alone = await opened(ensemble.url("", [last?.port ?? 0]), 1500);
      expect(await failure(alone.claim(claimRequest()))).toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
      expect(await failure(alone.worker(namespace, 0))).toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
      await Promise.all(others.map((server) => server.start()));
      await ensemble.serving();
      expect(await registry.renew({ ...key, clock: Date.now(), window: 120_000 })).toMatchObject({
        outcome: "renewed",
      });
    });

    test("an observer serves as the others do", async () => {
      const ensemble = await started(3, false, { observer: true });
      const [observer] = ensemble.servers.slice(-1);
      expect(await observer?.mode()).toBe("observer");
      const registry = await opened(ensemble.url("", [observer?.port ?? 0]));
      const request = claimRequest();
      const key = keyOf(request, await granted(registry, request));
      const other = await opened(ensemble.url());
      expect(await other.claim(claimRequest({ workerId: 0 }))).toMatchObject({ outcome: "held", live: true });
      expect(await registry.renew({ ...key, clock: Date.now(), window: 2000 })).toMatchObject({ outcome: "renewed" });
      expect(await registry.release({ ...key, clock: Date.now() })).toEqual({ outcome: "released" });
    });

    test("IPv6, an address that resolves to none, and one that is there", async () => {
      const ensemble = await started();
      const relay = createServer((client) => {
        const server = connect(ensemble.servers[0]?.port ?? 0, "127.0.0.1");
        for (const socket of [client, server]) socket.on("error", () => undefined);
        client.pipe(server).pipe(client);
      });
      await once(relay.listen(0, "::1"), "listening");
      onTestFinished(() => void relay.close());
      const { port } = relay.address() as AddressInfo;
      // No resolver has to be asked about a name of which one part is too long.
      const nowhere = `${"x".repeat(64)}.invalid`;
      await (await opened(`zookeeper://[::1]:${port}`)).ping();
      await (await opened(`zookeeper://${nowhere},[::1]:${port}`, 20_000)).ping();
      const error = await failure((await opened(`zookeeper://${nowhere}`, 500)).ping());
      expect(error.code).toBe("REGISTRY_UNAVAILABLE");
      expect(error.message).toMatch(/ENOTFOUND|EAI_/);
    });
  },
);
