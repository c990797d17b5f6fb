import { setTimeout as sleep } from "node:timers/promises";
import { checkDuration, type Duration } from "../id/duration.ts";
import { configInvalid, errorCodes, isSnowleaseError, shown } from "../id/errors.ts";
import { TooLate, within } from "../registries/deadline.ts";
import { duplicatesIn } from "./duplicates.ts";
import { HolderProcess, type HolderOptions, type LifeReport } from "./holder.ts";
import { ownNamespace } from "./own-namespace.ts";

/** Options of `restartMatrix`. */
export interface RestartMatrixOptions extends Omit<HolderOptions, "clock"> {
  /** Restarts the store, such as its container. If it is left out, the cases that need it are left out, too. */
  readonly restart?: (() => Promise<unknown>) | undefined;
  /** How long a process makes IDs at a time. Default: 500 ms. */
  readonly life?: Duration | undefined;
  /** How long a stopped process stands still. It must be longer than the lease lasts. Default: 3 s. */
  readonly pause?: Duration | undefined;
  /**
   * The `code` of each error with which the program refuses to start or to make an ID, or the error's name if it has no `code`. Any other
   * error fails the case. Default: the codes of Snowlease's errors.
   */
  readonly refusals?: readonly string[] | undefined;
}

/** The result of a case. */
export interface CaseReport {
  readonly title: string;
  /** How many IDs each process made, in the order of their starts. */
  readonly made: readonly number[];
  /** How often the program refused, by the error's `code`, or by its name if it has no `code`. */
  readonly refusals: Readonly<Record<string, number>>;
  /** The time from a restart of the store to the first ID, ms; absent if the store was not restarted. */
  readonly recovered?: number;
}

/** The result of a restart matrix without duplicates. */
export interface RestartReport {
  readonly cases: readonly CaseReport[];
  /** How many IDs were made, all different. */
  readonly ids: number;
}

/** A process of a case; undefined if its program refused to start. */
type Made = HolderProcess | undefined;

/** Longest life or pause, ms. */
const longest = 3_600_000;

/** One program in several processes, one after the other or at once. */
interface Stage {
  readonly life: number;
  readonly pause: number;
  /** Starts a process. `clock`: what its `Date` shows when its program has started, Unix ms. */
  start(clock?: number): Promise<Made>;
  /** Makes IDs for a life, or for so many ms; returns what the process' `Date` showed when it began. */
  live(holder: Made, ms?: number): Promise<number>;
  /** Ends or stops a process while it makes IDs; returns what its `Date` showed before. */
  interrupt(holder: Made, how: (holder: HolderProcess) => unknown): Promise<number>;
  restart(): Promise<void>;
  /** Ends all processes, and waits until a new one makes an ID; returns what its `Date` showed then. @throws Error after 10 min */
  recover(): Promise<number>;
}

interface RestartCase {
  readonly title: string;
  readonly needsRestart?: true;
  /** The case needs signals that Windows does not have. */
  readonly needsSignals?: true;
  run(stage: Stage): Promise<void>;
}

