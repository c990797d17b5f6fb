import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { mysql } from "../../src/registries/sql/mysql/dialect.ts";
import { oracle } from "../../src/registries/sql/oracle/dialect.ts";
import { postgres } from "../../src/registries/sql/postgres/dialect.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { claimRequest, granted } from "../support/claims.ts";
import { databases, type DatabaseServer } from "../support/databases.ts";
import { javaIds, JavaRow } from "../support/java-peer.ts";
import { driveStandIn, oracleStandIn } from "../support/oracle.ts";
import { openSql } from "../support/sql.ts";

/*
 * A Java process takes the number behind the read of a claim, and is gone before the claim is stored: nothing that was read has changed. Its
 * clock is ahead nearly as far as any may be.
 */

driveStandIn();

const layout = defaultLayout.fingerprint;
const skew = 1000;
const javaNow = (): number => Date.now() + skew - 50;
/** How long it has the number: not as long as a claim may be stored behind its read, and longer. */
const [short, long] = [500, 3000];
const ip = "10.0.0.1";

/** Deletes its row, and keeps it locked as long. */
const slowly: Readonly<Record<string, (table: string) => string>> = {
  postgres: (table) =>
    `WITH gone AS (DELETE FROM ${table} WHERE worker_id = 0 RETURNING 1) SELECT pg_sleep(${long / 1000}) FROM gone`,
  mysql: (table) => `DELETE FROM ${table} WHERE worker_id = 0 AND SLEEP(${long / 1000}) = 0`,
};

/** Runs between the next claim's read and its commit. */
let between: (() => Promise<void>) | undefined;

for (const dialect of [postgres, mysql, oracle]) {
  const connect = dialect.connection.bind(dialect);
  vi.spyOn(dialect, "connection").mockImplementation((driver, target) => {
    const connection = connect(driver, target);
    const run = connection.run.bind(connection);
    connection.run = async (statements, edges) => {
      if (statements.some(({ text }) => text.startsWith("INSERT INTO workerid_assign"))) {
        const work = between;
        between = undefined;
        await work?.();
      }
      return run(statements, edges);
    };
    return connection;
  });
}

describe.each([...databases, oracleStandIn])(
  "a Java process between the read of a claim and its commit in $name",
  ({ missing, start }) => {
    describe.skipIf(missing !== undefined)(missing ?? "on a server of its own", () => {
      let server: DatabaseServer;
      let registry: Registry;
      let namespace: string;
      let java: JavaRow;
      let namespaces = 0;

      beforeAll(async () => {
        server = await start();
      });
      afterAll(() => server.remove());
      beforeEach(async () => {
        namespace = `n${++namespaces}`;
        registry = await openSql(server.url("?beside=westid"), 20_000);
        await registry.init({ namespace, layout, maxWindow: 60_000, maxClockSkew: skew, new: true });
        java = new JavaRow(server, namespace);
      });
      afterEach(() => registry.close());

      test.for([
        ["a number that was never used", long, {}, undefined],
        ["such a number, which is stored in time", short, {}, undefined],
        ["one that it names", long, { workerId: 0 }, undefined],
        ["one that is pinned for its host", long, {}, { ip }],
      ] as const)("of %s: not one ID twice", async ([, stay, wish, owner]) => {
        if (owner !== undefined) await registry.pin(namespace, 0, "kept", owner);
        const ids: bigint[] = [];
        between = async () => {
          expect(await java.take(0)).toBe(true);
          const began = javaNow();
          await sleep(stay);
          ids.push(...javaIds(0, began, javaNow()));
          await java.leave();
        };
        const holder = { host: "alpha", ip, pid: 4711, instance: "" };
        const { workerId, from, until } = await granted(
          registry,
          claimRequest({ namespace, pool: { first: 0, last: 0 }, holder, ...wish }),
        );
        expect(ids).not.toEqual([]);
        ids.push(...javaIds(workerId, from, until));
        expect(new Set(ids).size).toBe(ids.length);
      });

      test("that waits for the end of its row: not one ID twice", async ({ skip }) => {
        const leave = slowly[registry.kind];
        if (leave === undefined) return skip("its stand-in waits for no row");
        const ids: bigint[] = [];
        let left: Promise<void> | undefined;
        between = async () => {
          expect(await java.take(0)).toBe(true);
          const began = javaNow();
          left = server.query(leave(`workerid_assign_${namespace}`)).then(() => {
            ids.push(...javaIds(0, began, javaNow()));
          });
          // Until it has locked the row.
          await sleep(300);
        };
        const { workerId, from, until } = await granted(
          registry,
          claimRequest({ namespace, pool: { first: 0, last: 0 } }),
        );
        await left;
        expect(ids).not.toEqual([]);
        ids.push(...javaIds(workerId, from, until));
        expect(new Set(ids).size).toBe(ids.length);
      });
    });
  },
);
