import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { openRegistry, parseAddress } from "../../src/registries/index.ts";
import { systemClock } from "../../src/clock.ts";
import { defaultLayout } from "../../src/id/layout.ts";
import type { Snowflake } from "../../src/generator/snowflake.ts";
import { snowlease, type SnowleaseOptions } from "../../src/snowlease.ts";
import { startDaemonProcess } from "../support/daemon-process.ts";
import { databases } from "../support/databases.ts";
import { Etcd, etcdMissing } from "../support/etcd.ts";
import { FaultProxy } from "../support/fault-proxy.ts";
import { redisMissing, RedisServer } from "../support/redis.ts";
import { ZooKeeper, zooKeeperMissing } from "../support/zookeeper.ts";

const namespace = "orders";
const skew = 1000;
const operationTimeout = 20_000;

interface Store {
  readonly port: number;
  url(): string;
  remove(): Promise<void>;
}

async function startDaemon(): Promise<Store> {
  const daemon = await startDaemonProcess("memory:");
  return { port: daemon.port, url: () => daemon.url, remove: async () => void (await daemon.end()) };
}

async function startZooKeeper(): Promise<Store> {
  const ensemble = await ZooKeeper.start();
  return { port: ensemble.servers[0]?.port ?? 0, url: () => ensemble.url(), remove: () => ensemble.remove() };
}

async function startEtcd(): Promise<Store> {
  const cluster = await Etcd.start();
  return { port: cluster.first.port, url: () => cluster.url(), remove: () => cluster.remove() };
}

const stores = [
  { name: "Redis", missing: redisMissing, start: (): Promise<Store> => RedisServer.start() },
  ...databases.map(({ name, missing, start }) => ({ name, missing, start: start as () => Promise<Store> })),
  { name: "ZooKeeper", missing: zooKeeperMissing, start: startZooKeeper },
  { name: "etcd", missing: etcdMissing, start: startEtcd },
  { name: "a daemon", missing: undefined, start: startDaemon },
];

describe.each(stores)("requests that reach $name late", ({ missing, start }) => {
  describe.skipIf(missing !== undefined)(missing ?? "on a real server", () => {
    let store: Store;
    let proxy: FaultProxy;
    let ids: Snowflake | undefined;

    beforeAll(async () => {
      store = await start();
      const registry = await openRegistry(parseAddress(store.url()), { operationTimeout });
      const layout = defaultLayout.fingerprint;
      await registry.init({ namespace, layout, maxWindow: 60_000, maxClockSkew: skew, new: true });
      await registry.close();
    });
    afterAll(() => store.remove());
    beforeEach(async () => {
      proxy = await FaultProxy.start(store.port);
    });
    afterEach(async () => {
      await ids?.close();
      ids = undefined;
      await proxy.stop();
    });

    async function lease(options: SnowleaseOptions = {}): Promise<Snowflake> {
      const registry = store.url().replace(String(store.port), String(proxy.port));
      ids = await snowlease({ registry, namespace, window: "30s", operationTimeout, ...options });
      return ids;
    }

    /** Keeps everything on its way to the server for longer than clocks may differ. */
    async function held<Answer>(work: () => Promise<Answer>): Promise<Answer> {
      proxy.set({ toServer: "hold" });
      const answer = work();
      answer.catch(() => undefined);
      await sleep(skew + 800);
      proxy.heal();
      return answer;
    }

    test("a claim is asked again, with the clock as it is then", async () => {
      const { lease: claimed } = await held(() => lease());
      expect(claimed.state).toBe("held");
    });

    test("a renewal is told that the answer came late, and the next one is accepted", async () => {
      const { lease: claimed } = await lease();
      const codes: string[] = [];
      claimed.on("renew-failed", ({ error }) => codes.push(error.code));
      const renewed = await held(() => claimed.renew());
      // A store may know by itself how long the request had to wait.
      expect(codes).toEqual(renewed ? [] : ["REGISTRY_UNAVAILABLE"]);
      expect(await claimed.renew()).toBe(true);
    });

    test("a clock that is wrong stays so, however long the request had to wait", async () => {
      const clock = { ...systemClock, now: () => Date.now() - 60_000 };
      await expect(held(() => lease({ clock }))).rejects.toMatchObject({ code: "CLOCK_SKEW" });
    });
  });
});
