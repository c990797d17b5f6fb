import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { afterEach, describe, expect, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { eventually } from "../support/holder.ts";
import { MariadbServer, mariadbMissing } from "../support/mariadb.ts";
import { postgresMissing, PostgresServer } from "../support/postgres.ts";
import { driveStandIn, OracleStandIn, standInMissing } from "../support/oracle.ts";
import { openSql } from "../support/sql.ts";
import { Wire } from "../support/wire.ts";

const namespace = "orders";
// Of a busy machine a request may take a second.
const limits = { maxWindow: 1000, maxClockSkew: 3000 };
const quarantine = limits.maxWindow + 2 * limits.maxClockSkew;

const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

async function opened(url: string): Promise<Registry> {
  const registry = await openSql(url);
  ends.push(() => registry.close());
  return registry;
}

const ask = (wish: Parameters<typeof claimRequest>[0] = {}): ReturnType<typeof claimRequest> =>
  claimRequest({ window: 1000, ...wish });

/** What has to be so on a server that took another's place, whose windows may lie ahead of what it knows. */
async function expectQuarantine(before: Registry, after: Registry, end: () => Promise<void>): Promise<void> {
  const requests = [ask(), ask(), ask()];
  const [first, second, third] = requests as [(typeof requests)[0], (typeof requests)[0], (typeof requests)[0]];
  const key = keyOf(first, await granted(before, first));
  await before.release({
    ...key,
    clock: Date.now(),
    used: { until: Date.now() + 200, recents: { from: Date.now(), bytes: new Uint8Array(8) } },
  });
  const held = keyOf(second, await granted(before, second));
  const grant = await granted(before, { ...third, workerId: 7 });
  const told = Math.max(...(await before.workers(namespace)).map(({ until }) => until));
  await end();

  const refusal = await after.claim(ask()).catch((error: unknown) => error);
  expect(refusal).toMatchObject({ code: "QUARANTINE", retryable: true });
  const { retryAfterMs, until } = (refusal as { details: { retryAfterMs: number; until: number } }).details;
  expect(retryAfterMs).toBeLessThanOrEqual(quarantine);
  expect(until).toBeGreaterThan(told);
  await expect(after.renew({ ...held, clock: Date.now(), window: 1000 })).rejects.toMatchObject({ code: "QUARANTINE" });
  // Whoever has come through may be told of, and ended.
  expect(await after.worker(namespace, 7)).toMatchObject({ fence: grant.fence });
  await after.pin(namespace, 9, "kept");
  // What an operator does to a number makes nothing newer that was said of it before.
  await after.pin(namespace, key.workerId, "kept");
  await after.unpin(namespace, key.workerId);

  const renewal = await eventually(
    () =>
      after
        .renew({ ...held, clock: Date.now(), window: 1000, checkpoint: { timestamp: told - 500, sequence: 1 } })
        .catch(() => undefined),
    (answer) => answer !== undefined,
  );
  expect(renewal).toMatchObject({ outcome: "renewed", from: until });
  // Had that answer been lost, the holder would give back what it knows of: the window from before.
  const used = { until: told - 400, recents: { from: told - 500, bytes: new Uint8Array(8) } };
  expect(await after.release({ ...held, clock: Date.now(), used })).toEqual({ outcome: "released" });
  expect(await after.worker(namespace, held.workerId)).toMatchObject({ clean: false, from: until });
  const next = await granted(after, ask({ workerId: key.workerId, clock: Date.now() }));
  expect(next.recents).toBeUndefined();
  expect(next.from).toBeGreaterThanOrEqual(until);
  expect(next.fence).toBeGreaterThan(until);
  // The server may have forgotten how far the window of an older claim reached: its claimer claims anew.
  const forgotten = { outcome: "lost", reason: "forgotten" };
  expect(await after.claim({ ...third, clock: Date.now() })).toEqual(forgotten);
  const again = await granted(after, ask({ workerId: 7 }));
  expect(again.fence).not.toBe(grant.fence);
  expect(again.from).toBeGreaterThanOrEqual(until);
  // And it was noticed once.
  await granted(after, ask());
}

describe.skipIf(postgresMissing !== undefined)(postgresMissing ?? "PostgreSQL", () => {
  test("a standby that was promoted is another server, and one that is not takes no writes", async () => {
    const primary = await PostgresServer.start({ wal_level: "replica" });
    ends.push(() => primary.remove());
    const before = await opened(primary.url());
    await before.init({ namespace, layout: defaultLayout.fingerprint, ...limits });
    let standby: PostgresServer | undefined;
    const promoted = async (): Promise<Registry> => {
      await primary.kill();
      writeFileSync(join(primary.data, "standby.signal"), "", { mode: 0o600 });
      standby = await PostgresServer.start({}, primary.data);
      ends.push(() => standby?.remove() ?? Promise.resolve());
      const impatient = await openSql(standby.url(), 500);
      ends.push(() => impatient.close());
      // On a busy machine it may not even come to be told.
      const refusal = await eventually(
        () => impatient.claim(ask()).catch((error: Error) => error),
        (answer) => "message" in answer && answer.message.includes("read-only"),
      );
      expect(refusal).toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
      await standby.query("SELECT pg_promote()");
      return opened(standby.url());
    };
    let registry: Registry | undefined;
    const later = new Proxy({} as Registry, { get: (_, name) => Reflect.get(registry as object, name) as unknown });
    await expectQuarantine(before, later, async () => {
      registry = await promoted();
    });
  });

  test("the same server, started again after a crash, is the same", async () => {
    const server = await PostgresServer.start();
    ends.push(() => server.remove());
    const registry = await opened(server.url());
    await registry.init({ namespace, layout: defaultLayout.fingerprint });
    const request = ask();
    const key = keyOf(request, await granted(registry, request));
    await server.kill();
    await server.start();
    expect(await registry.renew({ ...key, clock: Date.now(), window: 1000 })).toMatchObject({ outcome: "renewed" });
  });

  test("what its standby has not confirmed is not acknowledged, however often it is asked", async () => {
    const server = await PostgresServer.start();
    ends.push(() => server.remove());
    const registry = await openSql(server.url("?poolSize=1"), 700);
    ends.push(() => registry.close());
    await registry.init({ namespace, layout: defaultLayout.fingerprint });
    const before = ask();
    await registry.release({ ...keyOf(before, await granted(registry, before)), clock: Date.now() });
    const request = ask({ window: 60_000 });
    const standbys = async (names: string): Promise<void> => {
      await server.query(`ALTER SYSTEM SET synchronous_standby_names = '${names}'`);
      await server.query("SELECT pg_reload_conf()");
    };
    // A session that would not wait by itself.
    await server.query("ALTER DATABASE postgres SET synchronous_commit = 'local'");
    await standbys("nobody");
    await untilStandbysAreAwaited(server);
    await expect(registry.claim(request)).rejects.toMatchObject({
      code: "REGISTRY_UNAVAILABLE",
      message: expect.stringContaining("is not known") as string,
    });
    // An administrator who is tired of waiting: now it can be read here.
    await eventually(
      async () => {
        await server.query("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
        return registry.workers(namespace);
      },
      (workers) => workers.length === 2,
    );
    for (let i = 0; i < 2; i++) {
      const repeated = registry.claim({ ...request, clock: Date.now() });
      await expect(repeated).rejects.toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
    }
    await standbys("");
    const grant = await granted(registry, { ...request, clock: Date.now() });
    expect(await registry.workers(namespace)).toHaveLength(2);
    expect(grant).toMatchObject({ workerId: 1, fence: 1 });
  });

  test("nor in another language of the server", async () => {
    const server = await PostgresServer.start({ lc_messages: "C.UTF-8" });
    ends.push(() => server.remove());
    await server.kill();
    // Where its translations are installed, it speaks German by itself.
    server.process.environment = { LANGUAGE: "de" };
    await server.start();
    const wire = await Wire.start(server.port);
    ends.push(() => wire.stop());
    wire.translates = ["SWARNING\0", "SWARNUNG\0"];
    const url = server.url("?poolSize=1").replace(String(server.port), String(wire.port));
    const client = new pg.Client({ connectionString: url });
    ends.push(() => client.end());
    await client.connect();
    const notices: (string | undefined)[] = [];
    client.on("notice", ({ severity, code }) => notices.push(severity, code));
    await client.query("DO $$ BEGIN RAISE WARNING 'x'; END $$");
    expect(notices).toEqual(["WARNUNG", "01000"]);

    const registry = await openSql(url, 3000);
    ends.push(() => registry.close());
    await registry.init({ namespace, layout: defaultLayout.fingerprint });
    await granted(registry, ask());
    await server.query("ALTER DATABASE postgres SET synchronous_commit = 'local'");
    await server.query("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    await server.query("SELECT pg_reload_conf()");
    await untilStandbysAreAwaited(server);
    let settled = false;
    const claimed = registry.claim(ask({ window: 60_000 })).finally(() => (settled = true));
    const impatient = (async () => {
      while (!settled) {
        await server.query("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
        await sleep(20);
      }
    })();
    await expect(claimed).rejects.toMatchObject({
      code: "REGISTRY_UNAVAILABLE",
      message: expect.stringContaining("is not known") as string,
    });
    await impatient;
  });

  test("who may not ask for the cluster goes by the timeline, and takes it for no other server", async () => {
    const server = await PostgresServer.start();
    ends.push(() => server.remove());
    const owner = await opened(server.url());
    await owner.init({ namespace, layout: defaultLayout.fingerprint });
    await server.query("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC");
    await server.query("CREATE ROLE app LOGIN");
    await server.query("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO app");
    const app = await opened(server.url().replace("postgres@", "app@"));
    await granted(app, ask());
    await granted(owner, ask());
  });
});

describe.skipIf(mariadbMissing !== undefined)(mariadbMissing ?? "MariaDB", () => {
  test("a server with another ID is another server, and the same one is the same", async () => {
    const server = await MariadbServer.start();
    ends.push(() => server.remove());
    const registry = await opened(server.url());
    await registry.init({ namespace, layout: defaultLayout.fingerprint, ...limits });
    const request = ask();
    const key = keyOf(request, await granted(registry, request));
    await server.kill();
    await server.start();
    expect(await registry.renew({ ...key, clock: Date.now(), window: 1000 })).toMatchObject({ outcome: "renewed" });
    await registry.release({ ...key, clock: Date.now() });
    const { workerId, fence } = key;
    await registry.forceRelease({ namespace, workerId, force: true, fence, resetWindow: true });
    await expectQuarantine(registry, registry, async () => {
      await server.kill();
      await server.start(["--server-id=2"]);
    });
  });
});

describe.skipIf(standInMissing !== undefined)(standInMissing ?? "Oracle's stand-in", () => {
  driveStandIn();

  async function begun(): Promise<{ server: OracleStandIn; registry: Registry }> {
    const server = await OracleStandIn.start();
    ends.push(() => server.remove());
    const registry = await opened(server.url());
    await registry.init({ namespace, layout: defaultLayout.fingerprint, ...limits });
    return { server, registry };
  }

  /** A session that is open stays with what it was told: until it has been idle for a while. */
  async function changed(server: OracleStandIn, registry: Registry, ...statements: string[]): Promise<Registry> {
    await registry.close();
    for (const statement of statements) await server.query(statement);
    return opened(server.url());
  }

  const reset = `UPDATE "V$DATABASE" SET "RESETLOGS_CHANGE#" = 815, resetlogs_time = TIMESTAMP '2026-11-02 03:04:05'`;
  const renamed = "UPDATE userenv SET value = 'ids_site2' WHERE name = 'DB_UNIQUE_NAME'";

  test("a database that was opened with RESETLOGS may have forgotten windows", async () => {
    const { server, registry } = await begun();
    let after: Registry | undefined;
    const later = new Proxy({} as Registry, { get: (_, name) => Reflect.get(after as object, name) as unknown });
    await expectQuarantine(registry, later, async () => {
      after = await changed(server, registry, reset);
    });
    expect((await later.ping()).durability).toContain("after a failover, a restore or a flashback");
  });

  test("the same one started again after a crash, and its standby after a switchover, have forgotten nothing", async () => {
    const { server, registry } = await begun();
    const request = ask({ window: 1000 });
    const key = keyOf(request, await granted(registry, request));
    await server.kill();
    await server.start();
    const renewal = { ...key, window: 1000 };
    expect(await registry.renew({ ...renewal, clock: Date.now() })).toMatchObject({ outcome: "renewed" });
    const after = await changed(server, registry, renamed);
    expect(await after.renew({ ...renewal, clock: Date.now() })).toMatchObject({ outcome: "renewed" });
  });

  test("who may not read v$database goes by the database's name, and is told what is not noticed", async () => {
    const { server, registry } = await begun();
    await granted(registry, ask());
    let app = await changed(server, registry, 'DROP TABLE "V$DATABASE"');
    await granted(app, ask());
    expect((await app.ping()).durability).toContain(
      "only the next renewal of a holder shows that one was restored or flashed back in place",
    );
    app = await changed(server, app, renamed);
    await expect(app.claim(ask())).rejects.toMatchObject({ code: "QUARANTINE" });
  });

  test.each([
    ["PHYSICAL STANDBY", "read-only"],
    ["SNAPSHOT STANDBY", "read-only"],
  ])("a %s takes no claims", async (role, says) => {
    const { server, registry } = await begun();
    await changed(server, registry, `UPDATE userenv SET value = '${role}' WHERE name = 'DATABASE_ROLE'`);
    const impatient = await openSql(server.url(), 700);
    ends.push(() => impatient.close());
    await expect(impatient.claim(ask())).rejects.toMatchObject({
      code: "REGISTRY_UNAVAILABLE",
      message: expect.stringContaining(says) as string,
    });
  });

  test("a database that does not hold every text is refused", async () => {
    const { server, registry } = await begun();
    const other = await changed(server, registry, "UPDATE nls_database_parameters SET value = 'WE8MSWIN1252'");
    await expect(other.claim(ask())).rejects.toMatchObject({
      code: "CONFIG_INVALID",
      message: expect.stringContaining("AL32UTF8") as string,
    });
  });
});

/** Waits until commits wait for a standby: each process of the server reads its settings in its own time. */
async function untilStandbysAreAwaited(server: PostgresServer): Promise<void> {
  const client = new pg.Client({ connectionString: server.url() });
  await client.connect();
  try {
    for (let isHeld = false; !isHeld;) {
      let isDone = false;
      const write = client
        .query("SET synchronous_commit = on; SELECT pg_logical_emit_message(true, 'held', '')")
        .finally(() => (isDone = true));
      while (!isDone) {
        const held = await server.query(
          "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'",
        );
        isHeld ||= held.length > 0;
        await sleep(5);
      }
      await write;
    }
  } finally {
    await client.end();
  }
}
