import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { chmodSync, closeSync, openSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { cliFile, Sandbox } from "../support/cli.ts";
import { type DaemonProcess, startDaemonProcess } from "../support/daemon-process.ts";
import { blackHole, FaultProxy } from "../support/fault-proxy.ts";
import { clocksMissing, WallClock } from "../support/holder.ts";
import { Kubernetes, kubernetesMissing, openKubernetes } from "../support/kubernetes.ts";
import { mariadbMissing, MariadbServer } from "../support/mariadb.ts";
import { postgresMissing, PostgresServer } from "../support/postgres.ts";
import { openRedis, redisMissing, RedisServer } from "../support/redis.ts";
import { openSql } from "../support/sql.ts";
import { namespace } from "../support/subject.ts";
import { Etcd, etcdMissing, openEtcd } from "../support/etcd.ts";
import { letRead, nodeText, nodeTexts, setNode } from "../support/zookeeper-tree.ts";
import { openZooKeeper, ZooKeeper, zooKeeperMissing } from "../support/zookeeper.ts";

/** A store, and how to hurt it. */
interface Patient {
  readonly port: number;
  url(): string;
  /** The URL by the port of a proxy, where the usual one does not show the port. */
  by?(port: number): string;
  remove(): Promise<void>;
}

interface Store<Server extends Patient> {
  readonly name: string;
  readonly missing: string | undefined;
  readonly start: () => Promise<Server>;
  readonly open: (url: string) => Promise<Registry>;
  /** Absent where a server by itself is never so. */
  readonly setReadOnly?: (server: Server, to: boolean) => Promise<unknown>;
  readonly setSchema: (server: Server, version: number) => Promise<unknown>;
  /** What lets a user read everything and write nothing; and the URL for that user, given the usual one. */
  readonly reader: {
    readonly make: (server: Server) => Promise<unknown>;
    readonly url: (url: string, server: Server) => string;
  };
  /** All that the store holds of a namespace. */
  readonly dump: (server: Server) => Promise<unknown>;
}

/** The rows of a namespace. */
async function rowsOn(server: { query(text: string): Promise<unknown> }): Promise<unknown> {
  const tables = ["assign", "window", "history", "meta"];
  return Promise.all(tables.map((table) => server.query(`SELECT * FROM workerid_${table}_${namespace} ORDER BY 1, 2`)));
}

interface Found {
  readonly healthy: boolean;
  readonly findings: readonly { readonly check: string; readonly status: string; readonly detail: string }[];
}

/** The exit code where no check fails. */
const codeOf = ({ findings }: Found): number => (findings.some(({ status }) => status === "warn") ? 9 : 0);

const redis: Store<RedisServer> = {
  name: "Redis",
  missing: redisMissing,
  start: () => RedisServer.start(),
  open: openRedis,
  // A replica of nobody who is there.
  setReadOnly: (server, to) =>
    to ? server.client().replicaof("127.0.0.1", 1) : server.client().replicaof("NO", "ONE"),
  setSchema: (server, version) => server.client().hset(`workerId/${namespace}:meta`, "schema", version),
  reader: {
    make: (server) => {
      const rights = ["~*", "&*", "+@read", "+@scripting", "+@connection", "+info"];
      return server.client().call("ACL", "SETUSER", "reader", "reset", "on", "nopass", ...rights);
    },
    url: (url) => url.replace("://", "://reader:any@"),
  },
  dump: (server) => server.client().hgetall(`workerId/${namespace}:meta`),
};

const postgres: Store<PostgresServer> = {
  name: "PostgreSQL",
  missing: postgresMissing,
  start: () => PostgresServer.start(),
  open: openSql,
  // A standby of nobody who is there.
  async setReadOnly(server, to) {
    await server.kill();
    const signal = join(server.data, "standby.signal");
    if (to) writeFileSync(signal, "", { mode: 0o600 });
    else rmSync(signal);
    await server.start();
  },
  setSchema: (server, version) =>
    server.query(`UPDATE workerid_meta_${namespace} SET value = '${version}' WHERE name = 'schema'`),
  reader: {
    make: (server) => server.query("CREATE ROLE reader LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader"),
    url: (url) => url.replace("postgres@", "reader@"),
  },
  dump: rowsOn,
};

/** A MariaDB as somebody reaches it who may not write where only administrators may. */
class GuardedMariadb implements Patient {
  readonly server: MariadbServer;

  constructor(server: MariadbServer) {
    this.server = server;
  }

  get port(): number {
    return this.server.port;
  }

  url(): string {
    return this.server.url().replace("root@", "plain@");
  }

  remove(): Promise<void> {
    return this.server.remove();
  }
}

const mariadb: Store<GuardedMariadb> = {
  name: "MariaDB",
  missing: mariadbMissing,
  async start() {
    const server = await MariadbServer.start();
    await server.query("CREATE USER plain@'%'");
    await server.query("GRANT ALL ON snowlease.* TO plain@'%'");
    return new GuardedMariadb(server);
  },
  open: openSql,
  setReadOnly: ({ server }, to) => server.query(`SET GLOBAL read_only = ${to ? 1 : 0}`),
  setSchema: ({ server }, version) =>
    server.query(`UPDATE workerid_meta_${namespace} SET value = '${version}' WHERE name = 'schema'`),
  reader: {
    async make({ server }) {
      await server.query("CREATE USER reader@'%'");
      await server.query("GRANT SELECT ON snowlease.* TO reader@'%'");
    },
    url: (url) => url.replace("plain@", "reader@"),
  },
  dump: ({ server }) => rowsOn(server),
};

/** One server of an ensemble of one. */
class LoneZooKeeper implements Patient {
  readonly #ensemble: ZooKeeper;
  readonly port: number;

  constructor(ensemble: ZooKeeper, port: number) {
    this.#ensemble = ensemble;
    this.port = port;
  }

  url(): string {
    return this.#ensemble.url();
  }

  remove(): Promise<void> {
    return this.#ensemble.remove();
  }
}

/** A cluster of one member. */
class LoneEtcd implements Patient {
  readonly cluster: Etcd;

  constructor(cluster: Etcd) {
    this.cluster = cluster;
  }

  get port(): number {
    return this.cluster.first.port;
  }

  url(): string {
    return this.cluster.url();
  }

  remove(): Promise<void> {
    return this.cluster.remove();
  }
}

const zooKeeper: Store<LoneZooKeeper> = {
  name: "ZooKeeper",
  missing: zooKeeperMissing,
  async start() {
    const ensemble = await ZooKeeper.start();
    return new LoneZooKeeper(ensemble, ensemble.servers[0]?.port ?? 0);
  },
  open: openZooKeeper,
  async setSchema({ port }, version) {
    const path = `/snowlease/${namespace}/meta`;
    const meta = JSON.parse(await nodeText(port, path)) as object;
    await setNode(port, path, JSON.stringify({ ...meta, schema: version }));
  },
  reader: { make: ({ port }) => letRead(port, `/snowlease/${namespace}`), url: (url) => url },
  dump: ({ port }) => nodeTexts(port, `/snowlease/${namespace}`),
};

const etcd: Store<LoneEtcd> = {
  name: "etcd",
  missing: etcdMissing,
  async start() {
    return new LoneEtcd(await Etcd.start());
  },
  open: openEtcd,
  async setSchema({ cluster }, version) {
    const meta = JSON.parse(await cluster.ctl("get", "--print-value-only", `snowlease/${namespace}/meta`)) as object;
    await cluster.ctl("put", `snowlease/${namespace}/meta`, JSON.stringify({ ...meta, schema: version }));
  },
  reader: {
    async make({ cluster }) {
      await cluster.ctl("user", "add", "root:secret");
      await cluster.ctl("user", "grant-role", "root", "root");
      await cluster.ctl("role", "add", "reader");
      await cluster.ctl("role", "grant-permission", "reader", "--prefix=true", "read", "snowlease/");
      await cluster.ctl("user", "add", "reader:secret");
      await cluster.ctl("user", "grant-role", "reader", "reader");
      await cluster.ctl("auth", "enable");
    },
    url: (url) => url.replace("//", "//reader:secret@"),
  },
  dump: ({ cluster }) => cluster.ctl("--user=root:secret", "get", "--prefix", "snowlease/"),
};

/** An API server, by a kubeconfig that names its port. */
class LoneKubernetes implements Patient {
  readonly server: Kubernetes;

  constructor(server: Kubernetes) {
    this.server = server;
  }

  get port(): number {
    return this.server.port;
  }

  url(): string {
    return this.server.url();
  }

  by(port: number): string {
    return this.server.url(port);
  }

  remove(): Promise<void> {
    return this.server.remove();
  }
}

const kubernetes: Store<LoneKubernetes> = {
  name: "Kubernetes",
  missing: kubernetesMissing,
  async start() {
    return new LoneKubernetes(await Kubernetes.start());
  },
  open: openKubernetes,
  async setSchema({ server }, version) {
    const facts = server.object(`snowlease-${namespace}-facts`);
    const { annotations } = facts.metadata;
    const stored = JSON.parse(annotations["snowlease/namespace"] ?? "") as object;
    annotations["snowlease/namespace"] = JSON.stringify({ ...stored, schema: version });
    server.putBack(facts);
  },
  reader: {
    make: async ({ server }) => server.add("token-of-a-reader", "reader", ["get", "list"]),
    url: (_, { server }) => server.url(server.port, { token: "token-of-a-reader" }),
  },
  dump: async ({ server }) => server.kubectl("get", "leases", "--output=json"),
};

function examinations<Server extends Patient>(store: Store<Server>): void {
  const { missing, start, open, setReadOnly, setSchema, reader, dump } = store;
  describe.skipIf(missing !== undefined)(missing ?? "doctor", () => {
    let server: Server;
    let proxy: FaultProxy;
    let registry: Registry;
    let daemon: DaemonProcess;
    /** Where the doctor is sent: to the store, and to a daemon on it; both by way of the same network. */
    let ways: readonly string[];
    let sandbox: Sandbox;

    beforeAll(async () => {
      server = await start();
      proxy = await FaultProxy.start(server.port);
      registry = await open(server.url());
      await registry.init({ new: true, namespace, layout: defaultLayout.fingerprint });
      const far = server.by?.(proxy.port) ?? server.url().replace(`:${server.port}`, `:${proxy.port}`);
      daemon = await startDaemonProcess(far);
      ways = [far, daemon.url];
    });
    afterAll(async () => {
      await daemon.end("SIGKILL");
      await proxy.stop();
      await registry.close();
      await server.remove();
    });
    beforeEach(() => {
      sandbox = new Sandbox();
    });
    afterEach(() => proxy.heal());

    async function examined(way: string, env?: Record<string, string>): Promise<Found & { readonly code: number }> {
      const args = ["doctor", "--json", "--registry", way, "--namespace", namespace];
      const { code, stdout, stderr } = await sandbox.run(args, { env });
      expect(stderr).toMatch(/^(?:snowlease: waiting for .*\n)*$/);
      const found = JSON.parse(stdout) as Found;
      for (const { detail } of found.findings) expect(detail).toMatch(/^[^\r\n]+[.)]$/);
      expect(code).toBe(found.healthy ? codeOf(found) : 1);
      return { ...found, code };
    }

    /** At once: each waits in vain for some seconds. */
    const allExamined = (): Promise<Found[]> => Promise.all(ways.map((way) => examined(way)));

    const failures = ({ findings }: Found): string[] =>
      findings.filter(({ status }) => status === "fail").map(({ detail }) => detail);

    test("nothing is wrong", async () => {
      for (const way of ways) {
        const found = await examined(way);
        const { code, findings } = found;
        const checks = findings.map(({ check }) => check);
        const all = [
          "registry",
          "durability",
          "clock",
          "namespace",
          "renewal",
          "layout",
          "pool",
          "clock-sync",
          "process",
        ];
        expect(checks).toEqual(expect.arrayContaining(all));
        expect(findings.filter(({ check }) => check !== "clock-sync").map(({ status }) => status)).not.toContain(
          "warn",
        );
        expect(code).toBe(codeOf(found));
      }
    });

    test("it is far away", async () => {
      proxy.set({ delay: 130 });
      for (const way of ways) {
        const { code, findings } = await examined(way);
        expect(findings.find(({ check }) => check === "registry")).toMatchObject({
          status: "warn",
          detail: expect.stringMatching(/answers in \d+\.\d\d ms\. Check/) as string,
        });
        expect(code).toBe(9);
      }
    });

    test.skipIf(clocksMissing !== undefined)(clocksMissing ?? "this host's clock is an hour off", async () => {
      for (const [shift, where] of [
        [3600, "behind"],
        [-3600, "ahead of"],
      ] as const) {
        for (const way of ways) {
          const { code, findings } = await examined(way, new WallClock(shift).environment);
          expect(findings.find(({ check }) => check === "clock")).toMatchObject({
            status: "fail",
            detail: expect.stringMatching(
              new RegExp(
                `^The registry's clock shows .*: 3[56]\\d{5} ms ${where} this host's.* Correct the wrong clock\\.$`,
              ),
            ) as string,
          });
          expect(code).toBe(1);
        }
      }
    });

    test("it keeps silent", async () => {
      proxy.set(blackHole);
      for (const found of await allExamined()) {
        expect(failures(found)).toEqual([expect.stringContaining("REGISTRY_UNAVAILABLE: ")]);
      }
    });

    test("it is gone", async () => {
      proxy.set({ refuse: true });
      proxy.reset();
      for (const found of await allExamined()) {
        expect(failures(found)).toEqual([expect.stringContaining("REGISTRY_UNAVAILABLE: ")]);
      }
    });

    test("it is of a newer schema", async () => {
      const { schema = 1 } = await registry.ping();
      await setSchema(server, 9);
      try {
        for (const found of await allExamined()) {
          const told = failures(found);
          expect(told.length).toBeGreaterThan(0);
          for (const detail of told) expect(detail).toMatch(/^SCHEMA_INCOMPATIBLE: .*version 9/);
        }
      } finally {
        await setSchema(server, schema);
      }
    });

    test("its user may only read, and nothing is changed by asking", async () => {
      await registry.pin(namespace, 9, "kept");
      await reader.make(server);
      // It may still repeat a ping that a test before this one swallowed, and a ping writes.
      daemon.signal("SIGSTOP");
      try {
        const before = await atRest(() => dump(server));
        const found = await examined(reader.url(server.url(), server));
        const told = failures(found);
        expect(told.length).toBeGreaterThan(0);
        for (const detail of told) expect(detail).toMatch(/^(?:FORBIDDEN|UNAUTHORIZED): /);
        expect(await dump(server)).toEqual(before);
      } finally {
        daemon.signal("SIGCONT");
      }
    });

    // Behind this, a Redis is in quarantine.
    test.skipIf(setReadOnly === undefined)("it lets itself be read only", async () => {
      await setReadOnly?.(server, true);
      try {
        proxy.reset();
        for (const found of await allExamined()) {
          const told = failures(found);
          expect(told.length).toBeGreaterThan(0);
          for (const detail of told)
            expect(detail).toMatch(/^REGISTRY_UNAVAILABLE: .*(?:standby|replica|read.only|behind this daemon)/);
        }
      } finally {
        await setReadOnly?.(server, false);
      }
    });
  });
}

