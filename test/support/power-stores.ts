import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { defaultLayout } from "../../src/id/layout.ts";
import { openRegistry, parseAddress } from "../../src/registries/index.ts";
import { makeFolder } from "../../src/registries/sqlite/file.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { cliFile } from "./cli.ts";
import { Etcd, etcdMissing } from "./etcd.ts";
import { FaultProxy } from "./fault-proxy.ts";
import { mariadbMissing, MariadbServer } from "./mariadb.ts";
import { postgresMissing, PostgresServer } from "./postgres.ts";
import { type DiskMode, LossyDisk } from "./power-loss.ts";
import { redisMissing, RedisServer } from "./redis.ts";
import { ZooKeeper, zooKeeperMissing } from "./zookeeper.ts";

/** The namespace of the holders. */
export const namespace = "orders";

/** Small, so that windows pass and quarantines end while a test lasts, ms. */
export const limits = { maxWindow: 1000, maxClockSkew: 500 };

/** A store on a disk that can lose its power. */
export interface PoweredStore {
  readonly disk: LossyDisk;
  /** The URL for holders. */
  readonly url: string;
  /** Between its server and holders on other machines; undefined if its processes are the holders, and end with its machine. */
  readonly network?: FaultProxy;
  /** A view past the network; the caller closes it. `isOver`: the power is not cut any more. */
  look(isOver?: boolean): Promise<Registry>;
  /** Starts with the disk's content. */
  start(): Promise<void>;
  kill(): Promise<void>;
  remove(): Promise<void>;
}

/** A way to run a store, and its own promise. */
export interface PowerSetting {
  readonly title: string;
  readonly missing?: string | undefined;
  /** Whether a power loss may destroy acknowledged writes. */
  readonly forgets: boolean;
  /** How holders learn of it: the restart itself begins a quarantine, or the next renewal of a holder shows the loss. */
  readonly foundBy?: "quarantine" | "receipts";
  /** The promise of `ping`. */
  readonly durability: RegExp;
  readonly modes?: readonly DiskMode[];
  start(modes: readonly DiskMode[]): Promise<PoweredStore>;
}

/** A server that stores its data in one folder. */
interface Server {
  kill(): Promise<void>;
  start(): Promise<void>;
  remove(): Promise<void>;
}

interface Placed {
  readonly data: string;
  readonly port: number;
  /** Its URL with a port. */
  urlAt(port: number): string;
}

async function serverStore(
  server: Server,
  { data, port, urlAt }: Placed,
  modes: readonly DiskMode[],
): Promise<PoweredStore> {
  const look = (): Promise<Registry> => openRegistry(parseAddress(urlAt(port)), { operationTimeout: 5000 });
  const registry = await look();
  await registry.init({ new: true, namespace, layout: defaultLayout.fingerprint, ...limits });
  await registry.close();
  await server.kill();
  const disk = LossyDisk.under(data, modes);
  const network = await FaultProxy.start(port);
  return {
    disk,
    network,
    url: urlAt(network.port),
    look,
    start: () => server.start(),
    kill: () => server.kill(),
    async remove() {
      await server.kill();
      await network.stop();
      await disk.end();
      await server.remove();
    },
  };
}

async function onSqlite(modes: readonly DiskMode[]): Promise<PoweredStore> {
  const folder = mkdtempSync(join(tmpdir(), "snowlease-power-"));
  const [data, copy] = [join(folder, "data"), join(folder, "copy")];
  mkdirSync(data);
  const disk = LossyDisk.under(data, modes);
  const name = join("state", "registry.db");
  const url = `sqlite:${join(data, name)}`;
  let isNew = true;
  return {
    disk,
    url,
    look(isOver = false) {
      if (isOver) return openRegistry(parseAddress(url), { operationTimeout: 5000 });
      // From the surviving file: the holders are the first to see the file itself.
      rmSync(copy, { recursive: true, force: true });
      cpSync(disk.durable, copy, { recursive: true, filter: (path) => !path.endsWith("-queue") });
      return openRegistry(parseAddress(`sqlite:${join(copy, name)}`), { operationTimeout: 5000 });
    },
    async start() {
      const { maxWindow, maxClockSkew } = limits;
      const flags = ["--layout=westid", `--max-window=${maxWindow}ms`, `--max-clock-skew=${maxClockSkew}ms`];
      const args = ["init", "--registry", url, "--namespace", namespace, ...flags];
      if (isNew) {
        // Made like the folder of the default registry.
        makeFolder(join(data, "state"));
        execFileSync(process.execPath, [cliFile, ...args], { stdio: "pipe" });
      }
      isNew = false;
    },
    kill: () => Promise.resolve(),
    async remove() {
      await disk.end();
      rmSync(folder, { recursive: true });
    },
  };
}

