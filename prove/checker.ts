import { basename } from "node:path";
import type { Layout } from "../src/id/layout.ts";
import { HeldIntervals } from "../src/ops/audit/interval-set.ts";
import { idOf } from "../src/ops/audit/id-lines.ts";
import { SortedRuns } from "../src/ops/audit/sorted-runs.ts";
import { type Fact, readFacts, readIds, type Window } from "./log.ts";

/** What must never happen. */
const flawTexts = {
  duplicates: "IDs that were made more than once",
  outside: "IDs outside the window that their maker was granted",
  unrecorded: "IDs outside every window that the registry has on record",
  overlaps: "windows of one worker ID that overlap",
  fences: "fences that did not rise",
  refusals: "refusals for which nothing was the reason",
  unnoticed: "answers to a forgotten claim that no quarantine followed",
  quarantines: "refusals by a quarantine for which nothing was the reason",
  innocents: "leases lost as forgotten or cloned for which nothing was the reason",
} as const;

export type Flaw = keyof typeof flawTexts;

/** Each flaw with its name for people. */
export const flawNames = Object.entries(flawTexts) as [Flaw, string][];

/** The result of checking the logs of a run. */
export interface Verdict {
  readonly ids: number;
  readonly lives: number;
  /** How many times a worker ID was leased. */
  readonly leases: number;
  readonly flaws: Readonly<Record<Flaw, number>>;
  /** The first few findings of each flaw, in words. */
  readonly findings: readonly string[];
  /** Error code -> how often holders were refused. */
  readonly errors: Readonly<Record<string, number>>;
  readonly restores: Course;
  readonly copies: Course;
}

/** How a run dealt with a kind of event that may make IDs come twice: an older copy of the store, or a copied holder. */
export interface Course {
  readonly count: number;
  /** The time until the first holder learned of the event, ms. It has only the events of which a holder learned. */
  readonly toldAfter: readonly number[];
  /** IDs that came twice before the holder in question learned of the event. Later ones are flaws. */
  readonly twice: number;
}

/** An older copy of the store was put in its place. Times of the machine's monotonic clock, ms. */
interface Restored {
  /** When the copy had been taken. */
  readonly copied: number;
  readonly begin: number;
  /** When the older copy was in its place. */
  readonly end: number;
  /** When the store answered again. */
  readonly served: number;
  /** `begin`, Unix ms. */
  readonly wall: number;
}

/** The faults that explain what holders hear, and why IDs come twice. */
export interface Incidents {
  readonly restores: readonly Restored[];
  /** When events happened that begin a quarantine by themselves. */
  readonly restarts: readonly number[];
  /** Whether the store may lose what it acknowledged, together with a server. */
  readonly mayForget: boolean;
}

/** A worker ID in one holder's hands. Times of the machine's monotonic clock, ms. */
interface Lease {
  readonly log: string;
  readonly workerId: number;
  readonly fence: number;
  /** More than one span if a quarantine raised `from` meanwhile. */
  readonly spans: { readonly from: number; until: number }[];
  /** End of the highest used tick, Unix ms; 0 while none is used. */
  used: number;
  readonly answers: readonly Answer[];
  /** The copies of the holder, and the number of this copy if it is one. */
  readonly copied: ReadonlySet<number>;
}

/** An answer that a holder got. */
interface Answer {
  readonly heard: string;
  /** When the holder had sent the request; Infinity if that is not known. */
  readonly sent: number;
  readonly time: number;
  readonly isRepeat: boolean;
}

/** The state of a holder from one ID on. */
interface Moment {
  readonly at: number;
  readonly lease: Lease | undefined;
  /** When the holder had sent the last request that got an answer. */
  readonly sent: number;
  /** When the holder last got its window, or more of it. */
  readonly given: number;
  /** The copies of which the holder knows nothing yet. */
  readonly undivided: readonly number[];
}

const mostFindings = 5;
/** How long a restart or another primary explains quarantines, ms. Meanwhile servers start again, and quarantines begin again. */
const longestDoubt = 40_000;
/** The largest difference between the clocks of holders and registries in a run with restores, ms. */
const mostSkew = 2000;
/** The longest quarantine with such small windows, ms. */
const longestQuarantine = 5000;
/** After a renewal has shown that the store forgot it, a holder must hear of a quarantine within this time, ms. */
const promptly = 1000;

/**
 * Compares the IDs of all lives with each other, and with the windows in which they were made. It also compares these windows with each
 * other. The memory that it needs does not grow with the number of IDs.
 * @param history when each worker ID was held according to the registry; undefined if there is no usable record.
 * @param incidents undefined if the holders are known to be wrong, so that no answer to them counts as a flaw.
 */
