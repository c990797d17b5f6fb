import { createConnection } from "mysql2/promise";
import pg from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { mysql } from "../../src/registries/sql/mysql/dialect.ts";
import { postgres } from "../../src/registries/sql/postgres/dialect.ts";
import type { ClaimKey, Registry } from "../../src/rule/registry.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { databases, type DatabaseServer } from "../support/databases.ts";
import { openSql } from "../support/sql.ts";

/* What a removal leaves in a database. */

/** In front of each round trip of the client that is watched, whose size of its pool tells it from others. */
let before: ((trip: number) => Promise<void>) | undefined;
let trips = 0;
const watched = 7;

for (const dialect of [postgres, mysql]) {
  const connect = dialect.connection.bind(dialect);
  vi.spyOn(dialect, "connection").mockImplementation((driver, target) => {
    const connection = connect(driver, target);
    const run = connection.run.bind(connection);
    connection.run = async (statements, edges) => {
      const isWork = target.poolSize === watched && Object.keys(connection.names).length > 0;
      if (isWork) await before?.(trips++);
      return run(statements, edges);
    };
    return connection;
  });
}

/** Does `work` once for each of its round trips, with something else in front of that. */
async function atEachTrip(
  work: (at: number) => Promise<void>,
  inside: (at: number) => Promise<unknown>,
): Promise<number> {
  for (let at = 0; ; at++) {
    let isReached = false;
    trips = 0;
    before = async (trip) => {
      if (trip !== at) return;
      isReached = true;
      before = undefined;
      await inside(at);
    };
    await work(at);
    before = undefined;
    if (!isReached) return at;
  }
}

const layout = defaultLayout.fingerprint;
const limits = { maxWindow: 5000, maxClockSkew: 100 };

/** A session of its own, as a Java process has it. */
async function sessionOf(dialect: "mysql" | "postgres", url: string) {
  if (dialect === "mysql") {
    const connection = await createConnection(url);
    return { query: (text: string): Promise<unknown> => connection.query(text), end: () => connection.end() };
  }
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return { query: (text: string): Promise<unknown> => client.query(text), end: () => client.end() };
}

async function remove(registry: Registry, namespace: string, forget = true): Promise<void> {
  const { era = "" } = (await registry.describe(namespace)) ?? {};
  await registry.remove?.({ namespace, era, forget });
}