/** `appendfsync`, set once the namespace is durable. */
async function onRedis(appendfsync: string, modes: readonly DiskMode[]): Promise<PoweredStore> {
  const redis = await RedisServer.start();
  const data = join(redis.process.folder, "data");
  const log = join(data, "appendonlydir", "appendonly.aof.manifest");
  const urlAt = (port: number): string => `redis://127.0.0.1:${port}?maxLag=0`;
  mkdirSync(data);
  await redis.kill();
  await redis.start(["--dir", data]);
  const server: Server = {
    kill: () => redis.kill(),
    remove: () => redis.remove(),
    async start() {
      // An operator mends a log that is torn in its middle.
      try {
        execFileSync("redis-check-aof", ["--fix", log], { input: "y\n", stdio: ["pipe", "ignore", "ignore"] });
      } catch {
        // There is no log yet.
      }
      await redis.start(["--dir", data]);
      if (appendfsync !== "always") await redis.client().config("SET", "appendfsync", appendfsync);
    },
  };
  return serverStore(server, { data, port: redis.port, urlAt }, modes);
}

async function onMariadb(options: readonly string[], modes: readonly DiskMode[]): Promise<PoweredStore> {
  const server = await MariadbServer.start(options);
  const urlAt = (port: number): string => server.url().replace(`:${server.port}`, `:${port}`);
  return serverStore(server, { data: server.data, port: server.port, urlAt }, modes);
}

async function onPostgres(
  settings: Readonly<Record<string, string>>,
  modes: readonly DiskMode[],
): Promise<PoweredStore> {
  const server = await PostgresServer.start(settings);
  const urlAt = (port: number): string => server.url().replace(`:${server.port}`, `:${port}`);
  return serverStore(server, { data: server.data, port: server.port, urlAt }, modes);
}

async function onZooKeeper(settings: readonly string[], modes: readonly DiskMode[]): Promise<PoweredStore> {
  const server = await ZooKeeper.start(1, false, { settings });
  const [first] = server.servers;
  if (first === undefined) throw new Error("There is no server.");
  return serverStore(
    server,
    { data: dirname(first.data), port: first.port, urlAt: (port) => server.url("", [port]) },
    modes,
  );
}

async function onEtcd(modes: readonly DiskMode[]): Promise<PoweredStore> {
  const server = await Etcd.start();
  const { data, port } = server.first;
  return serverStore(server, { data, port, urlAt: (at) => server.url("", [at]) }, modes);
}

const [kept, gone] = [/survive kill -9 and power loss/, /power loss but for a second|may be lost/];

export const sqlite: PowerSetting = { title: "sqlite", forgets: false, durability: kept, start: onSqlite };

/** Each way to run a store here. */
export const powerSettings: readonly PowerSetting[] = [
  sqlite,
  {
    title: "redis, appendfsync always",
    missing: redisMissing,
    forgets: false,
    foundBy: "quarantine",
    durability: kept,
    start: (modes) => onRedis("always", modes),
  },
  {
    title: "redis, appendfsync everysec",
    missing: redisMissing,
    forgets: true,
    foundBy: "quarantine",
    durability: gone,
    start: (modes) => onRedis("everysec", modes),
  },
  {
    title: "redis, appendfsync no",
    missing: redisMissing,
    forgets: true,
    foundBy: "quarantine",
    durability: gone,
    start: (modes) => onRedis("no", modes),
  },
  {
    title: "mariadb",
    missing: mariadbMissing,
    forgets: false,
    durability: kept,
    start: (modes) => onMariadb([], modes),
  },
  {
    title: "mariadb, innodb_flush_log_at_trx_commit=2",
    missing: mariadbMissing,
    forgets: true,
    foundBy: "receipts",
    durability: gone,
    start: (modes) => onMariadb(["--innodb-flush-log-at-trx-commit=2"], modes),
  },
  {
    title: "mariadb, sync_binlog=0",
    missing: mariadbMissing,
    forgets: true,
    foundBy: "receipts",
    durability: gone,
    start: (modes) => onMariadb(["--log-bin=log", "--sync-binlog=0"], modes),
  },
  {
    title: "postgres, synchronous_commit off",
    missing: postgresMissing,
    forgets: false,
    durability: kept,
    start: (modes) => onPostgres({ synchronous_commit: "off" }, modes),
  },
  {
    title: "zookeeper",
    missing: zooKeeperMissing,
    forgets: false,
    durability: /on disk before it is acknowledged/,
    start: (modes) => onZooKeeper([], modes),
  },
  {
    title: "zookeeper, forceSync no",
    modes: ["ordered"],
    missing: zooKeeperMissing,
    forgets: true,
    foundBy: "receipts",
    durability: /unless forceSync is off/,
    start: (modes) => onZooKeeper(["forceSync=no"], modes),
  },
  {
    title: "etcd",
    missing: etcdMissing,
    forgets: false,
    durability: /on disk before it is acknowledged/,
    start: (modes) => onEtcd(modes),
  },
];
