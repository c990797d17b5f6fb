import { isIn, type PoolBounds } from "../../id/pool-bounds.ts";
import { byAge } from "../../rule/pool.ts";
import type { HistoryRow, WorkerState } from "../../rule/registry.ts";
import { type Stored, stateOf } from "../../rule/window.ts";
import type { StoreReader } from "../engine/optimistic.ts";
import type { Part } from "../engine/port.ts";
import { shuffled } from "../shuffled.ts";
import { together } from "../together.ts";
import type { ClaimMemory } from "./claim-memory.ts";
import { label, labelOf } from "./objects.ts";
import { LeaseSearch, type SearchOptions } from "./search.ts";
import { readRows } from "./records.ts";
import type { StoredObjects } from "./stored-objects.ts";

/** The reads of one attempt. */
export class KubernetesReader implements StoreReader {
  readonly #objects: StoredObjects;
  readonly #memory: ClaimMemory;
  readonly #options: SearchOptions;
  readonly #search: LeaseSearch;
  readonly #records = new Map<number, Promise<Stored | undefined>>();
  #ofHost: Promise<readonly Stored[]> | undefined;

  constructor(objects: StoredObjects, memory: ClaimMemory, options: SearchOptions) {
    this.#objects = objects;
    this.#memory = memory;
    this.#options = options;
    this.#search = new LeaseSearch(objects, memory, options);
  }

  /** Looks exactly for a claim that this client has sent before. Finds a claim that another client sent as soon as the cache has it. */
  async byToken(token: string): Promise<Stored | undefined> {
    if (await this.#isShut()) return undefined;
    const freshness = this.#memory.sent.get(token) === true ? "exact" : "recent";
    const [listed] = await this.#objects.withLabel(label.token, token, freshness);
    // Reads the record again, because another request may have written the claim meanwhile.
    const record = listed && (await this.#objects.byId(listed.workerId));
    return record?.token === token ? record : undefined;
  }

  /** The record as this attempt read it first. One object has the present claim and the ended ones. */
  byId(workerId: number): Promise<Stored | undefined> {
    const read = this.#records.get(workerId) ?? this.#objects.byId(workerId);
    this.#records.set(workerId, read);
    return read;
  }

  async firstUnused(pool: PoolBounds, everywhere?: true): Promise<number | undefined> {
    if (await this.#isShut()) return pool.first;
    return this.#search.firstUnused(pool, everywhere);
  }

  async oldest(pool: PoolBounds, limit: number, everywhere?: true): Promise<readonly Stored[]> {
    if (await this.#isShut()) return [];
    return this.#search.oldest(pool, limit, everywhere);
  }

  async oldestOfHost(pool: PoolBounds, host: string, limit: number): Promise<readonly Stored[]> {
    const [records, { clock }] = await together([this.#recordsOf(pool, host), this.#objects.begin()]);
    const passed = records.filter(({ until }) => until <= clock);
    // Other processes of the host compete for the first ones, too.
    const first = this.#options.spread === 1 ? passed : shuffled(passed);
    return [...first, ...records.slice(passed.length)].slice(0, limit);
  }

  async newestOfHost(pool: PoolBounds, host: string): Promise<Stored | undefined> {
    return (await this.#recordsOf(pool, host)).at(-1);
  }

  async pinnedFor(pool: PoolBounds, ip: string, limit: number): Promise<readonly Stored[]> {
    const pinned = this.#pinnedFor(ip);
    this.#search.notePins(ip, pinned);
    return (await pinned)
      .filter(({ workerId }) => isIn(pool, workerId))
      .toSorted(byAge)
      .slice(0, limit);
  }

  async #pinnedFor(ip: string): Promise<readonly Stored[]> {
    if (await this.#isShut()) return [];
    const records = await this.#objects.withLabel(label.owner, labelOf(ip), "recent");
    return records.filter(({ owner }) => owner === ip);
  }

  async page(after: number, limit: number, state: WorkerState | undefined): Promise<Part<Stored>> {
    const [records, { clock }] = await together([this.#objects.list("exact"), this.#objects.begin()]);
    const above = records.filter((record) => {
      return record.workerId > after && (state === undefined || stateOf(record, clock) === state);
    });
    // The objects are listed in the order of their names, which is another one.
    const rows = above.toSorted((a, b) => a.workerId - b.workerId).slice(0, limit);
    return { rows, next: rows.length < above.length ? rows.at(-1)?.workerId : undefined };
  }

  async ended(workerId: number, before: number, limit: number): Promise<Part<HistoryRow>> {
    const record = await this.byId(workerId);
    const row = record && this.#objects.rows.get(record);
    const older = row === undefined ? [] : readRows(row).filter(({ fence }) => fence < before);
    const rows = older.slice(0, limit);
    return { rows, next: rows.length < older.length ? rows.at(-1)?.fence : undefined };
  }

  /** Whether a search cannot help a claim: the claim has to wait, or it makes the namespace and is then decided again. */
  async #isShut(): Promise<boolean> {
    const { standing, clock } = await this.#objects.begin();
    return standing.made === undefined || clock < standing.made.era.opensAt;
  }

  /** The records of a host that are not pinned, by the ends of their windows. */
  async #recordsOf(pool: PoolBounds, host: string): Promise<readonly Stored[]> {
    if (await this.#isShut()) return [];
    this.#ofHost ??= this.#objects.withLabel(label.host, labelOf(host), "recent");
    const own = (await this.#ofHost).filter(({ holder, pinned, workerId }) => {
      return holder?.host === host && pinned === undefined && isIn(pool, workerId);
    });
    return own.toSorted(byAge);
  }
}
