import { setTimeout as sleep } from "node:timers/promises";
import { describe } from "vitest";
import { mariadbProgram, mysqlProgram } from "../support/databases.ts";
import { lateSql, lossySql } from "../support/late-store.ts";
import { copyOfMysql } from "../support/older-copy.ts";
import { patience } from "../support/patience.ts";
import { runConformance } from "../support/run-conformance.ts";
import { openSql } from "../support/sql.ts";
import { findServer, shareServer } from "../support/store-server.ts";

const sources = [
  { name: "mariadb", source: await findServer("mariadb", mariadbProgram) },
  { name: "mysql", source: await findServer("mysql", mysqlProgram) },
];

describe.each(sources)("$name", ({ source }) => {
  describe.skipIf(source.isMissing)(source.title, () => {
    const server = shareServer(source, openSql);

    runConformance("mysql", async () => {
      const namespace = server.newNamespace();
      const { own } = server;
      return {
        namespace,
        open: () => openSql(server.url(), patience),
        pause: sleep,
        now: Date.now,
        ...(own && {
          late: () => lateSql(own, namespace, copyOfMysql),
          lossy: () => lossySql(own, namespace),
        }),
        lacks: { "creates-namespaces": "only `init` makes tables, with the rights that this takes" },
      };
    });
  });
});
