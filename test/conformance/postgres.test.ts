import { setTimeout as sleep } from "node:timers/promises";
import { lacksOf } from "../../src/proof/lacks.ts";
import { postgresMissing, PostgresServer } from "../support/postgres.ts";
import { runConformance } from "../support/run-conformance.ts";
import { openSql } from "../support/sql.ts";
import { onServerOf } from "../support/store-server.ts";
import { newNamespace } from "../support/subject.ts";

onServerOf("postgres", { missing: postgresMissing, start: () => PostgresServer.start() }, {}, (server) => {
  runConformance("postgres", async () => ({
    namespace: newNamespace(),
    open: () => openSql(server().url()),
    pause: sleep,
    now: Date.now,
    lacks: lacksOf("postgres"),
  }));
});