const cases: readonly RestartCase[] = [
  // This case comes first. A store that counts from 1 and forgets its count gives the same numbers again.
  {
    title: "the store restarted while a process makes IDs",
    needsRestart: true,
    async run(stage) {
      const first = await stage.start();
      const began = await stage.live(first);
      await Promise.all([stage.live(first, 4 * stage.life), stage.restart()]);
      const second = await stage.start(began);
      await Promise.all([stage.live(first), stage.live(second)]);
      await stage.live(await stage.start(await stage.recover()));
    },
  },
  {
    title: "killed with -9, and the store restarted before the next start",
    needsRestart: true,
    async run(stage) {
      const began = await stage.interrupt(await stage.start(), (holder) => holder.kill());
      await stage.restart();
      await stage.live(await stage.start(began));
      await stage.live(await stage.start(await stage.recover()));
    },
  },
  {
    title: "stopped in the usual way, and started with the clock set back",
    async run(stage) {
      let clock: number | undefined;
      for (let lives = 0; lives < 3; lives++) {
        const holder = await stage.start(clock);
        const began = await stage.live(holder);
        clock ??= began;
        await holder?.close();
      }
    },
  },
  {
    title: "killed with -9 while IDs are made, and started with the clock set back",
    async run(stage) {
      let clock: number | undefined;
      for (let lives = 0; lives < 3; lives++) {
        const began = await stage.interrupt(await stage.start(clock), (holder) => holder.kill());
        clock ??= began;
      }
    },
  },
  {
    title: "short lives, one after the other, the clock going back and forth",
    async run(stage) {
      const { life } = stage;
      const now = Date.now();
      // The lives begin half a life apart, so that each one overlaps others.
      for (const back of [0, 4, 1, 5, 2, 3]) {
        const holder = await stage.start(now - Math.round((back * life) / 10));
        await stage.live(holder, Math.ceil(life / 5));
        await holder?.kill();
      }
    },
  },
  {
    title: "the clock set back while IDs are made",
    async run(stage) {
      const holder = await stage.start();
      for (let lives = 0; lives < 3; lives++) {
        const began = await stage.live(holder);
        await holder?.setClock(began);
      }
    },
  },
  {
    title: "two processes at once",
    async run(stage) {
      const holders = await Promise.all([stage.start(), stage.start()]);
      await Promise.all(holders.map((holder) => stage.live(holder)));
    },
  },
  {
    title: "stopped while IDs are made, and resumed beside another process",
    needsSignals: true,
    async run(stage) {
      const first = await stage.start();
      await stage.interrupt(first, (holder) => holder.stop());
      const [second] = await Promise.all([stage.start(), sleep(stage.pause)]);
      const living = stage.live(second);
      first?.resume();
      await Promise.all([living, stage.live(first)]);
    },
  },
];

/** How long the matrix waits for an ID after a restart of the store, and how long each attempt lasts, ms. */
const [longestRecovery, retryTime] = [600_000, 200];
/** How long the start of a program, and one ID, may take, ms. */
const [longestStart, longestNext] = [600_000, 60_000];

/**
 * Starts, stops and kills processes that make IDs, sets their clocks back, and compares each ID with every other. A process that refuses
 * to make an ID is safe.
 *
 * With `registry`, the processes make Snowlease's IDs. They use two worker IDs of a new namespace, which is removed at the end, and
 * windows of 2 s, unless `options` say otherwise. With `module`, they make the IDs of any program.
 *
 * @returns what was made, if no ID was made twice.
 * @throws Error that names each case that failed: by duplicates, by an error that is no refusal, or because it made no ID. SnowleaseError
 * CONFIG_INVALID for options that make no sense; the error of the registry if it refuses the namespace or its removal.
 */
export async function restartMatrix(options: RestartMatrixOptions): Promise<RestartReport> {
  const { cases: reports, ids, failures, left } = await runRestarts(options);
  if (failures.length > 0) {
    throw new Error(
      `${failures.length} of ${reports.length} cases of the restart matrix failed.\n- ${failures.join("\n- ")}`,
    );
  }
  if (left !== undefined) throw left;
  return { cases: reports, ids };
}

/** The result of a restart matrix. */
export interface RestartOutcome extends RestartReport {
  /** One text for each case that failed. */
  readonly failures: readonly string[];
  /** Why the namespace of the matrix is left; undefined if none is left. */
  readonly left: Error | undefined;
}

/** Watches a restart matrix while it runs. */
interface RestartWatch {
  /** Ends the matrix after the present case. Then that case does not wait for a recovery. */
  readonly signal?: AbortSignal | undefined;
  /** Called before each case. `share`: of all cases, from 0 to 1. */
  readonly tell?: ((title: string, share: number) => void) | undefined;
}

