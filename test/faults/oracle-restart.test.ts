import { afterAll, beforeAll, describe } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { driveStandIn, OracleStandIn, standInEnvironment, standInMissing } from "../support/oracle.ts";
import { restartMatrix } from "../support/restart-matrix.ts";
import { openSql } from "../support/sql.ts";
import { onServerOf, restartable, type StoreServer } from "../support/store-server.ts";
import { newNamespace, subjectIn } from "../support/subject.ts";

function matrix(server: () => StoreServer, environment: Readonly<Record<string, string>> = {}): void {
  restartMatrix("oracle", async () => {
    const namespace = newNamespace();
    const registry = await openSql(server().url());
    await registry.init({ namespace, layout: defaultLayout.fingerprint });
    return { ...subjectIn(namespace, server(), registry), environment };
  });
}

// No system brings a program of it.
onServerOf("oracle", undefined, { restarts: true }, matrix);

describe.skipIf(standInMissing !== undefined)(standInMissing ?? "on a stand-in", () => {
  let server: StoreServer;
  beforeAll(async () => {
    const driven = driveStandIn();
    server = restartable(await OracleStandIn.start());
    return () => driven.mockRestore();
  });
  afterAll(() => server.remove());
  matrix(() => server, standInEnvironment);
});
