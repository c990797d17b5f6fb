import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import type { PoolBounds } from "../../src/id/pool-bounds.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { literal as mysqlLiteral } from "../../src/registries/sql/mysql/dialect.ts";
import { literal as postgresLiteral } from "../../src/registries/sql/postgres/dialect.ts";
import { loadStatements, named, namesOf, placeholder } from "../../src/registries/sql/statements.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { databases, type DatabaseServer } from "../support/databases.ts";
import { openSql } from "../support/sql.ts";

const namespace = "orders";
/** SNOWLEASE_ROWS=1000000 takes minutes, and tells the same. */
const rows = Number(process.env["SNOWLEASE_ROWS"] ?? 100_000);
const pool = { first: 0, last: rows + 99 };

/** Statements of claims, renewals and releases that look something up. */
const hot =
  /^(?:claim|record\.get|assign\.get|record\.put|record\.touch|history\.(?:list|supersede)|assign\.(?:replace|remove))/;

/** What stands for parameters while only a plan is asked for. */
const values: Readonly<Record<string, string | number | null>> = {
  filed_under: "pool",
  host: "host-7",
  token: "00000000000000000000000000000008",
  first: 50_000,
  last: pool.last,
  limit: 8,
  recents: null,
};

/** `numbers`: what gives the numbers of all rows as `seq`. */
function mysqlFill(numbers: string): readonly string[] {
  return [
    `INSERT INTO workerid_window_orders (worker_id, version, era, filed_under, fence, token, from_ms, until_ms, seen_clock, clean, known_from_ms, host, ip, pid, instance, claimed_at)
     SELECT seq, 1, (SELECT value FROM workerid_meta_orders WHERE name = 'era'), 'pool', 1,
       IF(seq % 1000 = 7, NULL, LPAD(seq, 32, '0')), 1, IF(seq % 1000 = 7, seq, 8000000000000 + seq), 1, 0, 1,
       CONCAT('host-', seq % 5000), '', 1, '', 1
     FROM ${numbers}`,
    `INSERT INTO workerid_assign_orders SELECT worker_id, 1, CONCAT('lease@', LEFT(SHA2(host, 256), 9)), host, NOW() FROM workerid_window_orders WHERE token IS NOT NULL`,
    "ANALYZE TABLE workerid_window_orders, workerid_assign_orders",
  ];
}

/** A namespace of so many used numbers: one in a thousand is free. */
const fill: Readonly<Record<string, readonly string[]>> = {
  postgres: [
    `INSERT INTO workerid_window_orders (worker_id, version, era, filed_under, fence, token, from_ms, until_ms, seen_clock, clean, known_from_ms, host, ip, pid, instance, claimed_at)
     SELECT n, 1, (SELECT value FROM workerid_meta_orders WHERE name = 'era'), 'pool', 1,
       CASE WHEN n % 1000 = 7 THEN NULL ELSE lpad(n::text, 32, '0') END, 1, CASE WHEN n % 1000 = 7 THEN n ELSE 8000000000000 + n END, 1, 0, 1,
       'host-' || n % 5000, '', 1, '', 1
     FROM generate_series(0, ${rows - 1}) n`,
    `INSERT INTO workerid_assign_orders SELECT worker_id, 1, 'lease@' || left(encode(sha256(host::bytea), 'hex'), 9), host, now() FROM workerid_window_orders WHERE token IS NOT NULL`,
    "ANALYZE",
  ],
  mariadb: mysqlFill(`seq_0_to_${rows - 1}`),
  mysql: [
    `SET GLOBAL cte_max_recursion_depth = ${rows}`,
    ...mysqlFill(
      `(WITH RECURSIVE n (seq) AS (SELECT 0 UNION ALL SELECT seq + 1 FROM n WHERE seq < ${rows - 1}) SELECT seq FROM n) numbers`,
    ),
  ],
};

