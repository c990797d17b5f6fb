import { defaultLayout } from "../src/id/layout.ts";
import type { Registry } from "../src/rule/registry.ts";
import { startDaemonProcess } from "../test/support/daemon-process.ts";
import { Etcd, etcdMissing, openEtcd } from "../test/support/etcd.ts";
import { FaultProxy } from "../test/support/fault-proxy.ts";
import type { WallClock } from "../test/support/holder.ts";
import { LateProxy } from "../test/support/late-proxy.ts";
import { Kubernetes, kubernetesMissing, openKubernetes } from "../test/support/kubernetes.ts";
import { mariadbMissing, MariadbServer } from "../test/support/mariadb.ts";
import { postgresMissing, PostgresServer } from "../test/support/postgres.ts";
import { durable, openRedis, redisMissing, RedisServer } from "../test/support/redis.ts";
import { RedisCluster, Sentinels } from "../test/support/redis-groups.ts";
import { newRegistryFile } from "../test/support/registry-file.ts";
import type { ServerProcess } from "../test/support/servers.ts";
import { openSql } from "../test/support/sql.ts";
import { openZooKeeper, ZooKeeper, zooKeeperMissing } from "../test/support/zookeeper.ts";
import { wallClock } from "./clock.ts";
import { holderStep, serverStep } from "./plan.ts";
import {
  etcdRestore,
  kubernetesRestore,
  mysqlRestore,
  postgresRestore,
  redisFiles,
  redisRestore,
  sqliteRestores,
  zooKeeperRestore,
} from "./restores.ts";
import { limits, namespace, type Restore, type Scene, type Server } from "./scene.ts";
import { mostRows } from "../src/registries/kubernetes/records.ts";

/** A kind of registry that can be tested under faults. */
export interface Stage {
  readonly name: string;
  /** Why it cannot run here. */
  readonly missing?: string | undefined;
  /** Whether each holder has its own way to the registry, which can be cut. */
  readonly hasNetwork: boolean;
  /** Whether holders reach it by HTTP, as holders in other languages do. */
  readonly hasDaemon?: boolean | undefined;
  /** Starts it for so many holders. The folder is for files besides those of its servers. */
  start(holders: number, folder: string, terms: LeaseTerms): Promise<Scene>;
}

/** Settings of a daemon, for holders that do not set them. */
interface LeaseTerms {
  readonly pool: string;
  /** ms. */
  readonly window: number;
}

/** A server that the tests can start and kill. */
interface Started {
  readonly process: ServerProcess;
  start(): Promise<void>;
  /** Kills the server if it is more than one process. */
  kill?(): Promise<void>;
}

/** The text by which a proxy recognizes a write of a record. */
const writeOfSql = new RegExp(`UPDATE workerid_window_${namespace}`);
const quickReplicas = ["--repl-diskless-sync-delay", "0"];

/** Every kind, from a file to several servers behind several daemons. */
export const stages: readonly Stage[] = [
  { name: "sqlite", hasNetwork: false, start: onSqlite },
  { name: "redis", hasNetwork: true, missing: redisMissing, start: onRedis },
  { name: "redis-sentinel", hasNetwork: false, missing: redisMissing, start: onSentinels },
  { name: "redis-cluster", hasNetwork: false, missing: redisMissing, start: onCluster },
  { name: "mysql", hasNetwork: true, missing: mariadbMissing, start: onMariadb },
  { name: "postgres", hasNetwork: true, missing: postgresMissing, start: onPostgres },
  {
    name: "zookeeper",
    hasNetwork: true,
    missing: zooKeeperMissing,
    start: (holders, folder) => onZooKeeper(holders, folder, 1),
  },
  {
    name: "zookeeper-ensemble",
    hasNetwork: true,
    missing: zooKeeperMissing,
    start: (holders, folder) => onZooKeeper(holders, folder, 3),
  },
  {
    name: "etcd",
    hasNetwork: true,
    missing: etcdMissing,
    start: (holders) => onEtcd(holders, 1),
  },
  {
    name: "etcd-cluster",
    hasNetwork: true,
    missing: etcdMissing,
    start: (holders) => onEtcd(holders, 3),
  },
  { name: "kubernetes", hasNetwork: true, missing: kubernetesMissing, start: onKubernetes },
  { name: "daemon", hasNetwork: true, hasDaemon: true, start: onDaemon },
  { name: "daemons", hasNetwork: true, hasDaemon: true, missing: redisMissing, start: onDaemons },
];

