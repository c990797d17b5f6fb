import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe } from "vitest";
import { driveStandIn, OracleStandIn, standInMissing } from "../support/oracle.ts";
import { patience } from "../support/patience.ts";
import { runConformance } from "../support/run-conformance.ts";
import { openSql } from "../support/sql.ts";

const given = process.env["ORACLE_URL"];
if (given === undefined) driveStandIn();

describe.skipIf(given === undefined && standInMissing !== undefined)(
  standInMissing ?? (given === undefined ? "on a stand-in" : "on a real server"),
  () => {
    let server: OracleStandIn | undefined;
    beforeAll(async () => {
      if (given === undefined) server = await OracleStandIn.start();
    });
    afterAll(() => server?.remove());

    runConformance("oracle", async () => ({
      // A server that somebody else owns may know every name that was used before.
      namespace: `t${crypto.randomUUID().replaceAll("-", "").slice(0, 20)}`,
      open: () => openSql(given ?? server?.url() ?? "", patience),
      pause: sleep,
      now: Date.now,
      lacks: { "creates-namespaces": "only `init` makes tables, with the rights that this takes" },
    }));
  },
);
