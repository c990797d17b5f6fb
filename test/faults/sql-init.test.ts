import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { databases, type DatabaseServer } from "../support/databases.ts";
import { openSql } from "../support/sql.ts";

const layout = defaultLayout.fingerprint;
const namespace = "orders";

describe.each(databases)("$name", ({ missing, start, dialect }) => {
  describe.skipIf(missing !== undefined)(missing ?? "on a real server", () => {
    let server: DatabaseServer;
    let registry: Registry;

    beforeAll(async () => {
      server = await start();
      registry = await openSql(server.url(), 5000);
    });
    afterAll(async () => {
      await registry.close();
      await server.remove();
    });

    test("`init` ends no quarantine: neither one that is recorded, nor one whose record is lost", async () => {
      await registry.init({ namespace, layout });
      const meta = `workerid_meta_${namespace}`;
      const again = (): Promise<unknown> => registry.init({ namespace, layout });
      const refused = async (): Promise<void> => {
        for (let i = 0; i < 2; i++) {
          await expect(registry.claim(claimRequest({ namespace }))).rejects.toMatchObject({ code: "QUARANTINE" });
          await again();
        }
      };
      const request = claimRequest({ namespace, window: 1000 });
      const grant = await granted(registry, request);
      await registry.release({ ...keyOf(request, grant), clock: Date.now() });
      await server.query(`UPDATE ${meta} SET value = 'restored' WHERE name = 'identity'`);
      await refused();
      await server.query(`DELETE FROM ${meta}`);
      await again();
      await refused();
      await server.query(`DROP TABLE ${meta}`);
      await again();
      await refused();
      // One of the other tables is enough to show that there were claims.
      for (const kept of ["history", "assign"]) {
        for (const table of ["assign", "window", "history", "meta"])
          if (table !== kept) await server.query(`DROP TABLE workerid_${table}_${namespace}`);
        await again();
        await refused();
        const row =
          "(worker_id, pid, ip, hostname, create_time) VALUES (7, 1, 'lease@012345678', 'h', CURRENT_TIMESTAMP)";
        if (kept === "history") await server.query(`INSERT INTO workerid_assign_${namespace} ${row}`);
      }
      for (const table of ["assign", "window", "history", "meta"])
        await server.query(`DROP TABLE workerid_${table}_${namespace}`);
      await again();
      await granted(registry, claimRequest({ namespace }));
    });

    // Each session would read no more, unless it asks for more.
    if (dialect === "mysql") {
      test("`init` finds its tables where sessions read only a few rows", async () => {
        await server.query("SET GLOBAL sql_select_limit = 3");
        const limited = await openSql(server.url(), 5000);
        try {
          await limited.init({ namespace: "limited", layout });
          await granted(limited, claimRequest({ namespace: "limited" }));
        } finally {
          await limited.close();
          await server.query("SET GLOBAL sql_select_limit = DEFAULT");
        }
      });
    }
  });
});
