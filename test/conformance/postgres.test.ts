import { setTimeout as sleep } from "node:timers/promises";
import { describe } from "vitest";
import { postgresProgram } from "../support/databases.ts";
import { lateSql, lossySql } from "../support/late-store.ts";
import { dumpOfPostgres, type PutBack } from "../support/older-copy.ts";
import type { PostgresServer } from "../support/postgres.ts";
import { patience } from "../support/patience.ts";
import { runConformance } from "../support/run-conformance.ts";
import { openSql } from "../support/sql.ts";
import { findServer, shareServer } from "../support/store-server.ts";

const dumpAtOnce = (server: PostgresServer, namespace: string): Promise<PutBack> =>
  dumpOfPostgres(server, namespace, "--single-transaction");

const source = await findServer("postgres", postgresProgram);

describe.skipIf(source.isMissing)(source.title, () => {
  const server = shareServer(source, openSql);

  runConformance("postgres", async () => {
    const namespace = server.newNamespace();
    const { own } = server;
    return {
      namespace,
      open: () => openSql(server.url(), patience),
      pause: sleep,
      now: Date.now,
      ...(own && {
        late: () => lateSql(own, namespace, dumpAtOnce),
        lossy: () => lossySql(own, namespace),
      }),
      lacks: { "creates-namespaces": "only `init` makes tables, with the rights that this takes" },
    };
  });
});