export async function check(
  logs: readonly string[],
  layout: Layout,
  history?: (workerId: number) => Promise<HeldIntervals>,
  incidents?: Incidents,
): Promise<Verdict> {
  const verdict = new Findings();
  const runs = new SortedRuns();
  const leases: Lease[] = [];
  const lives: Life[] = [];
  /** The number of IDs that were made before the first one of each life. */
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
      const course = new Life(log, facts, leases);
      lives.push(course);
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
          // If only the sequence differs from the ID before, both IDs have the same flaws.
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
    const excuses = new Excuses(lives, leases, incidents);
    const placeOf = (place: number): [life: number, number: number] => {
      const life = before.findLastIndex((count) => count <= place);
      return [life, place - (before[life] ?? 0)];
    };
    const momentOf = (place: number): Moment | undefined => {
      const [life, number] = placeOf(place);
      return lives[life]?.momentOf(number);
    };
    const isExcused = (id: bigint, first: number, second: number): boolean => {
      const [one, other] = [momentOf(first), momentOf(second)];
      return one !== undefined && other !== undefined && excuses.areExcused(layout.decompose(id).timestamp, one, other);
    };
    findDuplicates(runs, verdict, isExcused, (place) => {
      const [life, number] = placeOf(place);
      return `${nameOf(logs[life] ?? "")} as its ${number + 1}th`;
    });
    compareWindows(leases, verdict, (one, other) => excuses.areApart(one, other));
    excuses.judge(verdict);
    const { flaws, findings, errors } = verdict;
    const { restores, copies } = excuses;
    return { ids, lives: logs.length, leases: leases.length, flaws, findings, errors, restores, copies };
  } finally {
    runs.close();
  }
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
    unnoticed: 0,
    quarantines: 0,
    innocents: 0,
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

/** A lease that its holder lost. */
interface Loss {
  readonly lease: Lease;
  readonly reason: string;
  readonly time: number;
}

/** Goes through the facts of a life along with its IDs. */
class Life {
  /** Whether the window has changed since the ID before. */
  isNew = true;
  /** All answers that the holder got, also those without a lease. */
  readonly answers: Answer[] = [];
  readonly losses: Loss[] = [];
  /** When the holder was copied, or began as that copy. */
  readonly copied = new Map<number, number>();
  readonly name: string;
  readonly #moments: Moment[] = [];
  readonly #log: string;
  readonly #facts: readonly Fact[];
  readonly #leases: Lease[];
  #next = 0;
  #window: Window | undefined;
  #generation = 0;
  #lease: (Lease & { readonly answers: Answer[]; readonly copied: Set<number> }) | undefined;
  /** The lease that the holder gave back, and its ends before that. */
  #givenBack: { readonly lease: Lease; readonly ends: readonly number[] } | undefined;
  #granted: Answer | undefined;
  /** The copies that the holder knows nothing of, and for each the turn that original and copy had both drawn. */
  #undivided = new Map<number, string | undefined>();

  constructor(log: string, facts: readonly Fact[], leases: Lease[]) {
    this.#log = log;
    this.name = nameOf(log);
    this.#facts = facts;
    this.#leases = leases;
  }

  /** The state of the holder when it made the ID of that number. */
  momentOf(number: number): Moment | undefined {
    let [low, high] = [0, this.#moments.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#moments[middle]?.at ?? 0) <= number) low = middle + 1;
      else high = middle;
    }
    return this.#moments[low - 1];
  }

  /** Goes to the ID of that number. */
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

