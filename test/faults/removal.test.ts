import zookeeperDriver from "node-zookeeper-client";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { isSnowleaseError } from "../../src/id/errors.ts";
import { defaultLayout } from "../../src/id/layout.ts";
import type { ClaimedWindow, Registry } from "../../src/rule/registry.ts";
import { claimRequest, keyOf } from "../support/claims.ts";
import { databases } from "../support/databases.ts";
import { Etcd, etcdMissing, openEtcd } from "../support/etcd.ts";
import { Kubernetes, kubernetesMissing, openKubernetes } from "../support/kubernetes.ts";
import { driveStandIn, oracleStandIn } from "../support/oracle.ts";
import { patience } from "../support/patience.ts";
import { openRedis, redisMissing, RedisServer } from "../support/redis.ts";
import { openSql } from "../support/sql.ts";
import { openZooKeeper, ZooKeeper, zooKeeperMissing } from "../support/zookeeper.ts";

driveStandIn();

const namespace = "orders";
const layout = defaultLayout.fingerprint;
const limits = { maxWindow: 100, maxClockSkew: 700 };

/** A store as it is, with the names of all that it keeps of the namespace. */
interface Store {
  open(): Promise<Registry>;
  left(): Promise<readonly string[]>;
  remove(): Promise<unknown>;
}

interface StoreKind {
  readonly name: string;
  readonly missing: string | undefined;
  /** What is left of a removed namespace. */
  readonly note: readonly string[];
  start(): Promise<Store>;
}

const kinds: readonly StoreKind[] = [
  {
    name: "redis",
    missing: redisMissing,
    note: ["workerId/orders:meta"],
    async start() {
      const server = await RedisServer.start();
      return {
        open: () => openRedis(server.url("?maxLag=0"), patience),
        left: () => server.client().keys("*"),
        remove: () => server.remove(),
      };
    },
  },
  {
    name: "etcd",
    missing: etcdMissing,
    note: ["orders/era"],
    async start() {
      const server = await Etcd.start();
      return { open: () => openEtcd(server.url(), patience), left: () => server.keys(), remove: () => server.remove() };
    },
  },
  {
    name: "zookeeper",
    missing: zooKeeperMissing,
    note: ["/snowlease/orders", "/snowlease/orders/meta"],
    async start() {
      const server = await ZooKeeper.start();
      return {
        open: () => openZooKeeper(server.url(), patience),
        // The name of the note's mark is made by lot.
        left: async () => {
          const left = await nodesBelow(server.servers[0]?.port ?? 0, "/snowlease/orders");
          return left.filter((path) => !path.startsWith("/snowlease/orders/meta/"));
        },
        remove: () => server.remove(),
      };
    },
  },
  {
    name: "kubernetes",
    missing: kubernetesMissing,
    note: ["snowlease-orders-facts"],
    async start() {
      const server = await Kubernetes.start();
      const left = (): string[] => {
        const { items } = JSON.parse(server.kubectl("get", "lease", "--output=json")) as {
          items: { metadata: { name: string } }[];
        };
        return items.map(({ metadata }) => metadata.name);
      };
      return {
        open: () => openKubernetes(server.url(), patience),
        left: async () => left(),
        remove: () => server.remove(),
      };
    },
  },
  ...[...databases, oracleStandIn].map(({ name, missing, start }): StoreKind => ({
    name,
    missing,
    note: ["era", "opensAt", "quarantineEnd", "schema"],
    async start() {
      const server = await start();
      const rows = (column: string, table: string) =>
        server.query(`SELECT ${column} AS name FROM workerid_${table}_${namespace}`);
      return {
        open: () => openSql(server.url(), patience),
        left: async () =>
          (
            await Promise.all([
              rows("name", "meta"),
              ...["assign", "window", "history"].map((table) => rows("worker_id", table)),
            ])
          )
            .flat()
            .map((row) => String(row["name"] ?? row["NAME"])),
        remove: () => server.remove(),
      };
    },
  })),
];

