import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { isSnowleaseError } from "../../src/id/errors.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { claimRequest, granted } from "../support/claims.ts";
import { databases, type DatabaseServer } from "../support/databases.ts";
import { openSql } from "../support/sql.ts";
import { newNamespace } from "../support/subject.ts";

/** How much longer the renewal makes the window, ms: longer than each quarantine here. */
const renewedBy = 60_000;
/** How long the renewal is under way, s. */
const underWay = 3;

for (const database of databases) {
  describe.skipIf(database.missing !== undefined)(database.missing ?? database.name, () => {
    let server: DatabaseServer;
    let registry: Registry;
    beforeAll(async () => {
      server = await database.start();
      registry = await openSql(server.url());
    });
    afterAll(async () => {
      await registry.close();
      await server.remove();
    });

    /** Opens the window of worker 7 again, in a transaction that lasts some seconds, like a renewal on a stalled server. */
    function renewSlowly(table: string): Promise<unknown> {
      const raised = `UPDATE ${table} SET version = version + 1, until_ms = until_ms + ${renewedBy}`;
      return server.query(
        database.dialect === "postgres"
          ? `WITH one AS (${raised} WHERE worker_id = 7 RETURNING 1) SELECT pg_sleep(${underWay}) FROM one`
          : `${raised} + SLEEP(${underWay}) WHERE worker_id = 7`,
      );
    }

    async function isLocked(table: string): Promise<boolean> {
      const look = server.query(`SELECT 1 FROM ${table} WHERE worker_id = 7 FOR UPDATE NOWAIT`);
      return look.then(
        () => false,
        () => true,
      );
    }

    /** Drops a namespace while a renewal runs in it. Undefined if the drop came too late for that. */
    async function droppedBesideRenewal(): Promise<{ namespace: string; table: string } | undefined> {
      const namespace = newNamespace();
      const table = `workerid_window_${namespace}`;
      const layout = defaultLayout.fingerprint;
      const { id = "" } = await registry.init({ namespace, layout, maxWindow: 1000, maxClockSkew: 1000 });
      const grant = await granted(registry, claimRequest({ namespace, workerId: 7, window: 100 }));
      while ((await registry.ping()).clock <= grant.until) await sleep(20);
      const renewal = renewSlowly(table);
      while (!(await isLocked(table))) await sleep(20);
      const drop = await registry.dropNamespace?.({ namespace, id }).catch((error: unknown) => error);
      await renewal;
      if (isSnowleaseError(drop, "WORKER_ID_HELD")) return undefined;
      expect(drop).toHaveProperty("grantsFrom");
      return { namespace, table };
    }

    test("a window that a renewal opens again while its namespace is dropped is granted to no other holder", async () => {
      let dropped: { namespace: string; table: string } | undefined;
      for (let i = 0; i < 5 && dropped === undefined; i++) dropped = await droppedBesideRenewal();
      if (dropped === undefined) throw new Error("No drop met a renewal.");
      const { namespace, table } = dropped;
      expect(await registry.describe(namespace)).toBeUndefined();
      const [row] = await server.query(`SELECT until_ms FROM ${table} WHERE worker_id = 7`);
      const until = Number(row?.["until_ms"]);
      const info = await registry.init({ namespace, layout: defaultLayout.fingerprint });
      // The quarantine ends, so that only the renewed window keeps it closed.
      await registry.endQuarantine?.({ namespace, era: info.era ?? "" });
      while ((await registry.describe(namespace))?.quarantineUntil !== undefined) await sleep(50);
      const answer = await registry.claim(claimRequest({ namespace, workerId: 7, window: 100 }));
      expect(answer).toMatchObject({ outcome: "held", freeAt: until });
      expect(until).toBeGreaterThan(Date.now());
    });
  });
}
