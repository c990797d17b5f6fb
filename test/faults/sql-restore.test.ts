import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { databases } from "../support/databases.ts";
import { eventually } from "../support/holder.ts";
import { driveStandIn, oracleStandIn } from "../support/oracle.ts";
import { openSql } from "../support/sql.ts";

const namespace = "orders";
const window = 1000;

/** The SQL that the documentation tells an operator to run. */
const page = readFileSync(join(import.meta.dirname, "../../docs/registries/sql.md"), "utf8");
const restored = /`(UPDATE workerid_meta_orders SET [^`]+)`/.exec(page)?.[1] ?? "";

const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

driveStandIn();

describe.each([...databases, oracleStandIn])("tables of $name that are restored in place", ({ missing, start }) => {
  test.skipIf(missing !== undefined)(
    missing ?? "once the server is told, nothing is granted before every window has passed that they lack",
    async () => {
      const server = await start();
      ends.push(() => server.remove());
      const opened = async (): Promise<Registry> => {
        const registry = await openSql(server.url(), 30_000);
        ends.push(() => registry.close());
        return registry;
      };
      const registry = await opened();
      await registry.init({ namespace, layout: defaultLayout.fingerprint, maxWindow: window, maxClockSkew: 1000 });
      const known = claimRequest({ window });
      const key = keyOf(known, await granted(registry, known));
      const tables = ["assign", "window", "history", "meta"].map((name) => `workerid_${name}_${namespace}`);
      for (const table of tables) {
        await server.query(
          `CREATE TABLE saved_${table} AS (SELECT * FROM ${table})${registry.kind === "oracle" ? " WITH DATA" : ""}`,
        );
      }
      const forgotten = claimRequest({ window });
      const { workerId, until } = await granted(registry, forgotten);
      expect(workerId).toBe(1);
      for (const table of tables) {
        await server.query(`DELETE FROM ${table}`);
        await server.query(`INSERT INTO ${table} SELECT * FROM saved_${table}`);
      }
      await server.query(restored);

      const after = await opened();
      await expect(after.claim(claimRequest({ window }))).rejects.toMatchObject({ code: "QUARANTINE" });
      const next = await eventually(
        () => granted(after, claimRequest({ window, workerId })).catch(() => undefined),
        (grant) => grant !== undefined,
      );
      expect(next?.from).toBeGreaterThanOrEqual(until);
      // The recorded holders go on, from that time.
      const renewal = await after.renew({ ...key, clock: Date.now(), window });
      expect(renewal).toMatchObject({ outcome: "renewed", from: next?.from });
      expect(await after.renew({ ...keyOf(forgotten, { ...next!, fence: 1 }), clock: Date.now(), window })).toEqual({
        outcome: "lost",
        reason: "taken",
      });
    },
  );
});
