import { setTimeout as sleep } from "node:timers/promises";
import { TooLate, within } from "../registries/deadline.ts";
import { duplicatesIn } from "../testing/duplicates.ts";
import { HolderProcess, type HolderOptions } from "../testing/holder.ts";
import type { Random } from "./random.ts";
import type { Relay } from "./relay.ts";

/** What the nemesis does to processes that make IDs. */
export type Fault =
  | "killed with -9"
  | "ended and started anew"
  | "stopped and resumed"
  | "clock set forward or back"
  | "cut off, connections reset"
  | "cut off, nothing answered";

/** Processes at the same time. They share four worker IDs, so that some of them always wait for one. */
const holders = 6;
/** Pause between two faults, ms. */
const [leastPause, mostPause] = [50, 400];
/** How long a process stands still, has a wrong clock, or is cut off, ms. The range is from less than a window to more than one. */
const [leastLasting, mostLasting] = [100, 4000];
/** By how much clocks are set forward or back at most, ms. The smallest value is like jitter, the largest is an hour. */
const steps: readonly number[] = [20, 900, 8000, 3_600_000];
/** How long a process makes IDs before the next request, and the pause after a refused start, ms. */
const [life, retry] = [300, 100];

/** How long processes may take to start, and to end, ms. */
const [longestStart, longestEnd] = [60_000, 60_000];

/** The result of a nemesis. */
export interface NemesisReport {
  /** How often each fault struck a process that ran. */
  readonly faults: Readonly<Record<Fault, number>>;
  /** How many connections went through the relays. */
  readonly connections: number;
  /** How many IDs were made. */
  readonly ids: number;
  /** How many processes made an ID. */
  readonly makers: number;
  /** How many IDs were made more than once. */
  readonly duplicates: number;
  /** The first duplicate, and the processes that made it. */
  readonly first?: string | undefined;
  /** How often processes were refused a start or an ID, by the code. */
  readonly refusals: Readonly<Record<string, number>>;
  /** The message of the first refusal of each code. */
  readonly reasons: Readonly<Record<string, string>>;
  /** Errors that are no refusals, and ends of processes that no fault caused. */
  readonly failures: readonly string[];
}

/** What a nemesis strikes. */
interface Targets {
  readonly options: HolderOptions;
  /** A registry URL and its relays for each process; empty if no network can be cut. */
  readonly links: readonly { readonly url: string; readonly relays: readonly Relay[] }[];
  /** The codes of refusals. */
  readonly refusals: readonly string[];
  readonly random: Random;
  /** How long the nemesis goes on, ms. */
  readonly time: number;
  readonly signal: AbortSignal;
  readonly tell: (detail: string, share: number) => void;
}

/** The number of links that a nemesis needs. */
export const mostLinks: number = holders;

