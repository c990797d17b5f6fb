// A service that makes IDs, as a process of its own that a proof can kill, stop and give a wrong clock. It writes every ID to a file before
// it makes the next handful, and each window before it makes an ID in it, and is told over IPC what to do.
import { openSync, writeSync } from "node:fs";
import type { Registry } from "../rule/registry.ts";
import { isSnowleaseError } from "../id/errors.ts";
import type { Snowflake } from "../generator/snowflake.ts";
import { snowlease, type SnowleaseOptions } from "../snowlease.ts";
import { type HolderEvent, type HolderState, setupVariable } from "./holder-protocol.ts";
import { followWallClock } from "./wall-clock.ts";

/** In the environment: every user of the machine can read the arguments of a process, and a URL may hold a password. */
const { options, idFile } = JSON.parse(process.env[setupVariable] ?? "{}") as {
  readonly options: SnowleaseOptions;
  readonly idFile: string;
};
delete process.env[setupVariable];
followWallClock();
const file = openSync(idFile, "a");
const handful = 64;

const events: HolderEvent[] = [];
const failures: Record<string, number> = {};
let ids: Snowflake | undefined;
let running = false;
let calls = 0;
let noted: unknown;

/** Writes down what the holder knows of its window, before it makes an ID in it. */
function noteWindow(): void {
  const snapshot = held().lease.snapshot;
  if (snapshot === undefined || snapshot === noted) return;
  noted = snapshot;
  const { workerId, fence, from, until, knownFrom } = snapshot;
  writeSync(file, `# ${JSON.stringify({ workerId, fence, from, until, knownFrom })}\n`);
}

function held(): Snowflake {
  if (ids === undefined) throw new Error("it was not started");
  return ids;
}

/** A registry of an author's own comes from the author's module. */
async function opened({ registry }: SnowleaseOptions): Promise<Pick<SnowleaseOptions, "registry">> {
  if (typeof registry !== "string" || !registry.startsWith("file:")) return {};
  const { default: open } = (await import(registry)) as { default: () => Registry | Promise<Registry> };
  return { registry: await open() };
}

/** Makes up to `count` IDs without waiting; what ended it, if anything did. */
function make(count: number): HolderState["error"] {
  const made: bigint[] = [];
  const generator = held();
  try {
    while (made.length < count) made.push(generator.next());
    return undefined;
  } catch (error) {
    if (!isSnowleaseError(error)) throw error;
    failures[error.code] = (failures[error.code] ?? 0) + 1;
    return { code: error.code, message: error.message, retryAfterMs: error.details.retryAfterMs };
  } finally {
    if (made.length > 0) writeSync(file, `${made.join("\n")}\n`);
  }
}

function state(): HolderState {
  const { workerId, fence, from, until, state } = held().lease;
  return { workerId, fence, from, until, state, now: Date.now(), calls, events, failures };
}

const counted = ["acquired", "renewed", "renew-failed"] as const;
const told = ["acquired", "renew-failed", "lost", "switched", "released", "clock.rollback", "clock.jump"] as const;

const commands: Readonly<Record<string, (rest: Record<string, number>) => unknown>> = {
  ready: () => ({ now: Date.now() }),
  async start() {
    const generator = await snowlease({ ...options, ...(await opened(options)) });
    ids = generator;
    const { lease } = generator;
    for (const name of counted) lease.on(name, () => calls++);
    for (const name of told) {
      lease.on(name, (payload: object) => {
        const { error, ...facts } = payload as { readonly error?: { readonly code: string } };
        events.push({ name, ...facts, code: error?.code, at: Date.now() });
      });
    }
    noteWindow();
    lease.onChange(noteWindow);
    return state();
  },
  make({ count = 1 }) {
    const error = make(count);
    return { ...state(), error };
  },
  /**
   * Makes IDs all the time, from now on, and again after every failure. `pause`: between two handfuls, ms. Without one, a dozen holders would
   * leave the servers beside them no time.
   */
  run({ pause = 2 }) {
    running = true;
    const turn = (): void => {
      if (!running) return;
      const error = make(handful);
      setTimeout(turn, error === undefined ? pause : Math.max(5, pause));
    };
    turn();
    return state();
  },
  pause() {
    running = false;
    return state();
  },
  /** A whole life in one command: nothing waits for the test in between. */
  async live({ ms = 0 }) {
    const began = await commands["start"]?.({});
    const end = performance.now() + ms;
    let error: HolderState["error"];
    do error = make(handful);
    while (performance.now() < end && error === undefined);
    const ended = state();
    await held().close();
    return { ...ended, began, error };
  },
  state,
  async renew() {
    await held().lease.renew();
    return state();
  },
  async close() {
    running = false;
    await held().close();
    return state();
  },
};

async function obey({ id, command, ...rest }: { readonly id: number; readonly command: string }): Promise<void> {
  try {
    process.send?.({ id, answer: await commands[command]?.(rest) });
  } catch (error) {
    const { code, message, retryable, details } = error as Record<string, unknown>;
    process.send?.({ id, error: { code, message, retryable, details } });
  }
}

process.on("message", (message) => void obey(message as Parameters<typeof obey>[0]));
process.on("disconnect", () => process.exit());
