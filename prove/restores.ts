import { execFile } from "node:child_process";
import { chmodSync, copyFileSync, cpSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import mysql from "mysql2/promise";
import type { Etcd } from "../test/support/etcd.ts";
import type { Kubernetes } from "../test/support/kubernetes.ts";
import type { MariadbServer } from "../test/support/mariadb.ts";
import { dumpOfPostgres, namesOf } from "../test/support/older-copy.ts";
import type { PostgresServer } from "../test/support/postgres.ts";
import { copyOfKeys } from "../test/support/redis-copy.ts";
import type { RedisServer } from "../test/support/redis.ts";
import { backUp, restore } from "../test/support/sqlite-copy.ts";
import type { ZooKeeper } from "../test/support/zookeeper.ts";
import { namespace, type PutBack, type Restore } from "./scene.ts";

const run = promisify(execFile);
/** How long an operation is tried again, and the pause between two tries, ms. */
const [patience, betweenTries] = [30_000, 100];

/** Puts a copy back without a restart of the store. */
function inPlace(work: () => Promise<void>): PutBack {
  return async (placed) => {
    await work();
    placed();
  };
}

/** Tries again after an error. A cluster is down for a moment when one of its nodes has just started again. */
async function patiently<Result>(work: () => Promise<Result>): Promise<Result> {
  for (const end = performance.now() + patience; ; await sleep(betweenTries)) {
    try {
      return await work();
    } catch (error) {
      if (performance.now() > end) throw error;
    }
  }
}

/**
 * Two ways: into the open file, and another file in its place. The second one is there only if all processes of this machine see that by
 * themselves.
 */
export function sqliteRestores(path: string, isSeen: boolean): readonly Restore[] {
  let copies = 0;
  const copy = async (): Promise<string> => {
    const file = `${path}.copy-${++copies}`;
    await backUp(path, file);
    // With the mode of the file whose place the copy may take.
    chmodSync(file, 0o600);
    return file;
  };
  const into: Restore = {
    how: "into the open file",
    async copy() {
      const file = await copy();
      return inPlace(() => restore(path, file));
    },
  };
  const renamed: Restore = {
    how: "another file in its place",
    async copy() {
      const file = await copy();
      return inPlace(async () => {
        copyFileSync(file, `${path}.next`);
        for (const end of ["-wal", "-shm"]) rmSync(path + end, { force: true });
        renameSync(`${path}.next`, path);
      });
    },
  };
  return isSeen ? [into, into, renamed] : [into];
}

/** Restores all keys with RESTORE, in place of the present ones. */
export function redisRestore(server: RedisServer, prefix = `workerId/${namespace}`): Restore {
  return {
    how: "all keys by RESTORE",
    async copy() {
      const putBack = await patiently(() => copyOfKeys(server, `${prefix}:*`));
      return inPlace(() => patiently(putBack));
    },
  };
}

/** Puts the server's files back, with a restart. Redis itself makes a restart visible. */
export function redisFiles(server: RedisServer): Restore {
  return {
    how: "its files, with a restart",
    async copy() {
      const folder = join(server.process.folder, "appendonlydir");
      const kept = join(server.process.folder, `kept-${crypto.randomUUID()}`);
      cpSync(folder, kept, { recursive: true });
      return async (placed) => {
        await server.kill();
        rmSync(folder, { recursive: true });
        cpSync(kept, folder, { recursive: true });
        placed();
        await server.start();
      };
    },
  };
}

/** Restores a dump in one transaction. */
export function postgresRestore(server: PostgresServer): Restore {
  return {
    how: "pg_restore",
    async copy() {
      const putBack = await dumpOfPostgres(server, namespace, "--single-transaction");
      // The restore locks all tables one by one, and holders lock them in another order. In a deadlock, the server ends one of the two.
      return inPlace(() => patiently(putBack));
    },
  };
}

/** Copies the tables, and renames the copies into their place in one step. */
export function mysqlRestore(server: MariadbServer): Restore {
  const names = namesOf(namespace);
  let copies = 0;
  async function on(statements: readonly string[]): Promise<void> {
    const connection = await mysql.createConnection(server.url());
    try {
      for (const statement of statements) await connection.query(statement);
    } finally {
      connection.destroy();
    }
  }
  return {
    how: "RENAME TABLE",
    async copy() {
      const number = ++copies;
      const kept = (name: string): string => `kept_${number}_${name}`;
      const locks = names.flatMap((name) => [`${name} READ`, `${kept(name)} WRITE`]);
      await on([
        ...names.map((name) => `CREATE TABLE ${kept(name)} LIKE ${name}`),
        // The locks make it a copy of one moment.
        `LOCK TABLES ${locks.join(", ")}`,
        ...names.map((name) => `INSERT INTO ${kept(name)} SELECT * FROM ${name}`),
        "UNLOCK TABLES",
      ]);
      const renames = names.flatMap((name) => [`${name} TO gone_${number}_${name}`, `${kept(name)} TO ${name}`]);
      return inPlace(() => on([`RENAME TABLE ${renames.join(", ")}`]));
    },
  };
}

/** Puts back the data directories of all servers, as they were at one moment. */
export function zooKeeperRestore({ servers }: ZooKeeper, serving: () => Promise<unknown>): Restore {
  const keptBy = (data: string): string => `${data}-kept`;
  return {
    how: "snapshots and logs, with a restart",
    async copy() {
      // Stop the servers, so that their files are as a crash leaves them. A server could not read copies of files that another server was
      // writing.
      for (const server of servers) server.process.signal("SIGSTOP");
      try {
        for (const { data } of servers) {
          await run("rm", ["-rf", keptBy(data)]);
          await run("cp", ["-a", data, keptBy(data)]);
          // ZooKeeper does not start with an empty log.
          await run("find", [keptBy(data), "-name", "log.*", "-size", "0", "-delete"]);
        }
      } finally {
        for (const server of servers) server.process.signal("SIGCONT");
      }
      return async (placed) => {
        await Promise.all(servers.map((server) => server.process.kill()));
        for (const { data } of servers) {
          await run("rm", ["-rf", data]);
          await run("cp", ["-a", keptBy(data), data]);
        }
        placed();
        await Promise.all(servers.map((server) => server.start()));
        await serving();
      };
    },
  };
}

/** Restores a snapshot of the API server's etcd as an operator does it, with the API server stopped. */
export function kubernetesRestore(server: Kubernetes): Restore {
  return {
    how: "etcdctl snapshot restore, with the API server stopped",
    async copy() {
      const snapshot = await patiently(() => server.etcd.snapshot());
      return async (placed) => {
        await server.process.kill();
        await server.etcd.restore(snapshot, placed);
        await server.start();
      };
    },
  };
}

/** Restores a snapshot of one member in all members. */
export function etcdRestore(cluster: Etcd): Restore {
  return {
    how: "etcdctl snapshot restore",
    async copy() {
      const snapshot = await patiently(() => cluster.snapshot());
      return (placed) => cluster.restore(snapshot, placed);
    },
  };
}