describe.each(databases)("many worker IDs in $name", ({ name, dialect, missing, start }) => {
  describe.skipIf(missing !== undefined)(missing ?? "on a real server", () => {
    /** As the statements themselves have them: that decides about the plan, too. */
    const literal = dialect === "postgres" ? postgresLiteral : mysqlLiteral;
    let server: DatabaseServer;
    let registry: Registry;

    beforeAll(async () => {
      server = await start();
      registry = await openSql(server.url(), 30_000);
      await registry.init({ namespace, layout: defaultLayout.fingerprint });
      for (const statement of fill[name] ?? []) await server.query(statement);
    }, 60_000 + rows);
    afterAll(async () => {
      await registry.close();
      await server.remove();
    });

    /** How the server would go about a statement, and how many rows it thinks that it reads. */
    async function plan(text: string, more: typeof values = {}): Promise<string> {
      const names = { ...namesOf(namespace), identity: literal("x") };
      const bound = named(text, names).replace(placeholder, (_, name: string) => {
        const isText = /hostname|ip|ended_by|identity|era|turn|pinned|instance/.test(name);
        const told = { ...values, ...more };
        const value = name in told ? told[name] : isText ? "x" : 7;
        return (dialect === "postgres" ? postgresLiteral : mysqlLiteral)(value ?? null);
      });
      const steps = await server.query(`EXPLAIN ${dialect === "mysql" ? "FORMAT=TRADITIONAL " : ""}${bound}`);
      return steps.map((row) => Object.values(row).join(" ")).join("\n");
    }

    test.each([...loadStatements(dialect)].filter(([statement]) => hot.test(statement)))(
      "%s reads by an index",
      async (statement, text) => {
        // Of so few numbers, records are looked at and sorted.
        const isInRange = statement === "claim.oldest-in-range";
        const steps = await plan(text, isInRange ? { last: 50_999 } : {});
        if (dialect === "mysql")
          expect(steps).not.toMatch(isInRange ? /temporary|derived/i : /temporary|filesort|derived/i);
        // A table of a row or two is read as a whole, and so it should be.
        expect(steps).not.toMatch(
          /Seq Scan on workerid_(?:window|assign)|\b(?:w|a|workerid_window_orders|workerid_assign_orders) (?:ALL|index)\b/,
        );
      },
    );

    test("the indexes are those that the statements were written for", async () => {
      const few = { last: 50_999 };
      const inRange = await plan(loadStatements(dialect).get("claim.oldest-in-range") ?? "", few);
      expect(inRange).toMatch(dialect === "mysql" ? /PRIMARY/ : /workerid_key_window_orders/);
      for (const [statement, index] of [
        ["claim.oldest", "workerid_by_until_orders"],
        ["claim.oldest-of-host", "workerid_by_host_orders"],
        ["claim.newest-of-host", "workerid_by_host_orders"],
        ["claim.by-token", "workerid_by_token_orders"],
      ]) {
        expect(await plan(loadStatements(dialect).get(statement ?? "") ?? "")).toContain(index);
      }
    });

    test("a claim takes the numbers never used, behind all others, and then the one that rested longest", async () => {
      const holder = { host: "new", ip: "", pid: 1, instance: "" };
      const ids = [];
      for (let i = 0; i < 3; i++)
        ids.push((await granted(registry, claimRequest({ pool, holder: { ...holder, host: `new-${i}` } }))).workerId);
      expect(ids).toEqual([rows, rows + 1, rows + 2]);
      const narrow = { first: 0, last: rows - 1 };
      const request = claimRequest({ pool: narrow, holder });
      const grant = await granted(registry, request);
      expect(grant.workerId).toBe(7);
      const own = await granted(registry, claimRequest({ pool, holder: { ...holder, host: "host-2007" } }));
      expect(own.workerId).toBe(2007);
      await registry.release({ ...keyOf(request, grant), clock: Date.now(), used: { until: grant.from } });
    });

    /** Pages that the server has looked at, whether they were in memory or not. */
    async function pagesRead(): Promise<number> {
      const [row] = await server.query(
        dialect === "postgres"
          ? "SELECT idx_blks_hit + idx_blks_read AS pages FROM pg_statio_user_tables WHERE relname = 'workerid_window_orders'"
          : "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_read_requests'",
      );
      return Number(row?.["pages"] ?? row?.["Value"]);
    }

    /** How many pages a claim reads: the fewest of some, since the server does other things, too. */
    async function pagesOf(narrow: PoolBounds): Promise<number> {
      const pages: number[] = [];
      for (let i = 0; i < 3; i++) {
        const claimer = await openSql(server.url(), 30_000);
        const before = await pagesRead();
        await claimer.claim(
          claimRequest({ pool: narrow, holder: { host: `look-${i}`, ip: "", pid: 1, instance: "" } }),
        );
        // PostgreSQL tells of what a session did when it ends.
        await claimer.close();
        await expect.poll(pagesRead).toBeGreaterThan(before);
        pages.push((await pagesRead()) - before);
      }
      return Math.min(...pages);
    }

    test("a pool that was narrowed reads no more than its size, finds what is free in it, and nothing outside", async () => {
      const narrow = { first: 50_000, last: 50_999 };
      const claim = (): ReturnType<Registry["claim"]> =>
        registry.claim(claimRequest({ pool: narrow, holder: { host: "narrow", ip: "", pid: 1, instance: "" } }));
      expect(await claim()).toMatchObject({ outcome: "granted", workerId: 50_007, fence: 2 });
      expect(await claim()).toMatchObject({ outcome: "exhausted", freeAt: expect.any(Number) });
      // Where claims look at the records of all pools, they read some thousands of pages.
      expect(await pagesOf(narrow)).toBeLessThan(1000);
      // Widened again, what rested longest comes next.
      const again = await granted(
        registry,
        claimRequest({ pool, holder: { host: "wide", ip: "", pid: 1, instance: "" } }),
      );
      expect(again).toMatchObject({ workerId: rows + 3 });
    });
  });
});
