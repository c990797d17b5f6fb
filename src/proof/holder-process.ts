import { type ChildProcess, fork, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { type HolderState, type NotedWindow, setupVariable } from "./holder-protocol.ts";

/** An error that came back from a holder. */
export class HolderError extends Error {
  readonly code: string;
  readonly details: {
    readonly retryAfterMs?: number;
    readonly behindMs?: number;
    readonly refusal?: { readonly workerId?: number; readonly freeAt?: number };
  };

  constructor({ code, message, details }: { code: string; message: string; details: HolderError["details"] }) {
    super(message);
    this.code = code;
    this.details = details;
  }
}

/** What a holder runs in. */
export interface HolderSurroundings {
  /** For the file of its IDs. */
  readonly folder: string;
  readonly environment?: Readonly<Record<string, string>> | undefined;
}

/** What a holder wrote: each ID, with the window that it knew of when it made it; undefined where it knew of none. */
export interface MadeId {
  readonly id: bigint;
  readonly window: NotedWindow | undefined;
}

/** The built program: also where this runs from source. */
const program = resolve(import.meta.dirname, "../../dist/proof/holder-program.js");

/** All that run: none outlives this process, also where it is stopped. */
const running = new Set<ChildProcess>();
process.once("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

/** A process that leases a worker ID and makes IDs. */
export class HolderProcess {
  readonly idFile: string;
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, { resolve: (state: HolderState) => void; reject: (error: Error) => void }>();
  #asked = 0;

  /** `options`: of `snowlease`. */
  constructor(options: object, { folder, environment }: HolderSurroundings) {
    this.idFile = join(folder, `${crypto.randomUUID()}.ids`);
    writeFileSync(this.idFile, "");
    const setup = JSON.stringify({ options, idFile: this.idFile });
    this.#child = fork(program, [], {
      env: { ...surroundings(), ...environment, [setupVariable]: setup },
      execArgv: [],
      stdio: ["ignore", "ignore", "inherit", "ipc"],
    });
    running.add(this.#child);
    this.#child.on("message", ({ id, answer, error }: { id: number; answer: HolderState; error?: never }) => {
      const waiting = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (error === undefined) waiting?.resolve(answer);
      else waiting?.reject(new HolderError(error));
    });
    this.#child.on("exit", (code, signal) => {
      running.delete(this.#child);
      for (const { reject } of this.#waiting.values()) reject(new Error(`The holder ended (${signal ?? code}).`));
      this.#waiting.clear();
    });
    this.#child.on("error", () => undefined);
  }

  ask(command: string, rest: object = {}): Promise<HolderState> {
    const id = ++this.#asked;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#child.send({ id, command, ...rest }, (error) => error !== null && reject(error));
    });
  }

  /** Every ID that it has made so far. */
  ids(): bigint[] {
    return lines(this.idFile)
      .filter((line) => line !== "" && !line.startsWith("#"))
      .map(BigInt);
  }

  /** The same, with the windows that it knew of. */
  *made(): Generator<MadeId> {
    let window: NotedWindow | undefined;
    for (const line of lines(this.idFile)) {
      if (line.startsWith("#")) window = JSON.parse(line.slice(1)) as NotedWindow;
      else if (line !== "") yield { id: BigInt(line), window };
    }
  }

  get hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  signal(signal: "SIGSTOP" | "SIGCONT"): void {
    this.#child.kill(signal);
  }

  /** Stops it for a while. It goes on also where this process is killed meanwhile, and then ends. */
  stopFor(ms: number): void {
    const pid = String(this.#child.pid ?? 0);
    const script = 'kill -STOP "$0"; sleep "$1"; kill -CONT "$0"';
    spawn("sh", ["-c", script, pid, String(ms / 1000)], { stdio: "ignore", detached: true }).unref();
  }

  /** kill -9, or a plain end where it has nothing left to lose. */
  async kill(): Promise<void> {
    if (this.hasEnded) return;
    const exit = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await exit;
  }
}

/** The lines of a file. One that has no end was cut off with its writer. */
function lines(file: string): string[] {
  return readFileSync(file, "utf8").split("\n").slice(0, -1);
}

/** The environment, less what would tell a holder something. */
function surroundings(): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(SNOWLEASE|WESTID|NODE_OPTIONS|VITEST)/.test(name)),
  );
}
