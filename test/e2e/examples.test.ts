import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { fakeClock, memoryRegistry } from "../../src/testing.ts";
import { snowlease } from "../../src/snowlease.ts";
import { Sandbox } from "../support/cli.ts";
import { example, examplesFolder, expectAudited, startExample } from "../support/examples.ts";
import { redisMissing, RedisServer } from "../support/redis.ts";

const root = join(examplesFolder, "..");

/** Runs an example to its end, on an embedded registry of the sandbox; what it printed. */
async function run(name: string, args: readonly string[] = [], sandbox: Sandbox = new Sandbox()): Promise<string> {
  const running = startExample(sandbox, name, args, { SNOWLEASE_REGISTRY: sandbox.registry });
  const { code, stdout, stderr } = await running.ended;
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  return stdout;
}

test("each example is run by a test, and stands in the table", () => {
  const tests = readdirSync(import.meta.dirname)
    .filter((name) => name.startsWith("example"))
    .map((name) => readFileSync(join(import.meta.dirname, name), "utf8"));
  const table = readFileSync(example("README.md"), "utf8");
  const names = readdirSync(examplesFolder).filter((name) => name !== "README.md");
  expect(names.length).toBeGreaterThan(10);
  expect(names.filter((name) => !tests.some((text) => text.includes(`"${name}`)))).toEqual([]);
  expect(names.filter((name) => !table.includes(`(${name})`))).toEqual([]);
});

/** What a module of dist/ exports, types too, as far as the next files. */
function exportsOf(file: string): string[] {
  const text = readFileSync(join(root, "dist", file), "utf8");
  const lists = [...text.matchAll(/^export (?:type )?\{([^}]*)\}/gm)].flatMap(([, list = ""]) => list.split(","));
  const stars = [...text.matchAll(/^export (?:type )?\* from "(.+)\.js"/gm)].flatMap(([, path]) =>
    exportsOf(`${path}.d.ts`),
  );
  const own = [...text.matchAll(/^export (?:declare )?(?:interface|type|class|function|const) (\w+)/gm)];
  return [
    ...lists.map((name) => name.trim().replace(/^type /, "")),
    ...stars,
    ...own.map(([, name = ""]) => name),
  ].filter((name) => name !== "");
}

test.each([
  ["snowlease", "index.d.ts"],
  ["snowlease/conformance", "conformance.d.ts"],
  ["snowlease/store", "store.d.ts"],
  ["snowlease/testing", "testing.d.ts"],
])("each export of %s stands in an example that compiles", (name, file) => {
  const lists = readdirSync(examplesFolder, { recursive: true, encoding: "utf8" })
    .filter((each) => each.endsWith(".ts"))
    .flatMap((each) => [...readFileSync(example(each), "utf8").matchAll(/import (?:type )?\{([^}]*)\} from "(.+)";/g)])
    .filter(([, , from]) => from === name)
    .flatMap(([, list = ""]) => list.split(",").map((each) => each.trim().replace(/^type /, "")));
  const exported = exportsOf(file);
  expect(exported.length).toBeGreaterThan(2);
  expect(exported.filter((each) => !lists.includes(each))).toEqual([]);
});

test.each(["library.ts", "assigner.ts", "generator.ts", "testing.ts"])("%s runs to its end", async (name) => {
  expect(await run(name)).not.toBe("");
});

test.each([
  ["journal.ts", /\n\d\d+ passed, 9 skipped, 0 failed\n$/],
  ["own-registry/late-writes.ts", /^\{ passed: 8, skipped: 0, failed: 0 \}\n$/],
  ["own-registry/prove.ts", /\n\{ passed: \d\d+, skipped: 8, failed: 0 \}\n$/],
])("%s proves a registry of one's own", async (name, verdict) => {
  expect(await run(name)).toMatch(verdict);
});

