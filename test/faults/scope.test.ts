import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { openRegistry, parseAddress } from "../../src/registries/index.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { Sandbox } from "../support/cli.ts";
import { failure } from "../support/failures.ts";
import { mariadbMissing, MariadbServer } from "../support/mariadb.ts";
import { driveStandIn, OracleStandIn, standInEnvironment, standInMissing } from "../support/oracle.ts";
import { postgresMissing, PostgresServer } from "../support/postgres.ts";
import { redisMissing, RedisServer } from "../support/redis.ts";

const namespace = "orders";
const layout = defaultLayout.fingerprint;

async function opened(url: string): Promise<Registry> {
  const registry = await openRegistry(parseAddress(url), { operationTimeout: 30_000 });
  onTestFinished(() => registry.close());
  return registry;
}

/** Makes a namespace in one place, removes it without a note, makes it in another one, and then in the first one again. */
async function moved(from: Registry, to: Registry): Promise<readonly string[]> {
  const name = "moved";
  await from.init({ namespace: name, layout });
  const { era = "" } = (await from.describe(name)) ?? {};
  await from.remove?.({ namespace: name, era, forget: true });
  await to.init({ namespace: name, layout, new: true });
  const { code, message } = await failure(from.init({ namespace: name, layout }));
  return [code, message];
}

/** The worker IDs that two programs get. */
async function workersOf(...registries: readonly Registry[]): Promise<readonly number[]> {
  const claims = registries.map((registry) => granted(registry, claimRequest({ namespace, clock: Date.now() })));
  return (await Promise.all(claims)).map(({ workerId }) => workerId);
}