  /** Notes that an ID was made in this tick. Returns whether the holder knew at that moment that the tick was its own. */
  uses(workerId: number, begin: number, end: number): boolean {
    const window = this.#window;
    if (this.#lease !== undefined) this.#lease.used = Math.max(this.#lease.used, end);
    return window !== undefined && workerId === window.workerId && begin >= window.knownFrom && end <= window.until;
  }

  #take(fact: Fact): void {
    const { at, window, left, heard, copied } = fact;
    if (heard !== undefined) this.#hear(fact, heard);
    if (copied !== undefined) {
      this.copied.set(copied.number, fact.time ?? 0);
      this.#undivided.set(copied.number, copied.pending);
      this.#lease?.copied.add(copied.number);
    }
    if (left === "lost") this.#lose(fact);
    if (window !== undefined || left === "own will") this.#hold(window);
    const answers = this.#lease?.answers ?? [];
    this.#moments.push({
      at,
      lease: this.#lease,
      sent: Math.max(0, ...answers.slice(-1).map(({ sent }) => sent)),
      given: answers.findLast(({ heard }) => heard === "granted" || heard === "renewed")?.time ?? 0,
      undivided: [...this.#undivided.keys()],
    });
  }

  #hear({ time = 0, sent = Infinity, turn, isRepeat = false }: Fact, heard: string): void {
    const answer = { heard, sent, time, isRepeat };
    this.answers.push(answer);
    // An event or an error repeats an earlier answer, and does not know when the request was sent.
    if (sent === Infinity) return;
    if (heard === "granted") this.#granted = answer;
    else this.#lease?.answers.push(answer);
    if (heard !== "renewed" && !heard.startsWith("lost")) return;
    // If original and copy had both drawn a turn, both may get an answer to it.
    for (const [number, pending] of this.#undivided) {
      if (pending === undefined || pending !== turn) this.#undivided.delete(number);
    }
  }

  #hold(window: Fact["window"]): void {
    this.isNew = true;
    this.#window = window;
    if (window === undefined) {
      this.#giveBack();
      this.#lease = undefined;
      return;
    }
    const { workerId, fence, from, until, generation } = window;
    if (this.#lease === undefined || generation !== this.#generation) {
      const answers = this.#granted === undefined ? [] : [this.#granted];
      // A copy that was made earlier belongs to another lease. Only the first lease of a copy begins with it.
      const isFirst = this.#leases.every(({ log }) => log !== this.#log);
      if (!isFirst) this.#undivided.clear();
      const copied = new Set(this.#undivided.keys());
      this.#lease = { log: this.#log, workerId, fence, spans: [], used: 0, answers, copied };
      this.#leases.push(this.#lease);
    }
    this.#generation = generation;
    const span = this.#lease.spans.at(-1);
    // In a quarantine a holder gives up the times before its request.
    if (span !== undefined && from > span.from) span.until = Math.min(span.until, from);
    if (span === undefined || from > span.from) this.#lease.spans.push({ from, until });
    else span.until = until;
  }

  /** The holder did not give back the lease that it left before, or leaves now. */
  #lose({ reason = "", fence, time = 0 }: Fact): void {
    if (this.#lease !== undefined) this.#hold(undefined);
    const { lease, ends } = this.#givenBack ?? {};
    if (lease === undefined || ends === undefined || (fence !== undefined && fence !== lease.fence)) return;
    for (const [i, span] of lease.spans.entries()) span.until = ends[i] ?? span.until;
    this.losses.push({ lease, reason, time });
  }

  /** From now on, other holders may use the times that this holder was granted and did not use. */
  #giveBack(): void {
    const lease = this.#lease;
    if (lease === undefined) return;
    const { spans, used } = lease;
    this.#givenBack = { lease, ends: spans.map(({ until }) => until) };
    for (const span of spans) span.until = Math.min(span.until, Math.max(span.from, used));
  }
}

/** Explains why IDs come twice, why windows overlap, and what holders hear. */
class Excuses {
  readonly #lives: readonly Life[];
  readonly #leases: readonly Lease[];
  readonly #incidents: Incidents | undefined;
  /** When each copy was made. */
  readonly #copied: ReadonlyMap<number, number>;
  /** When the first holder learned of each restore. */
  readonly #told: ReadonlyMap<Restored, number>;
  readonly #twice = { restores: 0, copies: 0 };

  constructor(lives: readonly Life[], leases: readonly Lease[], incidents: Incidents | undefined) {
    this.#lives = lives;
    this.#leases = leases;
    this.#incidents = incidents;
    this.#copied = new Map(lives.flatMap(({ copied }) => [...copied]));
    this.#told = new Map(this.#restored.map((each) => [each, this.#toldOf(each)]));
  }

