import { defaultLayout } from "../../src/id/layout.ts";
import { databases } from "../support/databases.ts";
import { restartMatrix } from "../support/restart-matrix.ts";
import { openSql } from "../support/sql.ts";
import { onServerOf } from "../support/store-server.ts";
import { newNamespace, subjectIn } from "../support/subject.ts";

for (const database of databases.filter(({ dialect }) => dialect === "mysql")) {
  onServerOf(database.name, database, { restarts: true }, (server) => {
    restartMatrix(database.name, async () => {
      const namespace = newNamespace();
      const registry = await openSql(server().url());
      await registry.init({ namespace, layout: defaultLayout.fingerprint });
      return subjectIn(namespace, server(), registry);
    });
  });
}
