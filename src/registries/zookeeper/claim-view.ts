import { isIn, type PoolBounds } from "../../id/pool-bounds.ts";
import { look, type PoolView, byAge } from "../../rule/pool.ts";
import type { ClaimRequest } from "../../rule/registry.ts";
import { isFree, type Stored } from "../../rule/window.ts";
import { shuffled } from "../shuffled.ts";
import type { StoredNode } from "./records.ts";

/** The records that a claim has read. The decision sees only these. */
export class ClaimView implements PoolView {
  readonly nodes: Map<number, StoredNode> = new Map<number, StoredNode>();
  /** A number that was never used. */
  unused: number | undefined;
  readonly #request: ClaimRequest;
  readonly #clock: number;
  readonly #beaten: boolean;

  /** `beaten`: other claims reach for the same numbers at this moment, so the decision takes any free one. */
  constructor(request: ClaimRequest, clock: number, beaten: boolean) {
    this.#request = request;
    this.#clock = clock;
    this.#beaten = beaten;
  }

  /** Adds the record of a worker ID; undefined where it was never used. */
  add(node: StoredNode | undefined): void {
    if (node !== undefined) this.nodes.set(node.record.workerId, node);
  }

  /** Forgets the records of earlier decisions, except these, and except the oldest, which a refusal needs. */
  trim(pool: PoolBounds, but: ReadonlySet<number>): void {
    const oldest = new Set(this.oldest(pool, look).map(({ workerId }) => workerId));
    for (const workerId of this.nodes.keys()) {
      if (!but.has(workerId) && !oldest.has(workerId)) this.nodes.delete(workerId);
    }
  }

  byToken(token: string): Stored | undefined {
    for (const { record } of this.nodes.values()) if (record.token === token) return record;
    return undefined;
  }

  byId(workerId: number): Stored | undefined {
    return this.nodes.get(workerId)?.record;
  }

  firstUnused(): number | undefined {
    return this.unused;
  }

  oldest(pool: PoolBounds, limit: number): readonly Stored[] {
    const unpinned = this.#sorted(pool, ({ pinned }) => pinned === undefined);
    return this.#firstOf(unpinned, limit);
  }

  oldestOfHost(pool: PoolBounds, host: string, limit: number): readonly Stored[] {
    return this.#firstOf(this.#ofHost(pool, host), limit);
  }

  pinnedFor(pool: PoolBounds, ip: string, limit: number): readonly Stored[] {
    return this.#sorted(pool, ({ owner }) => owner === ip).slice(0, limit);
  }

  newestOfHost(pool: PoolBounds, host: string): Stored | undefined {
    return this.#ofHost(pool, host).at(-1);
  }

  #ofHost(pool: PoolBounds, host: string): readonly Stored[] {
    return this.#sorted(pool, ({ pinned, holder }) => pinned === undefined && holder?.host === host);
  }

  /** Records of the pool, the oldest `until` first. */
  #sorted(pool: PoolBounds, fits: (record: Stored) => boolean): readonly Stored[] {
    return [...this.nodes.values()]
      .map(({ record }) => record)
      .filter((record) => isIn(pool, record.workerId) && fits(record))
      .toSorted(byAge);
  }

  #firstOf(records: readonly Stored[], limit: number): readonly Stored[] {
    const free = this.#beaten ? shuffled(records.filter((record) => isFree(record, this.#request, this.#clock))) : [];
    return [...free, ...records.filter((record) => !free.includes(record))].slice(0, limit);
  }
}
