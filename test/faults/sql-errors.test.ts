import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import mysql from "mysql2/promise";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { isSnowleaseError, type SnowleaseError } from "../../src/id/errors.ts";
import { defaultLayout } from "../../src/id/layout.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { schemaText } from "../../src/registries/sql/schema.ts";
import { loadSchema } from "../../src/registries/sql/statements.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { databases, type DatabaseServer } from "../support/databases.ts";
import { patience } from "../support/patience.ts";
import { freePort } from "../support/servers.ts";
import { openSql } from "../support/sql.ts";
import { Wire } from "../support/wire.ts";

const layout = defaultLayout.fingerprint;
const dist = pathToFileURL(join(import.meta.dirname, "../../dist/index.js")).href;

/** The error that a promise ends in: one line, and no secret in it. */
async function failure(promise: Promise<unknown>): Promise<SnowleaseError> {
  const error: unknown = await promise.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (!isSnowleaseError(error)) throw new Error(`Expected a SnowleaseError, got ${String(error)}.`);
  expect(error.message).not.toMatch(/[\r\n]|s3cret/);
  expect(error.message).toMatch(/; .+\.$/);
  return error;
}

describe.each(databases)("$name", ({ name, dialect, missing, start }) => {
  describe.skipIf(missing !== undefined)(missing ?? "on a real server", () => {
    let server: DatabaseServer;
    const open: { close(): Promise<void> }[] = [];
    let tests = 0;

    beforeAll(async () => {
      server = await start();
      const statements = {
        postgres: [
          "CREATE ROLE app LOGIN PASSWORD 's3cret'",
          "ALTER DATABASE postgres SET timezone = 'Pacific/Chatham'",
        ],
        mysql: [
          "CREATE USER app@'127.0.0.1' IDENTIFIED BY 's3cret'",
          "GRANT USAGE ON *.* TO app@'127.0.0.1'",
          "SET GLOBAL time_zone = '+12:45'",
        ],
      };
      for (const statement of statements[dialect]) await server.query(statement);
    });
    afterAll(() => server.remove());
    afterEach(async () => {
      for (const one of open.splice(0)) await one.close();
    });

    async function opened(url: string, timeout = 5000): Promise<Registry> {
      const registry = await openSql(url, timeout);
      open.push(registry);
      return registry;
    }

    async function made(): Promise<{ registry: Registry; namespace: string }> {
      const namespace = `e${++tests}`;
      const registry = await opened(server.url());
      await registry.init({ namespace, layout });
      return { registry, namespace };
    }

    // The last line of what is written.
    const commit = "\nCOMMIT";
    const user = dialect === "postgres" ? "postgres" : "root";
    const as = (login: string, query = ""): string => server.url(query).replace(`${user}@`, `${login}@`);

    async function wired(timeout: number): Promise<{ wire: Wire; registry: Registry }> {
      const wire = await Wire.start(server.port);
      open.push({ close: () => wire.stop() });
      const registry = await opened(server.url("?poolSize=1").replace(String(server.port), String(wire.port)), timeout);
      return { wire, registry };
    }

    /** Takes one of the connections that MySQL has for other users than its administrators. */
    /** Takes one more connection. Whether there was one. */
    async function taken(): Promise<boolean> {
      const login = { host: "127.0.0.1", port: server.port, user: "app", password: "s3cret" };
      const connection = await mysql.createConnection(login).catch(() => undefined);
      connection?.on("error", () => undefined);
      open.push({ close: () => Promise.resolve(connection?.destroy()) });
      return connection !== undefined;
    }

    test("its clock is that of the world, whatever time zone server and session have", async () => {
      const { registry, namespace } = await made();
      const { clock, durability, schema } = await registry.ping();
      expect(Math.abs(clock - Date.now())).toBeLessThan(5000);
      expect(durability).toMatch(/^Acknowledged writes survive kill -9 and power loss .+\.$/);
      expect(schema).toBe(loadSchema(dialect).version);
      expect(Math.abs((await granted(registry, claimRequest({ namespace }))).clock - Date.now())).toBeLessThan(5000);
    });

    test("no tables: a claimer is told what to run, and a holder is not", async () => {
      const registry = await opened(server.url());
      const { code, message } = await failure(registry.claim(claimRequest({ namespace: "never" })));
      expect(code).toBe("SCHEMA_INCOMPATIBLE");
      expect(message).toMatch(
        /; run `snowlease init --registry '\w+:\/\/\*\*\*@127.0.0.1:\d+\/\w+' --namespace never`\.$/,
      );
      expect(await registry.describe("never")).toBeUndefined();

      const { namespace } = await made();
      const request = claimRequest({ namespace });
      const grant = await granted(registry, request);
      const key = { ...keyOf(request, grant), clock: Date.now() };
      const { maxWindow = NaN, maxClockSkew = NaN } = (await registry.describe(namespace)) ?? {};
      const tables = ["assign", "window", "history", "meta"].map((name) => `workerid_${name}_${namespace}`);
      for (const table of tables) await server.query(`DROP TABLE ${table}`);
      const { receipt } = grant;
      const refusal = await failure(registry.renew({ ...key, receipt, window: 1000 }));
      expect(refusal.code).toBe("QUARANTINE");
      // Every window has passed then that was granted until this one.
      expect(refusal.details["until"]).toBe(grant.until + maxWindow + 2 * maxClockSkew);
      expect(refusal.details.retryAfterMs).toBeLessThanOrEqual(grant.until + maxWindow + 2 * maxClockSkew - key.clock);
      expect(refusal.message).not.toContain("init");
      expect(await registry.release({ ...key, receipt })).toEqual({ outcome: "lost", reason: "forgotten" });
      // Without a receipt, nothing proves that the claim was ever made.
      expect(await registry.renew({ ...key, window: 1000 })).toEqual({ outcome: "lost" });
      expect(await registry.release(key)).toEqual({ outcome: "lost" });
    });

    test("tables of another version, or that lack a column, are left alone", async () => {
      const { registry, namespace } = await made();
      const { version } = loadSchema(dialect);
      await server.query(`UPDATE workerid_meta_${namespace} SET value = '9' WHERE name = 'schema'`);
      for (const asked of [
        () => registry.claim(claimRequest({ namespace })),
        () => registry.init({ namespace, layout }),
      ]) {
        const { code, message } = await failure(asked());
        expect([code, message]).toEqual(["SCHEMA_INCOMPATIBLE", expect.stringContaining("version 9")]);
      }
      await server.query(`UPDATE workerid_meta_${namespace} SET value = '${version}' WHERE name = 'schema'`);
      await server.query(`ALTER TABLE workerid_window_${namespace} DROP COLUMN known_from_ms`);
      expect((await failure(registry.claim(claimRequest({ namespace, workerId: 1 })))).code).toBe(
        "SCHEMA_INCOMPATIBLE",
      );
    });

    test("a table that was dropped is made anew by `init`; for that of windows a quarantine begins", async () => {
      const { registry, namespace } = await made();
      const again = (): Promise<unknown> => registry.init({ namespace, layout });
      await granted(registry, claimRequest({ namespace, workerId: 1 }));
      const dropped: Readonly<Record<string, () => Promise<unknown>>> = {
        history: () => registry.forceRelease({ namespace, workerId: 1, force: true }),
        assign: () => registry.claim(claimRequest({ namespace })),
      };
      for (const [table, work] of Object.entries(dropped)) {
        await server.query(`DROP TABLE workerid_${table}_${namespace}`);
        const { code, message } = await failure(work());
        expect([code, message]).toEqual(["SCHEMA_INCOMPATIBLE", expect.stringContaining("run `snowlease init")]);
        await again();
        await granted(registry, claimRequest({ namespace }));
      }
      await server.query(`DROP TABLE workerid_window_${namespace}`);
      await again();
      expect((await failure(registry.claim(claimRequest({ namespace })))).code).toBe("QUARANTINE");
      // Which nothing that is said to `init` ends.
      expect(await again()).toMatchObject({ quarantineUntil: expect.any(Number) as number });
      const { code, message } = await failure(registry.init({ namespace, layout, new: true }));
      expect([code, message]).toEqual(["CONFIG_INVALID", expect.stringContaining("a quarantine of it is recorded")]);
      expect((await failure(registry.claim(claimRequest({ namespace })))).code).toBe("QUARANTINE");
    });

    test("a login that is refused, and a user without rights", async () => {
      const { namespace } = await made();
      // Told at once: it lasts.
      const without = await opened(as("app:s3cret"), patience);
      const { code, message } = await failure(without.claim(claimRequest({ namespace })));
      expect([code, message]).toEqual([
        "FORBIDDEN",
        expect.stringContaining("grant SELECT, INSERT, UPDATE and DELETE"),
      ]);
      expect((await failure(without.init({ namespace: "fresh", layout }))).code).toBe("FORBIDDEN");
      // PostgreSQL lets everybody in who comes from this machine, whatever the password.
      const wrong = await opened(as(dialect === "postgres" ? "nobody:s3cret" : "app:wrong-s3cret"));
      expect((await failure(wrong.ping())).code).toBe("UNAUTHORIZED");
    });

    test("tables that somebody else made by hand, for a user who may not", async () => {
      const namespace = `e${++tests}`;
      for (const statement of schemaText({ kind: dialect }, namespace).split(/;\n\n|;$/)) {
        if (statement !== "") await server.query(statement);
      }
      for (const table of ["assign", "window", "history", "meta"]) {
        const on = `workerid_${table}_${namespace}`;
        const to = dialect === "postgres" ? "app" : "app@'127.0.0.1'";
        await server.query(`GRANT SELECT, INSERT, UPDATE, DELETE ON ${on} TO ${to}`);
      }
      const registry = await opened(as("app:s3cret"));
      await registry.init({ namespace, layout });
      const request = claimRequest({ namespace });
      const key = keyOf(request, await granted(registry, request));
      await registry.release({ ...key, clock: Date.now() });
      expect(await registry.init({ namespace, layout })).toMatchObject({ layout });
    });

    test.skipIf(dialect !== "postgres")("a database whose encoding does not hold every text", async () => {
      await server.query("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0");
      const registry = await opened(server.url().replace(/\/\w+$/, "/latin"));
      expect(await failure(registry.init({ namespace: "texts", layout }))).toMatchObject({
        code: "CONFIG_INVALID",
        message: expect.stringMatching(/does not hold every text .*LATIN1.*; name a database .* UTF8\.$/) as string,
      });
    });

    test("an unknown database", async () => {
      const registry = await opened(server.url().replace(/\/\w+$/, "/nowhere"));
      expect(await failure(registry.ping())).toMatchObject({
        code: "CONFIG_INVALID",
        message: expect.stringContaining("no such database") as string,
      });
    });

    test("no connection left, and silence after that: the server's word counts", async () => {
      const { namespace } = await made();
      const limits = {
        postgres: ["ALTER ROLE app CONNECTION LIMIT 0", "ALTER ROLE app CONNECTION LIMIT -1"],
        mysql: ["SET GLOBAL max_connections = 10", "SET GLOBAL max_connections = 151"],
      };
      if (dialect === "mysql") await server.query("GRANT SELECT ON snowlease.* TO app@'127.0.0.1'");
      const [least, most] = limits[dialect] as [string, string];
      await server.query(least);
      // The server ends connections that were closed a moment ago in its own time, and then has room for others.
      for (let refused = 0; dialect === "mysql" && refused < 20; await sleep(20))
        refused = (await taken()) ? 0 : refused + 1;
      const registry = await opened(as("app:s3cret"), 1500);
      const claimed = failure(registry.claim(claimRequest({ namespace })));
      const { code, message } = await failure(registry.ping());
      expect([code, message]).toEqual(["REGISTRY_UNAVAILABLE", expect.stringContaining("has no connection left")]);
      expect((await claimed).message).toBe(message);
      const later = failure(registry.claim(claimRequest({ namespace })));
      await sleep(400);
      server.process.signal("SIGSTOP");
      const told = await later;
      server.process.signal("SIGCONT");
      expect(told.message).toBe(message);
      for (const one of open.splice(0)) await one.close();
      const widened = (): Promise<boolean> =>
        server.query(most).then(
          () => true,
          () => false,
        );
      await expect.poll(widened, { timeout: 10_000 }).toBe(true);
      if (dialect === "mysql") await server.query("REVOKE SELECT ON snowlease.* FROM app@'127.0.0.1'");
    });

    test("nobody there, or somebody who keeps silent: in time, and nothing was changed", async () => {
      const gone = await opened(server.url().replace(String(server.port), String(await freePort())), 400);
      expect(await failure(gone.ping())).toMatchObject({
        code: "REGISTRY_UNAVAILABLE",
        message: expect.stringContaining("ECONNREFUSED") as string,
      });
      const { wire, registry } = await wired(400);
      wire.silent = true;
      const { code, message } = await failure(registry.claim(claimRequest({ namespace: "x" })));
      expect([code, message]).toEqual(["REGISTRY_UNAVAILABLE", expect.stringContaining("nothing was changed")]);
    });

    test.each([true, false])(
      "a commit whose answer is lost, and which arrives (%s), is found out about",
      async (arrives) => {
        const { namespace } = await made();
        const { wire, registry } = await wired(5000);
        const request = claimRequest({ namespace, window: 60_000 });
        wire.cut = { text: commit, arrives };
        const grant = await granted(registry, request);
        expect(grant).toMatchObject({ workerId: 0, fence: 1 });
        expect(await registry.workers(namespace)).toHaveLength(1);
        const key = keyOf(request, grant);
        wire.cut = { text: commit, arrives };
        const renewal = await registry.renew({ ...key, clock: Date.now(), window: 60_000 });
        expect(renewal).toMatchObject({ outcome: "renewed", until: (await registry.worker(namespace, 0))?.until });
        wire.cut = { text: commit, arrives };
        expect(await registry.release({ ...key, clock: Date.now(), used: { until: grant.from } })).toEqual({
          outcome: "released",
        });
        expect(await registry.worker(namespace, 0)).toMatchObject({ clean: true, until: grant.from });
        expect(await registry.history(namespace, 0)).toHaveLength(1);
        // What cannot be found out about is said to be unknown.
        for (const ask of [
          () => registry.forceRelease({ namespace, workerId: 0, force: true }),
          () => registry.prune(namespace, Date.now()),
        ]) {
          wire.cut = { text: commit, arrives };
          const { code, message } = await failure(ask());
          expect([code, message]).toEqual(["REGISTRY_UNAVAILABLE", expect.stringContaining("is not known")]);
        }
      },
    );

    test("a connection that is cut in the middle of a transaction leaves nothing behind, and the operation is done anew", async () => {
      const { namespace } = await made();
      const { wire, registry } = await wired(5000);
      wire.cut = { text: `INSERT INTO workerid_assign_${namespace}`, arrives: true };
      expect(await granted(registry, claimRequest({ namespace, window: 60_000 }))).toMatchObject({
        workerId: 0,
        fence: 1,
      });
      expect(wire.cut).toBeUndefined();
      expect(await registry.history(namespace, 0)).toHaveLength(1);
    });

    test("what cannot be stored is refused, and the connection is good for the next", async () => {
      const { namespace } = await made();
      const registry = await opened(server.url("?poolSize=1"));
      const holder = claimRequest({ namespace });
      const key = keyOf(holder, await granted(registry, holder));
      const odd = { ...key, clock: Date.now(), window: 1000, nextTurn: "x".repeat(65) };
      expect((await failure(registry.renew(odd))).code).toBe("CONFIG_INVALID");
      await granted(registry, claimRequest({ namespace }));
      const long = { host: "ü".repeat(300), ip: "1".repeat(300), pid: 1, instance: "🐧".repeat(300) };
      const grant = await granted(registry, claimRequest({ namespace, holder: long }));
      expect((await registry.worker(namespace, grant.workerId))?.holder).toEqual({
        host: "ü".repeat(255),
        ip: "1".repeat(255),
        pid: 1,
        instance: "🐧".repeat(255),
      });
    });

    test("a ping proves the right to write", async () => {
      const { namespace } = await made();
      const to = dialect === "postgres" ? "app" : "app@'127.0.0.1'";
      for (const table of ["assign", "window", "history", "meta"]) {
        await server.query(`GRANT SELECT ON workerid_${table}_${namespace} TO ${to}`);
      }
      const reader = await opened(as("app:s3cret"));
      await reader.describe(namespace);
      expect((await failure(reader.ping())).code).toBe("FORBIDDEN");
      await server.query(`GRANT UPDATE ON workerid_meta_${namespace} TO ${to}`);
      await reader.ping();
    });

    // A transaction of PostgreSQL says that it writes; only a standby refuses that (see sql-quarantine.test.ts).
    const switches = {
      postgres: [],
      mariadb: [{ variable: "read_only", login: "app:s3cret" }],
      mysql: [
        { variable: "read_only", login: "app:s3cret" },
        { variable: "super_read_only", login: "root" },
      ],
    }[name];

    test.skipIf(switches.length === 0)("a server that others have made read-only", async () => {
      const { namespace, registry } = await made();
      await server.query(`GRANT ALL ON snowlease.* TO app@'127.0.0.1'`);
      for (const { variable, login } of switches) {
        await server.query(`SET GLOBAL ${variable} = 1`);
        const [knowing, other] = [await opened(as(login), 400), await opened(as(login), 400)];
        const asks = [
          () => knowing.claim(claimRequest({ namespace })),
          () => knowing.ping(),
          ...(login === "root" ? [] : [() => other.ping()]),
        ];
        for (const ask of asks) {
          expect(await failure(ask())).toMatchObject({
            code: "REGISTRY_UNAVAILABLE",
            message: expect.stringContaining("read-only") as string,
          });
        }
        await server.query("SET GLOBAL read_only = 0");
        await granted(registry, claimRequest({ namespace }));
        await knowing.ping();
      }
      await server.query(`REVOKE ALL ON snowlease.* FROM app@'127.0.0.1'`);
    });

    test("a program that has nothing else to do ends by itself", async () => {
      const { namespace } = await made();
      const script = `const { snowlease } = await import(${JSON.stringify(dist)});
        const ids = await snowlease({ registry: ${JSON.stringify(server.url())}, namespace: ${JSON.stringify(namespace)} });
        console.log(ids.next());`;
      const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      const [code] = (await once(child, "exit")) as [number | null];
      expect(code).toBe(0);
    });
  });
});
