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

/**
 * For npm: the settings and the cache of the user who runs the tests. The files that npm leaves in TMPDIR are removed with the test file.
 */
const npmEnv: NodeJS.ProcessEnv = { ...process.env, TMPDIR: folder };

/** The result of a program. */
export interface Result {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** The package that `npm pack` makes. */
export interface Packed {
  /** Its path. */
  readonly file: string;
  readonly size: number;
  readonly unpackedSize: number;
  readonly files: readonly { readonly path: string; readonly mode: number }[];
}

/** The versions of the packages with which this package is tested. */
const { devDependencies: tested } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  readonly devDependencies: Readonly<Record<string, string>>;
};

/** A package in the form for `npm install`, in the version with which this package is tested. */
export function asTested(name: string): string {
  const version = tested[name];
  if (version === undefined) throw new Error(`package.json has no ${name}.`);
  return `${name}@${version}`;
}

/** The package that a registry file needs besides, if Node has no SQLite. Node has it from 22.13 on. */
export const sqlitePackages: readonly string[] =
  process.getBuiltinModule("node:sqlite") === undefined ? [asTested("libsql")] : [];

/** Packs this package, as it is published. */
export async function pack(): Promise<Packed> {
  const answer = await output(root, npmEnv, ["npm", "pack", "--json", "--pack-destination", folder]);
  const [packed] = JSON.parse(answer) as [Packed & { readonly filename: string }];
  return { ...packed, file: join(folder, packed.filename) };
}

/** A user's project. It contains only what the test puts there, and is removed with the test file. */
export class UserProject {
  readonly folder: string = mkdtempSync(join(folder, "project-"));
  readonly #env: NodeJS.ProcessEnv;

  /** @param env additions to the environment of its programs. Otherwise, they get only PATH, a home and a folder for temporary files. */
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

  /** Writes a file. Returns its name. */
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

  /** Runs a program that must succeed, and must print nothing but notices on stderr. Returns what it printed. */
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
