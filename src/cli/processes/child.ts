import { type ChildProcess, spawn } from "node:child_process";
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { SnowleaseError } from "../../id/errors.ts";
import { signalExitCode } from "./signals.ts";

/** Signals that end this process before the program has started. */
export const endingSignals: readonly NodeJS.Signals[] = ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"];
/** Signals that a child gets when we get them. */
export const passedSignals: readonly NodeJS.Signals[] = [...endingSignals, "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGCONT"];

/** Of these, what a terminal sends to every process in its foreground: a child that shares our terminal has got them already. */
const fromTerminal: readonly NodeJS.Signals[] = ["SIGINT", "SIGQUIT", "SIGWINCH", "SIGCONT"];

/** How long a program may take to end when it is asked to, ms. */
const patience = 10_000;

/** How often it is looked whether processes are gone, ms. */
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
 * A program that runs with our stdin, stdout and stderr. On a terminal it shares our process group, so that job control goes on
 * to work; elsewhere it has one of its own, and its descendants are stopped with it.
 */
export class Child {
  /** Its exit code, 128 + n where signal n ended it. Rejects with a StartFailure. */
  readonly ended: Promise<number>;
  readonly #process: ChildProcess;
  readonly #ownGroup: boolean;
  readonly #kill = (): void => void this.#signal("SIGKILL");

  /** @throws StartFailure, too */
  constructor([program = "", ...args]: readonly string[], env: NodeJS.ProcessEnv) {
    this.#ownGroup = ![process.stdin, process.stdout, process.stderr].some(({ isTTY }) => isTTY);
    try {
      this.#process = spawn(program, args, { stdio: "inherit", env, detached: this.#ownGroup });
    } catch (cause) {
      throw new StartFailure(program, cause);
    }
    // At every end of this process but SIGKILL: without it, the lease is not renewed.
    process.on("exit", this.#kill);
    this.ended = new Promise((resolve, reject) => {
      this.#process.once("error", (cause) => reject(new StartFailure(program, cause)));
      this.#process.once("exit", (code, signal) => resolve(signal === null ? (code ?? 0) : signalExitCode(signal)));
    });
  }

  /** Whether there ever was a process. */
  get hasRun(): boolean {
    return this.#process.pid !== undefined;
  }

  /** Passes a signal that we got. */
  pass(signal: NodeJS.Signals): void {
    if (this.#ownGroup || !fromTerminal.includes(signal)) this.#process.kill(signal);
  }

  /** Ends the program and the rest of its process group: SIGTERM first, SIGKILL after a while or when `grace` reaches 0 ms. */
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

  /** Whether a process is left that gets the signal; 0 only asks. */
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
