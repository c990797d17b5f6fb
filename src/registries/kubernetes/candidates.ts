import type { PoolBounds } from "../../id/pool-bounds.ts";
import { isIn } from "../../id/pool-bounds.ts";
import { byAge } from "../../rule/pool.ts";
import { type NamespaceState, recordIn } from "../../rule/era.ts";
import type { ClaimRequest } from "../../rule/registry.ts";
import { isFree, type Stored } from "../../rule/window.ts";
import { together } from "../together.ts";
import type { ClaimReader } from "../compare-and-set/decide.ts";
import { Beaten, Unanswered } from "../engine/operate.ts";
import { checkThere } from "./erase.ts";
import { hintsObject, hintsOf, type PoolHints, readHints } from "./hints.ts";
import type { Freshness, Leases } from "./leases.ts";
import { label, labelOf, type LeaseObject, type LeaseNames } from "./objects.ts";
import type { LeaseRecord } from "./records.ts";
import { type KubernetesStore, listedRecord, readAt } from "./store.ts";

/** Most used worker IDs of a namespace: what a claim may have to list at once. */
const mostUsed = 4096;
/** Hints are written at most once in this time, ms. */
const hintPause = 5000;
/** Longest pause before a list of the pool, ms. */
const longestPause = 300;

/** Numbers without a record that a claim reads at once, to take one of them. */
const mostRead = 4;

/** Where a claim learns which numbers are used: from hints, from a cache of the API server, or from a majority of the etcd. */
export type PoolSource = "hints" | Freshness;

/** How a claim searches. */
interface Search {
  readonly request: ClaimRequest;
  /** Among how many equally good worker IDs to choose by lot: other claims reach for the first of them at this moment. */
  readonly spread: number;
  readonly source: PoolSource;
  /** When the hints were made that a search before this one went by in vain. */
  readonly stale?: number | undefined;
}

/** What a claim reads of the records of one namespace. */
export class KubernetesCandidates implements ClaimReader {
  /** The records that the decision reads. */
  readonly rows: Map<Stored, LeaseRecord> = new Map();
  /** When the hints were made that it goes by; undefined where it lists the pool itself. */
  hintsAt: number | undefined;
  readonly #store: KubernetesStore;
  readonly #names: LeaseNames;
  readonly #leases: Leases;
  readonly #state: NamespaceState;
  readonly #search: Search;
  #hints: Promise<PoolHints> | undefined;
  #ofHost: Promise<readonly LeaseRecord[]> | undefined;

  constructor(
    { store, names, leases }: { readonly store: KubernetesStore; readonly names: LeaseNames; readonly leases: Leases },
    state: NamespaceState,
    search: Search,
  ) {
    this.#store = store;
    this.#names = names;
    this.#leases = leases;
    this.#state = state;
    this.#search = search;
  }

