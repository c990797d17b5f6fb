import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { isSnowleaseError } from "../id/errors.ts";
import { duplicatesIn } from "./duplicates.ts";
import { type Holder, type HolderOptions, type LifeReport, startHolder } from "./holder.ts";

/** Options of `restartMatrix`. */
export interface RestartMatrixOptions extends Omit<HolderOptions, "clock"> {
  /** Restarts the store, such as a container of it. Left out: the cases that need it are left out, too. */
  readonly restart?: (() => Promise<unknown>) | undefined;
  /** How long a process makes IDs at a time, ms. Default 500. */
  readonly life?: number | undefined;
}

/** What came of a case. */
export interface CaseReport {
  readonly title: string;
  /** How many IDs were made. */
  readonly ids: number;
  /** How often the program refused to make one, by the error's `code`, or else its name. */
  readonly refusals: Readonly<Record<string, number>>;
  /** How long after the start behind a restart of the store an ID was made again, ms; absent where the store was not restarted. */
  readonly recovered?: number;
}

/** What came of a restart matrix without duplicates. */
export interface RestartReport {
  readonly cases: readonly CaseReport[];
  /** How many IDs were made, all different. */
  readonly ids: number;
}

/** One ID source in several processes, one after the other or at once. */
interface Stage {
  readonly life: number;
  readonly restart: () => Promise<unknown>;
  /**
   * Starts a process; undefined where its program refuses to start, which is as safe.
   * @param clock what its wall clock shows then, Unix ms.
   */
  start(clock?: number): Promise<Holder | undefined>;
  /** Makes IDs for a life, or as long as told; returns what its clock showed when it began. */
  live(holder: Holder | undefined, ms?: number): Promise<number>;
  /** Starts processes until one makes an ID: the store may keep everybody waiting after its restart. @throws Error after 10 min */
  recover(): Promise<void>;
}

interface RestartCase {
  readonly title: string;
  readonly needsRestart?: true;
  run(stage: Stage): Promise<void>;
}

/** Lives of a process that ends in this way, each with the clock where it was when the first one began. */
function oneAfterAnother(title: string, end: (holder: Holder) => Promise<void>): RestartCase {
  return {
    title,
    async run({ start, live }) {
      let clock: number | undefined;
      for (let lives = 0; lives < 3; lives++) {
        const holder = await start(clock);
        const began = await live(holder);
        clock ??= began;
        if (holder !== undefined) await end(holder);
      }
    },
  };
}

const cases: readonly RestartCase[] = [
  // First: a store that hands out numbers from 1 on, and forgot that it did, hands out the same ones.
  {
    title: "the store restarted while a process makes IDs",
    needsRestart: true,
    async run({ start, live, restart, recover, life }) {
      const first = await start();
      const began = await live(first);
      await Promise.all([live(first, 4 * life), restart()]);
      const second = await start(began);
      await Promise.all([live(first), live(second)]);
      await recover();
    },
  },
  {
    title: "killed with -9, and the store restarted before the next start",
    needsRestart: true,
    async run({ start, live, restart, recover }) {
      const first = await start();
      const began = await live(first);
      await first?.kill();
      await restart();
      await live(await start(began));
      await recover();
    },
  },
  oneAfterAnother("stopped in the usual way, and started with the clock set back", (holder) => holder.close()),
  oneAfterAnother("killed with -9, and started with the clock set back", (holder) => holder.kill()),
  {
    title: "short lives, one after the other, the clock going back and forth",
    async run({ start, live, life }) {
      const now = Date.now();
      // Half as far apart as they are long: each one meets others.
      for (const back of [0, 4, 1, 5, 2, 3]) {
        const holder = await start(now - (back * life) / 10);
        await live(holder, life / 5);
        await holder?.kill();
      }
    },
  },
  {
    title: "the clock set back while IDs are made",
    async run({ start, live }) {
      const holder = await start();
      for (let lives = 0; lives < 3; lives++) {
        const began = await live(holder);
        await holder?.setClock(began);
      }
    },
  },
  {
    title: "two processes at once",
    async run({ start, live }) {
      const holders = await Promise.all([start(), start()]);
      await Promise.all(holders.map((holder) => live(holder)));
    },
  },
  {
    title: "stopped while another process begins, and resumed",
    async run({ start, live, life }) {
      const first = await start();
      const began = await live(first);
      first?.stop();
      const second = await start(began);
      await live(second);
      first?.resume();
      await first?.setClock(began + life);
      await second?.setClock(began + life);
      await Promise.all([live(first), live(second)]);
    },
  },
];

/**
 * Starts, stops and kills processes that make IDs, sets their clocks back, and compares each ID with every other. A process that refuses to
 * make an ID is safe, and counted.
 *
 * With `registry`, the IDs are Snowlease's, in a namespace of their own unless `options` has one. With `module`, they are those of a
 * program of your own, whatever makes them.
 *
 * @returns what was made, when no ID was made twice.
 * @throws Error that names, for each case with duplicates, the first ID and the processes that made it; or a case in which no ID was made.
 * SnowleaseError CONFIG_INVALID for options that make no sense.
 */