async function onSqlite(): Promise<Scene> {
  const { url, registry, stop } = await newRegistryFile();
  await init(registry);
  return {
    url: () => url,
    links: [],
    servers: [],
    restores: sqliteRestores(url.slice("sqlite:".length), true),
    doubtsRestarts: false,
    serverEvery: 1000,
    ahead: holderStep,
    registry,
    remembers: true,
    remove: stop,
  };
}

async function onRedis(holders: number): Promise<Scene> {
  const server = await RedisServer.start();
  // No other server ever takes its place.
  const query = "?maxLag=0";
  const urlAt = (port: number): string => `redis://127.0.0.1:${port}${query}`;
  const restores = [redisRestore(server), redisRestore(server), redisFiles(server)];
  const scene = await oneServer(holders, server, serverOf(server), await openRedis(server.url(query)), urlAt, restores);
  return { ...scene, doubtsRestarts: true, serverEvery: 20_000 };
}

async function onMariadb(holders: number, folder: string): Promise<Scene> {
  const server = await MariadbServer.start();
  const urlAt = (port: number): string => server.url().replace(`:${server.port}`, `:${port}`);
  const under = await clocked(server, folder);
  return oneServer(holders, server, under, await openSql(server.url()), urlAt, [mysqlRestore(server)], writeOfSql);
}

async function onPostgres(holders: number, folder: string): Promise<Scene> {
  const server = await PostgresServer.start();
  // SIGINT is the "fast" shutdown of PostgreSQL. The usual one waits until clients disconnect.
  const under = await clocked(server, folder, "SIGINT");
  const urlAt = (port: number): string => server.url().replace(`:${server.port}`, `:${port}`);
  return oneServer(holders, server, under, await openSql(server.url()), urlAt, [postgresRestore(server)], writeOfSql);
}

async function oneServer(
  holders: number,
  server: { readonly port: number; remove(): Promise<void> },
  under: Server,
  registry: Registry,
  urlAt: (port: number) => string,
  restores: readonly Restore[],
  /** The text by which a proxy recognizes a write. */
  mark?: RegExp,
): Promise<Scene> {
  await init(registry);
  const late = mark === undefined ? [] : await lateTo([server.port], holders, mark);
  const links = await (mark === undefined ? linksTo([server.port], holders) : linksThrough(late));
  return {
    url: (holder) => urlAt(links[holder]?.[0]?.port ?? 0),
    links,
    late,
    servers: [under],
    restores,
    doubtsRestarts: false,
    serverEvery: 8000,
    ahead: under.clock === undefined ? 0 : serverStep,
    registry,
    remembers: true,
    remove: () => removing(registry, [...links, ...late], server),
  };
}

async function onSentinels(): Promise<Scene> {
  const options = [...durable, ...quickReplicas];
  const [primary, replica] = await Promise.all([RedisServer.start(options), RedisServer.start(options)]);
  await replica.follow(primary.port);
  const sentinels = await Sentinels.watch(primary);
  // Both servers must have each claim and renewal before it counts, so an old primary that still runs cannot confirm any.
  const url = sentinels.url("?wait=1&maxLag=0");
  const registry = await openRedis(url);
  await init(registry);
  return {
    url: () => url,
    links: [],
    servers: [primary, replica].map((server) => serverOf(server)),
    failOver: () => sentinels.failOver(),
    restores: [redisRestore(primary)],
    doubtsRestarts: true,
    serverEvery: 15_000,
    ahead: 0,
    registry,
    remembers: false,
    remove: () => removing(registry, [], sentinels, primary, replica),
  };
}

