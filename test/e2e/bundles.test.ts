import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { atTheEnd } from "../support/at-the-end.ts";
import { Sandbox, withoutNotices } from "../support/cli.ts";
import { startDaemonProcess } from "../support/daemon-process.ts";
import { mariadbProgram, postgresProgram } from "../support/databases.ts";
import { root } from "../support/markdown.ts";
import { redisProgram } from "../support/redis.ts";

const minutes = 60_000;
const folder = mkdtempSync(join(tmpdir(), "snowlease-bundles-"));
atTheEnd(() => rmSync(folder, { recursive: true, force: true }));

/** A service that needs IDs. */
const app = `import { snowlease } from "snowlease";
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

const esbuild = (format: string, extension: string): readonly string[] =>
  `npx esbuild app.mjs --bundle --platform=node --format=${format} --outfile=out/main.${extension}`.split(" ");

/** Each with no setting but for what it is to make. */
const bundlers: readonly Bundler[] = [
  { name: "esbuild, CommonJS", command: esbuild("cjs", "cjs"), file: "main.cjs" },
  { name: "esbuild, ESM", command: esbuild("esm", "mjs"), file: "main.mjs", lacksDrivers: true },
  { name: "webpack, CommonJS", command: ["node", "build.mjs"], script: webpackScript(false), file: "main.cjs" },
  { name: "webpack, ESM", command: ["node", "build.mjs"], script: webpackScript(true), file: "main.mjs" },
  {
    name: "bun build",
    command: ["npx", "bun", "build", "app.mjs", "--target=node", "--outfile=out/main.mjs"],
    file: "main.mjs",
  },
];

interface Result {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function run(cwd: string, command: readonly string[], env: NodeJS.ProcessEnv = process.env): Promise<Result> {
  const [program = "", ...args] = command;
  return new Promise((resolve) => {
    execFile(program, args, { cwd, env, maxBuffer: 1 << 26 }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

async function done(cwd: string, command: readonly string[], env?: NodeJS.ProcessEnv): Promise<string> {
  const { code, stdout, stderr } = await run(cwd, command, env);
  expect(code, stdout + stderr).toBe(0);
  return stdout;
}

/** A project with the package, the bundlers, and some drivers. */
class Project {
  readonly folder: string;

  constructor(name: string) {
    this.folder = join(folder, name);
    mkdirSync(this.folder);
    writeFileSync(join(this.folder, "package.json"), '{ "private": true }');
    writeFileSync(join(this.folder, "app.mjs"), app);
  }

  async install(...packages: readonly string[]): Promise<void> {
    const quiet = ["--prefer-offline", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"];
    await done(this.folder, ["npm", "install", ...packages, ...quiet]);
  }

  /** Bundles the service, into `out` or a folder without packages. */
  async bundle({ script, command }: Bundler, to?: string): Promise<void> {
    rmSync(join(this.folder, "out"), { recursive: true, force: true });
    if (script !== undefined) writeFileSync(join(this.folder, "build.mjs"), script);
    await done(this.folder, command);
    if (to !== undefined) cpSync(join(this.folder, "out"), to, { recursive: true });
  }
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

describe("the library in one file", () => {
  const withDrivers = new Project("drivers");
  const without = new Project("plain");

  beforeAll(async () => {
    const { devDependencies: ours } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
      readonly devDependencies: Readonly<Record<string, string>>;
    };
    const answer = await done(root, ["npm", "pack", "--json", "--pack-destination", folder]);
    const [{ filename }] = JSON.parse(answer) as [{ readonly filename: string }];
    const packages = [join(folder, filename), "esbuild@0.28.2", "webpack@5.113.0", "bun@1.4.5"];
    const drivers = ["ioredis", "redlock", "pg", "mysql2"].map((name) => `${name}@${ours[name]}`);
    await withDrivers.install(...packages, ...drivers);
    await without.install(...packages);
  }, 5 * minutes);

  describe.each(bundlers)("by $name", (bundler) => {
    const main = join("out", bundler.file);

    test("without any driver: it leases from a file and from a daemon, and says which driver is missing", async () => {
      await without.bundle(bundler);
      const registry = `sqlite:${join(folder, `${bundler.name}.db`)}`;
      expect(await done(without.folder, ["node", main, registry])).toMatch(/^\d{19}\n$/);
      const daemon = await startDaemonProcess(registry);
      onTestFinished(async () => void (await daemon.end()));
      expect(await done(without.folder, ["node", main, daemon.url])).toMatch(/^\d{19}\n$/);
      for (const url of ["redis://127.0.0.1:1", "postgres://u@127.0.0.1:1/d", "mysql://u@127.0.0.1:1/d"]) {
        const { code, stderr } = await run(without.folder, ["node", main, url]);
        expect(code).not.toBe(0);
        expect(withoutNotices(stderr)).toMatch(/needs a driver that is not installed: run `npm install [\w @]+`/);
      }
    });

    if (bundler.lacksDrivers === true) {
      test("with drivers that it cannot load, it says so, and loads them beside it", async () => {
        await withDrivers.bundle(bundler);
        const { stderr } = await run(withDrivers.folder, ["node", main, "redis://127.0.0.1:1"]);
        expect(stderr).toContain("A registry in Redis needs a driver that cannot be loaded (Dynamic require of ");
        const url = await withNamespace(await redisProgram.start());
        await withDrivers.bundle({ ...bundler, command: [...bundler.command, "--packages=external"] });
        expect(await done(withDrivers.folder, ["node", main, url])).toMatch(/^\d{19}\n$/);
      });
      return;
    }

    describe("with drivers, alone in a folder", () => {
      const alone = join(folder, `alone-${bundlers.indexOf(bundler)}`);
      beforeAll(() => withDrivers.bundle(bundler, alone), 2 * minutes);

      for (const { name, missing, start } of stores) {
        test.skipIf(missing !== undefined)(`it leases from ${name}`, async () => {
          const url = await start();
          expect(await done(alone, ["node", bundler.file, url])).toMatch(/^\d{19}\n$/);
        });
      }
    });
  });
});