describe.each(databases)("on $name", ({ dialect, missing, start }) => {
  describe.skipIf(missing !== undefined)(missing ?? "on a real server", () => {
    let server: DatabaseServer;
    let registry: Registry;
    let made = 0;
    const open: Registry[] = [];
    const user = dialect === "postgres" ? "app" : "app@'127.0.0.1'";

    beforeAll(async () => {
      server = await start();
      registry = await openSql(server.url());
      const login = dialect === "postgres" ? "CREATE ROLE app LOGIN" : `CREATE USER ${user} IDENTIFIED BY 's3cret'`;
      await server.query(login);
    });
    afterAll(async () => {
      await registry.close();
      await server.remove();
    });
    afterEach(async () => {
      for (const one of open.splice(0)) await one.close();
    });

    async function tablesOf(namespace: string): Promise<string[]> {
      const suffix = namespace === "default" ? "" : `_${namespace}`;
      const names = ["assign", "history", "meta", "window"].map((name) => `workerid_${name}${suffix}`);
      const listed = names.map((name) => `'${name}'`).join(", ");
      const rows = await server.query(
        `SELECT table_name AS name FROM information_schema.tables WHERE table_name IN (${listed})`,
      );
      return rows.map(({ name }) => String(name).replace(suffix, "")).toSorted();
    }

    const all = ["workerid_assign", "workerid_history", "workerid_meta", "workerid_window"];

    async function namespaceOfOne(): Promise<string> {
      const namespace = `r${++made}`;
      await registry.init({ namespace, layout, ...limits });
      return namespace;
    }

    test("a namespace whose name is forgotten leaves no table, and can be made anew", async () => {
      const namespace = await namespaceOfOne();
      await registry.pin(namespace, 3, "kept");
      await remove(registry, namespace);
      expect(await tablesOf(namespace)).toEqual([]);
      await registry.init({ namespace, layout, ...limits });
      expect(await tablesOf(namespace)).toEqual(all);
      expect(await granted(registry, claimRequest({ namespace }))).toMatchObject({ fence: 1 });
    });

    test("where a note of its name stays, its tables do", async () => {
      const namespace = await namespaceOfOne();
      await remove(registry, namespace, false);
      expect(await tablesOf(namespace)).toEqual(all);
    });

    test("the table of westid stays where a program of its kind has a row in it", async () => {
      const namespace = await namespaceOfOne();
      await server.query(
        `INSERT INTO workerid_assign_${namespace} (worker_id, pid, ip, hostname, create_time) VALUES (700, 1, '192.0.2.9', 'java', CURRENT_TIMESTAMP)`,
      );
      // A claim sees it.
      await granted(registry, claimRequest({ namespace, pool: { first: 700, last: 701 } }));
      await expect(remove(registry, namespace)).rejects.toMatchObject({ code: "WORKER_ID_HELD" });
      await server.query(`DELETE FROM workerid_assign_${namespace}`);
      await server.query(`UPDATE workerid_window_${namespace} SET until_ms = 1, token = NULL`);
      await remove(registry, namespace);
      expect(await tablesOf(namespace)).toEqual(["workerid_assign"]);
    });

    test("the table of westid stays where the registry's URL tells of such programs", async () => {
      const beside = await openSql(server.url("?beside=westid"));
      open.push(beside);
      const namespace = await namespaceOfOne();
      await remove(beside, namespace);
      expect(await tablesOf(namespace)).toEqual(["workerid_assign"]);
    });

    test("the table of westid stays in the namespace by default", async () => {
      await registry.init({ namespace: "default", layout, ...limits });
      await remove(registry, "default");
      expect(await tablesOf("default")).toEqual(["workerid_assign"]);
    });

    test("a user who may not drop tables removes the namespace: its tables stay, and hold the next one", async () => {
      const namespace = await namespaceOfOne();
      for (const table of all) {
        await server.query(`GRANT SELECT, INSERT, UPDATE, DELETE ON ${table}_${namespace} TO ${user}`);
      }
      // So that it is the drop that is refused, and not the lock.
      if (dialect === "mysql") await server.query(`GRANT LOCK TABLES ON snowlease.* TO ${user}`);
      const own = await openSql(server.url().replace(/\/\/[^@/]*@?/, "//app:s3cret@"));
      open.push(own);
      await remove(own, namespace);
      expect(await own.describe(namespace)).toBeUndefined();
      expect(await tablesOf(namespace)).toEqual(all);
      await own.init({ namespace, layout, ...limits });
      expect(await granted(own, claimRequest({ namespace }))).toMatchObject({ fence: 1 });
    });

    test("somebody who reads the tables for long keeps them from being dropped, and nobody from working", async () => {
      const namespace = await namespaceOfOne();
      const [sleep, sessions, running] =
        dialect === "postgres"
          ? ["pg_sleep(6)::text", "pg_stat_activity", "state = 'active' AND query"]
          : ["SLEEP(6)", "information_schema.processlist", "info"];
      const reading = server.query(`SELECT ${sleep} AS slept FROM workerid_meta_${namespace} LIMIT 1`);
      const begun = `SELECT 1 AS one FROM ${sessions} WHERE ${running} LIKE 'SELECT %(6)%workerid_meta_${namespace} LIMIT 1'`;
      await expect.poll(() => server.query(begun)).toHaveLength(1);
      // Less time than the reader takes, however often it tries.
      const hurried = await openSql(server.url(), 1000);
      open.push(hurried);
      await remove(hurried, namespace);
      expect(await tablesOf(namespace)).toEqual(all);
      await registry.init({ namespace, layout, ...limits });
      expect(await granted(registry, claimRequest({ namespace }))).toMatchObject({ fence: 1 });
      await reading;
    });

    test("what a Java process takes while the removal goes on stays", async () => {
      const victim = await openSql(server.url(`?poolSize=${watched}`));
      open.push(victim);
      const row = "(worker_id, pid, ip, hostname, create_time) VALUES (0, 1, '192.0.2.9', 'java', CURRENT_TIMESTAMP)";
      let begun = "";
      let isTaken = false;
      const reached = await atEachTrip(
        async () => {
          begun = await namespaceOfOne();
          isTaken = false;
          await remove(victim, begun).catch(() => undefined);
          if (!isTaken) return;
          expect(await server.query(`SELECT worker_id FROM workerid_assign_${begun}`)).toEqual([{ worker_id: 0 }]);
        },
        async () => {
          const into = `INSERT INTO workerid_assign_${begun} ${row}`;
          const statement =
            dialect === "postgres"
              ? `SET lock_timeout = 200; ${into}`
              : `SET STATEMENT lock_wait_timeout = 1 FOR ${into}`;
          isTaken = await server.query(statement).then(
            () => true,
            () => false,
          );
        },
      );
      expect(reached).toBeGreaterThan(5);
    });

    test.each([true, false])(
      "where the URL tells of Java processes, it waits for the windows by the slowest clock (forget: %s)",
      async (forget) => {
        const beside = await openSql(server.url("?beside=westid"));
        open.push(beside);
        const namespace = await namespaceOfOne();
        await granted(registry, claimRequest({ namespace }));
        await expect(remove(beside, namespace, forget)).rejects.toMatchObject({ code: "WORKER_ID_HELD" });
        expect(await server.query(`SELECT worker_id FROM workerid_assign_${namespace}`)).toHaveLength(1);
      },
    );

    const javaRow = "(worker_id, pid, ip, hostname, create_time) VALUES (1, 1, '192.0.2.9', 'java', CURRENT_TIMESTAMP)";

    test.each([
      ["the URL of another process", "?beside=westid", false],
      ["a row of such a process", "", true],
    ])("what keeps Java processes away stays where %s tells of them meanwhile", async (_, query, hasRow) => {
      const victim = await openSql(server.url(`?poolSize=${watched}`));
      const noting = await openSql(server.url(query), 1000);
      open.push(victim, noting);
      const isNoted = async (namespace: string): Promise<boolean> => {
        const rows = await server.query(`SELECT value FROM workerid_meta_${namespace} WHERE name = 'beside'`);
        return rows.some(({ value }) => Number(value) === 1);
      };
      let noted = 0;
      let begun = "";
      let isBeside = false;
      const reached = await atEachTrip(
        async () => {
          begun = await namespaceOfOne();
          isBeside = false;
          await granted(registry, claimRequest({ namespace: begun }));
          const answer = await remove(victim, begun, false).catch((error: unknown) => error);
          if (!isBeside) return;
          noted++;
          expect(answer).toMatchObject({ code: "WORKER_ID_HELD" });
          const marks = await server.query(`SELECT worker_id FROM workerid_assign_${begun} WHERE ip LIKE 'lease@%'`);
          expect(marks).not.toEqual([]);
        },
        async () => {
          if (hasRow) await server.query(`INSERT INTO workerid_assign_${begun} ${javaRow}`).catch(() => undefined);
          const pool = { first: 1, last: 2 };
          await noting.claim(claimRequest({ namespace: begun, pool })).catch(() => undefined);
          isBeside = await isNoted(begun);
        },
      );
      expect(reached).toBeGreaterThan(5);
      expect(noted).toBeGreaterThan(2);
    });

    test("what keeps Java processes away stays for a claim that is on its way", async () => {
      const claiming = await openSql(server.url("?beside=westid"));
      const removing = await openSql(server.url("?beside=westid"));
      open.push(claiming, removing);
      const namespace = await namespaceOfOne();
      // From here on, the namespace says so itself.
      await granted(claiming, claimRequest({ namespace, pool: { first: 0, last: 0 }, window: 100 }));
      const waiting =
        dialect === "postgres"
          ? "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
          : "SELECT trx_id FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'";
      // InnoDB shows what it showed before to a look that comes within 0.1 s of the last one.
      const areWaiting = (count: number): Promise<void> =>
        expect.poll(() => server.query(waiting), { timeout: 60_000, interval: 200 }).toHaveLength(count);
      await server.query(`UPDATE workerid_window_${namespace} SET until_ms = 1, token = NULL`);
      const java = await sessionOf(dialect, server.url());
      onTestFinished(() => java.end());
      await java.query("BEGIN");
      await java.query(`INSERT INTO workerid_assign_${namespace} ${javaRow}`);
      const claimed = claiming.claim(claimRequest({ namespace, pool: { first: 1, last: 1 } }));
      await areWaiting(1);
      const removed = remove(removing, namespace, false).catch((error: unknown) => error);
      await areWaiting(2);
      await java.query("ROLLBACK");
      expect(await claimed).toMatchObject({ outcome: "granted", workerId: 1 });
      expect(await removed).toMatchObject({ code: "WORKER_ID_HELD" });
      const marks = await server.query(`SELECT worker_id FROM workerid_assign_${namespace} WHERE ip LIKE 'lease@%'`);
      expect(marks).toContainEqual({ worker_id: 1 });
    });

    test("an operation beside which a namespace is forgotten does not miss its tables", async () => {
      const victim = await openSql(server.url(`?poolSize=${watched}`));
      // In the middle of a transaction it waits in vain: the other one waits for it.
      const other = await openSql(server.url(), 500);
      open.push(victim, other);
      let begun = "";
      let key: ClaimKey;
      const operations: readonly (() => Promise<unknown> | undefined)[] = [
        () => victim.renew({ ...key, window: 2000, clock: Date.now() }),
        () => victim.release({ ...key, clock: Date.now() }),
        () => victim.pin(begun, 3, "kept"),
        () => remove(victim, begun),
        () => remove(victim, begun, false),
      ];
      for (const operation of operations) {
        await atEachTrip(
          async () => {
            begun = await namespaceOfOne();
            const request = claimRequest({ namespace: begun });
            key = keyOf(request, await granted(registry, request));
            const answer = await Promise.resolve(operation()).catch((error: unknown) => error);
            expect(String(answer)).not.toMatch(/not all tables|DEFECT/);
          },
          () => remove(other, begun).catch(() => undefined),
        );
      }
    });

    test.skipIf(dialect !== "mysql")("a backup that locks a table keeps it, and nobody waits for it", async () => {
      const namespace = await namespaceOfOne();
      const backup = await createConnection(server.url());
      onTestFinished(() => backup.end());
      await backup.query(`BACKUP LOCK workerid_meta_${namespace}`);
      // Waiting would take as long as its operations may.
      const patient = await openSql(server.url(), 3_600_000);
      open.push(patient);
      await remove(patient, namespace);
      expect(await tablesOf(namespace)).toContain("workerid_meta");
      await backup.query("BACKUP UNLOCK");
      await registry.init({ namespace, layout, ...limits });
      expect(await tablesOf(namespace)).toEqual(all);
      expect(await granted(registry, claimRequest({ namespace }))).toMatchObject({ fence: 1 });
    });

    test("a namespace that another process forgets while it is made anew is made anew", async () => {
      const victim = await openSql(server.url(`?poolSize=${watched}`));
      open.push(victim);
      let begun = "";
      const reached = await atEachTrip(
        async () => {
          begun = await namespaceOfOne();
          await victim.init({ namespace: begun, layout, ...limits });
        },
        () => remove(registry, begun),
      );
      expect(reached).toBeGreaterThan(3);
    });

    test("a process whose last namespace another one forgets is as well as before", async () => {
      const namespace = await namespaceOfOne();
      const other = await openSql(server.url());
      open.push(other);
      await other.describe(namespace);
      await remove(registry, namespace);
      expect(await other.ping()).toMatchObject({ schema: 2 });
      expect(await other.describe(namespace)).toBeUndefined();
      expect(await other.ping()).toMatchObject({ schema: 2 });
    });
  });
});
