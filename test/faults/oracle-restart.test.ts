import { describe } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { driveStandIn, OracleStandIn, standInEnvironment, standInMissing } from "../support/oracle.ts";
import { restartMatrix } from "../support/restart-matrix.ts";
import { openSql } from "../support/sql.ts";
import { namespace, subjectOn } from "../support/subject.ts";

driveStandIn();

describe.skipIf(standInMissing !== undefined)(standInMissing ?? "on a stand-in", () => {
  restartMatrix("oracle", async () => {
    const server = await OracleStandIn.start();
    const registry = await openSql(server.url());
    await registry.init({ namespace, layout: defaultLayout.fingerprint });
    return { ...subjectOn(server, registry), environment: standInEnvironment };
  });
});
