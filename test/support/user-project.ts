import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect } from "vitest";
import { atTheEnd } from "./at-the-end.ts";
import { withoutNotices } from "./cli.ts";
import { root } from "./markdown.ts";

const folder = mkdtempSync(join(tmpdir(), "snowlease-projects-"));
atTheEnd(() => rmSync(folder, { recursive: true, force: true }));

/** For npm: the settings and the cache of the user who runs the tests; what it leaves in TMPDIR goes with the test file. */
const npmEnv: NodeJS.ProcessEnv = { ...process.env, TMPDIR: folder };

/** What a program came to. */
export interface Result {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** What `npm pack` makes. */
export interface Packed {
  /** Where it is. */
  readonly file: string;
  readonly size: number;
  readonly unpackedSize: number;
  readonly files: readonly { readonly path: string; readonly mode: number }[];
}

/** The versions of the packages that this one is tested with. */
const { devDependencies: tested } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  readonly devDependencies: Readonly<Record<string, string>>;
};

/** A package as `npm install` takes it, in the version that this one is tested with. */
export function asTested(name: string): string {
  const version = tested[name];
  if (version === undefined) throw new Error(`package.json has no ${name}.`);
  return `${name}@${version}`;
}

/** What a file as a registry needs besides: Node has SQLite from 22.13 on. */
export const sqlitePackages: readonly string[] =
  process.getBuiltinModule("node:sqlite") === undefined ? [asTested("libsql")] : [];

/** Packs this package, as it is published. */
export async function pack(): Promise<Packed> {
  const answer = await output(root, npmEnv, ["npm", "pack", "--json", "--pack-destination", folder]);
  const [packed] = JSON.parse(answer) as [Packed & { readonly filename: string }];
  return { ...packed, file: join(folder, packed.filename) };
}

/** Somebody's project, in which nothing is but what the test puts there. It goes with the test file. */
export class UserProject {
  readonly folder: string = mkdtempSync(join(folder, "project-"));
  readonly #env: NodeJS.ProcessEnv;

  /** @param env more environment for its programs, which get nothing else but PATH, a home and a folder for temporary files. */
  constructor(env: NodeJS.ProcessEnv = {}) {
    const [home, temporary] = [join(this.folder, ".home"), join(this.folder, ".tmp")];
    for (const path of [home, temporary]) mkdirSync(path);
    const own = { HOME: home, TMPDIR: temporary, PATH: process.env["PATH"], npm_config_update_notifier: "false" };
    this.#env = { ...own, ...env };
    this.write("package.json", '{ "name": "app", "private": true }');
  }

  /** The path of a file of the project. */
  path(name: string): string {
    return join(this.folder, name);
  }

  /** Returns the name. */
  write(name: string, text: string): string {
    mkdirSync(dirname(this.path(name)), { recursive: true });
    writeFileSync(this.path(name), text);
    return name;
  }

  /** Copies a file or folder. */
  copy(from: string, name: string): void {
    cpSync(from, this.path(name), { recursive: true });
  }

  /** Installs packages. */
  async install(...packages: readonly string[]): Promise<void> {
    const quiet = ["--prefer-offline", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"];
    await output(this.folder, npmEnv, ["npm", "install", ...packages, ...quiet]);
  }

  run(...command: readonly string[]): Promise<Result> {
    return run(this.folder, this.#env, command);
  }

  /** Runs a program that is to end well, and to tell nothing but notices on stderr; what it printed. */
  async read(...command: readonly string[]): Promise<string> {
    const result = await this.run(...command);
    expect({ ...result, stderr: withoutNotices(result.stderr) }, result.stdout).toMatchObject({ code: 0, stderr: "" });
    return result.stdout;
  }
}

async function output(cwd: string, env: NodeJS.ProcessEnv, command: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await run(cwd, env, command);
  expect(code, stdout + stderr).toBe(0);
  return stdout;
}

function run(cwd: string, env: NodeJS.ProcessEnv, [program = "", ...args]: readonly string[]): Promise<Result> {
  return new Promise((resolve) => {
    execFile(program, args, { cwd, env, maxBuffer: 1 << 26 }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}