async function onCluster(): Promise<Scene> {
  const cluster = await RedisCluster.start({}, durable);
  const url = cluster.url("?maxLag=0");
  const prefix = `{workerId/${namespace}}`;
  const { owner } = await cluster.ownerOf(prefix);
  const registry = await openRedis(url);
  await init(registry);
  return {
    url: () => url,
    links: [],
    servers: cluster.nodes.map((server) => serverOf(server)),
    restores: [redisRestore(owner, prefix)],
    doubtsRestarts: true,
    serverEvery: 8000,
    ahead: 0,
    registry,
    remembers: true,
    remove: () => removing(registry, [], cluster),
  };
}

async function onZooKeeper(holders: number, folder: string, size: number): Promise<Scene> {
  const clock = wallClock(folder);
  const ensemble = await ZooKeeper.start(size, size > 1, clock === undefined ? {} : { clock });
  const registry = await openZooKeeper(ensemble.url());
  await init(registry);
  const links = await linksTo(
    ensemble.servers.map(({ port }) => port),
    holders,
  );
  return {
    url: (holder) =>
      ensemble.url(
        "",
        (links[holder] ?? []).map(({ port }) => port),
      ),
    links,
    servers: ensemble.servers.map((server) => serverOf(server, clock)),
    ...(size > 1 && { cut: ensemble }),
    restores: [zooKeeperRestore(ensemble, () => ensemble.serving())],
    doubtsRestarts: false,
    serverEvery: 8000,
    ahead: serverStep,
    registry,
    remembers: true,
    remove: () => removing(registry, links, ensemble),
  };
}

/** These programs read the clock without libfaketime, so the servers' clocks are not stepped. */
async function onKubernetes(holders: number): Promise<Scene> {
  const server = await Kubernetes.start();
  const registry = await openKubernetes(server.url());
  await init(registry);
  const links = await linksTo([server.port], holders);
  return {
    url: (holder) => server.url(links[holder]?.[0]?.port),
    links,
    servers: [serverOf(server), serverOf(server.etcd.first)],
    restores: [kubernetesRestore(server)],
    doubtsRestarts: false,
    serverEvery: 8000,
    // An answer shows a server's clock only to the second.
    ahead: 2000,
    registry,
    remembers: true,
    keptClaims: mostRows,
    remove: () => removing(registry, links, server),
  };
}

/** etcd reads the clock without libfaketime, so the members' clocks are not stepped. */
async function onEtcd(holders: number, size: number): Promise<Scene> {
  const cluster = await Etcd.start(size);
  const registry = await openEtcd(cluster.url());
  await init(registry);
  const ports = cluster.members.map(({ port }) => port);
  const late = await lateTo(ports, holders, /request_put/);
  const links = await linksThrough(late);
  return {
    url: (holder) =>
      cluster.url(
        "",
        (links[holder] ?? []).map(({ port }) => port),
      ),
    links,
    late,
    servers: cluster.members.map((member) => serverOf(member)),
    restores: [etcdRestore(cluster)],
    doubtsRestarts: false,
    serverEvery: 8000,
    // An answer shows a member's clock only to the second.
    ahead: 2000,
    registry,
    remembers: true,
    remove: () => removing(registry, [...links, ...late], cluster),
  };
}

async function onDaemon(holders: number, folder: string, terms: LeaseTerms): Promise<Scene> {
  const file = await newRegistryFile();
  await init(file.registry);
  const daemon = await daemonOn(file.url, folder, terms);
  const links = await linksTo([daemon.port], holders);
  return {
    url: (holder) => `http://127.0.0.1:${links[holder]?.[0]?.port}`,
    links,
    servers: [daemon],
    restores: sqliteRestores(file.url.slice("sqlite:".length), false),
    doubtsRestarts: false,
    serverEvery: 8000,
    ahead: serverStep,
    registry: file.registry,
    remembers: true,
    remove: () => removing(file.registry, links, { remove: daemon.kill }, { remove: file.stop }),
  };
}