/** The same, for a caller that wants the whole result. @throws SnowleaseError as `restartMatrix` */
export async function runRestarts(
  options: RestartMatrixOptions,
  { signal, tell }: RestartWatch = {},
): Promise<RestartOutcome> {
  checkNames(options);
  const { restart, life = 500, pause = 3000, refusals = errorCodes, ...given } = options;
  const spans = { life: checkDuration("life", life, 1, longest), pause: checkDuration("pause", pause, 1, longest) };
  const chosen = cases.filter(
    ({ needsRestart, needsSignals }) =>
      (!needsRestart || restart !== undefined) && (!needsSignals || process.platform !== "win32"),
  );
  const reports: CaseReport[] = [];
  const failures: string[] = [];
  /** All IDs of all cases. All cases use one store, so the IDs of two cases must differ, too. */
  const made: string[] = [];
  const own = await ownNamespace(given);
  let left: Error | undefined;
  try {
    for (const [i, each] of chosen.entries()) {
      if (signal?.aborted) break;
      tell?.(each.title, i / chosen.length);
      const found = await new CaseRun({ ...spans, restart, refusals, signal, options: own.options }).run(each);
      made.push(...found.ids);
      reports.push(found.report);
      if (found.failure !== undefined && !signal?.aborted) failures.push(`${each.title}: ${found.failure}`);
    }
  } finally {
    left = await own.remove().then(
      () => undefined,
      (error: Error) => error,
    );
  }
  const [across] = failures.length === 0 ? duplicatesIn(made) : [];
  if (across !== undefined) failures.push(`in two cases: the ID ${across.id}`);
  return { cases: reports, ids: made.length, failures, left };
}

interface RunOptions {
  readonly life: number;
  readonly pause: number;
  readonly refusals: readonly string[];
  readonly restart: RestartMatrixOptions["restart"];
  readonly signal: AbortSignal | undefined;
  readonly options: HolderOptions;
}

/** One run of a case. */
class CaseRun implements Stage {
  readonly life: number;
  readonly pause: number;
  readonly #run: RunOptions;
  readonly #holders: HolderProcess[] = [];
  readonly #refusals: Record<string, number> = {};
  #reason: string | undefined;
  /** How long the last program took to start, ms. */
  #startTime = 0;
  /** When the store had been restarted, and the number of IDs at that time. */
  #restarted: { readonly at: number; readonly made: number } | undefined;
  #recovered: number | undefined;
  /** An error that is no refusal, from a process that was interrupted while it made IDs. */
  #late: Error | undefined;

  constructor(run: RunOptions) {
    this.#run = run;
    [this.life, this.pause] = [run.life, run.pause];
  }

