import { type ChildProcess, fork } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { configInvalid, type ErrorCode, errorCodes, shown, SnowleaseError } from "../id/errors.ts";
import type { MadeId } from "./duplicates.ts";

/** A maker of IDs, as the module of a holder returns it. */
export interface IdSource {
  /** The next ID. An error is a refusal: the holder asks again. */
  next(): MadeId | Promise<MadeId>;
  /** Ends the maker in the usual way. */
  close?(): unknown;
}

/** Options of a holder. */
export interface HolderOptions {
  /**
   * The file of a module whose default export starts a program that makes IDs: a function of `options` that returns an `IdSource`, or a
   * promise of one. A relative path begins at the working directory.
   */
  readonly module?: string | URL | undefined;
  /** In place of `module`: a registry URL, for `snowlease(options)`. Not `memory:`, which no other process sees. */
  readonly registry?: string | undefined;
  /** Passed to the program. Functions cannot be passed, since the program runs in another process. */
  readonly options?: object | undefined;
  /** What the process' `Date` shows when the module is loaded, and again when the program starts, Unix ms. Default: the machine's time. */
  readonly clock?: number | undefined;
  /** Arguments of Node, such as `["--import", "tsx"]` for a module in TypeScript. Default: none. */
  readonly execArgv?: readonly string[] | undefined;
}

/** The result of a call that makes IDs. */
export interface LifeReport {
  /** What the holder's `Date` showed when it began, Unix ms. */
  readonly began: number;
  readonly made: number;
  /** How often the program refused, by the error's `code`, or by its name if it has no `code`. */
  readonly refusals: Readonly<Record<string, number>>;
  /** The message of the first refusal. */
  readonly reason?: string | undefined;
}

/**
 * A process that makes IDs. A test can kill it, stop it and set its clock back. It ends when the test's process ends, unless it is
 * stopped at that time: kill it, or declare it with `await using`.
 */
export interface Holder extends AsyncDisposable {
  /** The IDs that it made, in their order, as text. After kill -9, one ID may be missing: the one that `next` was about to return. */
  readonly ids: readonly string[];
  /** Makes so many IDs. Makes fewer if the program refuses for 10 s. */
  make(count: number): Promise<LifeReport>;
  /** Makes IDs for so many ms, a few in each ms. */
  live(ms: number): Promise<LifeReport>;
  /** Sets its `Date`, Unix ms. */
  setClock(wall: number): Promise<void>;
  /** Sends SIGSTOP: the process stands still, and does not answer until `resume`. Windows has no such signal. */
  stop(): void;
  /** Sends SIGCONT: the process goes on, as if no time had passed. */
  resume(): void;
  /** Ends the program in the usual way, then the process. Rejects with the error of `close`. */
  close(): Promise<void>;
  /** kill -9. */
  kill(): Promise<void>;
}

/** What the process gets at its start. */
export interface HolderStart {
  readonly module: string | undefined;
  readonly registry: string | undefined;
  readonly options: object;
  /** Where the process writes the IDs. */
  readonly file: string;
  readonly clock: number | undefined;
}

/** A call to the process. */
export type HolderCall =
  | ({ readonly name: "load" } & HolderStart)
  | { readonly name: "start" | "close" }
  | { readonly name: "live"; readonly count?: number; readonly ms?: number }
  | { readonly name: "set-clock"; readonly clock: number };

interface Waiting {
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: Error) => void;
}

interface HolderAnswer {
  readonly id: number;
  readonly answer?: unknown;
  readonly error?: { readonly message: string; readonly code?: string | undefined; readonly name: string };
}

const program = fileURLToPath(new URL("./holder-process.js", import.meta.url));

/**
 * Starts a process that makes IDs. Its module is loaded, then its program starts.
 * @throws SnowleaseError CONFIG_INVALID for options that make no sense; the error with which the program failed at its start.
 */
export function startHolder(options: HolderOptions): Promise<Holder> {
  return HolderProcess.start(options);
}

/** The processes that run. A stopped process does not notice that its parent ends. */
const running = new Set<HolderProcess>();
process.on("exit", () => {
  for (const holder of running) holder.abandon();
});

/** `Holder`, for the matrix. */
export class HolderProcess implements Holder {
  readonly #folder = mkdtempSync(join(tmpdir(), "snowlease-holder-"));
  readonly #file = join(this.#folder, "ids");
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, Waiting>();
  readonly #ended: Promise<void>;
  /** How long its program took to start, ms. */
  startTime = 0;
  #calls = 0;
  #said = "";
  /** All IDs that the process made; undefined until it has ended. */
  #made: readonly string[] | undefined;

  /** @throws as `startHolder` */
  static async start(options: HolderOptions): Promise<HolderProcess> {
    checkOptions(options);
    const holder = new HolderProcess(options);
    try {
      await holder.#load(options);
      const began = performance.now();
      await holder.#ask({ name: "start" });
      holder.startTime = performance.now() - began;
    } catch (error) {
      await holder.kill();
      throw error;
    }
    return holder;
  }