export async function restartMatrix(options: RestartMatrixOptions): Promise<RestartReport> {
  const { restart, life = 500, ...given } = options;
  const holderOptions = await withNamespace(given);
  const reports: CaseReport[] = [];
  const failures: string[] = [];
  /** All IDs of all cases: they are made with one store, so those of two cases must differ, too. */
  const made: string[] = [];
  for (const each of cases) {
    if (each.needsRestart && restart === undefined) continue;
    const { report, ids, failure } = await runCase(each, { ...holderOptions, restart, life });
    made.push(...ids);
    reports.push(report);
    if (failure !== undefined) failures.push(`${each.title}: ${failure}`);
  }
  const [across] = failures.length === 0 ? duplicatesIn(made) : [];
  if (across !== undefined) failures.push(`in two cases: the ID ${across.id}`);
  if (failures.length === 0) return { cases: reports, ids: made.length };
  throw new Error(
    `${failures.length} of ${reports.length} cases of the restart matrix failed.\n- ${failures.join("\n- ")}`,
  );
}

/** How long the matrix waits for an ID after a restart of the store, and how long it asks each time, ms. */
const [longestRecovery, retryPause] = [600_000, 200];

interface CaseOutcome {
  readonly report: CaseReport;
  readonly ids: readonly string[];
  readonly failure: string | undefined;
}

async function runCase(
  { title, run }: RestartCase,
  {
    restart = async () => undefined,
    life,
    ...options
  }: HolderOptions & Pick<RestartMatrixOptions, "restart"> & { readonly life: number },
): Promise<CaseOutcome> {
  const holders: Holder[] = [];
  const refusals: Record<string, number> = {};
  let reason: string | undefined;
  let recovered: number | undefined;
  const note = (found: Pick<LifeReport, "refusals" | "reason">): void => {
    for (const [code, count] of Object.entries(found.refusals)) refusals[code] = (refusals[code] ?? 0) + count;
    reason ??= found.reason;
  };
  const stage: Stage = {
    life,
    restart,

    async start(clock) {
      try {
        const holder = await startHolder({ ...options, clock });
        holders.push(holder);
        return holder;
      } catch (error) {
        const { code, name, message } = error as NodeJS.ErrnoException;
        // No start with these options succeeds.
        if (code === "CONFIG_INVALID") throw error;
        note({ refusals: { [code ?? name]: 1 }, reason: message });
        return undefined;
      }
    },

    async live(holder, ms = life) {
      const began = Date.now();
      if (holder === undefined) return sleep(ms, began);
      const lived = await holder.live(ms);
      note(lived);
      return lived.began;
    },

    async recover() {
      const began = performance.now();
      const made = (): number => holders.reduce((sum, { ids }) => sum + ids.length, 0);
      for (const before = made(); made() === before; recovered = Math.round(performance.now() - began)) {
        if (recovered !== undefined && recovered > longestRecovery) {
          throw new Error(
            `no ID was made within ${longestRecovery / 60_000} min after the restart of the store: ${reason}`,
          );
        }
        const holder = await stage.start();
        await stage.live(holder, retryPause);
        await holder?.kill();
      }
    },
  };
  try {
    await run(stage);
  } catch (error) {
    if (isSnowleaseError(error)) throw error;
    throw new Error(`${title}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  } finally {
    await Promise.all(holders.map((holder) => holder.kill()));
  }
  const ids = holders.flatMap((holder) => holder.ids);
  const report = { title, ids: ids.length, refusals, ...(recovered !== undefined && { recovered }) };
  return { report, ids, failure: failureOf(holders, reason) };
}

/** Why a case failed; undefined where each ID was made once. `reason`: of the first refusal. */
function failureOf(holders: readonly Holder[], reason: string | undefined): string | undefined {
  const makers = holders.flatMap((holder, place) => holder.ids.map((id) => ({ id, place: place + 1 })));
  if (makers.length === 0) return `no ID was made${reason === undefined ? "" : `: ${reason}`}`;
  const [first, ...others] = duplicatesIn(makers.map(({ id }) => id));
  if (first === undefined) return undefined;
  const places = [...new Set(first.places.map((at) => makers[at]?.place))];
  const by = places.length === 1 ? `process ${places[0]}, twice` : `processes ${places.join(" and ")}`;
  return `${others.length + 1} of ${makers.length} IDs were made more than once; the first one is ${first.id}, made by ${by}`;
}

/** A namespace of its own for Snowlease's IDs. */
async function withNamespace(options: HolderOptions): Promise<HolderOptions> {
  const { registry, module, options: given = {} } = options;
  if (module !== undefined || registry === undefined || given["namespace"] !== undefined) return options;
  const namespace = `restarts_${randomBytes(6).toString("hex")}`;
  const { snowlease } = await import("../snowlease.ts");
  const ofNamespaces = ["layout", "maxWindow", "maxClockSkew"];
  const asked = Object.fromEntries(Object.entries(given).filter(([name]) => ofNamespaces.includes(name)));
  await snowlease.init({ ...asked, registry, namespace, new: true });
  return { ...options, options: { ...given, namespace } };
}