describe.skipIf(postgresMissing !== undefined)(postgresMissing ?? "two users of one PostgreSQL", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
    for (const user of ["ada", "bob"]) {
      await server.query(`CREATE ROLE ${user} LOGIN`);
      await server.query(`CREATE SCHEMA ${user} AUTHORIZATION ${user}`);
    }
    await server.query("GRANT USAGE, CREATE ON SCHEMA ada TO bob");
    await server.query("ALTER DEFAULT PRIVILEGES FOR ROLE ada IN SCHEMA ada GRANT ALL ON TABLES TO bob");
    await server.query("CREATE DATABASE more");
  });
  afterAll(() => server.remove());

  const as = (user: string, query = "", database = "postgres"): string =>
    `postgres://${user}@127.0.0.1:${server.port}/${database}${query}`;

  test("who have a schema each do not make two registries without a word", async () => {
    const sandbox = new Sandbox();
    const init = (url: string, ...flags: string[]) =>
      sandbox.run(["init", "--registry", url, "--namespace", namespace, ...flags]);
    const first = await init(as("ada"));
    expect(first).toMatchObject({ code: 0, stderr: "" });
    expect(first.stdout).toContain(
      `Worker IDs are unique among all who use schema \`ada\` of database \`postgres\` on PostgreSQL 127.0.0.1:${server.port}.\n`,
    );

    const second = await init(as("bob"));
    expect(second).toMatchObject({ code: 2, stdout: "" });
    expect(second.stderr).toMatch(
      /^snowlease: CONFIG_INVALID: Namespace `orders` does not exist in schema `bob` of database `postgres` on PostgreSQL 127\.0\.0\.1:\d+, and exists in schema `ada`: .*`schema=`.*`snowlease init --separate`\. Nothing was changed\.\n$/,
    );
    const bob = await opened(as("bob"));
    expect((await failure(bob.init({ namespace, layout }))).code).toBe("CONFIG_INVALID");
    expect(await server.query("SELECT 1 FROM pg_class WHERE relnamespace = 'bob'::regnamespace")).toEqual([]);

    const named = await opened(as("bob", "?schema=ada"));
    expect(await named.describe(namespace)).toEqual(await (await opened(as("ada"))).describe(namespace));
    expect(new Set(await workersOf(await opened(as("ada")), named)).size).toBe(2);
    expect(await named.scope?.(namespace)).toContain("schema `ada`");
    expect(await named.elsewhere?.(namespace)).toEqual([]);
  });

  test("may have one each where an operator says so, and doctor tells both", async () => {
    const sandbox = new Sandbox();
    const separate = ["init", "--registry", as("bob"), "--namespace", "apart"];
    await sandbox.read(["init", "--registry", as("ada"), "--namespace", "apart"]);
    expect((await sandbox.run(separate)).code).toBe(2);
    expect(await sandbox.read([...separate, "--separate"])).toContain("schema `bob`");
    // It is there now: nothing is left to confirm.
    await sandbox.read(separate);
    for (const [user, other] of [
      ["ada", "bob"],
      ["bob", "ada"],
    ] as const) {
      const { stdout } = await sandbox.run(["doctor", "--registry", as(user), "--namespace", "apart"]);
      expect(stdout).toMatch(new RegExp(`^warn +scope .*schema \`${user}\`.* also in schema \`${other}\`\\.`, "m"));
    }
  });

  test("make one where another was forgotten, and no other one in the empty tables that it left", async () => {
    const [code, message] = await moved(await opened(as("ada")), await opened(as("bob")));
    expect([code, message]).toEqual(["CONFIG_INVALID", expect.stringContaining("exists in schema `bob`") as string]);
  });

  test("are told of one in another database of the server", async () => {
    const [here, there] = [await opened(as("postgres")), await opened(as("postgres", "", "more"))];
    await there.init({ namespace: "far", layout });
    const { message } = await failure(here.init({ namespace: "far", layout }));
    expect(message).toContain("and exists in schema `public` of database `more`:");
    await here.init({ namespace: "far", layout, separate: true });
  });

  test("use the schema that a URL names, wherever their login leads", async () => {
    await server.query('CREATE SCHEMA "Ids$1" AUTHORIZATION bob');
    const url = as("bob", "?schema=Ids$1&beside=westid");
    const sandbox = new Sandbox();
    const statements = await sandbox.read(["init", "--registry", url, "--namespace", "named", "--print"]);
    expect(statements).toContain('CREATE TABLE IF NOT EXISTS "Ids$1".workerid_window_named (');
    const registry = await opened(url);
    expect((await failure(registry.claim(claimRequest({ namespace: "named" })))).message).toContain(
      `/postgres?schema=Ids%241' --namespace named\``,
    );
    await registry.init({ namespace: "named", layout, new: true });
    const request = claimRequest({ namespace: "named", clock: Date.now() });
    const key = keyOf(request, await granted(registry, request));
    await registry.pin("named", 7, "kept");
    await registry.rehearse?.("named");
    expect(await registry.release({ ...key, clock: Date.now() })).toEqual({ outcome: "released" });
    const tables = await server.query(
      "SELECT DISTINCT relnamespace::regnamespace::text AS at FROM pg_class WHERE relname LIKE '%named'",
    );
    expect(tables).toEqual([{ at: '"Ids$1"' }]);
  });

  test("are told of a schema that does not exist", async () => {
    const registry = await opened(as("bob", "?schema=nowhere"));
    const { code, message } = await failure(registry.init({ namespace, layout }));
    expect([code, message]).toEqual(["CONFIG_INVALID", expect.stringContaining("has no such schema") as string]);
    for (const schema of ["", 'a"b', "a.b", "1a"]) {
      const asked = openRegistry(parseAddress(as("bob", `?schema=${encodeURIComponent(schema)}`)), {
        operationTimeout: 1000,
      });
      expect((await failure(asked)).message).toMatch(/^Expected `schema` to be the name of a schema/);
    }
  });
});

describe.skipIf(mariadbMissing !== undefined)(mariadbMissing ?? "two databases of one MariaDB", () => {
  test("do not each get a registry without a word", async () => {
    const server = await MariadbServer.start();
    onTestFinished(() => server.remove());
    await server.query("CREATE DATABASE more");
    const [first, second] = [await opened(server.url()), await opened(server.url().replace("/snowlease", "/more"))];
    expect((await moved(first, second))[1]).toContain("exists in database `more`");
    await first.init({ namespace, layout });
    expect(await first.scope?.(namespace)).toBe(`all who use database \`snowlease\` on MySQL 127.0.0.1:${server.port}`);
    const { code, message } = await failure(second.init({ namespace, layout }));
    expect(code).toBe("CONFIG_INVALID");
    expect(message).toContain("does not exist in database `more` on");
    expect(message).toContain("and exists in database `snowlease`:");
    await second.init({ namespace, layout, separate: true });
    expect(await second.elsewhere?.(namespace)).toEqual(["database `snowlease`"]);
    expect(() => parseAddress(`${server.url()}?schema=more`)).not.toThrow();
    const sandbox = new Sandbox();
    const refused = await sandbox.run(["workers", "--registry", `${server.url()}?schema=more`]);
    expect(refused).toMatchObject({ code: 2, stdout: "" });
  });
});

