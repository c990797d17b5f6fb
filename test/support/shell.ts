import { type ChildProcess, spawn } from "node:child_process";
import { chmodSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { cliFile, type Sandbox, until, withoutNotices } from "./cli.ts";
import { root } from "./markdown.ts";

const [ended, failed, answered] = ["\u0002", "\u0003", "\u0001"];

/** A reader types the next command only after a program in the background has its worker ID. */
const patience = `
live() { snowlease workers --state live --json | grep -c '"workerId"' || true; }
`;

/** The result of a script. */
export interface ScriptResult {
  /** stdout and stderr, in the order in which they came. */
  readonly output: string;
  /** Commands that failed, if the script does not check whether they fail. */
  readonly failures: readonly string[];
}

/**
 * One bash for all blocks of a page, so that the variables of the first block exist in the next one. It runs in a sandbox, with
 * `snowlease` and the project's folders at hand.
 */
export class Shell {
  readonly #bash: ChildProcess;
  readonly #sandbox: Sandbox;
  #output = "";
  #scripts = 0;

  constructor(sandbox: Sandbox) {
    this.#sandbox = sandbox;
    const bin = join(sandbox.folder, "bin");
    mkdirSync(bin);
    writeFileSync(join(bin, "snowlease"), `#!/bin/sh\nexec "${process.execPath}" "${cliFile}" "$@"\n`);
    chmodSync(join(bin, "snowlease"), 0o755);
    for (const name of ["dist", "examples", "node_modules"]) symlinkSync(join(root, name), join(sandbox.work, name));
    const { cwd, env } = sandbox.surroundings({ TEST_SANDBOX: sandbox.folder });
    const path = [bin, join(root, "node_modules/.bin"), env["PATH"]].join(":");
    this.#bash = spawn("bash", ["--noprofile", "--norc"], {
      cwd,
      env: { ...env, PATH: path },
      stdio: ["pipe", "pipe", "pipe"],
    });
    for (const stream of [this.#bash.stdout, this.#bash.stderr]) {
      stream?.on("data", (chunk: Buffer) => (this.#output += chunk.toString()));
    }
    this.#tell(patience);
    this.#tell(`shopt -s expand_aliases; set -mE; trap 'printf "\\003%s\\003" "$BASH_COMMAND"' ERR`);
  }

  /** Runs a script. Programs that it starts in the background go on. */
  async run(script: string): Promise<ScriptResult> {
    this.#output = "";
    const file = join(this.#sandbox.folder, `script-${(this.#scripts += 1)}.sh`);
    const patient = script.replace(
      /^(snowlease exec .* &)$/gm,
      'before=$(live)\n$1\nuntil [ "$(live)" -gt "$before" ]; do :; done',
    );
    writeFileSync(file, `${patient}\n`);
    this.#tell(`source ${file} < /dev/null 2>&1; printf '\\002'`);
    await until(() => this.#output.includes(ended) || this.#bash.exitCode !== null);
    if (!this.#output.includes(ended)) throw new Error(`The shell ended: ${this.#output}`);
    const [output = ""] = withoutNotices(this.#output).split(ended);
    const parts = output.split(failed);
    return {
      output: parts.filter((_, i) => i % 2 === 0).join(""),
      failures: parts.filter((_, i) => i % 2 === 1),
    };
  }

  /** Runs commands one after the other, and returns what each one printed. */
  async answers(commands: readonly string[]): Promise<readonly string[]> {
    const script = commands.map((command) => `printf '\\001'\n${command}`).join("\n");
    const { output } = await this.run(script);
    return output.split(answered).slice(1).map(withoutNotices);
  }

  /** Ends the shell, and everything that was started in it. */
  async end(): Promise<void> {
    this.#bash.kill("SIGKILL");
    const mark = `TEST_SANDBOX=${this.#sandbox.folder}\0`;
    await until(() => {
      const left = readdirSync("/proc").filter((pid) => /^\d+$/.test(pid) && environmentOf(pid).includes(mark));
      for (const pid of left) killed(Number(pid));
      return left.length === 0;
    });
  }

  #tell(line: string): void {
    this.#bash.stdin?.write(`${line}\n`);
  }
}

function environmentOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/environ`, "utf8");
  } catch {
    return ""; // The process belongs to another user, or has ended.
  }
}

function killed(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // The process has ended since.
  }
}

/** The exchanges in a console block: each `$ command` with what it prints. */
export function exchanges(text: string): readonly { readonly command: string; readonly printed: string }[] {
  return text
    .split(/^\$ /m)
    .slice(1)
    .map((part) => {
      const [command = "", ...printed] = part.trimEnd().split("\n");
      return { command, printed: printed.join("\n") };
    });
}

/**
 * The shape of an output. IDs, numbers, times, addresses and this host's name may differ. One ID in 256 looks rounded, and the output
 * says so.
 */
export function shapeOf(text: string): string {
  return text
    .trim()
    .replaceAll(/^ +beware +it looks rounded .*\n/gm, "")
    .replaceAll(new RegExp(`\\b(?:vm|${hostname()})\\b`, "g"), "HOST")
    .replace(/"[0-9A-Za-z]{9,}"/g, '"ID"')
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "TIME")
    .replace(/\d+\.\d+\.\d+\.\d+/g, "ADDRESS")
    .replace(/\d+/g, "0")
    .replace(/[ \t]+/g, " ");
}

/** Whether an output has a shape, in which `…` stands for anything. */
export function hasShape(output: string, shape: string): boolean {
  const parts = shapeOf(shape)
    .split("…")
    .map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join("[\\s\\S]*")}$`).test(shapeOf(output));
}
