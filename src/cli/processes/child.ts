import { type ChildProcess, spawn } from "node:child_process";
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { SnowleaseError } from "../../id/errors.ts";
import { signalExitCode } from "./signals.ts";

/** Signals that end this process before the program has started. */
export const endingSignals: readonly NodeJS.Signals[] = ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"];
/** Signals that this process passes on to its child. */
export const passedSignals: readonly NodeJS.Signals[] = [...endingSignals, "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGCONT"];

/** The passed signals that a terminal sends to every process in its foreground. A child on the same terminal has got them already. */
const fromTerminal: readonly NodeJS.Signals[] = ["SIGINT", "SIGQUIT", "SIGWINCH", "SIGCONT"];

/** How long a program may take to end after SIGTERM, ms. */
const patience = 10_000;

/** The interval between two checks whether processes are gone, ms. */
const lookInterval = 10;

/** A program that could not be started, and the exit code that shells have for it. */
export class StartFailure extends SnowleaseError {
  readonly exitCode: number;

  constructor(program: string, cause: unknown) {
    const { code: why = String(cause) } = cause as NodeJS.ErrnoException;
    const missing = why === "ENOENT";
    const advice = missing ? "PATH has no program of this name; correct the name" : `${why}; make it executable`;
    super(missing ? "NOT_FOUND" : "CONFIG_INVALID", `\`${program}\` could not be started: ${advice}.`, {}, { cause });
    this.exitCode = missing ? 127 : 126;
  }
}

/**
 * A program that runs with the stdin, stdout and stderr of this process. On a terminal it shares the process group of this process, so
 * that job control still works. Elsewhere it has its own process group, and its descendants are stopped with it.
 */
export class Child {
  /** The exit code of the program, 128 + n if signal n ended it. Rejects with a StartFailure. */
  readonly ended: Promise<number>;
  readonly #process: ChildProcess;
  readonly #ownGroup: boolean;
  readonly #kill = (): void => void this.#signal("SIGKILL");

  /** @throws StartFailure */
  constructor([program = "", ...args]: readonly string[], env: NodeJS.ProcessEnv) {
    this.#ownGroup = ![process.stdin, process.stdout, process.stderr].some(({ isTTY }) => isTTY);
    try {
      this.#process = spawn(program, args, { stdio: "inherit", env, detached: this.#ownGroup });
    } catch (cause) {
      throw new StartFailure(program, cause);
    }
    // Kill the program at every end of this process but SIGKILL: without this process, the lease is not renewed.
    process.on("exit", this.#kill);
    this.ended = new Promise((resolve, reject) => {
      this.#process.once("error", (cause) => reject(new StartFailure(program, cause)));
      this.#process.once("exit", (code, signal) => resolve(signal === null ? (code ?? 0) : signalExitCode(signal)));
    });
  }

  /** Whether a process has ever existed. */
  get hasRun(): boolean {
    return this.#process.pid !== undefined;
  }

  /** Passes a signal that this process got. */
  pass(signal: NodeJS.Signals): void {
    if (this.#ownGroup || !fromTerminal.includes(signal)) this.#process.kill(signal);
  }

  /**
   * Ends the program and the rest of its process group: first with SIGTERM, then with SIGKILL after a while or when `grace` reaches 0 ms.
   */
  async stop(grace: () => number): Promise<void> {
    const end = performance.now() + patience;
    this.#signal("SIGTERM");
    while (this.#signal(0)) {
      const left = Math.min(grace(), end - performance.now());
      if (left <= 0) break;
      await sleep(Math.min(lookInterval, left));
    }
    this.#kill();
    await this.ended;
    process.off("exit", this.#kill);
  }

  /** Sends a signal. Returns whether a process is left that gets it; signal 0 only asks. */
  #signal(signal: NodeJS.Signals | 0): boolean {
    const { pid, exitCode, signalCode } = this.#process;
    if (pid === undefined) return false;
    if (!this.#ownGroup) return exitCode === null && signalCode === null && this.#process.kill(signal);
    try {
      return process.kill(-pid, signal);
    } catch (error) {
      // EPERM: a process exists, and this user may not signal it.
      return (error as NodeJS.ErrnoException).code === "EPERM";
    }
  }
}