/** Three daemons on one Redis. Each daemon has its own link to it. */
async function onDaemons(holders: number, folder: string, terms: LeaseTerms): Promise<Scene> {
  const redis = await RedisServer.start();
  const query = "?maxLag=0";
  const registry = await openRedis(redis.url(query));
  await init(registry);
  const behind = await linksTo([redis.port], 3);
  const daemons = await Promise.all(
    behind.map((link) => daemonOn(`redis://127.0.0.1:${link[0]?.port}${query}&operationTimeout=1s`, folder, terms)),
  );
  const links = await linksTo(
    daemons.map(({ port }) => port),
    holders,
  );
  return {
    // The holders begin with different daemons.
    url: (holder) => {
      const urls = (links[holder] ?? []).map(({ port }) => `http://127.0.0.1:${port}`);
      return urls.map((_, i) => urls[(holder + i) % urls.length]).join(",");
    },
    links: [...links, ...behind],
    servers: [serverOf(redis), ...daemons],
    restores: [redisRestore(redis)],
    doubtsRestarts: true,
    serverEvery: 8000,
    ahead: 0,
    registry,
    remembers: true,
    remove: () => removing(registry, [...links, ...behind], ...daemons.map(({ kill }) => ({ remove: kill })), redis),
  };
}

async function init(registry: Registry): Promise<void> {
  await registry.init({ new: true, namespace, layout: defaultLayout.fingerprint, ...limits });
}

/** Makes a link for each client to each of these ports. */
function linksTo(ports: readonly number[], clients: number): Promise<FaultProxy[][]> {
  return Promise.all(Array.from({ length: clients }, () => Promise.all(ports.map((port) => FaultProxy.start(port)))));
}

/** The same, through the proxies that can keep writes. */
function linksThrough(late: readonly (readonly LateProxy[])[]): Promise<FaultProxy[][]> {
  return Promise.all(late.map((ways) => Promise.all(ways.map(({ port }) => FaultProxy.start(port)))));
}

/** Makes a proxy for each client to each of these ports. The proxy can keep the client's writes. */
function lateTo(ports: readonly number[], clients: number, mark: RegExp): Promise<LateProxy[][]> {
  return Promise.all(
    Array.from({ length: clients }, () => Promise.all(ports.map((port) => LateProxy.start(port, mark)))),
  );
}

function serverOf(server: Started, clock?: WallClock, ending: NodeJS.Signals = "SIGTERM"): Server {
  const { process } = server;
  return {
    pids: () => [process.pid, ...process.children()],
    kill: () => (server.kill === undefined ? process.kill() : server.kill()),
    end: () => process.kill(ending),
    start: () => server.start(),
    clock,
  };
}

/** Restarts a server with a clock that can be stepped. */
async function clocked(server: Started, folder: string, ending: NodeJS.Signals = "SIGTERM"): Promise<Server> {
  const clock = wallClock(folder);
  if (clock !== undefined) {
    await server.process.kill(ending);
    server.process.environment = clock.environment;
    await server.start();
  }
  return serverOf(server, clock, ending);
}

async function daemonOn(
  registry: string,
  folder: string,
  { pool, window }: LeaseTerms,
): Promise<Server & { readonly port: number }> {
  const clock = wallClock(folder);
  const flags = ["--pool", pool, "--window", `${window}ms`];
  let daemon = await startDaemonProcess(registry, 0, flags, clock?.environment);
  const { port } = daemon;
  return {
    port,
    pids: () => [daemon.pid],
    async kill() {
      await daemon.end("SIGKILL");
    },
    async end() {
      await daemon.end("SIGTERM");
    },
    async start() {
      daemon = await startDaemonProcess(registry, port, flags, clock?.environment);
    },
    clock,
  };
}

async function removing(
  registry: Registry,
  links: readonly (readonly { stop(): Promise<void> }[])[],
  ...others: readonly { remove(): Promise<unknown> }[]
): Promise<void> {
  await registry.close();
  await Promise.all(links.flat().map((link) => link.stop()));
  for (const other of others) await other.remove();
}
