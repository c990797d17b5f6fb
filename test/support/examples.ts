import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, existsSync, openSync, readFileSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { expect } from "vitest";
import { type CliProcess, type Sandbox, until } from "./cli.ts";

export const examplesFolder: string = fileURLToPath(new URL("../../examples", import.meta.url));

/** The path of an example. */
export function example(name: string): string {
  return join(examplesFolder, name);
}

const tsx = pathToFileURL(createRequire(import.meta.url).resolve("tsx")).href;

/**
 * The command line of an example, without its arguments. It is in the first comment of the example, and uses the programs of this
 * repository.
 */
export function programOf(name: string): readonly [string, ...string[]] {
  const file = example(name);
  switch (basename(name).split(".").at(-1)) {
    case "ts":
      return [process.execPath, "--import", tsx, file];
    case "sh":
      return ["sh", file];
    case "java":
      return ["java", file];
    default:
      return [process.execPath, file];
  }
}

/** Starts an example in a sandbox. NestJS needs a setting of TypeScript, which `tsx` looks for in the present folder. */
export function startExample(
  sandbox: Sandbox,
  name: string,
  args: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
): CliProcess {
  const [program, ...rest] = programOf(name);
  const settings = join(dirname(example(name)), "tsconfig.json");
  const own = existsSync(settings) ? { TSX_TSCONFIG_PATH: settings } : {};
  return sandbox.started(spawn(program, [...rest, ...args], sandbox.surroundings({ ...own, ...env })));
}

/** A program that writes IDs, a line each, to a file. The IDs stay there when it is killed, and it never waits for a reader. */
export class Maker {
  readonly process: CliProcess;
  readonly #file: string;

  constructor(sandbox: Sandbox, name: string, command: readonly string[], env: Readonly<Record<string, string>> = {}) {
    this.#file = join(sandbox.work, name);
    const out = openSync(this.#file, "w");
    const [program = "", ...args] = command;
    const child: ChildProcess = spawn(program, args, { ...sandbox.surroundings(env), stdio: ["ignore", out, "pipe"] });
    closeSync(out);
    this.process = sandbox.started(child);
  }

  /** All whole lines. */
  ids(): string[] {
    return readFileSync(this.#file, "latin1").split("\n").slice(0, -1);
  }

  /** Waits until the program has made about so many more IDs. */
  async made(count: number): Promise<void> {
    const size = (): number => statSync(this.#file).size;
    const enough = size() + count * 20;
    await until(() => size() >= enough || this.process.isOver);
    if (size() < enough) throw new Error(`It ended before it had made ${count}: ${this.process.stderr}`);
  }
}

/** Checks that no ID came twice, and that each ID lies in a window which the registry has on record. */
export async function expectAudited(
  sandbox: Sandbox,
  registry: string,
  ids: readonly string[],
  namespace?: string,
): Promise<void> {
  expect(ids.length).toBeGreaterThan(0);
  expect(new Set(ids).size).toBe(ids.length);
  const named = namespace === undefined ? [] : ["--namespace", namespace];
  const audit = await sandbox.run(["audit", "--registry", registry, ...named], { input: `${ids.join("\n")}\n` });
  expect(audit, audit.stdout + audit.stderr).toMatchObject({ code: 0 });
}