  get #restored(): readonly Restored[] {
    return this.#incidents?.restores ?? [];
  }

  get restores(): Course {
    const restored = this.#restored;
    const toldAfter = restored.flatMap((each, i) => {
      const told = this.#wordAfter(each);
      // An answer after the next restore is about that one.
      return told < (restored[i + 1]?.begin ?? Infinity) ? [Math.max(0, told - each.served)] : [];
    });
    return { count: restored.length, toldAfter, twice: this.#twice.restores };
  }

  get copies(): Course {
    const toldAfter = [...this.#copied].flatMap(([number, time]) => {
      const losses = this.#lives.flatMap((life) => life.losses);
      const of = losses.filter(({ lease, reason }) => reason === "cloned" && lease.copied.has(number));
      return of.length === 0 ? [] : [Math.min(...of.map((loss) => loss.time)) - time];
    });
    return { count: this.#copied.size, toldAfter, twice: this.#twice.copies };
  }

  /** Whether both holders may have made an ID with this timestamp. */
  areExcused(timestamp: number, one: Moment, other: Moment): boolean {
    if (this.#areCopies(one, other) || this.#areCopies(other, one)) {
      this.#twice.copies++;
      return true;
    }
    const isExcused = this.#restored.some(
      (each) =>
        timestamp >= each.wall - mostSkew &&
        (this.#isForgotten(each, one, other) || this.#isForgotten(each, other, one)),
    );
    if (isExcused) this.#twice.restores++;
    return isExcused;
  }

  /**
   * Whether the first holder had no answer since it was copied, and the other one is its copy, or got the worker ID after the copy was
   * made.
   */
  #areCopies({ undivided, lease }: Moment, other: Moment): boolean {
    return undivided.some((number) => {
      if (lease === undefined || other.lease === undefined || !lease.copied.has(number)) return false;
      return other.lease.copied.has(number) || grantedAt(other.lease) > (this.#copied.get(number) ?? Infinity);
    });
  }

  /**
   * Whether the first holder had no answer since the restore, and the older copy granted the other one its window before the quarantine.
   */
  #isForgotten(restored: Restored, { lease, sent }: Moment, other: Moment): boolean {
    if (lease === undefined || other.lease === undefined || lease === other.lease) return false;
    const told = this.#told.get(restored) ?? Infinity;
    return sent < restored.end && other.given > restored.begin && grantedAt(other.lease) < told;
  }

  /** Whether a restore or a copy between these leases explains their windows and fences. */
  areApart(one: Lease, other: Lease): boolean {
    const isBetween = (early: Lease, late: Lease): boolean =>
      this.#restored.some((each) => grantedAt(early) < each.end && (late.answers.at(-1)?.time ?? 0) > each.begin) ||
      [...early.copied].some(
        (number) => late.copied.has(number) || grantedAt(late) > (this.#copied.get(number) ?? Infinity),
      );
    return isBetween(one, other) || isBetween(other, one);
  }

  /** Adds the answers to holders that have no reason, and the answers that are missing. */
  judge(verdict: Findings): void {
    if (this.#incidents === undefined) return;
    const { restarts, mayForget } = this.#incidents;
    for (const { answers, losses, name } of this.#lives) {
      for (const { heard, time } of answers) {
        const isExplained =
          this.#restored.some(({ begin }) => begin <= time) ||
          restarts.some((each) => each <= time && time - each < longestDoubt);
        if (heard === "quarantine" && !isExplained) verdict.add("quarantines", () => `to ${name} at ${time} ms`);
      }
      for (const { lease, reason, time } of losses) {
        const livedThrough = this.#restored.some(({ begin, end }) => begin <= time && grantedAt(lease) < end);
        const isForgotten = reason === "forgotten" && !livedThrough && !mayForget;
        const isCloned = reason === "cloned" && !livedThrough && lease.copied.size === 0;
        if (isForgotten || isCloned) verdict.add("innocents", () => `${wordsOfLease(lease)}, ${reason} at ${time} ms`);
      }
    }
    for (const lease of this.#leases) {
      for (const restored of this.#restored) {
        if (this.#isUnnoticed(lease, restored)) verdict.add("unnoticed", () => wordsOfLease(lease));
      }
    }
  }

  /**
   * Whether the store forgot an answer to this lease and no holder hears of a quarantine, although the store answers as if nothing had
   * happened, or as if the holder had been copied. (If it answers that another holder took the lease over, that may be true.)
   */
  #isUnnoticed({ answers, copied }: Lease, restored: Restored): boolean {
    const wasForgotten = answers.some(
      (answer) => isGiven(answer) && !answer.isRepeat && answer.sent > restored.copied && answer.time < restored.begin,
    );
    const after = answers.find(({ sent }) => sent > restored.end);
    if (!wasForgotten || after === undefined) return false;
    const isWrong = after.heard === "renewed" || (after.heard === "lost cloned" && copied.size === 0);
    return isWrong && Math.min(this.#wordAfter(restored), this.#lateWordOf(restored)) > after.time + promptly;
  }

  /**
   * When a holder that had asked before this restore first learned of it. The older copy may answer a request that waits during the
   * restore, and the quarantine may have passed when the next request is sent.
   */
  #lateWordOf(restored: Restored): number {
    const earlier = [
      ...this.#restored.filter(({ begin }) => begin < restored.begin).map(({ served }) => served + longestQuarantine),
      ...(this.#incidents?.restarts ?? []).filter((each) => each < restored.begin).map((each) => each + longestDoubt),
    ];
    // The answer may be about an earlier quarantine.
    const since = Math.max(-Infinity, ...earlier);
    const answers = this.#lives.flatMap((life) => life.answers);
    return first(
      answers.filter(
        ({ heard, sent, time }) => heard === "quarantine" && time >= restored.end && sent >= since && sent < Infinity,
      ),
    );
  }

  /** When a holder first learned of any restore after this one. */
  #wordAfter(restored: Restored): number {
    const answers = this.#lives.flatMap((life) => life.answers);
    const words = answers.filter(({ heard }) => heard === "quarantine" || heard === "lost forgotten");
    return first([...words.filter((answer) => isAfter(answer, restored.end)), ...this.#unasked(restored)]);
  }

  /**
   * When a holder first learned of this restore. The answer to an earlier request may be about the restore before, however late it
   * arrives.
   */
  #toldOf(restored: Restored): number {
    const { copied, end } = restored;
    const quarantines = this.#lives.flatMap(({ answers }) => answers.filter(({ heard }) => heard === "quarantine"));
    // A copy that was taken in a quarantine contains that quarantine.
    const inCopy = quarantines.some(({ time }) => time <= copied && time > copied - longestQuarantine);
    const since = inCopy ? Math.max(end, copied + longestQuarantine) : end;
    // If this restore forgot nothing of a lost lease, an earlier restore caused the loss.
    const forgotten = this.#leases.filter(({ answers }) =>
      answers.some((answer) => isGiven(answer) && answer.time > copied && answer.sent < end),
    );
    const lost = forgotten.flatMap(({ answers }) => answers.filter(({ heard }) => heard === "lost forgotten"));
    return first([
      ...quarantines.filter((answer) => isAfter(answer, since)),
      ...lost.filter((answer) => isAfter(answer, end)),
      ...this.#unasked(restored),
    ]);
  }

  /** Leases that were lost without an answer. If another file takes the place of the registry's file, no registry reports it. */
  #unasked({ begin }: Restored): readonly Loss[] {
    const losses = this.#lives.flatMap((life) => life.losses);
    return losses.filter(
      ({ lease, reason, time }) =>
        reason === "forgotten" && time >= begin && lease.answers.every(({ heard }) => heard !== "lost forgotten"),
    );
  }
}

