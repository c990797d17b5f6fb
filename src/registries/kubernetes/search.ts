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

/** The most used worker IDs of a namespace, because a claim may have to list them all at once. */
const mostUsed = 4096;
/** Claims write hints at most once in this time, ms. */
const hintPause = 5000;
/** Longest pause before a list of the pool, ms. */
const longestPause = 300;
/** How many worker IDs without a record a claim reads at once, to take one of them. */
const mostRead = 4;
/** A claim loses this many races with hints before it lists the pool. Otherwise all claims of a storm would list it at the same time. */
const mostGuesses = 2;

export type SearchOptions = Pick<AttemptOptions, "races" | "spread">;

/** The used worker IDs of a namespace, as a search knows them. */
interface UsedNumbers extends PoolHints {
  /** Hints and a cache of the API server (`recent`) lag. A claim reads a record before it believes them. */
  readonly source: "hints" | Freshness;
}

/** How one attempt at a claim looks for a worker ID: by hints, then by a cache of the API server, at last by the pool itself. */
export class LeaseSearch {
  readonly #objects: StoredObjects;
  readonly #memory: ClaimMemory;
  readonly #options: SearchOptions;
  #survey: Promise<UsedNumbers> | undefined;
  /** The address whose pins the claim asked for, and the pins that a cache shows. */
  #pins: { readonly ip: string; readonly found: Promise<readonly Stored[]> } | undefined;

  constructor(objects: StoredObjects, memory: ClaimMemory, options: SearchOptions) {
    this.#objects = objects;
    this.#memory = memory;
    this.#options = options;
  }

  /** `found`: the worker IDs that are pinned for an address, as a cache shows them. */
  notePins(ip: string, found: Promise<readonly Stored[]>): void {
    this.#pins = { ip, found };
  }

  /** The lowest worker ID without a record. If other claims compete for it, one of the lowest few. */
  async firstUnused(pool: PoolBounds, everywhere?: true): Promise<number | undefined> {
    const isExact = everywhere === true;
    const { found, isOld } = await this.#unusedIn(await (isExact ? this.#exactly() : this.#known()), pool);
    if (!isOld) return found;
    // Other claims were faster. That does not mean that the pool has no unused worker ID.
    if (isExact) throw new Beaten("what was unused was taken");
    return (await this.#unusedIn(await this.#anew(), pool)).found;
  }

  /** The oldest, or random ones of those whose windows have passed. */
  async oldest(pool: PoolBounds, limit: number, everywhere?: true): Promise<readonly Stored[]> {
    if (everywhere === true) return this.#oldestIn(await this.#exactly(), pool, limit);
    const records = await this.#oldestIn(await this.#known(), pool, limit);
    const { clock } = await this.#objects.begin();
    if (records.some(({ until }) => until <= clock)) return records;
    return this.#oldestIn(await this.#anew(), pool, limit);
  }

  /** What the search knows so far. At first, this is what hints say. */
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

  /** Looks at the pool again, because the search's knowledge was old. */
  async #anew(): Promise<UsedNumbers> {
    const { source, at } = await this.#known();
    if (source !== "hints") return this.#exactly();
    this.#survey = this.#listLater(at);
    return this.#survey;
  }

