import { spawn, spawnSync } from "node:child_process";
import { existsSync, readFileSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import { type CliProcess, cliFile, type Sandbox, until } from "./cli.ts";

const begin = "\u001b[?2026h";
const end = "\u001b[?2026l";

/** A command line on a terminal of its own, which `script` makes. It runs between two looks at the terminal's settings. */
export class Terminal {
  readonly #script: CliProcess;
  readonly #sandbox: Sandbox;
  readonly ended: Promise<{ readonly code: number; readonly stdout: string }>;
  #output = "";

  constructor(
    sandbox: Sandbox,
    args: readonly string[],
    {
      columns = 90,
      rows = 30,
      env = {},
    }: { readonly columns?: number; readonly rows?: number; readonly env?: Record<string, string> } = {},
  ) {
    this.#sandbox = sandbox;
    const quoted = [process.execPath, cliFile, ...args].map((word) => `'${word}'`).join(" ");
    const command = `stty cols ${columns} rows ${rows}; stty -a > before; ${quoted} & echo $! > pid; fg > /dev/null; code=$?; stty -a > after; exit $code`;
    // Job control, so that the program can be stopped as from a shell.
    const child = spawn(
      "script",
      ["-qefc", `bash -mc "${command.replaceAll("$", "\\$").replaceAll('"', '\\"')}"`, "/dev/null"],
      {
        ...sandbox.surroundings({ LANG: "C.UTF-8", TERM: "xterm-256color", ...env }),
      },
    );
    child.stdout.on("data", (chunk: Buffer) => (this.#output += chunk.toString()));
    this.#script = sandbox.started(child);
    this.ended = this.#script.ended;
  }

  /** The whole output. */
  get output(): string {
    return this.#output;
  }

  /** The lines of the last whole frame, without the codes for colours. */
  get lines(): string[] {
    const last = this.#output.lastIndexOf(end);
    const frame = this.#output.slice(this.#output.lastIndexOf(begin, last), last);
    return frame.replace(/\u001b\[[?0-9;]*[A-Za-z]/g, "").split(/\r*\n/);
  }

  get pid(): number {
    return Number(readFileSync(join(this.#sandbox.work, "pid"), "utf8"));
  }

  /** Waits until a line of the last frame matches. */
  sees(pattern: RegExp): Promise<void> {
    return until(() => this.lines.some((line) => pattern.test(line)));
  }

  type(keys: string): void {
    this.#script.write(keys);
  }

  signal(signal: NodeJS.Signals): void {
    process.kill(this.pid, signal);
  }

  resize(columns: number, rows: number): void {
    spawnSync("stty", ["-F", readlinkSync(`/proc/${this.pid}/fd/1`), "cols", String(columns), "rows", String(rows)]);
  }

  /** Whether the terminal is as it was: its settings, its cursor, its screen. */
  get isClean(): boolean {
    const [before, after] = ["before", "after"].map((name) => join(this.#sandbox.work, name));
    if (before === undefined || after === undefined || !existsSync(after)) return false;
    const isOff = (what: string): boolean =>
      this.#output.lastIndexOf(`\u001b[?${what}`) > this.#output.lastIndexOf(`\u001b[?${opposite(what)}`);
    // The program does not change the number of columns.
    const settings = (file: string): string => readFileSync(file, "utf8").replace(/rows \d+; columns \d+;/, "");
    return settings(before) === settings(after) && isOff("1049l") && isOff("25h") && isOff("7h");
  }
}

function opposite(mode: string): string {
  return mode.endsWith("l") ? `${mode.slice(0, -1)}h` : `${mode.slice(0, -1)}l`;
}
