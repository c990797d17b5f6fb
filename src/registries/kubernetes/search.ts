import { isIn, type PoolBounds } from "../../id/pool-bounds.ts";
import { byAge } from "../../rule/pool.ts";
import type { Stored } from "../../rule/window.ts";
import type { AttemptOptions } from "../engine/optimistic.ts";
import { Beaten, Unanswered } from "../engine/operate.ts";
import type { Standing } from "../engine/port.ts";
import { shuffled } from "../shuffled.ts";
import { together } from "../together.ts";
import type { ClaimMemory } from "./claim-memory.ts";
import { checkThere } from "./erase.ts";
import { hintsObject, hintsOf, type PoolHints, readHints } from "./hints.ts";
import type { Freshness } from "./leases.ts";
import { label, type LeaseObject } from "./objects.ts";
import type { StoredObjects } from "./stored-objects.ts";

/** Most used worker IDs of a namespace: what a claim may have to list at once. */
const mostUsed = 4096;
/** Hints are written at most once in this time, ms. */
const hintPause = 5000;
/** Longest pause before a list of the pool, ms. */
const longestPause = 300;
/** Numbers without a record that a claim reads at once, to take one of them. */
const mostRead = 4;
/** Races that a claim loses by hints before it lists the pool: a storm of claims would list it all at once. */
const mostGuesses = 2;

export type SearchOptions = Pick<AttemptOptions, "races" | "spread">;

/** The used numbers of a namespace as a search knows them. */
interface UsedNumbers extends PoolHints {
  /** Hints and a cache of the API server (`recent`) lag: what they show is read before it is believed. */
  readonly source: "hints" | Freshness;
}

/** How one attempt at a claim looks for a number: by hints, then by a cache of the API server, at last by the pool itself. */
export class LeaseSearch {
  readonly #objects: StoredObjects;
  readonly #memory: ClaimMemory;
  readonly #options: SearchOptions;
  #survey: Promise<UsedNumbers> | undefined;
  /** The address whose pins were asked for, and those that a cache shows. */
  #pins: { readonly ip: string; readonly found: Promise<readonly Stored[]> } | undefined;

  constructor(objects: StoredObjects, memory: ClaimMemory, options: SearchOptions) {
    this.#objects = objects;
    this.#memory = memory;
    this.#options = options;
  }

  /** `found`: what a cache shows of the numbers that are pinned for an address. */
  notePins(ip: string, found: Promise<readonly Stored[]>): void {
    this.#pins = { ip, found };
  }

  /** The lowest number without a record; where others reach for it, one of the lowest few. */
  async firstUnused(pool: PoolBounds, everywhere?: true): Promise<number | undefined> {
    const isExact = everywhere === true;
    const { found, isOld } = await this.#unusedIn(await (isExact ? this.#exactly() : this.#known()), pool);
    if (!isOld) return found;
    // Others were faster; that is no pool without an unused number.
    if (isExact) throw new Beaten("what was unused was taken");
    return (await this.#unusedIn(await this.#anew(), pool)).found;
  }

  /** The oldest, or some of those whose windows have passed, by lot. */
  async oldest(pool: PoolBounds, limit: number, everywhere?: true): Promise<readonly Stored[]> {
    if (everywhere === true) return this.#oldestIn(await this.#exactly(), pool, limit);
    const records = await this.#oldestIn(await this.#known(), pool, limit);
    const { clock } = await this.#objects.begin();
    if (records.some(({ until }) => until <= clock)) return records;
    return this.#oldestIn(await this.#anew(), pool, limit);
  }

  /** What is known so far: at first, what hints say. */
  #known(): Promise<UsedNumbers> {
    this.#survey ??= this.#guess();
    return this.#survey;
  }

  async #guess(): Promise<UsedNumbers> {
    const { leases, names } = this.#objects;
    if (this.#options.races > mostGuesses) return this.#listLater(undefined);
    const object = await leases.get(names.hints);
    const known = readHints(object);
    return known === undefined ? this.#list("recent", object) : { source: "hints", ...known };
  }

