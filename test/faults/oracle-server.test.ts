import oracledb from "oracledb";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { parseAddress } from "../../src/registries/index.ts";
import { defaultLayout } from "../../src/id/layout.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { schemaText } from "../../src/registries/sql/schema.ts";
import type { SqlAddress } from "../../src/registries/sql/database.ts";
import { oracle } from "../../src/registries/sql/oracle/dialect.ts";
import { loadSchema, loadStatements, named, namesOf, placeholder } from "../../src/registries/sql/statements.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { Sandbox } from "../support/cli.ts";
import { driveStandIn, OracleStandIn, oracleStandIn, RealOracle, standInEnvironment } from "../support/oracle.ts";
import { driver } from "../support/oracle/driver.mjs";
import { openSql } from "../support/sql.ts";
import { findServer } from "../support/store-server.ts";

const layout = defaultLayout.fingerprint;
const source = await findServer("oracle", oracleStandIn);
const noOracle =
  "a real Oracle: none was found, so nothing was run on one; name one in ORACLE_URL, or set SNOWLEASE_CONTAINERS=1";

const subjects = [
  { real: false, ...oracleStandIn, start: () => OracleStandIn.start() },
  {
    name: "a real Oracle",
    real: true,
    missing: source.isOwn || source.isMissing ? noOracle : undefined,
    start: async () => {
      const server = await source.start();
      return new RealOracle(server.url(), () => server.remove());
    },
  },
];

