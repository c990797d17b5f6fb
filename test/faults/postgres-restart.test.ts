import { defaultLayout } from "../../src/id/layout.ts";
import { postgresMissing, PostgresServer } from "../support/postgres.ts";
import { restartMatrix } from "../support/restart-matrix.ts";
import { openSql } from "../support/sql.ts";
import { onServerOf } from "../support/store-server.ts";
import { newNamespace, subjectIn } from "../support/subject.ts";

onServerOf(
  "postgres",
  { missing: postgresMissing, start: () => PostgresServer.start() },
  { restarts: true },
  (server) => {
    restartMatrix("postgres", async () => {
      const namespace = newNamespace();
      const registry = await openSql(server().url());
      await registry.init({ namespace, layout: defaultLayout.fingerprint });
      return subjectIn(namespace, server(), registry);
    });
  },
);
