import { type ChildProcess, fork } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { configInvalid, shown } from "../id/errors.ts";
import type { MadeId } from "./duplicates.ts";

/** What makes IDs, as the module of a holder returns it. */
export interface IdSource {
  /** The next ID. An error is a refusal: the holder asks again. */
  next(): MadeId | Promise<MadeId>;
  /** Ends it in the usual way. */
  close?(): unknown;
}

/** Options of a holder. */
export interface HolderOptions {
  /**
   * The file of a module whose default export starts a program that makes IDs: a function of `options` that returns an `IdSource`, or a
   * promise of one. Default: `snowlease(options)`.
   */
  readonly module?: string | URL | undefined;
  /** A registry URL, for `snowlease(options)`. Not `memory:`, which no other process sees. */
  readonly registry?: string | undefined;
  /** Passed to the program; JSON. */
  readonly options?: Readonly<Record<string, unknown>> | undefined;
  /** What its wall clock shows when it starts, Unix ms. Default: the machine's time. */
  readonly clock?: number | undefined;
  /** Arguments of Node, such as `["--import", "tsx"]` for a module in TypeScript. Default: none. */
  readonly execArgv?: readonly string[] | undefined;
}

/** What came of an order to make IDs. */
export interface LifeReport {
  /** What the holder's wall clock showed when it began, Unix ms. */
  readonly began: number;
  readonly made: number;
  /** How often the program refused, by the error's `code`, or else its name. */
  readonly refusals: Readonly<Record<string, number>>;
  /** The message of the first refusal. */
  readonly reason?: string | undefined;
}

/** A process that makes IDs, which a test can kill, stop and set back in time. It ends with the test's process. */
export interface Holder {
  /** All IDs that it made, in their order, as text: also after it was killed. */
  readonly ids: readonly string[];
  /** Makes so many IDs; fewer where the program refuses for 10 s. */
  make(count: number): Promise<LifeReport>;
  /** Makes IDs for so many ms, a few in each. */
  live(ms: number): Promise<LifeReport>;
  /** Sets its wall clock, Unix ms. */
  setClock(wall: number): Promise<void>;
  /** Sends SIGSTOP: it stands still, and answers nothing until `resume`. */
  stop(): void;
  /** Sends SIGCONT: it goes on, as if no time had passed. */
  resume(): void;
  /** Ends its program in the usual way, then its process. Rejects with what `close` threw. */
  close(): Promise<void>;
  /** kill -9. */
  kill(): Promise<void>;
}

/** What the process is told when it is forked. */
export interface HolderStart {
  readonly module: string | undefined;
  readonly registry: string | undefined;
  readonly options: object;
  /** Where it writes the IDs. */
  readonly file: string;
}

/** A call to the process. */
export type HolderCall =
  | { readonly name: "load" | "close" }
  | { readonly name: "start"; readonly clock: number | undefined }
  | { readonly name: "live"; readonly count?: number; readonly ms?: number }
  | { readonly name: "set-clock"; readonly clock: number };

interface Waiting {
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: Error) => void;
}

interface HolderAnswer {
  readonly id: number;
  readonly answer?: unknown;
  readonly error?: { readonly message: string; readonly code?: string };
}

const program = fileURLToPath(new URL("./holder-process.js", import.meta.url));

/**
 * Starts a process that makes IDs. The clock is set when the module is loaded and its program begins.
 * @throws SnowleaseError CONFIG_INVALID for options that make no sense; what the program failed with when it started.
 */
export async function startHolder(options: HolderOptions): Promise<Holder> {
  checkOptions(options);
  const holder = new HolderProcess(options);
  try {
    await holder.ask({ name: "load" });
    await holder.ask({ name: "start", clock: options.clock });
  } catch (error) {
    await holder.kill();
    throw error;
  }
  return holder;
}

/** Those that run. A process that was stopped does not notice that its parent ends. */
const running = new Set<HolderProcess>();
process.on("exit", () => {
  for (const holder of running) holder.abandon();
});