test.skipIf(redisMissing !== undefined)("clients.ts leases where a ready client connects to", async () => {
  const redis = await RedisServer.start();
  onTestFinished(() => redis.remove());
  const sandbox = new Sandbox();
  await sandbox.read(["init", "--new", "--registry", redis.url(), "--namespace", "orders"]);
  const { code, stdout, stderr } = await startExample(sandbox, "clients.ts", [], { REDIS_URL: redis.url() }).ended;
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  await expectAudited(sandbox, redis.url("?namespace=orders"), stdout.trim().split("\n"));
});

test.each([["threads.mjs", ["3", "2000"], 8000]])(
  "%s makes each ID once on one worker ID, and gives it back",
  async (name, args, count) => {
    const sandbox = new Sandbox();
    const [first, second] = await Promise.all([run(name, args, sandbox), run(name, args, sandbox)]);
    const ids = `${first}${second}`.trim().split("\n");
    expect(ids).toHaveLength(2 * count);
    await expectAudited(sandbox, sandbox.registry, ids);
    const text = await sandbox.read(["workers", "--json", "--registry", sandbox.registry]);
    const workers = JSON.parse(text) as { clean: boolean }[];
    expect(workers.filter(({ clean }) => !clean)).toEqual([]);
    // One for each process, however many threads it has.
    expect(workers.length).toBeLessThanOrEqual(2);
  },
);

test("login-token.mjs shows a session from login to clean-up", async () => {
  expect(await run("login-token.mjs")).toMatch(
    /^the browser keeps {2}[0-9a-zA-Z]{11}\.[\w-]{22}\nthe server knows {3}ada\na forged one is {4}nobody's\ntoo old {12}1 session\nafter the clean-up nobody\n$/,
  );
});

test("sharding.mjs: one shard has nearly all rows, and with spread its share", async () => {
  const [without = "", spread = "", range] = (await run("sharding.mjs", ["4"])).split("\n");
  const fullest = (line: string): number => Number(/has ([\d.]+) times/.exec(line)?.[1]);
  expect(fullest(without)).toBeGreaterThan(3);
  expect(fullest(spread)).toBeLessThan(1.5);
  expect(range).toBe("2026-01-01: WHERE id BETWEEN 1161316023849189376 AND 1161678411714789375");
});

interface Sessions {
  login(user: string): Promise<string>;
  user(token: string): string | undefined;
  logout(token: string): void;
  cleanUp(maxAge: number): bigint | number;
}

test("login tokens are the user's alone, and end by logout or by age", async () => {
  const { Sessions } = (await import(example("login-token.mjs"))) as { Sessions: new (ids: unknown) => Sessions };
  const clock = fakeClock({ start: Date.UTC(2026, 0, 1) });
  const ids = await snowlease({ registry: memoryRegistry({ clock }), clock, window: "10m", maxWindow: "10m" });
  onTestFinished(() => ids.close());
  const sessions = new Sessions(ids);

  const [ada, bob] = [await sessions.login("ada"), await sessions.login("bob")];
  expect([sessions.user(ada), sessions.user(bob)]).toEqual(["ada", "bob"]);
  const [id, secret] = ada.split(".") as [string, string];
  const others = [`${id}.${bob.split(".")[1]}`, `${bob.split(".")[0]}.${secret}`, id, secret, "", `${ada}A`, `A${ada}`];
  // Numbers that no ID is, in form and in size.
  for (const token of [
    ...others,
    `zzzzzzzzzzz.${secret}`,
    `0.${secret}`,
    `${id}.${secret.slice(1)}`,
    `0${id}.${secret}`,
  ]) {
    expect(sessions.user(token), token).toBeUndefined();
  }

  sessions.logout(bob);
  sessions.logout(bob);
  expect(sessions.user(bob)).toBeUndefined();

  await clock.advance(60_000);
  const eve = await sessions.login("eve");
  expect(Number(sessions.cleanUp(60_001))).toBe(0);
  await clock.advance(1);
  expect(Number(sessions.cleanUp(60_000))).toBe(1);
  expect([sessions.user(ada), sessions.user(eve)]).toEqual([undefined, "eve"]);
});
