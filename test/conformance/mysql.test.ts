import { setTimeout as sleep } from "node:timers/promises";
import { lacksOf } from "../../src/proof/lacks.ts";
import { databases } from "../support/databases.ts";
import { runConformance } from "../support/run-conformance.ts";
import { openSql } from "../support/sql.ts";
import { onServerOf } from "../support/store-server.ts";
import { newNamespace } from "../support/subject.ts";

for (const database of databases.filter(({ dialect }) => dialect === "mysql")) {
  onServerOf(database.name, database, {}, (server) => {
    runConformance("mysql", async () => ({
      namespace: newNamespace(),
      open: () => openSql(server().url()),
      pause: sleep,
      now: Date.now,
      lacks: lacksOf("mysql"),
    }));
  });
}
