import { existsSync, readdirSync, readFileSync, renameSync, statSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { withoutNotices } from "../support/cli.ts";
import { examplesFolder } from "../support/examples.ts";
import { redisMissing, RedisServer } from "../support/redis.ts";
import { asTested, pack, type Packed, sqlitePackages, UserProject } from "../support/user-project.ts";

const minutes = 60_000;
const root = join(examplesFolder, "..");
/** Somebody's project, in which nothing is but the package. */
const app = new UserProject({ SNOWLEASE_REGISTRY: "sqlite:registry.db" });
const installed = (path: string): string => app.path(join("node_modules/snowlease", path));
let packed: Packed;

beforeAll(async () => {
  packed = await pack();
  const { file, files, size, unpackedSize } = packed;
  await app.install("--ignore-scripts", file, ...sqlitePackages);
  console.log(`${files.length} files, ${size} bytes, ${unpackedSize} unpacked`);
}, 5 * minutes);

describe("the package", () => {
  test("holds what is used and read, and nothing else", () => {
    const parts = [
      /^(?:CHANGELOG|LICENSE|README)(?:\.md)?$|^package\.json$/,
      /^dist\/[\w/-]+(?:\.d\.ts|\.js)$/,
      /^dist\/cjs\/package\.json$/,
      /^dist\/vendor\/(?:[\w-]+\.c?js|LICENSES\.txt)$/,
      /^(?:docs|examples)\/[\w/.-]+$/,
      /^deploy\/[\w/-]+\.(?:json|service|yaml|yml)$|^deploy\/Dockerfile$/,
      /^sql\/[\w/.-]+\.(?:lua|sql)$/,
      /^web\/dashboard\.(?:css|js|svg)$/,
    ];
    const paths = packed.files.map(({ path }) => path);
    expect(paths.filter((path) => !parts.some((part) => part.test(path)))).toEqual([]);
    expect(parts.filter((part) => !paths.some((path) => part.test(path)))).toEqual([]);
    const ours = ["sql", "web", "deploy", "docs", "examples"].flatMap((name) =>
      readdirSync(join(root, name), { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name).slice(root.length)),
    );
    expect(ours.map((path) => normalize(path).replace(/^\//, "")).filter((path) => !paths.includes(path))).toEqual([]);
    const code = paths.filter((path) => path.endsWith(".js"));
    expect(code.filter((path) => readFileSync(installed(path), "utf8").includes("sourceMappingURL"))).toEqual([]);
  });

  test("has no link that leads nowhere, but to what a clone alone has", () => {
    const onlyInClone = /^(CONTRIBUTING\.md|docker-compose\.yml|(clients\/\w+|prove|spec)\/README\.md)$/;
    const pages = packed.files.map(({ path }) => path).filter((path) => path.endsWith(".md"));
    const links = pages.flatMap((page) =>
      [...readFileSync(installed(page), "utf8").matchAll(/\]\((?!https?:|#)([^)\s#]+)[^)]*\)/g)].map(([, link = ""]) =>
        normalize(join(dirname(page), link)),
      ),
    );
    expect(links.length).toBeGreaterThan(20);
    expect(links.filter((link) => !existsSync(installed(link)) && !onlyInClone.test(link))).toEqual([]);
  });
});

describe("installed in an empty project", () => {
  test("makes IDs in JavaScript, as a module and by require", async () => {
    const body = `snowlease().then(async (ids) => { console.log(ids.nextString()); await ids.close(); });`;
    const module = app.write("app.mjs", `import { snowlease } from "snowlease";\n${body}`);
    const common = app.write("app.cjs", `const { snowlease } = require("snowlease");\n${body}`);
    for (const file of [module, common]) expect(await app.read("node", file)).toMatch(/^\d{19}\n$/);
  });

  test("has each of its entries by import and by require, with the same in it", async () => {
    const { exports } = JSON.parse(readFileSync(installed("package.json"), "utf8")) as { exports: object };
    const names = Object.keys(exports).map((name) => name.replace(/^\./, "snowlease"));
    expect(names.length).toBeGreaterThan(3);
    const file = app.write(
      "entries.mjs",
      `import { createRequire } from "node:module";
for (const name of ${JSON.stringify(names)}) {
  const [module, required] = [await import(name), createRequire(import.meta.url)(name)];
  console.log(Object.keys(module).length > 0 && Object.keys(module).every((key) => module[key] === required[key]));
}`,
    );
    expect(await app.read("node", file)).toBe("true\n".repeat(names.length));
    // As Jest has it, and Node before 22.12.
    const listed = names.map((name) => `console.log(Object.keys(require("${name}")).toSorted().join())`).join("\n");
    const lists = app.write("names.cjs", listed);
    expect(await app.read("node", "--no-experimental-require-module", lists)).toBe(await app.read("node", lists));
  });

  test("has a command", async () => {
    expect(await app.read("npx", "--no-install", "snowlease", "id", "-n", "1")).toMatch(/^\d{19}\n$/);
    expect(
      JSON.parse(await app.read("npx", "--no-install", "snowlease", "inspect", "1278549019894743040", "--json")),
    ).toBeDefined();
  });

  test("has a daemon, which shows its page and its metrics, and a command that starts programs", async () => {
    const file = app.write(
      "daemon.mjs",
      `import { spawn } from "node:child_process";
import { once } from "node:events";
const command = ["node_modules/snowlease/dist/cli/main.js", "daemon", "--json", "--listen", "127.0.0.1:0"];
const daemon = spawn(process.execPath, command, { stdio: ["ignore", "pipe", "inherit"] });
const [line] = await once(daemon.stdout, "data");
const { url } = JSON.parse(String(line).split("\\n")[0]);
const { ids } = await (await fetch(url + "/v1/orders/ids", { method: "POST" })).json();
const [page, metrics] = await Promise.all(["/", "/metrics"].map(async (path) => (await fetch(url + path)).text()));
console.log(ids.length, page.includes("<!doctype html>") || page.includes("<!DOCTYPE html>"), metrics.includes("snowlease_claims_total"));
daemon.kill();
await once(daemon, "exit");`,
    );
    expect((await app.run("node", file)).stdout).toBe("1 true true\n");
    const exec = ["npx", "--no-install", "snowlease", "exec", "--", "sh", "-c", "echo $SNOWLEASE_WORKER_ID"];
    expect(await app.read(...exec)).toMatch(/^\d+\n$/);
  });

  const urls = ["redis://h", "mysql://h/d", "postgres://h/d", "oracle://h/d", "zookeeper://h"];
  test.each(urls)("says what to install for %s", async (url) => {
    const { code, stderr } = await app.run("npx", "--no-install", "snowlease", "id", "--registry", url);
    expect(code).toBe(2);
    expect(stderr).toMatch(/^snowlease: DRIVER_MISSING: .*run `npm install [\w@. -]+`\.?\n$/);
  });

  test.skipIf(redisMissing !== undefined)("has Redis, when that was installed", async () => {
    const redis = await RedisServer.start();
    onTestFinished(() => redis.remove());
    const flags = ["--registry", redis.url(), "--namespace", "orders"];
    const { stderr } = await app.run("npx", "--no-install", "snowlease", "init", "--new", ...flags);
    const [, advice = ""] = /`npm install ([^`]+)`/.exec(stderr) ?? [];
    await app.install("--ignore-scripts", ...advice.split(" "));
    await app.read("npx", "--no-install", "snowlease", "init", "--new", ...flags);
    expect(await app.read("npx", "--no-install", "snowlease", "id", "-n", "1", ...flags)).toMatch(/^\d{19}\n$/);
  });

  test("has Node's own SQLite, or says what there is to do", async () => {
    const away = app.path("libsql");
    const libsql = app.path("node_modules/libsql");
    if (sqlitePackages.length > 0) {
      renameSync(libsql, away);
      onTestFinished(() => renameSync(away, libsql));
    }
    const { code, stdout, stderr } = await app.run("npx", "--no-install", "snowlease", "id", "-n", "1");
    const text = /^snowlease: DRIVER_MISSING: .*`npm install libsql@0\.5`, or use Node 22\.13 or newer\.\n$/;
    expect({ code, stdout, stderr: withoutNotices(stderr) }).toEqual(
      sqlitePackages.length === 0
        ? { code: 0, stdout: expect.stringMatching(/^\d{19}\n$/) as string, stderr: "" }
        : { code: 2, stdout: "", stderr: expect.stringMatching(text) as string },
    );
  });
});

describe("what a service installs", () => {
  /** Which driver its store needs. */
  const stores = [
    ["a daemon, etcd, Kubernetes, or a file on Node 22.13 and newer"],
    ["a file on an older Node", "libsql"],
    ["Redis", "ioredis", "redlock"],
    ["PostgreSQL", "pg"],
    ["MySQL or MariaDB", "mysql2"],
    ["Oracle", "oracledb"],
    ["ZooKeeper", "node-zookeeper-client"],
  ] as const;

  interface Weight {
    readonly store: string;
    readonly packages: number;
    readonly megabytes: number;
  }

  async function weigh([store, ...drivers]: readonly [string, ...string[]]): Promise<Weight> {
    const project = new UserProject();
    await project.install("--ignore-scripts", packed.file, ...drivers.map(asTested));
    const files = readdirSync(project.path("node_modules"), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name));
    const bytes = files.reduce((sum, file) => sum + statSync(file).size, 0);
    const packages = files.filter((file) => /node_modules\/(?:@[^/]+\/)?[^/]+\/package\.json$/.test(file)).length;
    return { store, packages, megabytes: Math.round(bytes / 1e5) / 10 };
  }

  test(
    "is this package and the driver of its store, and is small",
    async () => {
      const weights: Weight[] = [];
      for (const store of stores) weights.push(await weigh(store));
      console.table(weights);
      // The page says the same, as far as the drivers' packages have not changed since.
      const told = [
        ...readFileSync(join(root, "docs/library.md"), "utf8").matchAll(
          /^\| .* \| `snowlease\b.*` \| (\d+) \| (\d+) \|$/gm,
        ),
      ];
      const byWeight = (a: readonly number[], b: readonly number[]): number =>
        (a[0] ?? 0) - (b[0] ?? 0) || (a[1] ?? 0) - (b[1] ?? 0);
      const page = told.map(([, count, megabytes]) => [Number(count), Number(megabytes)]).toSorted(byWeight);
      const measured = weights.map(({ packages, megabytes }) => [packages, megabytes]).toSorted(byWeight);
      expect(page).toHaveLength(measured.length);
      for (const [i, [count = 0, size = 0]] of page.entries()) {
        expect(Math.abs(count - (measured[i]?.[0] ?? 0)), String(page[i])).toBeLessThanOrEqual(2);
        expect(Math.abs(size - (measured[i]?.[1] ?? 0)), String(page[i])).toBeLessThanOrEqual(2);
      }
      expect(weights[0]).toMatchObject({ packages: 1 });
      // SQLite for an older Node is machine code.
      const others = weights.filter(({ store }) => store !== "a file on an older Node");
      expect(others.filter(({ megabytes }) => megabytes > 12)).toEqual([]);
    },
    5 * minutes,
  );

  test("names each package that is compiled in, with its licence", () => {
    const text = readFileSync(installed("dist/vendor/LICENSES.txt"), "utf8");
    for (const name of ["hono", "pino", "prom-client", "sorted-btree", "zod"]) {
      expect(text).toMatch(new RegExp(`^${name} \\d+\\.\\d+\\.\\d+ \\((?:MIT|Apache-2\\.0)\\)$`, "m"));
    }
    expect(text.match(/^MIT License|^The MIT License|Apache License/gm)?.length).toBeGreaterThan(5);
  });
});
