import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import pg from "pg";
import { afterAll, beforeAll, describe } from "vitest";
import type { ConformanceSubject } from "../../src/conformance.ts";
import { postgresMissing, PostgresServer } from "../support/postgres.ts";
import { hostile, openByClient } from "../support/ready-clients.ts";
import { redisMissing, RedisServer } from "../support/redis.ts";
import { runConformance } from "../support/run-conformance.ts";

/** A registry by a client for which its program has set everything differently. */
function subjectOf(client: object): ConformanceSubject {
  return {
    namespace: `t${crypto.randomUUID().replaceAll("-", "").slice(0, 20)}`,
    open: () => openByClient(client),
    pause: sleep,
    now: Date.now,
    lacks: { "creates-namespaces": "only `init` makes one" },
  };
}

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "by a ready client of ioredis", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server.remove());

  runConformance("redis", async () =>
    // A check that waits for the end of a quarantine has no time to wait for an old primary.
    subjectOf({ client: new Redis({ ...hostile, port: server.port, db: 2 }), maxLag: 0 }),
  );
});

describe.skipIf(postgresMissing !== undefined)(postgresMissing ?? "by a ready pool of pg", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
  });
  afterAll(() => server.remove());

  runConformance("postgres", async () =>
    subjectOf(new pg.Pool({ connectionString: `${server.url()}?query_timeout=1`, max: 1, types: { getTypeParser } })),
  );
});

/** Changes any value into another one. */
function getTypeParser(): () => string {
  return () => "theirs";
}
