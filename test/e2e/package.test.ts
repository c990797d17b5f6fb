import { execFile } from "node:child_process";
import { isBuiltin } from "node:module";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, normalize } from "node:path";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { atTheEnd } from "../support/at-the-end.ts";
import { examplesFolder } from "../support/examples.ts";
import { redisMissing, RedisServer } from "../support/redis.ts";

const minutes = 60_000;
const root = join(examplesFolder, "..");
const folder = mkdtempSync(join(tmpdir(), "snowlease-package-"));
atTheEnd(() => rmSync(folder, { recursive: true, force: true }));
/** A user's project, with only the package and TypeScript in it. */
const app = join(folder, "app");
const home = join(folder, "home");
const registry = `sqlite:${join(folder, "registry.db")}`;

interface Packed {
  readonly filename: string;
  readonly size: number;
  readonly unpackedSize: number;
  readonly files: readonly { readonly path: string; readonly mode: number }[];
}
let packed: Packed;
const installed = (path: string): string => join(app, "node_modules/snowlease", path);

const { devDependencies: ours } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  devDependencies: Record<string, string>;
};
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
const hasSqlite = major > 22 || (major === 22 && minor >= 13);

interface Result {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function run(cwd: string, env: NodeJS.ProcessEnv, [program = "", ...args]: readonly string[]): Promise<Result> {
  return new Promise((resolve) => {
    execFile(program, args, { cwd, env, maxBuffer: 2 ** 26 }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

/** Runs npm, with the cache and the settings of the user that runs the tests. */
async function npm(cwd: string, ...args: string[]): Promise<string> {
  const quiet = ["--prefer-offline", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"];
  const result = await run(cwd, process.env, ["npm", ...args, ...quiet]);
  expect(result, result.stderr).toMatchObject({ code: 0 });
  return result.stdout;
}

/** Runs a program in that project, as a user without any other files. */
function runThere(...command: string[]): Promise<Result> {
  const own = { HOME: home, TMPDIR: folder, PATH: process.env["PATH"], npm_config_update_notifier: "false" };
  return run(app, { ...own, SNOWLEASE_REGISTRY: registry }, command);
}

async function read(...command: string[]): Promise<string> {
  const result = await runThere(...command);
  expect(result, result.stdout).toMatchObject({ code: 0, stderr: "" });
  return result.stdout;
}

function write(name: string, text: string): string {
  writeFileSync(join(app, name), text);
  return name;
}

beforeAll(async () => {
  for (const path of [app, home]) mkdirSync(path);
  const answer = await npm(root, "pack", "--json", "--pack-destination", folder);
  [packed] = JSON.parse(answer) as [Packed];
  write("package.json", '{ "name": "app", "private": true }');
  const types = [`typescript@${ours["typescript"]}`, "oldest@npm:typescript@5.2", `@types/node@${ours["@types/node"]}`];
  const sqlite = hasSqlite ? [] : ["libsql@0.5"];
  await npm(app, "install", "--ignore-scripts", join(folder, packed.filename), ...types, ...sqlite);
  console.log(
    `${packed.filename}: ${packed.files.length} files, ${packed.size} bytes, ${packed.unpackedSize} unpacked`,
  );
}, 5 * minutes);

describe("the package", () => {
  test("holds the used and documented files, and no others", () => {
    const parts = [
      /^(?:CHANGELOG|LICENSE|README)(?:\.md)?$|^package\.json$/,
      /^dist\/[\w/-]+(?:\.d\.ts|\.js)$|^dist\/vendor\/LICENSES\.txt$/,
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

  test("has no broken link, except to files of a clone", () => {
    const onlyInClone = /^(?:CONTRIBUTING\.md|docker-compose\.yml|(?:clients\/\w+|prove|spec)\/README\.md)$/;
    const pages = packed.files.map(({ path }) => path).filter((path) => path.endsWith(".md"));
    const links = pages.flatMap((page) =>
      [...readFileSync(installed(page), "utf8").matchAll(/\]\((?!https?:|#)([^)\s#]+)[^)]*\)/g)].map(([, link = ""]) =>
        normalize(join(dirname(page), link)),
      ),
    );
    expect(links.length).toBeGreaterThan(20);
    const isThere = (link: string): boolean => existsSync(onlyInClone.test(link) ? join(root, link) : installed(link));
    expect(links.filter((link) => !isThere(link))).toEqual([]);
  });
});

describe("beside it", () => {
  test.each<[string, readonly string[], number]>([
    ["nothing", [], 1],
    ["the packages of Redis", ["ioredis", "redlock@4"], 12],
    ["the package of PostgreSQL", ["pg"], 15],
  ])(
    "%s is installed, and all of it is small",
    async (_, drivers, most) => {
      const own = mkdtempSync(join(folder, "small-"));
      writeFileSync(join(own, "package.json"), '{ "name": "small", "private": true }');
      await npm(own, "install", "--ignore-scripts", join(folder, packed.filename), ...drivers);
      const all = join(own, "node_modules");
      const { packages } = JSON.parse(readFileSync(join(all, ".package-lock.json"), "utf8")) as { packages: object };
      const files = readdirSync(all, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
      const bytes = files.reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
      console.log(`${Object.keys(packages).length} packages, ${bytes} bytes with ${drivers.join(", ") || "nothing"}`);
      expect(Object.keys(packages).length).toBeLessThanOrEqual(most);
      expect(bytes).toBeLessThan(6e6);
    },
    3 * minutes,
  );

  test("is no package that its code needs, but a driver", () => {
    const { peerDependencies } = JSON.parse(readFileSync(installed("package.json"), "utf8")) as {
      peerDependencies: object;
    };
    const code = packed.files.map(({ path }) => path).filter((path) => /^dist\/.*\.js$/.test(path));
    const named = code.flatMap((path) =>
      [
        ...readFileSync(installed(path), "utf8").matchAll(/(?:^(?:im|ex)port[^"']*? from |\bimport\()"([^".][^"]*)"/gm),
      ].map(([, name = ""]) => name),
    );
    const foreign = new Set(named.filter((name) => !isBuiltin(name)));
    expect([...foreign].toSorted()).toEqual(Object.keys(peerDependencies).toSorted());
  });
});

describe("installed in an empty project", () => {
  test("makes IDs in JavaScript, as a module and by require", async () => {
    const body = `snowlease().then(async (ids) => { console.log(ids.nextString()); await ids.close(); });`;
    const module = write("app.mjs", `import { snowlease } from "snowlease";\n${body}`);
    const common = write("app.cjs", `const { snowlease } = require("snowlease");\n${body}`);
    for (const file of [module, common]) expect(await read("node", file)).toMatch(/^\d{19}\n$/);
  });

  test("has each of its entries by import and by require, with the same exports", async () => {
    const { exports } = JSON.parse(readFileSync(installed("package.json"), "utf8")) as { exports: object };
    const names = Object.keys(exports).map((name) => name.replace(/^\./, "snowlease"));
    expect(names.length).toBeGreaterThan(3);
    const file = write(
      "entries.mjs",
      `import { createRequire } from "node:module";
for (const name of ${JSON.stringify(names)}) {
  const [module, required] = [await import(name), createRequire(import.meta.url)(name)];
  console.log(Object.keys(module).length > 0 && Object.keys(module).every((key) => module[key] === required[key]));
}`,
    );
    expect(await read("node", file)).toBe("true\n".repeat(names.length));
  });

  test("has a command", async () => {
    expect(await read("npx", "--no-install", "snowlease", "id", "-n", "1")).toMatch(/^\d{19}\n$/);
    expect(
      JSON.parse(await read("npx", "--no-install", "snowlease", "inspect", "1278549019894743040", "--json")),
    ).toBeDefined();
  });

  const sources = ["assigner.ts", "generator.ts", "journal.ts", "library.ts", "own-registry", "testing.ts"];
  const all = "src/*.ts src/own-registry/*.ts";
  const nodenext = "--module nodenext --target es2023 --outDir out --rewriteRelativeImportExtensions";
  const bundler = "--module esnext --moduleResolution bundler --target es2023 --noEmit --allowImportingTsExtensions";
  test.each([
    ["by Node's rules, and runs", "typescript", `${nodenext} ${all}`],
    ["by a bundler's rules", "typescript", `${bundler} ${all}`],
    // It does not allow the extension of a source in an import.
    [
      "with the oldest compiler that has the features its types need",
      "oldest",
      "--module nodenext --target es2022 --noEmit src/*.ts",
    ],
  ])(
    "compiles in strict TypeScript, its types too, %s",
    async (_, compiler, rest) => {
      for (const name of sources) cpSync(join(examplesFolder, name), join(app, "src", name), { recursive: true });
      writeFileSync(join(app, "src/package.json"), '{ "type": "module" }');
      const strict = "--strict --exactOptionalPropertyTypes --noUncheckedIndexedAccess --types node";
      await read("sh", "-c", `node node_modules/${compiler}/bin/tsc ${strict} ${rest}`);
      if (!rest.includes("--outDir")) return;
      writeFileSync(join(app, "out/package.json"), '{ "type": "module" }');
      for (const name of ["library", "testing"]) expect(await read("node", `out/${name}.js`)).not.toBe("");
    },
    3 * minutes,
  );

  const urls = ["redis://h", "mysql://h/d", "postgres://h/d", "oracle://h/d", "zookeeper://h"];
  test.each(urls)("says what to install for %s", async (url) => {
    const { code, stderr } = await runThere("npx", "--no-install", "snowlease", "id", "--registry", url);
    expect(code).toBe(2);
    expect(stderr).toMatch(/^snowlease: DRIVER_MISSING: .*run `npm install [\w@. -]+`\.?\n$/);
  });

  test.skipIf(redisMissing !== undefined)("works with Redis, if that was installed", async () => {
    const redis = await RedisServer.start();
    onTestFinished(() => redis.remove());
    const flags = ["--registry", redis.url(), "--namespace", "orders"];
    const { stderr } = await runThere("npx", "--no-install", "snowlease", "init", "--new", ...flags);
    const [, advice = ""] = /`npm install ([^`]+)`/.exec(stderr) ?? [];
    await npm(app, "install", "--ignore-scripts", ...advice.split(" "));
    await read("npx", "--no-install", "snowlease", "init", "--new", ...flags);
    expect(await read("npx", "--no-install", "snowlease", "id", "-n", "1", ...flags)).toMatch(/^\d{19}\n$/);
  });

  test("works with Node's own SQLite, or says what to install", async () => {
    const libsql = join(app, "node_modules/libsql");
    if (!hasSqlite) {
      renameSync(libsql, join(folder, "libsql"));
      onTestFinished(() => renameSync(join(folder, "libsql"), libsql));
    }
    const { code, stdout, stderr } = await runThere("npx", "--no-install", "snowlease", "id", "-n", "1");
    if (hasSqlite) {
      expect({ code, stdout, stderr }).toEqual({
        code: 0,
        stdout: expect.stringMatching(/^\d{19}\n$/) as string,
        stderr: "",
      });
      return;
    }
    expect(code).toBe(2);
    expect(stderr).toMatch(/^snowlease: DRIVER_MISSING: .*`npm install libsql@0\.5`, or use Node 22\.13 or newer\.\n$/);
  });
});
