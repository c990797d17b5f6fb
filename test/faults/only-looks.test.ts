import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { openRegistry, parseAddress } from "../../src/registries/index.ts";
import { claimRequest, granted } from "../support/claims.ts";
import { Sandbox } from "../support/cli.ts";
import { startDaemonProcess } from "../support/daemon-process.ts";
import type { DatabaseServer } from "../support/databases.ts";
import { mariadbMissing, MariadbServer } from "../support/mariadb.ts";
import { namesOf } from "../support/older-copy.ts";
import { patience } from "../support/patience.ts";
import { postgresMissing, PostgresServer } from "../support/postgres.ts";
import { dumped } from "../support/redis-copy.ts";
import { redisMissing, RedisServer } from "../support/redis.ts";

const namespace = "orders";

/** A store that takes itself for another server than the one that wrote last, once that is asked for. */
interface Store {
  readonly url: string;
  change(): Promise<void>;
  /** All that it keeps of the namespace. */
  content(): Promise<unknown>;
  remove(): Promise<void>;
}

/** All rows, but for the version of the one that a ping writes. */
async function rowsOf(server: DatabaseServer): Promise<unknown> {
  const tables = await Promise.all(namesOf(namespace).map((name) => server.query(`SELECT * FROM ${name} ORDER BY 1`)));
  return tables.map((rows) => rows.map((row) => (row["name"] === "schema" ? { ...row, version: 0 } : row)));
}

const stores = [
  {
    name: "MariaDB",
    missing: mariadbMissing,
    async start(): Promise<Store> {
      const server = await MariadbServer.start();
      return {
        url: server.url(),
        async change() {
          await server.kill();
          await server.start(["--server-id=7"]);
        },
        content: () => rowsOf(server),
        remove: () => server.remove(),
      };
    },
  },
  {
    name: "PostgreSQL",
    missing: postgresMissing,
    async start(): Promise<Store> {
      const server = await PostgresServer.start();
      return {
        url: server.url(),
        // As an operator does it who has restored the tables.
        change: async () =>
          void (await server.query(`UPDATE workerid_meta_${namespace} SET value = 'restored' WHERE name = 'identity'`)),
        content: () => rowsOf(server),
        remove: () => server.remove(),
      };
    },
  },
  {
    name: "Redis",
    missing: redisMissing,
    async start(): Promise<Store> {
      const server = await RedisServer.start();
      return {
        url: server.url(),
        async change() {
          await server.kill();
          await server.start();
        },
        content: async () =>
          (await dumped(server, `workerId/${namespace}*`)).toSorted(([a], [b]) => a.localeCompare(b)),
        remove: () => server.remove(),
      };
    },
  },
];

describe.each(stores)("on $name, where another server answers than before", ({ missing, start }) => {
  test.skipIf(missing !== undefined)(
    "no command and no page that only looks changes anything; a claim begins a quarantine",
    { timeout: patience },
    async () => {
      const store = await start();
      onTestFinished(() => store.remove());
      const sandbox = new Sandbox();
      const named = ["--registry", store.url, "--namespace", namespace];
      const registry = await openRegistry(parseAddress(store.url), { operationTimeout: patience });
      onTestFinished(() => registry.close());
      await registry.init({ namespace, layout: defaultLayout.fingerprint, new: true });
      const { workerId, from } = await granted(registry, claimRequest({ namespace, window: 60_000 }));
      const id = defaultLayout.encode(defaultLayout.tickOf(from), workerId, 0);
      writeFileSync(join(sandbox.work, "ids.txt"), `${id}\n`);
      writeFileSync(join(sandbox.work, "hosts.txt"), "a 10.0.0.1\n");
      await store.change();
      const before = await store.content();

      const looks = [
        ["doctor", ...named],
        ["workers", ...named],
        ["quarantine", ...named],
        ["explain", String(id), ...named],
        ["audit", "ids.txt", ...named],
        ["top", "--json", ...named],
        ["migrate", "plan", "--from", "ip", "--hosts", "hosts.txt", ...named],
        ["migrate", "status", ...named],
      ];
      for (const look of looks) {
        const { code, stderr } = await sandbox.run(look);
        expect({ look, code, stderr: code === 0 ? "" : stderr, content: await store.content() }).toMatchObject({
          look,
          code: expect.toBeOneOf([0, 1]),
          content: before,
        });
      }

      const daemon = await startDaemonProcess(store.url);
      onTestFinished(async () => void (await daemon.end("SIGKILL")));
      for (const path of ["/", "/readyz", "/metrics", "/v1", `/v1/${namespace}`, `/v1/${namespace}/workers`]) {
        const answer = await fetch(daemon.url + path);
        await answer.text();
        expect({ path, status: answer.status, content: await store.content() }).toMatchObject({
          path,
          content: before,
        });
      }
      await sandbox.run(["doctor", "--registry", daemon.url, "--namespace", namespace]);
      expect(await store.content()).toEqual(before);

      await expect(registry.claim(claimRequest({ namespace }))).rejects.toMatchObject({ code: "QUARANTINE" });
      expect(await store.content()).not.toEqual(before);
    },
  );
});