  /** @throws SnowleaseError CONFIG_INVALID */
  async run({ title, run }: RestartCase): Promise<{ report: CaseReport; ids: readonly string[]; failure?: string }> {
    let failure: string | undefined;
    try {
      await run(this);
      if (this.#late !== undefined) throw this.#late;
    } catch (error) {
      if (isSnowleaseError(error, "CONFIG_INVALID")) throw error;
      failure = error instanceof Error ? error.message : String(error);
    } finally {
      await Promise.all(this.#holders.map((holder) => holder.kill()));
    }
    const made = this.#holders.map(({ ids }) => ids);
    const recovered = this.#recovered === undefined ? {} : { recovered: this.#recovered };
    const report = { title, made: made.map(({ length }) => length), refusals: this.#refusals, ...recovered };
    const ids = made.flat();
    failure = duplicateText(made) ?? failure ?? (ids.length === 0 ? this.#nothing() : undefined);
    return { report, ids, ...(failure !== undefined && { failure }) };
  }

  async start(clock?: number): Promise<Made> {
    // The clock runs on while the program starts.
    const shown = clock === undefined ? {} : { clock: clock - Math.round(this.#startTime) };
    try {
      const starting = HolderProcess.start({ ...this.#run.options, ...shown });
      const holder = await inTime(longestStart, starting, "start a program");
      this.#holders.push(holder);
      this.#startTime = holder.startTime;
      return holder;
    } catch (error) {
      if (isSnowleaseError(error, "CONFIG_INVALID")) throw error;
      const { code, name, message } = error as NodeJS.ErrnoException;
      this.#note({ refusals: { [code ?? name]: 1 }, reason: message });
      return undefined;
    }
  }

  async live(holder: Made, ms: number = this.life): Promise<number> {
    const began = Date.now();
    if (holder === undefined) return sleep(ms, began);
    const lived = await inTime(ms + longestNext, holder.live(ms), "make an ID");
    this.#note(lived);
    if (this.#restarted !== undefined && this.#count() > this.#restarted.made) {
      this.#recovered ??= Math.round(performance.now() - this.#restarted.at);
    }
    return lived.began;
  }

  async interrupt(holder: Made, how: (holder: HolderProcess) => unknown): Promise<number> {
    const began = await this.live(holder);
    if (holder === undefined) return began;
    const noted = holder.live(2 * this.life).then(
      (lived) => this.#note(lived),
      // The process was killed.
      () => undefined,
    );
    noted.catch((error: Error) => (this.#late ??= error));
    await sleep(this.life);
    await how(holder);
    return began;
  }

  async restart(): Promise<void> {
    await this.#run.restart?.();
    this.#restarted = { at: performance.now(), made: this.#count() };
  }

  async recover(): Promise<number> {
    const { at = 0 } = this.#restarted ?? {};
    for (const holder of this.#holders) await holder.kill();
    while (performance.now() - at < longestRecovery && !this.#run.signal?.aborted) {
      const holder = await this.start();
      const began = await this.live(holder, retryTime);
      await holder?.kill();
      if (holder !== undefined && holder.ids.length > 0) return began;
    }
    throw new Error(`no ID was made within 10 min after the restart of the store: ${this.#reason}`);
  }

  #count(): number {
    return this.#holders.reduce((sum, { ids }) => sum + ids.length, 0);
  }

  /** @throws Error for an error that is no refusal */
  #note({ refusals, reason }: Pick<LifeReport, "refusals" | "reason">): void {
    for (const [code, count] of Object.entries(refusals)) {
      this.#refusals[code] = (this.#refusals[code] ?? 0) + count;
      if (this.#run.refusals.includes(code)) continue;
      throw new Error(`the program failed with ${code}: ${reason}; where this is a refusal, name it in \`refusals\``);
    }
    this.#reason ??= reason;
  }

  #nothing(): string {
    return `no ID was made${this.#reason === undefined ? "" : `: ${this.#reason}`}`;
  }
}

/** Describes the IDs that the processes of a case made more than once. */
function duplicateText(made: readonly (readonly string[])[]): string | undefined {
  const makers = made.flatMap((ids, place) => ids.map((id) => ({ id, place: place + 1 })));
  const [first, ...others] = duplicatesIn(makers.map(({ id }) => id));
  if (first === undefined) return undefined;
  const places = [...new Set(first.places.map((at) => makers[at]?.place))];
  const by = places.length === 1 ? `process ${places[0]}, twice` : `processes ${places.join(" and ")}`;
  return `${others.length + 1} of ${makers.length} IDs were made more than once; the first one is ${first.id}, made by ${by}`;
}

/** @throws Error if the work takes longer than so many ms */
async function inTime<Value>(most: number, work: Promise<Value>, what: string): Promise<Value> {
  try {
    return await within(most, work);
  } catch (error) {
    if (!(error instanceof TooLate)) throw error;
    throw new Error(`it took longer than ${most / 1000} s to ${what}`, { cause: error });
  }
}

const names: Readonly<Record<keyof RestartMatrixOptions, true>> = {
  module: true,
  registry: true,
  options: true,
  execArgv: true,
  restart: true,
  life: true,
  pause: true,
  refusals: true,
};

/** A misspelt option would leave out cases. @throws SnowleaseError CONFIG_INVALID */
function checkNames(options: object): void {
  const unknown = Object.keys(options).find((name) => !Object.hasOwn(names, name));
  if (unknown === undefined) return;
  throw configInvalid(
    `Expected options of \`restartMatrix\` (${Object.keys(names).join(", ")}), got ${shown(unknown)}; correct it.`,
  );
}
