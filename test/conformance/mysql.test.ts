import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe } from "vitest";
import { databases, type DatabaseServer } from "../support/databases.ts";
import { lateSql } from "../support/late-store.ts";
import { copyOfMysql } from "../support/older-copy.ts";
import { patience } from "../support/patience.ts";
import { runConformance } from "../support/run-conformance.ts";
import { openSql } from "../support/sql.ts";

const given = process.env["MYSQL_URL"];
const servers: readonly { name: string; missing: string | undefined; start(): Promise<DatabaseServer | undefined> }[] =
  given === undefined
    ? databases.filter(({ dialect }) => dialect === "mysql")
    : [{ name: "mysql", missing: undefined, start: async () => undefined }];

describe.each(servers)("$name", ({ missing, start }) => {
  describe.skipIf(missing !== undefined)(missing ?? "on a real server", () => {
    let server: DatabaseServer | undefined;
    beforeAll(async () => {
      server = await start();
    });
    afterAll(() => server?.remove());

    runConformance("mysql", async () => {
      // A server that somebody else owns may know every name that was used before.
      const namespace = `t${crypto.randomUUID().replaceAll("-", "").slice(0, 20)}`;
      const at = server;
      return {
        namespace,
        open: () => openSql(given ?? server?.url() ?? "", patience),
        pause: sleep,
        now: Date.now,
        ...(at && { late: () => lateSql(at, namespace, copyOfMysql) }),
        lacks: { "creates-namespaces": "only `init` makes tables, with the rights that this takes" },
      };
    });
  });
});