describe.skipIf(standInMissing !== undefined)(standInMissing ?? "two users of a stand-in for Oracle", () => {
  test("do not each get a registry without a word", async () => {
    const server = await OracleStandIn.start();
    onTestFinished(() => server.remove());
    const drives = driveStandIn();
    onTestFinished(() => drives.mockRestore());
    const registry = await opened(server.url());
    expect(await registry.scope?.(namespace)).toContain("all who use schema `PUBLIC` of database `ids` on Oracle ");
    await server.query("CREATE SCHEMA BOB");
    await server.query("CREATE TABLE BOB.WORKERID_META_ORDERS (name VARCHAR2(80))");
    await server.query("INSERT INTO BOB.WORKERID_META_ORDERS VALUES ('layout')");
    const { message } = await failure(registry.init({ namespace, layout }));
    expect(message).toContain("does not exist in schema `PUBLIC` of");
    expect(message).toContain("and exists in schema `BOB`:");
    await registry.init({ namespace, layout, separate: true });

    const sandbox = new Sandbox();
    const url = server.url("?schema=bob");
    const printed = await sandbox.read(["init", "--registry", url, "--print"], { env: standInEnvironment });
    expect(printed).toMatch(/^ALTER SESSION SET CURRENT_SCHEMA = bob;\n/);
  });
});

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "two databases of one Redis", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server.remove());

  test("do not each get a registry without a word, neither by init nor by a claim", async () => {
    const [first, second] = [await opened(server.url("/0")), await opened(server.url("/3"))];
    await first.init({ namespace, layout, new: true });
    expect(await first.scope?.(namespace)).toBe(`all who use database 0 of Redis 127.0.0.1:${server.port}`);
    for (const asked of [
      () => second.init({ namespace, layout, new: true }),
      () => second.claim(claimRequest({ namespace, clock: Date.now() })),
    ]) {
      const { code, message } = await failure(asked());
      expect(code).toBe("CONFIG_INVALID");
      expect(message).toContain("does not exist in database 3 of Redis");
      expect(message).toContain("and exists in database 0:");
    }
    expect(await server.client().info("keyspace")).not.toContain("db3:");
    expect(await second.elsewhere?.(namespace)).toEqual(["database 0"]);

    await second.init({ namespace, layout, new: true, separate: true });
    expect(await workersOf(first, second)).toEqual([0, 0]);
    expect(await first.elsewhere?.(namespace)).toEqual(["database 3"]);
  });

  test("one that forgot its namespace is not taken for a second registry once a holder has said so", async () => {
    const [first, second] = [await opened(server.url("/0")), await opened(server.url("/3"))];
    for (const registry of [first, second])
      await registry.init({ namespace: "both", layout, new: true, separate: true });
    const request = claimRequest({ namespace: "both", clock: Date.now() });
    const grant = await granted(second, request);
    const client = server.client();
    await client.select(3);
    await client.flushdb();
    await client.select(0);
    const ask = () => failure(second.claim(claimRequest({ namespace: "both", clock: Date.now() })));
    expect((await ask()).code).toBe("CONFIG_INVALID");
    await second
      .renew({ ...keyOf(request, grant), window: 1000, clock: Date.now(), receipt: grant.receipt })
      .catch(() => undefined);
    expect((await ask()).code).toBe("QUARANTINE");
  });

  test("a user who may not look into others is not hindered", async () => {
    await server.client().call("ACL", "SETUSER", "ids", "on", ">pw", "~*", "+@all", "-select");
    const registry = await opened(server.url("").replace("redis://", "redis://ids:pw@"));
    expect(await registry.elsewhere?.(namespace)).toEqual([]);
    await registry.init({ namespace: "seen", layout, new: true });
    await granted(registry, claimRequest({ namespace: "seen", clock: Date.now() }));
  });
});