  /**
   * Lists the pool after a pause. In a storm of claims, the first list serves all claims, because its hints are written during the pause.
   * `old`: the time of hints that did not help.
   */
  async #listLater(old: number | undefined): Promise<UsedNumbers> {
    const { leases, names } = this.#objects;
    await leases.pause(Math.random() * longestPause);
    const object = await leases.get(names.hints);
    const known = readHints(object);
    const isNewer = old !== undefined && known !== undefined && known.at !== old;
    return isNewer ? { source: "hints", ...known } : this.#list("recent", object);
  }

  /** Lists the pool itself. Only this list can show that the pool is exhausted. */
  async #exactly(): Promise<UsedNumbers> {
    const { leases, names } = this.#objects;
    const known = await this.#survey;
    if (known?.source === "exact") return known;
    this.#survey = leases.get(names.hints).then((object) => this.#list("exact", object));
    return this.#survey;
  }

  /** `hints`: the object as it was read. */
  async #list(source: Freshness, hints: LeaseObject | undefined): Promise<UsedNumbers> {
    const [records, { standing, clock }] = await together([this.#objects.list(source), this.#objects.begin()]);
    if (source === "exact") await this.#checkPins(records);
    const found = hintsOf(records, clock);
    const known = readHints(hints);
    const isDue = known === undefined || clock - known.at >= hintPause;
    if (isDue && standing.made !== undefined) await this.#write(found, hints);
    return { source, ...found };
  }

  /**
   * Checks that a cache has shown each worker ID that is pinned for the claimer. No cache ever shows a record whose label an operator
   * removed.
   */
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
      // Another claim wrote the hints, or they will be missing for a while.
      if (!(error instanceof Beaten) && !(error instanceof Unanswered)) throw error;
    }
  }

  /** One of the lowest unused worker IDs. If other claims have taken these, a random one. `isOld`: the survey did not match the records. */
  async #unusedIn(
    survey: UsedNumbers,
    pool: PoolBounds,
  ): Promise<{ readonly found?: number | undefined; readonly isOld: boolean }> {
    if (survey.ends.size >= mostUsed) return { isOld: false };
    const { standing } = await this.#objects.begin();
    /** No list shows these records, because an operator removed their labels. */
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

  /**
   * The records of the oldest worker IDs. The claimer's clock also decides which of them the claim may take. So if the pool itself was
   * listed, the very oldest are among them.
   */
  async #oldestIn(survey: UsedNumbers, pool: PoolBounds, limit: number): Promise<readonly Stored[]> {
    const { standing, clock } = await this.#objects.begin();
    const places = [...survey.ends]
      .filter(([workerId, end]) => isIn(pool, workerId) && end < Infinity)
      .map(([workerId, end]) => ({ workerId, until: Math.max(end, this.#takenUntil(survey, standing, workerId) ?? 0) }))
      .toSorted(byAge);
    const isOver = ({ until }: { readonly until: number }): boolean => until <= clock;
    const passed = places.filter(isOver);
    const isExact = survey.source === "exact";
    // Old hints show most windows as passed. In the order of the hints, each claim would look at the same few.
    const isGuess = survey.source === "hints";
    const lots = isGuess ? shuffled(passed) : this.#byLot(passed.slice(0, Math.max(limit, this.#options.spread)));
    const first = isExact || passed.length === 0 ? places.slice(0, limit) : [];
    const some = new Set([...lots.slice(0, limit), ...first].map(({ workerId }) => workerId));
    const found = await this.#read(standing, [...some]);
    const records = found.filter((record) => record !== undefined && record.pinned === undefined) as readonly Stored[];
    const sorted = records.toSorted(byAge);
    // Other claims were faster, unless one of the very oldest is still there. All others end later.
    const oldest = new Set(first.map(({ workerId }) => workerId));
    const stands = sorted.some((record) => isOver(record) && oldest.has(record.workerId));
    if (isExact && passed.length > 0 && !stands) throw new Beaten("what had passed was taken");
    return [...this.#byLot(sorted.filter(isOver)), ...sorted.filter((record) => !isOver(record))];
  }

  /** Reads records, and remembers them, because hints and caches lag. */
  async #read(standing: Standing, workerIds: readonly number[]): Promise<readonly (Stored | undefined)[]> {
    const records = await together(workerIds.map((workerId) => this.#objects.byId(workerId)));
    for (const record of records) {
      if (record !== undefined) this.#memory.noteTaken(standing, record.workerId, record.until);
    }
    return records;
  }

  /** What this client has seen since the pool was listed. An exact list shows this itself. */
  #takenUntil({ source }: UsedNumbers, standing: Standing, workerId: number): number | undefined {
    return source === "exact" ? undefined : this.#memory.takenUntil(standing, workerId);
  }

  /** In random order if other claims compete for the first ones. */
  #byLot<Item>(items: readonly Item[]): readonly Item[] {
    return this.#options.spread === 1 ? items : shuffled(items);
  }
}