  /** A claim that this client has sent before is looked for exactly. One that another client sent is found once the cache has it. */
  async byToken(token: string): Promise<Stored | undefined> {
    const freshness = this.#store.sent.get(token) === true ? "exact" : "recent";
    const objects = await this.#leases.list(this.#names.selector(label.token, token), freshness);
    const [row] = objects.flatMap((object) => listedRecord(this.#names, object) ?? []);
    const record = row && (await this.byId(row.record.workerId));
    return record?.token === token ? record : undefined;
  }

  async byId(workerId: number): Promise<Stored | undefined> {
    const row = await readAt(this.#leases, this.#names, workerId);
    return row && this.#add(row);
  }

  /**
   * The lowest number without a record; where others reach for it, one of the lowest few. Each is read: what showed it may lag. Where it
   * lags far behind, any other number may be unused.
   */
  async firstUnused(pool: PoolBounds): Promise<number | undefined> {
    const { ends } = await this.#survey();
    if (ends.size >= mostUsed) return undefined;
    const isUnused = (n: number): boolean => !ends.has(n) && this.#takenUntil(n) === undefined;
    const lowest: number[] = [];
    const most = Math.max(mostRead, this.#search.spread);
    for (let n = pool.first; n <= pool.last && lowest.length < most; n++) if (isUnused(n)) lowest.push(n);
    const found = await this.#unusedOf(this.#shuffled(lowest).slice(0, mostRead));
    if (found !== undefined) return found;
    // Others were faster; that is no pool without an unused number.
    if (this.#search.source === "exact" && lowest.length > 0) throw new Beaten("what was unused was taken");
    if (lowest.length < most) return undefined;
    const size = pool.last - pool.first + 1;
    const others = Array.from({ length: mostRead }, () => pool.first + Math.floor(Math.random() * size));
    return this.#unusedOf(others.filter(isUnused));
  }

  async #unusedOf(workerIds: readonly number[]): Promise<number | undefined> {
    const found = await together(workerIds.map((workerId) => readAt(this.#leases, this.#names, workerId)));
    for (const row of found) {
      if (row !== undefined) this.#store.noteTaken(this.#state.info, row.record.workerId, row.record.until);
    }
    return workerIds.find((_, i) => found[i] === undefined);
  }

  /** The oldest, or some of those whose windows have passed, by lot. Each is read: what showed it may lag. */
  async oldest(pool: PoolBounds, limit: number): Promise<readonly Stored[]> {
    const { ends } = await this.#survey();
    const places = [...ends]
      .filter(([workerId, end]) => isIn(pool, workerId) && end < Infinity)
      .map(([workerId, end]) => ({ workerId, end: Math.max(end, this.#takenUntil(workerId) ?? 0) }))
      .toSorted((a, b) => a.end - b.end || a.workerId - b.workerId);
    const now = Math.min(this.#search.request.clock, this.#state.clock);
    const { source, spread } = this.#search;
    const passed = places.filter(({ end }) => end <= now);
    // Hints of yesterday show most as passed: by their order, each claim would look at the same few.
    const isKnown = source !== "hints";
    const lots = isKnown ? this.#shuffled(passed.slice(0, Math.max(limit, spread))) : shuffled(passed);
    const few = (passed.length > 0 ? lots : places).slice(0, limit);
    const found = await together(few.map(({ workerId }) => this.byId(workerId)));
    const unpinned = found.flatMap((record) => (record === undefined || record.pinned !== undefined ? [] : [record]));
    return this.#freeFirst(unpinned.toSorted(byAge));
  }

  async oldestOfHost(pool: PoolBounds, host: string, limit: number): Promise<readonly Stored[]> {
    const rows = (await this.#rowsOfHost(pool, host)).slice(0, Math.max(limit, this.#search.spread));
    return this.#freeFirst(rows.map((row) => row.record)).slice(0, limit);
  }

  async newestOfHost(pool: PoolBounds, host: string): Promise<Stored | undefined> {
    return (await this.#rowsOfHost(pool, host)).at(-1)?.record;
  }

  async pinnedFor(pool: PoolBounds, ip: string, limit: number): Promise<readonly Stored[]> {
    const rows = await this.#rowsWith(label.owner, labelOf(ip));
    const own = rows.filter(({ record }) => record.owner === ip && isIn(pool, record.workerId));
    return sorted(own)
      .slice(0, limit)
      .map((row) => this.#add(row));
  }

  async #rowsOfHost(pool: PoolBounds, host: string): Promise<readonly LeaseRecord[]> {
    this.#ofHost ??= this.#rowsWith(label.host, labelOf(host));
    const own = (await this.#ofHost).filter(({ record }) => {
      return record.holder?.host === host && record.pinned === undefined && isIn(pool, record.workerId);
    });
    for (const row of own) this.#add(row);
    return sorted(own);
  }

  /** Records with this label. A cache may show an older one: the write of a claim then fails, and the next attempt has seen a newer one. */
  async #rowsWith(name: string, value: string): Promise<readonly LeaseRecord[]> {
    const freshness = this.#search.source === "exact" ? "exact" : "recent";
    const objects = await this.#leases.list(this.#names.selector(name, value), freshness);
    return objects.flatMap((object) => listedRecord(this.#names, object) ?? []);
  }

  /** What this client has seen since the pool was listed; an exact list shows it itself. */
  #takenUntil(workerId: number): number | undefined {
    return this.#search.source === "exact" ? undefined : this.#store.takenUntil(this.#state.info, workerId);
  }

  #survey(): Promise<PoolHints> {
    this.#hints ??= this.#read();
    return this.#hints;
  }

  async #read(): Promise<PoolHints> {
    const { source, stale } = this.#search;
    // In a storm of claims, the first list serves all: its hints are written meanwhile.
    if (source === "recent") await this.#leases.pause(Math.random() * longestPause);
    const object = await this.#leases.get(this.#names.hints);
    const known = readHints(object);
    const isNew = stale !== undefined && known?.at !== stale;
    if (known !== undefined && (source === "hints" || (source === "recent" && isNew))) {
      this.hintsAt = known.at;
      return known;
    }
    const objects = await this.#leases.listAll(this.#names.selector(), source === "exact" ? "exact" : "recent");
    const rows = objects.flatMap((each) => listedRecord(this.#names, each) ?? []);
    const { clock } = this.#state;
    const found = hintsOf(
      rows.map(({ record }) => recordIn(this.#state, record)),
      clock,
    );
    if (known === undefined || clock - known.at >= hintPause) await this.#write(found, object);
    return found;
  }

  async #write(hints: PoolHints, before: LeaseObject | undefined): Promise<void> {
    try {
      const written = await this.#leases.put(before, hintsObject(this.#names, hints, before));
      if (before === undefined) await checkThere(this.#leases, this.#names, written);
    } catch (error) {
      // Another claim wrote them, or they are missing for a while.
      if (!(error instanceof Beaten) && !(error instanceof Unanswered)) throw error;
    }
  }

  #add(row: LeaseRecord): Stored {
    this.rows.set(row.record, row);
    return row.record;
  }

  #freeFirst(records: readonly Stored[]): readonly Stored[] {
    if (this.#search.spread === 1) return records;
    const { clock } = this.#state;
    const free = records.filter((record) => isFree(recordIn(this.#state, record), this.#search.request, clock));
    return [...this.#shuffled(free), ...records.filter((record) => !free.includes(record))];
  }

  #shuffled<Item>(items: readonly Item[]): readonly Item[] {
    return this.#search.spread === 1 ? items : shuffled(items);
  }
}

function shuffled<Item>(items: readonly Item[]): readonly Item[] {
  return items
    .map((item) => ({ item, at: Math.random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ item }) => item);
}

/** By the end of their windows, the oldest first. */
function sorted(rows: readonly LeaseRecord[]): readonly LeaseRecord[] {
  return rows.toSorted((a, b) => a.record.until - b.record.until || a.record.workerId - b.record.workerId);
}
