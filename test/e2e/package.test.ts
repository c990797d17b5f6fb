import { execFile } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, normalize } from "node:path";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { atTheEnd } from "../support/at-the-end.ts";
import { withoutNotices } from "../support/cli.ts";
import { examplesFolder } from "../support/examples.ts";
import { redisMissing, RedisServer } from "../support/redis.ts";

const minutes = 60_000;
const root = join(examplesFolder, "..");
const folder = mkdtempSync(join(tmpdir(), "snowlease-package-"));
atTheEnd(() => rmSync(folder, { recursive: true, force: true }));
/** Somebody's project, in which nothing is but the package and TypeScript. */
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

/** Runs npm, on the cache and the settings of whoever runs the tests. */
async function npm(cwd: string, ...args: string[]): Promise<string> {
  const quiet = ["--prefer-offline", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"];
  const result = await run(cwd, process.env, ["npm", ...args, ...quiet]);
  expect(result, result.stderr).toMatchObject({ code: 0 });
  return result.stdout;
}

/** Runs a program in that project, as a user who has nothing else. */
function runThere(...command: string[]): Promise<Result> {
  const own = { HOME: home, TMPDIR: folder, PATH: process.env["PATH"], npm_config_update_notifier: "false" };
  return run(app, { ...own, SNOWLEASE_REGISTRY: registry }, command);
}

async function read(...command: string[]): Promise<string> {
  const result = await runThere(...command);
  expect({ ...result, stderr: withoutNotices(result.stderr) }, result.stdout).toMatchObject({ code: 0, stderr: "" });
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
  const { devDependencies: ours } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
    devDependencies: Record<string, string>;
  };
  const types = [`typescript@${ours["typescript"]}`, "oldest@npm:typescript@5.2", `@types/node@${ours["@types/node"]}`];
  await npm(app, "install", "--ignore-scripts", join(folder, packed.filename), ...types);
  console.log(
    `${packed.filename}: ${packed.files.length} files, ${packed.size} bytes, ${packed.unpackedSize} unpacked`,
  );
}, 5 * minutes);

describe("the package", () => {
  test("holds what is used and read, and nothing else", () => {
    const parts = [
      /^(?:CHANGELOG|LICENSE|README)(?:\.md)?$|^package\.json$/,
      /^dist\/[\w/-]+(?:\.d\.ts|\.js)$/,
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
    const onlyInClone = new Set(["CONTRIBUTING.md", "docker-compose.yml", "prove/README.md", "spec/README.md"]);
    const pages = packed.files.map(({ path }) => path).filter((path) => path.endsWith(".md"));
    const links = pages.flatMap((page) =>
      [...readFileSync(installed(page), "utf8").matchAll(/\]\((?!https?:|#)([^)\s#]+)[^)]*\)/g)].map(([, link = ""]) =>
        normalize(join(dirname(page), link)),
      ),
    );
    expect(links.length).toBeGreaterThan(20);
    expect(links.filter((link) => !existsSync(installed(link)) && !onlyInClone.has(link))).toEqual([]);
  });
});

describe("installed in an empty project", () => {
  test("makes IDs in JavaScript, as a module and by require", async () => {
    const body = `snowlease().then(async (ids) => { console.log(ids.nextString()); await ids.close(); });`;
    const module = write("app.mjs", `import { snowlease } from "snowlease";\n${body}`);
    const common = write("app.cjs", `const { snowlease } = require("snowlease");\n${body}`);
    for (const file of [module, common]) expect(await read("node", file)).toMatch(/^\d{19}\n$/);
  });

  test("has each of its entries by import and by require, with the same in it", async () => {
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
    // It knows no extension of a source in an import.
    [
      "with the oldest compiler that has what its types need",
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

  test.skipIf(redisMissing !== undefined)("has Redis, when that was installed", async () => {
    const redis = await RedisServer.start();
    onTestFinished(() => redis.remove());
    const flags = ["--registry", redis.url(), "--namespace", "orders"];
    const { stderr } = await runThere("npx", "--no-install", "snowlease", "init", "--new", ...flags);
    const [, advice = ""] = /`npm install ([^`]+)`/.exec(stderr) ?? [];
    await npm(app, "install", "--ignore-scripts", ...advice.split(" "));
    await read("npx", "--no-install", "snowlease", "init", "--new", ...flags);
    expect(await read("npx", "--no-install", "snowlease", "id", "-n", "1", ...flags)).toMatch(/^\d{19}\n$/);
  });

  test("without its optional dependency has Node's own SQLite, or says what there is to do", async () => {
    const libsql = join(app, "node_modules/libsql");
    renameSync(libsql, join(folder, "libsql"));
    onTestFinished(() => renameSync(join(folder, "libsql"), libsql));
    const { code, stdout, stderr } = await runThere("npx", "--no-install", "snowlease", "id", "-n", "1");
    const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
    if (major > 22 || (major === 22 && minor >= 13)) {
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
