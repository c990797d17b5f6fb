import { Cluster, Redis } from "ioredis";
import { afterEach, describe, expect, test } from "vitest";
import { addressOfClient, openRegistry, parseAddress, type RegistryAddress } from "../../src/registries/index.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { Sandbox } from "../support/cli.ts";
import { Etcd, etcdMissing } from "../support/etcd.ts";
import { failure } from "../support/failures.ts";
import { redisMissing, RedisServer } from "../support/redis.ts";
import { RedisCluster, Sentinels } from "../support/redis-groups.ts";
import type { ServerProcess } from "../support/servers.ts";
import { ZooKeeper, zooKeeperMissing } from "../support/zookeeper.ts";

/*
 * Lists of servers that have nothing to do with each other: each of them grants the same worker IDs.
 */

const namespace = "orders";
const ends: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

async function running<Server extends { remove(): Promise<void> }>(start: Promise<Server>): Promise<Server> {
  const server = await start;
  ends.push(() => server.remove());
  return server;
}

async function opened(address: RegistryAddress): Promise<Registry> {
  const registry = await openRegistry(address, { operationTimeout: 10_000 });
  ends.push(() => registry.close());
  return registry;
}

/** Some servers of one store, or of a group that is one. */
interface Group {
  readonly scheme: string;
  readonly ports: readonly number[];
  /** What stands behind the servers in a URL. */
  readonly rest: string;
}

/** A group of one server, which can be stopped and started again. */
interface Single {
  readonly group: Group;
  stop(): Promise<void>;
  start(): Promise<void>;
}

function singleOf(scheme: string, server: { port: number; process: ServerProcess; start(): Promise<void> }): Single {
  return {
    group: { scheme, ports: [server.port], rest: "" },
    stop: () => server.process.kill(),
    start: () => server.start(),
  };
}

async function etcd(size: number): Promise<Group> {
  const { members } = await running(Etcd.start(size));
  return { scheme: "etcd", ports: members.map(({ port }) => port), rest: "" };
}

async function zooKeeper(size: number): Promise<Group> {
  const { servers } = await running(ZooKeeper.start(size));
  return { scheme: "zookeeper", ports: servers.map(({ port }) => port), rest: "" };
}

async function singleEtcd(): Promise<Single> {
  return singleOf("etcd", (await running(Etcd.start())).first);
}

async function singleZooKeeper(): Promise<Single> {
  const [server] = (await running(ZooKeeper.start())).servers;
  if (server === undefined) throw new Error("There is no server.");
  return singleOf("zookeeper", server);
}

async function sentinels(): Promise<Group> {
  const [primary, replica] = [await running(RedisServer.start()), await running(RedisServer.start())];
  await replica.follow(primary.port);
  const { ports } = await running(Sentinels.watch(primary));
  return { scheme: "redis+sentinel", ports, rest: "/ids" };
}

async function redisCluster(): Promise<Group> {
  const { nodes } = await running(RedisCluster.start());
  return { scheme: "redis+cluster", ports: nodes.map(({ port }) => port), rest: "" };
}

function urlOf({ scheme, rest }: Group, ports: readonly number[]): string {
  return `${scheme}://${ports.map((port) => `127.0.0.1:${port}`).join()}${rest}`;
}

/** Makes the namespace at a group. */
async function init(group: Group): Promise<void> {
  const registry = await opened(parseAddress(urlOf(group, group.ports)));
  await registry.init({ new: true, namespace, layout: claimRequest().layout });
}

interface Kind {
  readonly missing: string | undefined;
  readonly names: string;
  /** A group that is one, and another one that has nothing to do with it. */
  readonly start: () => Promise<Group>;
  readonly other: () => Promise<Group>;
  readonly single?: () => Promise<Single>;
}

const kinds: readonly (readonly [string, Kind])[] = [
  [
    "etcd",
    {
      missing: etcdMissing,
      names: "members of one cluster",
      start: () => etcd(3),
      other: () => etcd(1),
      single: singleEtcd,
    },
  ],
  [
    "ZooKeeper",
    {
      missing: zooKeeperMissing,
      names: "servers of one ensemble",
      start: () => zooKeeper(3),
      other: () => zooKeeper(1),
      single: singleZooKeeper,
    },
  ],
  [
    "sentinels of Redis",
    { missing: redisMissing, names: "sentinels of one primary", start: sentinels, other: sentinels },
  ],
  [
    "a cluster of Redis",
    { missing: redisMissing, names: "nodes of one cluster", start: redisCluster, other: redisCluster },
  ],
];