async function nodesBelow(port: number, path: string): Promise<string[]> {
  const client = zookeeperDriver.createClient(`127.0.0.1:${port}`);
  try {
    await new Promise<void>((resolve) => {
      client.once("connected", resolve);
      client.connect();
    });
    const childrenOf = (at: string): Promise<string[]> =>
      new Promise((resolve) => client.getChildren(at, (error, names) => resolve(error ? [] : names)));
    const below = async (at: string): Promise<string[]> => {
      const names = await childrenOf(at);
      return [at, ...(await Promise.all(names.map((name) => below(`${at}/${name}`)))).flat()];
    };
    return await below(path);
  } finally {
    client.close();
  }
}

describe.each(kinds)("a namespace in $name that is removed while it is used", ({ missing, note, start }) => {
  describe.skipIf(missing !== undefined)(missing ?? "by holders and operators", () => {
    let store: Store;
    beforeAll(async () => void (store = await start()), patience);
    afterAll(() => store.remove());

    test("leaves its note alone, and no window comes again", { timeout: 6 * patience }, async () => {
      const clients = [await store.open(), await store.open()];
      onTestFinished(async () => void (await Promise.all(clients.map((client) => client.close()))));
      const [registry] = clients as [Registry, Registry];
      await registry.init({ namespace, layout, new: true, ...limits });
      const granted: ClaimedWindow[] = [];
      let isOver = false;
      const running = Promise.all(
        clients.flatMap((client) => [claims(client, granted), claims(client, granted), pins(client)]),
      ).finally(() => (isOver = true));
      while (granted.length < 20 && !isOver) await sleep(5);
      const { era = "" } = (await registry.describe(namespace)) ?? {};
      await registry.remove?.({ namespace, era });
      await running;
      // A claim of a store that makes namespaces may have made it again, on the note.
      const info = await registry.describe(namespace);
      if (info === undefined) expect((await store.left()).toSorted()).toEqual(note.toSorted());
      const { quarantineUntil = 0 } = await registry.init({ namespace, layout, ...limits });
      expect(Math.max(...granted.map(({ until }) => until))).toBeLessThanOrEqual(quarantineUntil);
      expect(await registry.workers(namespace)).toEqual([]);
      while ((await registry.ping()).clock < quarantineUntil) await sleep(20);
      const again = await claimed(registry, { clock: Date.now() });
      expect(again?.from).toBeGreaterThanOrEqual(quarantineUntil);
      expect(again?.fence).toBeGreaterThan(Math.max(...granted.map(({ fence }) => fence)));
      const present = await registry.describe(namespace);
      await registry.remove?.({ namespace, era: present?.era ?? "" });
      expect((await store.left()).toSorted()).toEqual(note.toSorted());
    });
  });
});

/** Claims, and gives back some, until it is refused for good. */
async function claims(registry: Registry, granted: ClaimedWindow[]): Promise<void> {
  for (let i = 0; ; i++) {
    const request = claimRequest({ namespace, layout, clock: Date.now(), window: limits.maxWindow, limits });
    try {
      const answer = await registry.claim(request);
      if (answer.outcome !== "granted") continue;
      granted.push(answer);
      if (i % 2 === 0)
        await registry.release({ ...keyOf(request, answer), clock: Date.now(), used: { until: answer.from } });
    } catch (error) {
      // It waited for others, and the clock that it came with is old by now.
      if (!isSnowleaseError(error, "CLOCK_SKEW")) return expectRefused(error);
    }
  }
}

/** Pins worker IDs and puts them back, until it is refused for good. */
async function pins(registry: Registry): Promise<void> {
  for (let workerId = 900; ; workerId = workerId === 930 ? 900 : workerId + 1) {
    try {
      await registry.pin(namespace, workerId, "kept", { ip: "192.0.2.9" });
      if (workerId % 3 === 0) await registry.unpin(namespace, workerId);
    } catch (error) {
      return expectRefused(error);
    }
  }
}

function expectRefused(error: unknown): void {
  const codes = ["QUARANTINE", "NOT_FOUND", "SCHEMA_INCOMPATIBLE"] as const;
  if (!codes.some((code) => isSnowleaseError(error, code))) throw error;
}

async function claimed(registry: Registry, wish: object): Promise<ClaimedWindow | undefined> {
  const answer = await registry.claim(claimRequest({ namespace, layout, window: limits.maxWindow, ...wish }));
  return answer.outcome === "granted" ? answer : undefined;
}
