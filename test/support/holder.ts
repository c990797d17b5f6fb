import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { onTestFinished } from "vitest";
import { atTheEnd } from "./at-the-end.ts";
import { isAlive, whyMissing } from "./servers.ts";

/** Looks again and again until the condition holds. If it never does, the test's own timeout ends it. */
export async function eventually<T>(look: () => Promise<T>, isSo: (seen: T) => boolean): Promise<T> {
  for (;;) {
    const seen = await look();
    if (isSo(seen)) return seen;
    await sleep(20);
  }
}

/** What a holder reports of itself. */
export interface HolderState {
  readonly workerId: number;
  readonly fence: number;
  readonly from: number;
  readonly until: number;
  readonly state: string;
  /** Its wall clock, Unix ms. */
  readonly now: number;
  readonly events: readonly HolderEvent[];
  /** Error code -> how often `next` threw it. */
  readonly failures: Readonly<Record<string, number>>;
  readonly error?: { readonly code: string; readonly message: string; readonly retryAfterMs?: number } | undefined;
}

interface HolderEvent {
  readonly name: string;
  readonly at: number;
  readonly code?: string;
  readonly workerId?: number;
  readonly continued?: boolean;
  readonly rollback?: number;
  readonly by?: number;
  readonly action?: string;
  readonly reason?: string;
  readonly doubt?: { readonly from: number; readonly until: number };
}

/** An error that came back from a holder. */
export class HolderError extends Error {
  readonly code: string;
  readonly details: { readonly retryAfterMs?: number; readonly behindMs?: number; readonly refusal?: object };

  constructor({ code, message, details }: { code: string; message: string; details: HolderError["details"] }) {
    super(message);
    this.code = code;
    this.details = details;
  }
}

/** A folder that is removed with the test. */
function newFolder(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `snowlease-${name}-`));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** The wall clock of some holders. A test sets it back or forward while they run, like a real step. The monotonic clock stays. */
export class WallClock {
  /** The file that says how far the clock is ahead, such as `+1.5s`. */
  readonly file: string;

  /** @param folder for the file with the offset. Default: one that is removed with the test. */
  constructor(offsetSeconds = 0, folder: string = newFolder("clock")) {
    this.file = join(folder, "offset");
    this.set(offsetSeconds);
  }

  set(offsetSeconds: number): void {
    const next = `${this.file}.next`;
    writeFileSync(next, `${offsetSeconds < 0 ? "" : "+"}${offsetSeconds}s\n`);
    renameSync(next, this.file);
  }

  get environment(): Record<string, string> {
    return {
      LD_PRELOAD: faketime(),
      FAKETIME_TIMESTAMP_FILE: this.file,
      FAKETIME_NO_CACHE: "1",
      FAKETIME_DONT_FAKE_MONOTONIC: "1",
    };
  }
}

const library = readdirSync("/usr/lib")
  .map((folder) => join("/usr/lib", folder, "faketime", "libfaketimeMT.so.1"))
  .find((path) => existsSync(path));

/** Why no wall clock can be set; undefined if one can. */
export const clocksMissing: string | undefined = whyMissing("libfaketime", () => library !== undefined, "faketime");

const shared = "/dev/shm";
/** If a process is killed, the library leaves behind the memory that it shares between processes. */
atTheEnd(() => {
  for (const name of existsSync(shared) ? readdirSync(shared) : []) {
    const [, pid] = /^(?:sem\.faketime_sem|faketime_shm)_(\d+)$/.exec(name) ?? [];
    if (pid === undefined || isAlive(Number(pid))) continue;
    try {
      rmSync(join(shared, name), { force: true });
    } catch {
      // The file belongs to another user.
    }
  }
});

function faketime(): string {
  if (library === undefined) throw new Error("There is no libfaketime.");
  return library;
}

/** A process that leases a worker ID and makes IDs. */
export class HolderProcess {
  readonly idFile: string;
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, { resolve: (state: HolderState) => void; reject: (error: Error) => void }>();
  #asked = 0;

  /** @param clock its wall clock, or other additions to its environment. */
  constructor(options: object, clock?: Pick<WallClock, "environment">) {
    this.idFile = join(newFolder("ids"), "ids");
    writeFileSync(this.idFile, "");
    this.#child = fork(join(import.meta.dirname, "holder.mjs"), [JSON.stringify(options), this.idFile], {
      env: { ...withoutSnowlease(), ...clock?.environment },
      stdio: ["ignore", "inherit", "inherit", "ipc"],
    });
    this.#child.on("message", ({ id, answer, error }: { id: number; answer: HolderState; error?: never }) => {
      const waiting = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (error === undefined) waiting?.resolve(answer);
      else waiting?.reject(new HolderError(error));
    });
    this.#child.on("exit", (code, signal) => {
      for (const { reject } of this.#waiting.values()) reject(new Error(`The holder ended (${signal ?? code}).`));
    });
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
    return readFileSync(this.idFile, "utf8").split("\n").filter(Boolean).map(BigInt);
  }

  signal(signal: "SIGSTOP" | "SIGCONT"): void {
    this.#child.kill(signal);
  }

  /** kill -9, or a usual end if it has nothing left to lose. */
  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const exit = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await exit;
  }
}

/** The environment without the variables that would configure a holder. */
export function withoutSnowlease(): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(SNOWLEASE|WESTID|NODE_OPTIONS|VITEST)/.test(name)),
  );
}
