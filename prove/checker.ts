import { basename } from "node:path";
import type { Layout } from "../src/id/layout.ts";
import { HeldIntervals } from "../src/ops/audit/interval-set.ts";
import { idOf } from "../src/ops/audit/id-lines.ts";
import { SortedRuns } from "../src/ops/audit/sorted-runs.ts";
import { type Fact, readFacts, readIds, type Window } from "./log.ts";

/** What must never be. */
const flawTexts = {
  duplicates: "IDs that were made more than once",
  outside: "IDs outside the window that their maker was granted",
  unrecorded: "IDs outside every window that the registry has on record",
  overlaps: "windows of one worker ID that overlap",
  fences: "fences that did not rise",
  refusals: "refusals for which nothing was the reason",
} as const;

export type Flaw = keyof typeof flawTexts;

/** Each with its name for people. */
export const flawNames = Object.entries(flawTexts) as [Flaw, string][];

/** What the logs of a run came to. */
export interface Verdict {
  readonly ids: number;
  readonly lives: number;
  /** How many times a worker ID was leased. */
  readonly leases: number;
  readonly flaws: Readonly<Record<Flaw, number>>;
  /** The first few of each, in words. */
  readonly findings: readonly string[];
  /** Error code -> how often holders were refused. */
  readonly errors: Readonly<Record<string, number>>;
}

/** A worker ID in one holder's hands. */
interface Lease {
  readonly log: string;
  readonly workerId: number;
  readonly fence: number;
  /** More than one where a quarantine raised `from` meanwhile. */
  readonly spans: { readonly from: number; until: number }[];
  /** End of the highest tick that was used, Unix ms; 0 while none was. */
  used: number;
}

const mostFindings = 5;

/**
 * Compares the IDs of all lives with each other and with the windows in which they were made, and these windows with each other. In
 * bounded memory, whatever the number of IDs.
 * @param history when each worker ID was held by the registry's record; undefined where there is none to go by.
 */
export async function check(
  logs: readonly string[],
  layout: Layout,
  history?: (workerId: number) => Promise<HeldIntervals>,
): Promise<Verdict> {
  const verdict = new Findings();
  const runs = new SortedRuns();
  const leases: Lease[] = [];
  /** How many IDs came before those of each life. */
  const before: number[] = [];
  const recorded = new Map<number, HeldIntervals>();
  const heldBy = async (workerId: number): Promise<HeldIntervals> => {
    const held = recorded.get(workerId) ?? (await history?.(workerId)) ?? new HeldIntervals([], layout);
    recorded.set(workerId, held);
    return held;
  };
  let ids = 0;
  try {
    for (const log of logs) {
      before.push(ids);
      const facts = readFacts(log);
      const course = new Course(log, facts, leases);
      verdict.countErrors(log, facts);
      const start = ids;
      let [lastUpper, lastInTick] = [-1, -1];
      let [isOutside, isUnrecorded] = [false, false];
      for (const halves of readIds(log)) {
        for (let i = 0; i < halves.length; i += 2) {
          const lower = halves[i] ?? 0;
          const upper = halves[i + 1] ?? 0;
          course.goTo(ids - start);
          runs.add(upper, lower, ids++);
          const inTick = lower >>> layout.sequenceBits;
          // Where all but the sequence is as in the ID before, so is what is to be said of it.
          if (upper !== lastUpper || inTick !== lastInTick || course.isNew) {
            [lastUpper, lastInTick] = [upper, inTick];
            const { workerId, timestamp } = layout.decompose(idOf(upper, lower));
            isOutside = !course.uses(workerId, timestamp, timestamp + layout.tick);
            isUnrecorded = history !== undefined && !(await heldBy(workerId)).has(timestamp);
          }
          const words = (): string => wordsOf(idOf(upper, lower), layout, log);
          if (isOutside) verdict.add("outside", words);
          if (isUnrecorded) verdict.add("unrecorded", words);
        }
      }
      course.end();
    }
    findDuplicates(runs, verdict, (place) => {
      const life = before.findLastIndex((count) => count <= place);
      return `${nameOf(logs[life] ?? "")} as its ${place - (before[life] ?? 0) + 1}th`;
    });
  } finally {
    runs.close();
  }
  compareWindows(leases, verdict);
  const { flaws, findings, errors } = verdict;
  return { ids, lives: logs.length, leases: leases.length, flaws, findings, errors };
}

function wordsOf(id: bigint, layout: Layout, log: string): string {
  const { workerId, timestamp } = layout.decompose(id);
  return `${id} (worker ${workerId}, ${timestamp}) by ${nameOf(log)}`;
}

function nameOf(log: string): string {
  return basename(log).replaceAll("-", " ");
}

class Findings {
  readonly flaws: Record<Flaw, number> = {
    duplicates: 0,
    outside: 0,
    unrecorded: 0,
    overlaps: 0,
    fences: 0,
    refusals: 0,
  };
  readonly findings: string[] = [];
  readonly errors: Record<string, number> = {};