  /** What is known anew, where that was old. */
  async #anew(): Promise<UsedNumbers> {
    const { source, at } = await this.#known();
    if (source !== "hints") return this.#exactly();
    this.#survey = this.#listLater(at);
    return this.#survey;
  }

  /** A list behind a pause. In a storm of claims, the first one serves all: its hints are written meanwhile. `old`: hints that were in vain. */
  async #listLater(old: number | undefined): Promise<UsedNumbers> {
    const { leases, names } = this.#objects;
    await leases.pause(Math.random() * longestPause);
    const object = await leases.get(names.hints);
    const known = readHints(object);
    const isNewer = old !== undefined && known !== undefined && known.at !== old;
    return isNewer ? { source: "hints", ...known } : this.#list("recent", object);
  }

  /** The pool itself: nothing else is believed that it is exhausted. */
  async #exactly(): Promise<UsedNumbers> {
    const { leases, names } = this.#objects;
    const known = await this.#survey;
    if (known?.source === "exact") return known;
    this.#survey = leases.get(names.hints).then((object) => this.#list("exact", object));
    return this.#survey;
  }

  /** `hints`: as they stand. */
  async #list(source: Freshness, hints: LeaseObject | undefined): Promise<UsedNumbers> {
    const [records, { standing, clock }] = await together([this.#objects.list(source), this.#objects.begin()]);
    if (source === "exact") await this.#checkPins(records);
    const found = hintsOf(records, clock);
    const known = readHints(hints);
    const isDue = known === undefined || clock - known.at >= hintPause;
    if (isDue && standing.made !== undefined) await this.#write(found, hints);
    return { source, ...found };
  }

  /** Whether a cache has shown each number that is pinned for the claimer. None ever shows one whose label somebody took away. */
  async #checkPins(records: readonly Stored[]): Promise<void> {
    if (this.#pins === undefined) return;
    const { ip, found } = this.#pins;
    const shown = new Set((await found).map(({ workerId }) => workerId));
    const isMissed = (record: Stored): boolean =>
      record.owner === ip && !shown.has(record.workerId) && this.#objects.hasLabel(record, label.owner);
    if (records.some(isMissed)) throw new Beaten("a number was pinned for this address");
  }

  async #write(hints: PoolHints, before: LeaseObject | undefined): Promise<void> {
    const { leases, names } = this.#objects;
    try {
      const written = await leases.put(before, hintsObject(names, hints, before));
      if (before === undefined) await checkThere(leases, names, written);
    } catch (error) {
      // Another claim wrote them, or they are missing for a while.
      if (!(error instanceof Beaten) && !(error instanceof Unanswered)) throw error;
    }
  }

  /** One of the lowest; where these were taken, any one that others may have left. `isOld`: what it was looked for by did not fit. */
  async #unusedIn(
    survey: UsedNumbers,
    pool: PoolBounds,
  ): Promise<{ readonly found?: number | undefined; readonly isOld: boolean }> {
    if (survey.ends.size >= mostUsed) return { isOld: false };
    const { standing } = await this.#objects.begin();
    /** No list shows these: somebody took their labels away. */
    const hidden = new Set<number>();
    const isUnused = (n: number): boolean =>
      !survey.ends.has(n) && !hidden.has(n) && this.#takenUntil(survey, standing, n) === undefined;
    const size = pool.last - pool.first + 1;
    for (;;) {
      const lowest: number[] = [];
      const most = Math.max(mostRead, this.#options.spread);
      for (let n = pool.first; n <= pool.last && lowest.length < most; n++) if (isUnused(n)) lowest.push(n);
      const others = Array.from({ length: mostRead }, () => pool.first + Math.floor(Math.random() * size));
      const guesses = [this.#byLot(lowest).slice(0, mostRead), lowest.length < most ? [] : others.filter(isUnused)];
      const known = hidden.size;
      for (const some of guesses) {
        const records = await this.#read(standing, some);
        const found = some.find((_, i) => records[i] === undefined);
        if (found !== undefined) return { found, isOld: false };
        for (const record of records) {
          if (record !== undefined && !this.#objects.hasLabel(record, label.worker)) hidden.add(record.workerId);
        }
      }
      if (hidden.size === known) return { isOld: lowest.length > 0 };
    }
  }

  /** The records of the oldest. Which of them a claim may have, its own clock decides, too: of the pool itself, the very oldest are among them. */
  async #oldestIn(survey: UsedNumbers, pool: PoolBounds, limit: number): Promise<readonly Stored[]> {
    const { standing, clock } = await this.#objects.begin();
    const places = [...survey.ends]
      .filter(([workerId, end]) => isIn(pool, workerId) && end < Infinity)
      .map(([workerId, end]) => ({ workerId, until: Math.max(end, this.#takenUntil(survey, standing, workerId) ?? 0) }))
      .toSorted(byAge);
    const isOver = ({ until }: { readonly until: number }): boolean => until <= clock;
    const passed = places.filter(isOver);
    const isExact = survey.source === "exact";
    // Hints of yesterday show most as passed: by their order, each claim would look at the same few.
    const isGuess = survey.source === "hints";
    const lots = isGuess ? shuffled(passed) : this.#byLot(passed.slice(0, Math.max(limit, this.#options.spread)));
    const first = isExact || passed.length === 0 ? places.slice(0, limit) : [];
    const some = new Set([...lots.slice(0, limit), ...first].map(({ workerId }) => workerId));
    const found = await this.#read(standing, [...some]);
    const records = found.filter((record) => record !== undefined && record.pinned === undefined) as readonly Stored[];
    const sorted = records.toSorted(byAge);
    // Others were faster, unless one of the very oldest still stands: all others end later.
    const oldest = new Set(first.map(({ workerId }) => workerId));
    const stands = sorted.some((record) => isOver(record) && oldest.has(record.workerId));
    if (isExact && passed.length > 0 && !stands) throw new Beaten("what had passed was taken");
    return [...this.#byLot(sorted.filter(isOver)), ...sorted.filter((record) => !isOver(record))];
  }

  /** Reads records, and remembers them: what led to them lags. */
  async #read(standing: Standing, workerIds: readonly number[]): Promise<readonly (Stored | undefined)[]> {
    const records = await together(workerIds.map((workerId) => this.#objects.byId(workerId)));
    for (const record of records) {
      if (record !== undefined) this.#memory.noteTaken(standing, record.workerId, record.until);
    }
    return records;
  }

  /** What this client has seen since the pool was listed; an exact list shows it itself. */
  #takenUntil({ source }: UsedNumbers, standing: Standing, workerId: number): number | undefined {
    return source === "exact" ? undefined : this.#memory.takenUntil(standing, workerId);
  }

  /** In another order, where other claims reach for the first ones. */
  #byLot<Item>(items: readonly Item[]): readonly Item[] {
    return this.#options.spread === 1 ? items : shuffled(items);
  }
}