class HolderProcess implements Holder {
  readonly #folder = mkdtempSync(join(tmpdir(), "snowlease-holder-"));
  readonly #file = join(this.#folder, "ids");
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, Waiting>();
  readonly #ended: Promise<void>;
  #calls = 0;
  #said = "";
  /** All that it made, once it has ended. */
  #made: readonly string[] | undefined;

  constructor({ module, registry, options = {}, execArgv = [] }: HolderOptions) {
    const url = module === undefined ? undefined : moduleUrl(module);
    const start: HolderStart = { module: url, registry, options, file: this.#file };
    this.#child = fork(program, [JSON.stringify(start)], {
      execArgv: [...execArgv],
      stdio: ["ignore", "ignore", "pipe", "ipc"],
    });
    running.add(this);
    this.#child.stderr?.on("data", (chunk: Buffer) => (this.#said = (this.#said + chunk.toString()).slice(-2000)));
    this.#child.on("message", (message) => this.#hear(message as HolderAnswer));
    this.#ended = new Promise((resolve) => {
      this.#child.once("close", (code, signal) => {
        this.#made = this.#read();
        this.#forget();
        const how = signal === null ? `with code ${code}` : `by ${signal}`;
        const failure = new Error(`The holder's process ended ${how}${this.#said === "" ? "" : `: ${this.#said}`}`);
        for (const { reject } of this.#waiting.values()) reject(failure);
        this.#waiting.clear();
        resolve();
      });
    });
  }

  get ids(): readonly string[] {
    return this.#made ?? this.#read();
  }

  make(count: number): Promise<LifeReport> {
    return this.ask({ name: "live", count }) as Promise<LifeReport>;
  }

  live(ms: number): Promise<LifeReport> {
    return this.ask({ name: "live", ms }) as Promise<LifeReport>;
  }

  async setClock(wall: number): Promise<void> {
    await this.ask({ name: "set-clock", clock: wall });
  }

  stop(): void {
    this.#child.kill("SIGSTOP");
  }

  resume(): void {
    this.#child.kill("SIGCONT");
  }

  async close(): Promise<void> {
    try {
      await this.ask({ name: "close" });
    } finally {
      await this.kill();
    }
  }

  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#ended;
  }

  ask(call: HolderCall): Promise<unknown> {
    const id = this.#calls++;
    return new Promise((resolve, reject) => {
      if (this.#made !== undefined) return reject(new Error("The holder's process has ended."));
      this.#waiting.set(id, { resolve, reject });
      // Where it cannot be sent, the process is about to end, which rejects all that wait.
      this.#child.send({ id, call }, () => undefined);
    });
  }

  /** Ends it with the process that started it. */
  abandon(): void {
    this.#child.kill("SIGKILL");
    this.#forget();
  }

  #forget(): void {
    running.delete(this);
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #hear({ id, answer, error }: HolderAnswer): void {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (error === undefined) waiting?.resolve(answer);
    else waiting?.reject(Object.assign(new Error(error.message), error.code !== undefined && { code: error.code }));
  }

  #read(): readonly string[] {
    try {
      // The last line may lack its end: the process was killed while it wrote.
      return readFileSync(this.#file, "utf8").split("\n").slice(0, -1);
    } catch {
      return [];
    }
  }
}

function moduleUrl(module: string | URL): string {
  if (module instanceof URL) return module.href;
  return module.startsWith("file:") ? module : pathToFileURL(resolve(module)).href;
}

/** @throws SnowleaseError CONFIG_INVALID */
function checkOptions({ module, registry }: HolderOptions): void {
  if (module === undefined && registry === undefined) {
    throw configInvalid("Expected `module` or `registry`, got neither; name what makes the IDs.");
  }
  if (registry?.startsWith("memory:") === true) {
    throw configInvalid(
      `Expected a registry that several processes share, got ${shown(registry)}; name one such as sqlite:PATH.`,
    );
  }
}