describe.each(kinds)("%s", (_, { missing, names, start, other }) => {
  test.skipIf(missing !== undefined)("lists of servers that belong together, and of others", async () => {
    const [one, another] = [await start(), await other()];
    await init(one);
    await init(another);

    const together = await opened(parseAddress(urlOf(one, one.ports)));
    for (let i = 0; i < 3; i++) await granted(together, claimRequest({ window: 60_000 }));

    const [a = 0] = one.ports;
    const [b = 0] = another.ports;
    for (const ports of [
      [a, b],
      [b, a],
    ]) {
      const url = urlOf(one, ports);
      // A client begins with one of them by lot.
      for (let i = 0; i < 4; i++) {
        const registry = await opened(parseAddress(url));
        const error = await failure(registry.claim(claimRequest()));
        expect(error.code).toBe("CONFIG_INVALID");
        for (const port of ports) expect(error.message).toContain(`127.0.0.1:${port}`);
        expect(error.message).toContain(`are not ${names}: each of them grants the same worker IDs`);
      }
      const { code, stdout } = await new Sandbox().run(["doctor", "--registry", url, "--namespace", namespace]);
      expect([code, stdout]).toEqual([1, expect.stringMatching(new RegExp(`fail +addresses .* are not ${names}`))]);
    }
    for (const group of [one, another]) {
      const registry = await opened(parseAddress(urlOf(group, group.ports)));
      const live = await registry.workers(namespace, { state: "live" });
      expect(live).toHaveLength(group === one ? 3 : 0);
    }
  });
});

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "ready clients of ioredis", () => {
  const at = (ports: readonly number[]): { host: string; port: number }[] =>
    ports.map((port) => ({ host: "127.0.0.1", port }));

  test.each(["sentinels", "a cluster"])("that know %s of two groups are refused", async (which) => {
    const start = which === "sentinels" ? sentinels : redisCluster;
    const [one, another] = [await start(), await start()];
    await init(one);
    await init(another);
    const makeClient = (ports: readonly number[]): Redis | Cluster =>
      which === "sentinels"
        ? new Redis({ sentinels: at(ports), name: "ids", lazyConnect: true })
        : new Cluster(at(ports), { lazyConnect: true });
    await granted(await opened(addressOfClient(makeClient(one.ports))), claimRequest());
    const mixed = [one.ports[0] ?? 0, another.ports[0] ?? 0];
    const error = await failure((await opened(addressOfClient(makeClient(mixed)))).claim(claimRequest()));
    expect([error.code, error.message]).toEqual(["CONFIG_INVALID", expect.stringMatching(mixed.join(".*"))]);
  });
});

test.skipIf(redisMissing !== undefined)(
  "a list of plain Redis servers is none of a cluster or of sentinels",
  async () => {
    const [a, b] = [await running(RedisServer.start()), await running(RedisServer.start())];
    const servers = `127.0.0.1:${a.port},127.0.0.1:${b.port}`;
    for (const [url, what] of [
      [`redis+cluster://${servers}`, "is no cluster"],
      [`redis+sentinel://${servers}/ids`, "is no sentinel"],
    ] as const) {
      const error = await failure((await opened(parseAddress(url))).claim(claimRequest()));
      expect([error.code, error.message]).toEqual(["CONFIG_INVALID", expect.stringContaining(what)]);
      expect(error.message).toContain("write redis: and the address of the primary");
    }
  },
);

for (const [name, { missing, single }] of kinds) {
  if (single === undefined) continue;
  test.skipIf(missing !== undefined)(
    `${name}: a server that could not be compared stands in for another one`,
    async () => {
      const [a, b] = [await single(), await single()];
      await b.stop();
      const address = parseAddress(urlOf(a.group, [...a.group.ports, ...b.group.ports]));
      const before = await opened(address);
      const request = claimRequest({ window: 60_000 });
      const grant = await granted(before, request);
      // It would compare the server as soon as that runs.
      await before.close();
      await a.stop();
      await b.start();
      const registry = await opened(address);
      const renewal = { ...keyOf(request, grant), clock: Date.now(), window: 60_000, receipt: grant.receipt };
      // The holder's receipt shows that this store does not know the lease.
      expect(await failure(registry.renew(renewal))).toMatchObject({ code: "QUARANTINE" });
      await expect(registry.claim(claimRequest())).rejects.toMatchObject({ code: "QUARANTINE" });
    },
  );
}
