import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { databases, type DatabaseServer } from "../support/databases.ts";
import { openSql } from "../support/sql.ts";

const layout = defaultLayout.fingerprint;

for (const database of databases) {
  describe.skipIf(database.missing !== undefined)(database.missing ?? `the namespaces in ${database.name}`, () => {
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

    test("are found among other programs' tables, in the order of their names, and none of those breaks the list", async () => {
      expect(await registry.namespaces?.()).toEqual([]);
      const names = ["default", "or_ders", "orders", "orders2", "orders_", "orders_b"];
      for (const namespace of names.toReversed()) await registry.init({ namespace, layout });
      // The order of the code units, which is not that of every database.
      expect(await registry.namespaces?.()).toEqual(names);
      expect(await registry.namespaces?.({ after: "orders", limit: 2 })).toEqual(["orders2", "orders_"]);

      const quote = database.dialect === "postgres" ? '"' : "`";
      const others = [
        "workerid_metadata",
        "workerid_meta_default",
        "workeridXmeta_x",
        "workerid_meta_9",
        "workerid_meta_other",
      ];
      for (const table of others) await server.query(`CREATE TABLE ${quote}${table}${quote} (id int)`);
      if (database.dialect === "postgres") {
        await server.query('CREATE TABLE "workerid_meta_Big" (id int)');
        await server.query("CREATE SCHEMA hidden");
        await server.query("CREATE TABLE hidden.workerid_meta_hidden (name text, value text, version int)");
      } else {
        await server.query("CREATE DATABASE hidden");
        await server.query("CREATE TABLE hidden.workerid_meta_hidden (name text, value text, version int)");
      }
      expect(await registry.namespaces?.()).toEqual(names);

      // Of a later version, and damaged.
      await server.query("UPDATE workerid_meta_orders2 SET value = '99' WHERE name = 'schema'");
      await server.query("UPDATE workerid_meta_orders_ SET value = 'long' WHERE name = 'maxWindow'");
      expect(await registry.namespaces?.()).toEqual(names);
    });

    test("are listed without a change to what `ping` tests", async () => {
      await registry.init({ namespace: "mine", layout });
      await registry.init({ namespace: "yours", layout });
      await registry.describe("mine");
      expect(await registry.namespaces?.({ after: "mine" })).toContain("yours");
      for (const table of ["meta", "window", "history", "assign"])
        await server.query(`DROP TABLE workerid_${table}_yours`);
      expect((await registry.ping()).schema).toBeGreaterThan(0);
    });
  });
}