describe.each(subjects)("$name", ({ real, missing, start }) => {
  describe.skipIf(missing !== undefined)(missing ?? "", () => {
    let server: OracleStandIn | RealOracle;
    const open: Registry[] = [];
    const made: string[] = [];

    beforeAll(async () => {
      const driven = real ? undefined : driveStandIn();
      server = await start();
      return () => driven?.mockRestore();
    });
    afterEach(async () => {
      for (const registry of open.splice(0)) await registry.close();
    });
    afterAll(async () => {
      for (const namespace of made) {
        for (const table of ["assign", "window", "history", "meta"])
          await server.query(`DROP TABLE workerid_${table}_${namespace}`).catch(() => undefined);
      }
      await server.remove();
    });

    async function opened(): Promise<Registry> {
      const registry = await openSql(server.url());
      open.push(registry);
      return registry;
    }

    function newNamespace(): string {
      const namespace = `o${crypto.randomUUID().replaceAll("-", "").slice(0, 20)}`;
      made.push(namespace);
      return namespace;
    }

    const { version } = loadSchema("oracle");

    test("its clock is that of the world, in any zone, and goes on when summer ends", async () => {
      const registry = await opened();
      const { clock, durability, schema } = await registry.ping();
      expect(Math.abs(clock - Date.now())).toBeLessThan(5000);
      expect(durability).toMatch(/^Acknowledged writes survive kill -9 and power loss .+\.$/);
      expect(schema).toBe(version);
      const text = loadStatements("oracle").get("session.touch") ?? "";
      for (const [time, zone] of [
        ["2026-10-25 02:59:59.999", "+02:00"],
        ["2026-10-25 02:00:00.000", "+01:00"],
        ["2026-03-29 01:59:59.999", "+01:00"],
        ["2028-02-29 12:45:00.001", "+12:45"],
        ["2099-12-31 23:59:59.999", "-11:00"],
      ]) {
        const [row] = await server.query(text.replace("SYSTIMESTAMP", `FROM_TZ(TIMESTAMP '${time}', '${zone}')`));
        expect(row?.["clock"]).toBe(Date.parse(`${time?.replace(" ", "T")}${zone}`));
      }
    });

    test("sessions compare bytes, by the calendar of the world, whatever the database does by default", async () => {
      const { servers, user, password, path } = parseAddress(server.url()) as SqlAddress;
      const [{ host, port } = { host: "", port: 0 }] = servers;
      const place = { host, port, user, password, database: path, tls: false, tlsCa: undefined };
      const target = { ...place, beside: undefined, schema: undefined, poolSize: 1, operationTimeout: 5000 };
      const session = oracle.connection(await oracle.load(undefined), target);
      await session.open();
      const text = "SELECT parameter, value FROM nls_session_parameters";
      const [answer] = await session.run([{ text, parameters: {} }], {});
      session.destroy();
      const settings = new Map(answer?.rows.map(({ parameter, value }) => [parameter, value]));
      const names = ["NLS_COMP", "NLS_SORT", "NLS_CALENDAR"];
      expect(names.map((name) => settings.get(name))).toEqual(["BINARY", "BINARY", "GREGORIAN"]);
    });

    test("no tables: what to run", async () => {
      const registry = await opened();
      await expect(registry.claim(claimRequest({ namespace: "never" }))).rejects.toMatchObject({
        code: "SCHEMA_INCOMPATIBLE",
        message: expect.stringMatching(
          /; run `snowlease init --registry 'oracle:[^']+' --namespace never`\.$/,
        ) as string,
      });
      expect(await registry.describe("never")).toBeUndefined();
    });

    test("eight that make the tables at once, and one that finds half of them", async () => {
      const namespace = newNamespace();
      const registries = await Promise.all(Array.from({ length: 8 }, opened));
      await Promise.all(registries.map((registry) => registry.init({ namespace, layout })));
      const registry = await opened();
      const names = namesOf(namespace);
      await server.query(named("DROP TABLE {meta}", names));
      await server.query(named("DROP INDEX {host_index}", names));
      expect(await registry.init({ namespace, layout })).toMatchObject({ layout });
      expect(await server.query(named("SELECT value FROM {meta} WHERE name = 'schema'", names))).toEqual([
        { value: String(version) },
      ]);
      await expect(
        server.query(named("CREATE INDEX {host_index} ON {window} (until_ms)", names)),
      ).rejects.toMatchObject({
        code: "ORA-00955",
      });
      await granted(registry, claimRequest({ namespace }));
    });

    test("tables that somebody else made by hand, from what `init --print` shows", async () => {
      const namespace = newNamespace();
      for (const statement of schemaText({ kind: "oracle" }, namespace).split(/;\n\n|;$/)) {
        if (statement !== "") await server.query(statement);
      }
      const registry = await opened();
      await registry.init({ namespace, layout });
      expect(await granted(registry, claimRequest({ namespace }))).toMatchObject({ workerId: 0, fence: 1 });
    });

    test("westid's table as it is, with its rows", async () => {
      const namespace = newNamespace();
      await server.query(
        `CREATE TABLE workerid_assign_${namespace} (worker_id INT PRIMARY KEY, pid INT NOT NULL, ip VARCHAR2(15) NOT NULL, hostname VARCHAR2(60) NOT NULL, create_time TIMESTAMP NOT NULL)`,
      );
      await server.query(
        `INSERT INTO workerid_assign_${namespace} (worker_id, pid, ip, hostname, create_time) VALUES (0, 4711, '10.0.0.9', 'java-1', CURRENT_TIMESTAMP)`,
      );
      const registry = await opened();
      await registry.init({ namespace, layout, maxClockSkew: 1000 });
      const host = `knoten-${"ä".repeat(100)}`;
      const request = claimRequest({ namespace, holder: { host, ip: "10.0.0.9", pid: 2 ** 40, instance: "" } });
      const { workerId, from, clock } = await granted(registry, request);
      // The tolerance of clocks, and as long behind its read as a claim may be stored.
      expect([workerId, from]).toEqual([1, clock + 1000 + 1000]);
      expect(await registry.worker(namespace, 0)).toMatchObject({ state: "foreign", holder: { host: "java-1" } });
      const rows = await server.query(`SELECT * FROM workerid_assign_${namespace} WHERE worker_id = 1`);
      expect(rows[0]).toMatchObject({ pid: 2 ** 31 - 1, hostname: `knoten-${"?".repeat(53)}` });
      expect(rows[0]?.["ip"]).toMatch(/^lease@[0-9a-f]{9}$/);
    });

    test("empty texts, long ones, and more bytes than fit a row", async () => {
      const namespace = newNamespace();
      const registry = await opened();
      await registry.init({ namespace, layout });
      for (const holder of [
        { host: "", ip: "", pid: 0, instance: "" },
        { host: "ü".repeat(255), ip: "1".repeat(255), pid: 1, instance: "🐧".repeat(255) },
      ]) {
        const request = claimRequest({ namespace, holder });
        const grant = await granted(registry, request);
        expect((await registry.worker(namespace, grant.workerId))?.holder).toEqual(holder);
        expect((await registry.history(namespace, grant.workerId))[0]?.holder).toEqual(holder);
        const bytes = Uint8Array.from({ length: 60_000 }, (_, i) => i % 251);
        const recents = { from: grant.from, bytes };
        await registry.release({
          ...keyOf(request, grant),
          clock: Date.now(),
          used: { until: grant.from + 1, recents },
        });
        expect((await registry.worker(namespace, grant.workerId))?.recents).toEqual(recents);
      }
      const request = claimRequest({ namespace });
      const key = keyOf(request, await granted(registry, request));
      const odd = { ...key, clock: Date.now(), window: 1000, nextTurn: "x".repeat(65) };
      await expect(registry.renew(odd)).rejects.toMatchObject({ code: "CONFIG_INVALID" });
      await registry.pin(namespace, 9, "ß".repeat(200));
      expect(await registry.worker(namespace, 9)).toMatchObject({ pinned: "ß".repeat(200) });
    });

    test("fifty claims at once", async () => {
      const namespace = newNamespace();
      const registry = await openSql(server.url("?poolSize=10"), 30_000);
      open.push(registry);
      await registry.init({ namespace, layout });
      const grants = await Promise.all(
        Array.from({ length: 50 }, () => granted(registry, claimRequest({ namespace, window: 60_000 }))),
      );
      expect(new Set(grants.map(({ workerId }) => workerId)).size).toBe(50);
    });

    describe.skipIf(!real)("as only Oracle has it", () => {
      test("claims read by the indexes that were made for them", async () => {
        const namespace = newNamespace();
        await (await opened()).init({ namespace, layout });
        const names = namesOf(namespace);
        for (const [statement, index] of [
          ["claim.by-token", "token_index"],
          ["claim.numbers", "window_key"],
          ["claim.oldest", "until_index"],
          ["claim.oldest-in-range", "window_key"],
          ["claim.oldest-of-host", "host_index"],
          ["claim.newest-of-host", "host_index"],
          ["claim.left-by-foreigners", "until_index"],
          ["record.get", "window_key"],
        ] as const) {
          const text = named(loadStatements("oracle").get(statement) ?? "", names).replace(
            placeholder,
            (_, name: string) => (/token|filed_under|host/.test(name) ? "'x'" : "7"),
          );
          await server.query("DELETE FROM plan_table");
          await server.query(`EXPLAIN PLAN FOR ${text}`);
          const steps = await server.query("SELECT object_name FROM plan_table");
          const used = steps.map((step) => String(step["object_name"]).toLowerCase());
          expect([statement, used]).toEqual([statement, expect.arrayContaining([names[index]])]);
        }
      });
    });

    describe.skipIf(real)("which can be ended and looked into", () => {
      /** A registry on whose connections each statement is run by `around`. */
      async function openedAround(
        around: (text: string, run: () => Promise<object>) => Promise<object>,
        operationTimeout?: number,
      ): Promise<Registry> {
        const driven = vi.spyOn(oracle, "load").mockResolvedValue({
          ...driver,
          async getConnection(target: object) {
            const connection = await driver.getConnection(target);
            const execute = connection.execute.bind(connection) as (...all: unknown[]) => Promise<object>;
            connection.execute = ((text: string, ...rest: unknown[]) =>
              around(text, () => execute(text, ...rest))) as typeof connection.execute;
            return connection;
          },
        });
        const registry = await openSql(server.url(), operationTimeout);
        open.push(registry);
        driven.mockRestore();
        driveStandIn();
        return registry;
      }

      /** Does something with a registry whose server is killed before or behind a statement. */
      async function interrupted<Answer>(
        step: RegExp,
        after: boolean,
        work: (registry: Registry) => Promise<Answer>,
      ): Promise<Answer> {
        let ended: Promise<void> | undefined;
        const end = async (): Promise<void> => {
          const standIn = server as OracleStandIn;
          await standIn.kill();
          await standIn.start();
        };
        const registry = await openedAround(async (text, run) => {
          const isIt = ended === undefined && step.test(text);
          if (isIt && !after) ended = end();
          if (isIt && !after) await ended;
          const answer = await run();
          if (!isIt || !after) return answer;
          // What it answers then is lost.
          ended = end();
          await ended;
          throw Object.assign(new Error("NJS-500: lost"), { code: "NJS-500" });
        }, 50_000);
        const answer = await work(registry);
        await ended;
        expect(ended).toBeDefined();
        return answer;
      }

      test("killed with -9 before and after each step of a claim and its release: each is done once, as a whole", async () => {
        const namespace = newNamespace();
        const first = await opened();
        await first.init({ namespace, layout, maxWindow: 600_000 });
        await granted(first, claimRequest({ namespace, window: 600_000 }));
        let [claims, releases] = [1, 0];
        for (const after of [false, true]) {
          for (const step of [/^INSERT INTO workerid_w/, /^INSERT INTO workerid_a/, /^COMMIT/]) {
            const request = claimRequest({ namespace, window: 600_000 });
            const grant = await interrupted(step, after, (registry) => granted(registry, request));
            expect([grant.workerId, grant.fence]).toEqual([claims++, 1]);
            const key = keyOf(request, grant);
            expect(await first.renew({ ...key, clock: Date.now(), window: 600_000 })).toMatchObject({
              outcome: "renewed",
            });
          }
          for (const step of [/^UPDATE workerid_w/, /^MERGE INTO workerid_h/, /^COMMIT/]) {
            const request = claimRequest({ namespace, window: 600_000 });
            const grant = await granted(first, request);
            expect([grant.workerId, grant.fence]).toEqual([claims++, 1]);
            const release = { ...keyOf(request, grant), clock: Date.now() };
            const answer = await interrupted(step, after, (registry) => registry.release(release));
            expect([answer.outcome, releases++]).toEqual(["released", expect.any(Number)]);
          }
        }
        const counts = await Promise.all(
          ["assign", "window", "history"].map((table) =>
            server.query(`SELECT COUNT(*) AS n FROM workerid_${table}_${namespace}`),
          ),
        );
        expect(counts.flat()).toEqual([claims, claims, releases].map((n) => ({ n })));
      }, 120_000);

      const theirs: Readonly<Record<string, unknown>> = {
        autoCommit: true,
        maxRows: 1,
        outFormat: oracledb.OUT_FORMAT_OBJECT,
        fetchAsString: [oracledb.NUMBER, oracledb.DB_TYPE_RAW],
        fetchAsBuffer: [],
        fetchTypeHandler: () => ({ converter: () => "theirs" }),
        fetchArraySize: 1,
        prefetchRows: 0,
        stmtCacheSize: 0,
        dbObjectAsPojo: true,
        lobPrefetchSize: 1,
        errorOnConcurrentExecute: true,
      };

      test.each(Object.keys(theirs))("what a program sets for all of its own connections: %s", async (name) => {
        const namespace = newNamespace();
        const settings = oracledb as unknown as Record<string, unknown>;
        const before = settings[name];
        settings[name] = theirs[name];
        try {
          const registry = await opened();
          await registry.init({ namespace, layout });
          const request = claimRequest({ namespace, window: 60_000 });
          const grant = await granted(registry, request);
          expect(await granted(registry, claimRequest({ namespace, window: 60_000 }))).toMatchObject({ workerId: 1 });
          const recents = { from: grant.from, bytes: Uint8Array.of(0, 1, 255) };
          const used = { until: grant.from + 1, recents };
          await registry.release({ ...keyOf(request, grant), clock: Date.now(), used });
          expect(await registry.workers(namespace)).toMatchObject([
            { workerId: 0, recents, holder: request.holder },
            { workerId: 1, state: "live" },
          ]);
          // A write that fails in its middle leaves nothing behind.
          await server.query(`DROP TABLE workerid_history_${namespace}`);
          await expect(registry.claim(claimRequest({ namespace }))).rejects.toMatchObject({
            code: "SCHEMA_INCOMPATIBLE",
          });
          expect(await registry.workers(namespace)).toHaveLength(2);
          expect(await registry.worker(namespace, 0)).toMatchObject({ fence: 1, clean: true });
        } finally {
          settings[name] = before;
        }
      });

      test.each(["NJS-123", "ORA-01013", "ORA-00604"])(
        "a COMMIT that is interrupted by %s, and done all the same: not known, or found out about",
        async (code) => {
          const namespace = newNamespace();
          const interrupted = { now: false };
          const registry = await openedAround(async (text, run) => {
            const answer = await run();
            if (!interrupted.now || !text.startsWith("COMMIT")) return answer;
            interrupted.now = false;
            throw Object.assign(new Error(`${code}: interrupted`), { code });
          });
          await registry.init({ namespace, layout });
          await registry.pin(namespace, 7, "kept");
          interrupted.now = true;
          await expect(registry.unpin(namespace, 7)).rejects.toMatchObject({
            code: "REGISTRY_UNAVAILABLE",
            message: expect.stringMatching(`${code}: interrupted.*is not known`) as string,
          });
          expect(await registry.worker(namespace, 7)).toBeUndefined();
          const request = claimRequest({ namespace, window: 60_000 });
          interrupted.now = true;
          const grant = await granted(registry, request);
          interrupted.now = true;
          const renewal = { ...keyOf(request, grant), clock: Date.now(), window: 60_000 };
          expect(await registry.renew(renewal)).toMatchObject({ outcome: "renewed" });
          expect(await registry.workers(namespace)).toHaveLength(1);
          expect(interrupted.now).toBe(false);
        },
      );

      test("the command line", async () => {
        const sandbox = new Sandbox();
        const namespace = newNamespace();
        const where = ["--registry", server.url(), "--namespace", namespace];
        const run = async (...args: string[]): Promise<string> => {
          const { code, stdout, stderr } = await sandbox.run([...args, ...where], { env: { ...standInEnvironment } });
          expect([args, code, stderr]).toEqual([args, 0, ""]);
          return stdout;
        };
        expect(await run("init", "--print")).toContain(`CREATE TABLE workerid_assign_${namespace} (`);
        expect(await run("init")).toContain(`Namespace ${namespace} is ready in oracle://`);
        const ids = (await run("id", "-n", "3")).trim().split("\n");
        expect(ids).toHaveLength(3);
        expect(await run("workers")).toMatch(/\bfree\b/);
        expect(await run("explain", ids[0] ?? "")).toContain("fence 1, claimed");
        // Whether this machine's clock is kept is not what this is about.
        const { stdout } = await sandbox.run(["doctor", ...where], { env: { ...standInEnvironment } });
        expect(stdout).toMatch(/survive kill -9[^]*Claims and renewals are permitted/);
        const traces = await server.query(`SELECT worker_id FROM workerid_window_${namespace} WHERE worker_id < 0`);
        expect(traces).toEqual([]);
      });
    });
  });
});
