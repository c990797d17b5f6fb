import { describe } from "vitest";
import { defaultLayout } from "../../src/core/layout.ts";
import { driveStandIn, OracleStandIn, standInEnvironment, standInMissing } from "../support/oracle.ts";
import { restartMatrix } from "../support/restart-matrix.ts";
import { openSql } from "../support/sql.ts";

driveStandIn();

describe.skipIf(standInMissing !== undefined)(standInMissing ?? "on a stand-in", () => {
  restartMatrix("oracle", async () => {
    const server = await OracleStandIn.start();
    const registry = await openSql(server.url());
    await registry.init({ namespace: "orders", layout: defaultLayout.fingerprint });
    return {
      url: server.url(),
      registry,
      environment: standInEnvironment,
      async stop() {
        await registry.close();
        await server.remove();
      },
    };
  });
});