describe(redis.name, () => examinations(redis));
describe(postgres.name, () => examinations(postgres));
describe(mariadb.name, () => examinations(mariadb));
describe(zooKeeper.name, () => examinations(zooKeeper));
describe(etcd.name, () => examinations(etcd));
describe(kubernetes.name, () => examinations(kubernetes));

describe("an embedded registry", () => {
  let sandbox: Sandbox;
  let file: string;
  beforeEach(async () => {
    sandbox = new Sandbox();
    file = join(sandbox.work, "registry.db");
    await sandbox.read(["id", "-n", "1", "--registry", sandbox.registry]);
  });

  /** The findings, and how many of them are bad. */
  async function examined(child?: ChildProcess): Promise<Found & { readonly code: number }> {
    const args = ["doctor", "--json", "--registry", sandbox.registry];
    const { code, stdout } = await (child === undefined ? sandbox.run(args) : sandbox.started(child).ended);
    return { ...(JSON.parse(stdout) as Found), code };
  }

  test("that is well", async () => {
    const found = await examined();
    const { code, findings } = found;
    expect(code).toBe(codeOf(found));
    const checks = findings.map(({ check }) => check);
    const all = [
      "registry",
      "durability",
      "schema",
      "clock",
      "namespace",
      "renewal",
      "layout",
      "pool",
      "file",
      "process",
    ];
    expect(checks).toEqual(expect.arrayContaining(all));
  });

  test("of a newer schema", async () => {
    const version = Buffer.from([0, 0, 0, 9]);
    const handle = openSync(file, "r+");
    writeSync(handle, version, 0, 4, 60);
    closeSync(handle);
    expect(await examined()).toMatchObject({
      code: 1,
      findings: expect.arrayContaining([
        {
          check: "registry",
          status: "fail",
          detail: expect.stringMatching(/^SCHEMA_INCOMPATIBLE: .* schema 9,/) as string,
        },
      ]) as unknown,
    });
  });

  test("that is damaged", async () => {
    const handle = openSync(file, "r+");
    for (let page = 2; page < 6; page++) writeSync(handle, Buffer.alloc(4096, 0xa5), 0, 4096, page * 4096);
    closeSync(handle);
    const { code, findings } = await examined();
    expect(code).toBe(1);
    const [bad] = findings.filter(({ status }) => status === "fail");
    expect(bad?.detail).toMatch(/^REGISTRY_UNAVAILABLE: The registry file .* is damaged/);
  });

  test("whose pool is nearly used up, and whose layout ends soon", async () => {
    const now = Date.now();
    const end = 2 ** 40 - 30 * 86_400_000;
    const layout = `timestamp:40,worker:3,sequence:12@${now - end}/1`;
    const registry = ["--registry", sandbox.registry, "--namespace", "small"];
    await sandbox.read(["init", ...registry, "--layout", layout]);
    await sandbox.read(["pin", "0", "1", "2", "3", "4", "5", "6", "--reason", "taken", ...registry]);
    const { stdout } = await sandbox.run(["doctor", "--json", ...registry]);
    const found = (check: string): unknown =>
      (JSON.parse(stdout) as Found).findings.find((each) => each.check === check);
    expect(found("pool")).toMatchObject({
      status: "warn",
      detail: expect.stringContaining("7 of the 8 worker IDs") as string,
    });
    expect(found("layout")).toMatchObject({ status: "warn" });
  });

  const canUnshare = spawnSync("unshare", ["--pid", "--fork", "--mount-proc", "true"]).status === 0;

  test.skipIf(!canUnshare)("in a PID namespace of its own (needs root that may make one)", async () => {
    const detail = async (child?: ChildProcess): Promise<string | undefined> =>
      (await examined(child)).findings.find(({ check }) => check === "process")?.detail;
    const args = ["--pid", "--fork", "--mount-proc", process.execPath, cliFile, "doctor", "--json"];
    const apart = spawn("unshare", [...args, "--registry", sandbox.registry], sandbox.surroundings());
    expect(await detail(apart)).toMatch(/^This process has its own PID namespace \(pid:\[\d+\]\), as in a container: /);
  });

  test.skipIf(process.getuid?.() !== 0)("that may only be read (needs root that becomes another)", async () => {
    for (const folder of [sandbox.folder, sandbox.work]) chmodSync(folder, 0o755);
    chmodSync(file, 0o644);
    const nobody = ["--reuid", "65534", "--clear-groups", process.execPath, cliFile, "doctor", "--json"];
    const found = await examined(
      spawn("setpriv", [...nobody, "--registry", sandbox.registry], sandbox.surroundings({ HOME: "/nowhere" })),
    );
    const told = found.findings.filter(({ status }) => status === "fail").map(({ detail }) => detail);
    expect(told).toContain(`${file} and its folder cannot be written (EACCES); correct their permissions.`);
    expect(found.code).toBe(1);
  });
});

/** What there is once nothing changes any more: a request of a test before may have been on its way for long. */
async function atRest<Found>(look: () => Promise<Found>): Promise<Found> {
  for (let found = await look(); ;) {
    await sleep(300);
    const again = await look();
    if (isDeepStrictEqual(again, found)) return again;
    found = again;
  }
}
