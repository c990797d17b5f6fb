import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe } from "vitest";
import { mariadbMissing, MariadbServer } from "../support/mariadb.ts";
import { runConformance } from "../support/run-conformance.ts";
import { openSql } from "../support/sql.ts";

const given = process.env["MYSQL_URL"];

describe.skipIf(given === undefined && mariadbMissing !== undefined)(mariadbMissing ?? "on a real server", () => {
  let server: MariadbServer | undefined;
  beforeAll(async () => {
    if (given === undefined) server = await MariadbServer.start();
  });
  afterAll(() => server?.remove());

  runConformance("mysql", async () => ({
    // A server that somebody else owns may know every name that was used before.
    namespace: `t${crypto.randomUUID().replaceAll("-", "").slice(0, 20)}`,
    open: () => openSql(given ?? server?.url() ?? ""),
    pause: sleep,
    now: Date.now,
    lacks: { "creates-namespaces": "only `init` makes tables, with the rights that this takes" },
  }));
});