  add(flaw: Flaw, words: () => string): void {
    if (this.flaws[flaw]++ < mostFindings) this.findings.push(`${flaw}: ${words()}`);
  }

  countErrors(log: string, facts: readonly Fact[]): void {
    const { errors = {} } = facts.findLast(({ errors }) => errors !== undefined) ?? {};
    for (const { strange } of facts)
      if (strange !== undefined) this.add("refusals", () => `${strange}, to ${nameOf(log)}`);
    for (const [code, count] of Object.entries(errors)) this.errors[code] = (this.errors[code] ?? 0) + count;
  }
}

/** Goes through the facts of a life along with its IDs. */
class Course {
  /** Whether the window is another one than at the ID before. */
  isNew = true;
  readonly #log: string;
  readonly #facts: readonly Fact[];
  readonly #leases: Lease[];
  #next = 0;
  #window: Window | undefined;
  #generation = 0;
  #lease: Lease | undefined;

  constructor(log: string, facts: readonly Fact[], leases: Lease[]) {
    this.#log = log;
    this.#facts = facts;
    this.#leases = leases;
  }

  /** To the ID of that number. */
  goTo(number: number): void {
    this.isNew = false;
    for (let fact = this.#facts[this.#next]; fact !== undefined && fact.at <= number; fact = this.#facts[this.#next]) {
      this.#next++;
      this.#take(fact);
    }
  }

  end(): void {
    this.goTo(Infinity);
  }

  /** An ID was made in this tick; whether the holder knew at that moment that it was its own. */
  uses(workerId: number, begin: number, end: number): boolean {
    const window = this.#window;
    if (this.#lease !== undefined) this.#lease.used = Math.max(this.#lease.used, end);
    return window !== undefined && workerId === window.workerId && begin >= window.knownFrom && end <= window.until;
  }

  #take({ window, left }: Fact): void {
    if (window === undefined && left === undefined) return;
    this.isNew = true;
    this.#window = window;
    if (window === undefined) {
      if (left === "own will") this.#giveBack();
      this.#lease = undefined;
      return;
    }
    const { workerId, fence, from, until, generation } = window;
    if (this.#lease === undefined || generation !== this.#generation) {
      this.#lease = { log: this.#log, workerId, fence, spans: [], used: 0 };
      this.#leases.push(this.#lease);
    }
    this.#generation = generation;
    const span = this.#lease.spans.at(-1);
    if (span === undefined || from > span.from) this.#lease.spans.push({ from, until });
    else span.until = until;
  }

  /** What it had been granted beyond what it used is anybody's from now on. */
  #giveBack(): void {
    const { spans = [], used = 0 } = this.#lease ?? {};
    for (const span of spans) span.until = Math.min(span.until, Math.max(span.from, used));
  }
}

function findDuplicates(runs: SortedRuns, verdict: Findings, makerOf: (place: number) => string): void {
  let [lastUpper, lastLower, lastPlace] = [-1, -1, -1];
  for (const { count, uppers, lowers, places } of runs.merged()) {
    for (let i = 0; i < count; i++) {
      const upper = uppers[i] ?? 0;
      const lower = lowers[i] ?? 0;
      const place = places[i] ?? 0;
      if (lower === lastLower && upper === lastUpper) {
        const first = lastPlace;
        verdict.add("duplicates", () => `${idOf(upper, lower)}, by ${makerOf(first)} and by ${makerOf(place)}`);
      }
      [lastUpper, lastLower, lastPlace] = [upper, lower, place];
    }
  }
}

function compareWindows(leases: readonly Lease[], verdict: Findings): void {
  const spans = leases.flatMap((lease) => lease.spans.map((span) => ({ ...span, lease })));
  spans.sort((a, b) => a.lease.workerId - b.lease.workerId || a.from - b.from || a.lease.fence - b.lease.fence);
  let farthest = spans[0];
  for (const [i, span] of spans.entries()) {
    const before = spans[i - 1];
    if (before === undefined || farthest === undefined || before.lease.workerId !== span.lease.workerId) {
      farthest = span;
      continue;
    }
    const reach = farthest;
    if (span.from < reach.until) verdict.add("overlaps", () => bothText(reach, span));
    if (span.lease !== before.lease && span.lease.fence <= before.lease.fence) {
      verdict.add("fences", () => bothText(before, span));
    }
    if (span.until >= reach.until) farthest = span;
  }
}

interface Span {
  readonly from: number;
  readonly until: number;
  readonly lease: Lease;
}

function bothText(one: Span, other: Span): string {
  return `worker ${one.lease.workerId}, ${spanText(one)} and ${spanText(other)}`;
}

function spanText({ from, until, lease }: Span): string {
  return `[${from}, ${until}) of ${nameOf(lease.log)}, fence ${lease.fence}`;
}
