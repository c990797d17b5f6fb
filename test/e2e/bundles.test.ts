import { rmSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { Sandbox, withoutNotices } from "../support/cli.ts";
import { startDaemonProcess } from "../support/daemon-process.ts";
import { mariadbProgram, postgresProgram } from "../support/databases.ts";
import { etcdProgram } from "../support/etcd.ts";
import { redisProgram } from "../support/redis.ts";
import { toolchains } from "../support/toolchains.ts";
import { asTested, pack, sqlitePackages, UserProject } from "../support/user-project.ts";

const minutes = 60_000;

/** A service that needs IDs. */
const app = (imports: string): string => `${imports}
async function main() {
  const ids = await snowlease({ registry: process.argv[2], namespace: "orders" });
  console.log(ids.nextString());
  await ids.close();
}
main();
`;

const webpackScript = (isModule: boolean): string => `import webpack from "webpack";
const output = { path: process.cwd() + "/out", filename: "main.${isModule ? "mjs" : "cjs"}", module: ${isModule} };
const experiments = { outputModule: ${isModule} };
webpack({ entry: "./app.mjs", target: "node20", mode: "production", output, experiments }, (error, stats) => {
  console.log(error ?? stats.toString({ all: false, errors: true }));
  process.exitCode = error || stats.hasErrors() ? 1 : 0;
});
`;

interface Bundler {
  readonly name: string;
  readonly command: readonly string[];
  /** The script that the command runs, as `build.mjs`. */
  readonly script?: string;
  /** What the bundle begins with. */
  readonly file: string;
  /** It has no packages in CommonJS that need modules of Node, as most drivers are. */
  readonly lacksDrivers?: true;
}

const esbuild = (format: string, extension: string, source = "app.mjs"): readonly string[] =>
  `npx esbuild ${source} --bundle --platform=node --format=${format} --outfile=out/main.${extension}`.split(" ");

/** Each with no setting but for what it is to make. */
const bundlers: readonly Bundler[] = [
  { name: "esbuild | CommonJS", command: esbuild("cjs", "cjs"), file: "main.cjs" },
  { name: "esbuild | CommonJS of require()", command: esbuild("cjs", "cjs", "app.cjs"), file: "main.cjs" },
  { name: "esbuild | ESM", command: esbuild("esm", "mjs"), file: "main.mjs", lacksDrivers: true },
  { name: "webpack | CommonJS", command: ["node", "build.mjs"], script: webpackScript(false), file: "main.cjs" },
  { name: "webpack | ESM", command: ["node", "build.mjs"], script: webpackScript(true), file: "main.mjs" },
  {
    name: "bun build | ESM",
    command: ["npx", "bun", "build", "app.mjs", "--target=node", "--outfile=out/main.mjs"],
    file: "main.mjs",
  },
];

/** Bundles the service of a project, into `out`. */
async function bundle(project: UserProject, { script, command }: Bundler): Promise<void> {
  rmSync(project.path("out"), { recursive: true, force: true });
  if (script !== undefined) project.write("build.mjs", script);
  const { code, stdout, stderr } = await project.run(...command);
  expect(code, stdout + stderr).toBe(0);
}

/** Starts a registry in which the namespace exists; its URL. */
interface Store {
  readonly name: string;
  readonly missing: string | undefined;
  start(): Promise<string>;
}

async function withNamespace(server: { url(): string; remove(): Promise<void> }): Promise<string> {
  onTestFinished(() => server.remove());
  const sandbox = new Sandbox();
  expect(await sandbox.run(["init", "orders", "--new", "--registry", server.url()])).toMatchObject({ code: 0 });
  return server.url();
}

const stores: readonly Store[] = [
  { name: "Redis", missing: redisProgram.missing, start: async () => withNamespace(await redisProgram.start()) },
  {
    name: "PostgreSQL",
    missing: postgresProgram.missing,
    start: async () => withNamespace(await postgresProgram.start()),
  },
  { name: "MariaDB", missing: mariadbProgram.missing, start: async () => withNamespace(await mariadbProgram.start()) },
];

test("docs/toolchains.md has a row of each", () => {
  const rows = toolchains("Bundlers").filter((row) => !row.startsWith("Next.js"));
  expect(rows).toEqual(bundlers.map(({ name }) => name));
});

describe("the library in one file", () => {
  const withDrivers = new UserProject();
  const without = new UserProject();

  beforeAll(async () => {
    const { file } = await pack();
    const bundlerPackages = [asTested("esbuild"), "webpack@5.113.0", "bun@1.4.5"];
    for (const [project, drivers] of [
      [withDrivers, ["ioredis", "redlock", "pg", "mysql2"]],
      [without, []],
    ] as const) {
      project.write("app.mjs", app('import { snowlease } from "snowlease";'));
      project.write("app.cjs", app('const { snowlease } = require("snowlease");'));
      await project.install(file, ...bundlerPackages, ...sqlitePackages, ...drivers.map(asTested));
    }
  }, 5 * minutes);

  describe.each(bundlers)("by $name", (bundler) => {
    const main = join("out", bundler.file);

    test("without any driver: it leases from a file, a daemon and etcd, and says which driver is missing", async () => {
      await bundle(without, bundler);
      const registry = `sqlite:${without.path(`${bundler.name.replaceAll(" | ", "-")}.db`)}`;
      expect(await without.read("node", main, registry)).toMatch(/^\d{19}\n$/);
      const daemon = await startDaemonProcess(registry);
      onTestFinished(async () => void (await daemon.end()));
      expect(await without.read("node", main, daemon.url)).toMatch(/^\d{19}\n$/);
      if (etcdProgram.missing === undefined) {
        const url = await withNamespace(await etcdProgram.start());
        expect(await without.read("node", main, url)).toMatch(/^\d{19}\n$/);
      }
      for (const url of ["redis://127.0.0.1:1", "postgres://u@127.0.0.1:1/d", "mysql://u@127.0.0.1:1/d"]) {
        const { code, stderr } = await without.run("node", main, url);
        expect(code).not.toBe(0);
        expect(withoutNotices(stderr)).toMatch(/needs a driver that is not installed: run `npm install [\w @]+`/);
      }
    });

    if (bundler.lacksDrivers === true) {
      test("with drivers that it cannot load, it says so, and loads them beside it", async () => {
        await bundle(withDrivers, bundler);
        const { stderr } = await withDrivers.run("node", main, "redis://127.0.0.1:1");
        expect(stderr).toContain("A registry in Redis needs a driver that cannot be loaded (Dynamic require of ");
        const url = await withNamespace(await redisProgram.start());
        await bundle(withDrivers, { ...bundler, command: [...bundler.command, "--packages=external"] });
        expect(await withDrivers.read("node", main, url)).toMatch(/^\d{19}\n$/);
      });
      return;
    }

    describe("with drivers, alone in a folder", () => {
      const alone = new UserProject();
      beforeAll(async () => {
        await bundle(withDrivers, bundler);
        alone.copy(withDrivers.path("out"), "out");
      });

      for (const { name, missing, start } of stores) {
        test.skipIf(missing !== undefined)(`it leases from ${name}`, async () => {
          const url = await start();
          expect(await alone.read("node", main, url)).toMatch(/^\d{19}\n$/);
        });
      }
    });
  });
});
