import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished } from "vitest";

/** The real CLI, as it is built and published. */
export const cliFile: string = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));

/** The result of a command line. */
export interface CliResult {
  /** 128 + n if signal n ended it. */
  readonly code: number;
  readonly stdout: string;
  /** stderr without the notices. */
  readonly stderr: string;
}

/**
 * What a command line reports about its registry besides everything else: that it made the file, and which processes share the worker
 * IDs.
 */
const notice =
  /^(?:snowlease: (?:warning: Made the registry file|Worker \d+\. Worker IDs are unique among)|\(node:\d+\) \[SNOWLEASE_NEW_REGISTRY\]) .*\n(?:\(Use `node --trace-warnings .*\n)?/gm;

/** The text of stderr without the notices. */
export function withoutNotices(stderr: string): string {
  return stderr.replace(notice, "");
}

interface RunOptions {
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** The text of stdin. Default: empty. */
  readonly input?: string | undefined;
}

/** A user's home, in which the CLI runs. It is removed when the test ends, and all processes that were started in it end. */
export class Sandbox {
  readonly folder: string = mkdtempSync(join(tmpdir(), "snowlease-e2e-"));
  readonly #running = new Set<CliProcess>();

  constructor() {
    for (const name of ["home", "work", "tmp"]) mkdirSync(join(this.folder, name));
    onTestFinished(async () => {
      for (const process of this.#running) await process.kill();
      rmSync(this.folder, { recursive: true, force: true });
    });
  }

  /** The folder in which commands run. */
  get work(): string {
    return join(this.folder, "work");
  }

  /** The URL of an embedded registry in this sandbox. */
  get registry(): string {
    return `sqlite:${join(this.work, "registry.db")}`;
  }

  /** All files in the sandbox, except those that it began with. */
  files(): string[] {
    const all = readdirSync(this.folder, { recursive: true, encoding: "utf8" });
    return all.filter((name) => !["home", "work", "tmp"].includes(name)).toSorted();
  }

  /** The folder and the environment for programs that run here. */
  surroundings(env: RunOptions["env"] = {}): { readonly cwd: string; readonly env: NodeJS.ProcessEnv } {
    const own = { HOME: join(this.folder, "home"), TMPDIR: join(this.folder, "tmp"), PATH: process.env["PATH"] ?? "" };
    return { cwd: this.work, env: { ...own, ...env } };
  }

  /** Starts a command line. It is killed when the test ends, if it still runs. */
  start(args: readonly string[], env?: RunOptions["env"]): CliProcess {
    if (!existsSync(cliFile)) throw new Error("There is no dist/: run npm run build first.");
    return this.started(spawn(process.execPath, [cliFile, ...args], this.surroundings(env)));
  }

  /**
   * Starts a daemon on this sandbox's registry, and waits until it listens: on a free port of loopback, unless the flags name another
   * address.
   */
  async serve(...flags: readonly string[]): Promise<{ readonly daemon: CliProcess; readonly url: string }> {
    const listen = flags.includes("--listen") ? [] : ["--listen", "127.0.0.1:0"];
    const daemon = this.start(["daemon", "--registry", this.registry, "--json", ...listen, ...flags]);
    const { url } = JSON.parse(await daemon.line()) as { url: string };
    return { daemon, url };
  }

  /** Writes the file of a daemon's tokens from lines `TOKEN ROLE [GLOB]`. It hashes each token. */
  tokens(...lines: readonly string[]): string {
    const path = join(this.work, "tokens");
    writeFileSync(path, lines.map((line) => line.replace(/^\S+/, hashOf)).join("\n"), { mode: 0o600 });
    return path;
  }

  /** Takes over a process that was started in another way. */
  started(child: ChildProcess): CliProcess {
    const started = new CliProcess(child);
    this.#running.add(started);
    return started;
  }

  /** Runs a command line to its end. */
  run(args: readonly string[], { env, input = "" }: RunOptions = {}): Promise<CliResult> {
    const process = this.start(args, env);
    process.closeStdin(input);
    return process.ended;
  }

  /** Runs a command line that must succeed, and returns its output. */
  async read(args: readonly string[], options?: RunOptions): Promise<string> {
    const result = await this.run(args, options);
    expect(result).toMatchObject({ code: 0, stderr: "" });
    return result.stdout;
  }
}

/** The hash that a file of tokens has in place of a token. */
export function hashOf(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}

/** A running command line. */
export class CliProcess {
  readonly ended: Promise<CliResult>;
  readonly #child: ChildProcess;
  readonly #lines: string[] = [];
  #stdout = "";
  #stderr = "";
  #over = false;

  constructor(child: ChildProcess) {
    this.#child = child;
    child.stdin?.on("error", () => undefined);
    child.stdout?.on("data", (chunk: Buffer) => (this.#stdout += chunk.toString()));
    child.stderr?.on("data", (chunk: Buffer) => (this.#stderr += chunk.toString()));
    if (child.stdout) createInterface({ input: child.stdout }).on("line", (line) => this.#lines.push(line));
    this.ended = new Promise((resolve) => {
      child.once("close", (code, signal) => {
        this.#over = true;
        const number = code ?? 128 + (signal === null ? 0 : constants.signals[signal]);
        resolve({ code: number, stdout: this.#stdout, stderr: this.stderr });
      });
    });
  }

  get pid(): number {
    const { pid } = this.#child;
    if (pid === undefined) throw new Error("It was not started.");
    return pid;
  }

  get stderr(): string {
    return withoutNotices(this.#stderr);
  }

  /** What the command line reported about its registry, line by line. */
  get notices(): readonly string[] {
    return this.#stderr.match(notice) ?? [];
  }

  get isOver(): boolean {
    return this.#over;
  }

  /** The next unread line of stdout. */
  async line(): Promise<string> {
    for (;;) {
      const line = this.#lines.shift();
      if (line !== undefined) return line;
      if (this.#over) throw new Error(`It ended without a further line: ${this.#stderr}`);
      await sleep(5);
    }
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  write(text: string): void {
    this.#child.stdin?.write(text);
  }

  closeStdin(input = ""): void {
    this.#child.stdin?.end(input);
  }

  /** Stops reading the output, as `head` does when it has enough. */
  closeStdout(): void {
    this.#child.stdout?.destroy();
  }

  /** kill -9, if the process still runs. */
  async kill(): Promise<void> {
    if (!this.#over) this.#child.kill("SIGKILL");
    // Processes that it started may outlive it, and keep these pipes open.
    this.#child.stdout?.destroy();
    this.#child.stderr?.destroy();
    await this.ended;
  }
}

/** Waits until something holds. The test's own timeout ends it. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await sleep(10);
}
