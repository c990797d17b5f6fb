import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe } from "vitest";
import { lateSql } from "../support/late-store.ts";
import { dumpOfPostgres, type PutBack } from "../support/older-copy.ts";
import { postgresMissing, PostgresServer } from "../support/postgres.ts";
import { patience } from "../support/patience.ts";
import { runConformance } from "../support/run-conformance.ts";
import { openSql } from "../support/sql.ts";

const dumpAtOnce = (server: PostgresServer, namespace: string): Promise<PutBack> =>
  dumpOfPostgres(server, namespace, "--single-transaction");

const given = process.env["POSTGRES_URL"];

describe.skipIf(given === undefined && postgresMissing !== undefined)(postgresMissing ?? "on a real server", () => {
  let server: PostgresServer | undefined;
  beforeAll(async () => {
    if (given === undefined) server = await PostgresServer.start();
  });
  afterAll(() => server?.remove());

  runConformance("postgres", async () => {
    // A server that somebody else owns may know every name that was used before.
    const namespace = `t${crypto.randomUUID().replaceAll("-", "").slice(0, 20)}`;
    const at = server;
    return {
      namespace,
      open: () => openSql(given ?? server?.url() ?? "", patience),
      pause: sleep,
      now: Date.now,
      ...(at && { late: () => lateSql(at, namespace, dumpAtOnce) }),
      lacks: { "creates-namespaces": "only `init` makes tables, with the rights that this takes" },
    };
  });
});