/** Strikes processes that make IDs, and compares each ID with every other. */
export class Nemesis {
  readonly #targets: Targets;
  readonly #places: Place[];
  readonly #faults: Record<Fault, number> = {
    "killed with -9": 0,
    "ended and started anew": 0,
    "stopped and resumed": 0,
    "clock set forward or back": 0,
    "cut off, connections reset": 0,
    "cut off, nothing answered": 0,
  };
  readonly #kinds: readonly Fault[];

  constructor(targets: Targets) {
    this.#targets = targets;
    this.#places = Array.from({ length: holders }, (_, i) => new Place(targets, i));
    this.#kinds = (Object.keys(this.#faults) as Fault[]).filter(
      (kind) =>
        !(kind.startsWith("cut off") && targets.links.length === 0) &&
        !(kind === "stopped and resumed" && process.platform === "win32"),
    );
  }

  async run(): Promise<NemesisReport> {
    const { time, signal, random, tell } = this.#targets;
    const living = this.#places.map((place) => place.live());
    const begun = performance.now();
    for (let passed = 0; passed < time && !signal.aborted; passed = performance.now() - begun) {
      await sleep(random.between(leastPause, mostPause));
      const kind = random.pick(this.#kinds);
      const place = random.pick(this.#places);
      tell(kind, passed / time);
      if (place.strike(kind, random.between(leastLasting, mostLasting), random)) this.#faults[kind]++;
    }
    for (const place of this.#places) place.end();
    // A user's own program may not answer any more.
    await within(longestEnd, Promise.all(living)).catch(() => Promise.all(this.#places.map((place) => place.kill())));
    await Promise.all(living);
    return this.#report();
  }

  #report(): NemesisReport {
    const made = this.#places.flatMap((place) => place.lives);
    const makers = made.flatMap((ids, i) => ids.map((id) => ({ id, maker: i + 1 })));
    const duplicates = duplicatesIn(makers.map(({ id }) => id));
    const [found] = duplicates;
    const those = [...new Set(found?.places.map((at) => makers[at]?.maker))];
    const by = those.length === 1 ? `process ${those[0]}, twice,` : `processes ${those.join(" and ")}`;
    const refusals: Record<string, number> = {};
    const reasons: Record<string, string> = {};
    for (const place of this.#places) {
      for (const [code, count] of Object.entries(place.refusals)) refusals[code] = (refusals[code] ?? 0) + count;
      Object.assign(reasons, { ...place.reasons, ...reasons });
    }
    const known = this.#targets.refusals;
    const strange = Object.entries(reasons).filter(([code]) => !known.includes(code));
    return {
      faults: this.#faults,
      connections: this.#targets.links.flatMap(({ relays }) => relays).reduce((sum, each) => sum + each.connections, 0),
      ids: makers.length,
      makers: made.filter((ids) => ids.length > 0).length,
      duplicates: duplicates.length,
      ...(found !== undefined && { first: `${found.id}, made by ${by} of ${made.length}` }),
      refusals,
      reasons,
      failures: [
        ...strange.map(([code, reason]) => `a process failed with ${code}: ${reason}`),
        ...new Set(this.#places.flatMap((place) => [...place.failures])),
      ],
    };
  }
}

/** Runs one process after another. */
class Place {
  /** The IDs of each process that has ended. */
  readonly lives: (readonly string[])[] = [];
  readonly refusals: Record<string, number> = {};
  readonly reasons: Record<string, string> = {};
  /** Each failure once. */
  readonly failures = new Set<string>();
  readonly #signal: AbortSignal;
  readonly #options: HolderOptions;
  readonly #relays: readonly Relay[];
  /** Ends the faults that last for some time. */
  readonly #lasting = new AbortController();
  #holder: HolderProcess | undefined;
  /** Whether a fault ends the process, and whether that fault is kill -9. The process does not answer earlier calls then. */
  #isStruck = false;
  #isKilled = false;
  #isOver = false;
  /** The end of the present process in the usual way; undefined unless it is under way. */
  #ending: Promise<void> | undefined;

  constructor({ options, links, signal }: Targets, place: number) {
    this.#signal = signal;
    const { url, relays = [] } = links[place] ?? {};
    const { registry, options: given } = options;
    const own = { ...given, ...(registry === undefined && url !== undefined && { registry: url }) };
    this.#options = { ...options, ...(registry !== undefined && url !== undefined && { registry: url }), options: own };
    this.#relays = relays;
  }

  /** Makes IDs until the end. */
  async live(): Promise<void> {
    while (!this.#isOver) {
      let holder: HolderProcess;
      const starting = HolderProcess.start(this.#options);
      try {
        holder = await within(longestStart, starting);
      } catch (error) {
        if (error instanceof TooLate) {
          void starting.then(
            (late) => late.kill(),
            () => undefined,
          );
          return this.#fail(`a process took longer than ${longestStart / 1000} s to start`);
        }
        // Ctrl-C of a terminal also reaches a process that does not listen for it yet.
        if (this.#signal.aborted) return;
        this.#noteError(error as NodeJS.ErrnoException);
        await sleep(retry);
        continue;
      }
      this.#holder = holder;
      [this.#isStruck, this.#isKilled] = [false, false];
      try {
        while (!this.#isOver) {
          const { refusals, reason } = await holder.live(life);
          this.#note(refusals, reason);
        }
      } catch (error) {
        if (!this.#isStruck) {
          this.#fail((error as Error).message);
          await sleep(retry);
        }
      }
      // A process that ends in the usual way makes no more IDs. Do not kill it while it ends.
      await this.#ending;
      await (this.#isOver ? holder.close() : holder.kill()).catch(() => undefined);
      this.#holder = undefined;
      this.lives.push(holder.ids);
    }
  }

  /** Strikes the present process. Returns whether there was a process to strike. */
  strike(kind: Fault, lasting: number, random: Random): boolean {
    const holder = this.#holder;
    if (holder === undefined) return false;
    switch (kind) {
      case "killed with -9":
        [this.#isStruck, this.#isKilled] = [true, true];
        void holder.kill();
        break;
      case "ended and started anew":
        if (this.#isStruck) return false;
        this.#isStruck = true;
        this.#ending = holder
          .close()
          .catch((error: NodeJS.ErrnoException) => {
            if (!this.#isKilled) this.#noteError(error);
          })
          .finally(() => (this.#ending = undefined));
        break;
      case "stopped and resumed":
        holder.stop();
        this.#after(lasting, () => holder.resume());
        break;
      case "clock set forward or back": {
        const most = random.pick(steps);
        void holder.setClock(Date.now() + random.between(-most, most)).catch(() => undefined);
        this.#after(lasting, () => void holder.setClock(Date.now()).catch(() => undefined));
        break;
      }
      case "cut off, connections reset":
      case "cut off, nothing answered": {
        const state = kind === "cut off, nothing answered" ? "silent" : "cut";
        for (const relay of this.#relays) relay.set(state);
        this.#after(lasting, () => this.#relays.forEach((relay) => relay.set("open")));
      }
    }
    return true;
  }

  end(): void {
    this.#isOver = true;
    this.#lasting.abort();
  }

  async kill(): Promise<void> {
    [this.#isStruck, this.#isKilled] = [true, true];
    await this.#holder?.kill();
  }

  #after(ms: number, act: () => void): void {
    const { signal } = this.#lasting;
    void sleep(ms, undefined, { signal })
      .catch(() => undefined)
      .then(act);
  }

  #fail(what: string): void {
    if (!this.#signal.aborted) this.failures.add(what);
  }

  #noteError({ code, name, message }: NodeJS.ErrnoException): void {
    if (!this.#signal.aborted) this.#note({ [code ?? name]: 1 }, message);
  }

  #note(refusals: Readonly<Record<string, number>>, reason: string | undefined): void {
    for (const [code, count] of Object.entries(refusals)) {
      this.refusals[code] = (this.refusals[code] ?? 0) + count;
      this.reasons[code] ??= reason ?? "";
    }
  }
}
