import { describe } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { postgresMissing, PostgresServer } from "../support/postgres.ts";
import { restartMatrix } from "../support/restart-matrix.ts";
import { openSql } from "../support/sql.ts";
import { namespace, subjectOn } from "../support/subject.ts";

describe.skipIf(postgresMissing !== undefined)(postgresMissing ?? "on a real server", () => {
  restartMatrix("postgres", async () => {
    const server = await PostgresServer.start();
    const registry = await openSql(server.url());
    await registry.init({ namespace, layout: defaultLayout.fingerprint });
    return subjectOn(server, registry);
  });
});
