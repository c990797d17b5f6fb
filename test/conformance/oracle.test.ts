import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe } from "vitest";
import { lacksOf } from "../../src/proof/lacks.ts";
import { driveStandIn, OracleStandIn, standInMissing } from "../support/oracle.ts";
import { runConformance } from "../support/run-conformance.ts";
import { openSql } from "../support/sql.ts";
import { onServerOf } from "../support/store-server.ts";
import { newNamespace } from "../support/subject.ts";

function contract(server: () => { url(): string }): void {
  runConformance("oracle", async () => ({
    namespace: newNamespace(),
    open: () => openSql(server().url()),
    pause: sleep,
    now: Date.now,
    lacks: lacksOf("oracle"),
  }));
}

// No package system has an Oracle.
onServerOf("oracle", undefined, {}, contract);

describe.skipIf(standInMissing !== undefined)(standInMissing ?? "on a stand-in", () => {
  let server: OracleStandIn;
  beforeAll(async () => {
    const driven = driveStandIn();
    server = await OracleStandIn.start();
    return () => driven.mockRestore();
  });
  afterAll(() => server.remove());
  contract(() => server);
});