const isGiven = ({ heard }: Answer): boolean => heard === "granted" || heard === "renewed";
const isAfter = ({ sent }: Answer, time: number): boolean => sent >= time && sent < Infinity;

function first(events: readonly { readonly time: number }[]): number {
  return Math.min(Infinity, ...events.map(({ time }) => time));
}

function grantedAt({ answers }: Lease): number {
  return answers[0]?.sent ?? 0;
}

function wordsOfLease({ workerId, fence, log }: Lease): string {
  return `worker ${workerId}, fence ${fence}, of ${nameOf(log)}`;
}

function findDuplicates(
  runs: SortedRuns,
  verdict: Findings,
  isExcused: (id: bigint, first: number, second: number) => boolean,
  makerOf: (place: number) => string,
): void {
  let [lastUpper, lastLower, lastPlace] = [-1, -1, -1];
  for (const { count, uppers, lowers, places } of runs.merged()) {
    for (let i = 0; i < count; i++) {
      const upper = uppers[i] ?? 0;
      const lower = lowers[i] ?? 0;
      const place = places[i] ?? 0;
      if (lower === lastLower && upper === lastUpper) {
        const first = lastPlace;
        const id = idOf(upper, lower);
        if (!isExcused(id, first, place))
          verdict.add("duplicates", () => `${id}, by ${makerOf(first)} and by ${makerOf(place)}`);
      }
      [lastUpper, lastLower, lastPlace] = [upper, lower, place];
    }
  }
}

function compareWindows(
  leases: readonly Lease[],
  verdict: Findings,
  areApart: (one: Lease, other: Lease) => boolean,
): void {
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
    if (span.from < reach.until && !areApart(reach.lease, span.lease))
      verdict.add("overlaps", () => bothText(reach, span));
    const isRisen = span.lease === before.lease || span.lease.fence > before.lease.fence;
    if (!isRisen && !areApart(before.lease, span.lease)) {
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