  private constructor({ execArgv = [] }: HolderOptions) {
    running.add(this);
    this.#child = fork(program, [], {
      execArgv: [...execArgv],
      stdio: ["ignore", "ignore", "pipe", "ipc"],
      // JSON would leave out a function among the options without an error.
      serialization: "advanced",
    });
    this.#child.stderr?.on("data", (chunk: Buffer) => (this.#said = (this.#said + chunk.toString()).slice(-2000)));
    this.#child.on("message", (message) => this.#hear(message as HolderAnswer));
    this.#ended = new Promise((resolve) => {
      const end = (how: string): void => {
        this.#made ??= this.#read();
        this.#forget();
        const said = this.#said.trim() === "" ? "" : `: ${this.#said.trim()}`;
        for (const { reject } of this.#waiting.values()) reject(new Error(`The holder's process ended ${how}${said}`));
        this.#waiting.clear();
        // A child process of the program may still have this pipe open.
        this.#child.stderr?.destroy();
        resolve();
      };
      this.#child.once("error", ({ message }) => end(`before it began (${message})`));
      // The last output of the process arrives at its exit, or soon after.
      this.#child.once("exit", (code, signal) =>
        setImmediate(end, signal === null ? `with code ${code}` : `by ${signal}`),
      );
    });
    this.#hold();
  }

  get ids(): readonly string[] {
    return this.#made ?? this.#read();
  }

  async make(count: number): Promise<LifeReport> {
    return (await this.#ask({ name: "live", count: positive("count", count) })) as LifeReport;
  }

  async live(ms: number): Promise<LifeReport> {
    return (await this.#ask({ name: "live", ms: positive("ms", ms) })) as LifeReport;
  }

  async setClock(wall: number): Promise<void> {
    await this.#ask({ name: "set-clock", clock: positive("wall", wall) });
  }

  stop(): void {
    this.#child.kill("SIGSTOP");
  }

  resume(): void {
    this.#child.kill("SIGCONT");
  }

  async close(): Promise<void> {
    try {
      await this.#ask({ name: "close" });
    } finally {
      await this.kill();
    }
  }

  async kill(): Promise<void> {
    this.#child.ref();
    this.#child.kill("SIGKILL");
    await this.#ended;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.kill();
  }

  /** Kills the process because the process that started it ends. */
  abandon(): void {
    this.#child.kill("SIGKILL");
    this.#forget();
  }

  async #load({ module, registry, options = {}, clock }: HolderOptions): Promise<void> {
    const url = module === undefined ? undefined : moduleUrl(module);
    await this.#ask({ name: "load", module: url, registry, options, file: this.#file, clock });
  }

  #forget(): void {
    running.delete(this);
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #ask(call: HolderCall): Promise<unknown> {
    const id = this.#calls++;
    return new Promise((resolve, reject) => {
      if (this.#made !== undefined) return reject(new Error("The holder's process has ended."));
      // If the call cannot be sent, the process is about to end. Its end rejects all waiting calls.
      this.#child.send({ id, call }, () => undefined);
      this.#waiting.set(id, { resolve, reject });
      this.#hold();
    });
  }

  #hear({ id, answer, error }: HolderAnswer): void {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    this.#hold();
    if (error === undefined) waiting?.resolve(answer);
    else waiting?.reject(errorOf(error));
  }

  /** While a call waits, the holder keeps the test's process alive. Otherwise, a holder that the test forgot does not. */
  #hold(): void {
    const { channel, stderr } = this.#child as { channel?: { ref?(): void; unref?(): void } | null; stderr: unknown };
    const pipe = stderr as { ref?(): void; unref?(): void } | null;
    const handles = [this.#child, channel, pipe];
    for (const handle of handles) if (this.#waiting.size > 0) handle?.ref?.();
    for (const handle of handles) if (this.#waiting.size === 0) handle?.unref?.();
  }

  #read(): readonly string[] {
    try {
      // The last line may be incomplete, if the process was killed while it wrote.
      return readFileSync(this.#file, "utf8").split("\n").slice(0, -1);
    } catch (error) {
      // The process ended before it opened the file.
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
      throw error;
    }
  }
}

function errorOf({ message, code, name }: NonNullable<HolderAnswer["error"]>): Error {
  if (errorCodes.includes(code as ErrorCode)) return new SnowleaseError(code as ErrorCode, message);
  return Object.assign(new Error(message), { name }, code !== undefined && { code });
}

function moduleUrl(module: string | URL): string {
  if (module instanceof URL) return module.href;
  return module.startsWith("file:") ? module : pathToFileURL(resolve(module)).href;
}

/** @throws SnowleaseError CONFIG_INVALID */
function positive(name: string, value: number): number {
  if (Number.isFinite(value) && value > 0) return Math.round(value);
  throw configInvalid(`Expected \`${name}\` to be a number above 0, got ${shown(value)}; correct it.`);
}

/** @throws SnowleaseError CONFIG_INVALID */
function checkOptions({ module, registry, clock, options }: HolderOptions): void {
  if ((module === undefined) === (registry === undefined)) {
    const got = module === undefined ? "neither" : "both";
    throw configInvalid(`Expected either \`module\` or \`registry\`, got ${got}; name what makes the IDs.`);
  }
  if (registry?.startsWith("memory:") === true) {
    throw configInvalid(
      `Expected a registry that several processes share, got ${shown(registry)}; name one such as sqlite:PATH.`,
    );
  }
  if (clock !== undefined) positive("clock", clock);
  try {
    structuredClone(options);
  } catch (cause) {
    const { message } = cause as Error;
    throw configInvalid(`Expected \`options\` that another process can get, without functions; ${message}`, cause);
  }
}
