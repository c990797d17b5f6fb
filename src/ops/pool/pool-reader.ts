import { setImmediate as turn } from "node:timers/promises";
import type { Layout } from "../../id/layout.ts";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import type { Registry, WorkerRecord } from "../../rule/registry.ts";

const pageSize = 1000;

/** The worker IDs of a layout within `bounds`. Default: all of the layout. */
export function poolWithin(layout: Layout, { first, last }: PoolBounds = layout.pool): PoolBounds {
  return { first, last: Math.min(last, layout.pool.last) };
}

/** Reads the records of a pool once, page by page, in ascending order of the worker IDs. */
export class PoolReader {
  readonly #registry: Registry;
  readonly #namespace: string;
  readonly #pool: PoolBounds;
  #after: number;
  #isDone = false;

  constructor(registry: Registry, namespace: string, pool: PoolBounds) {
    this.#registry = registry;
    this.#namespace = namespace;
    this.#pool = pool;
    this.#after = pool.first - 1;
  }

  get isDone(): boolean {
    return this.#isDone;
  }

  /** Reads the next page, up to 1000 records. Rejects as the registry does. Then the next call reads the same page again. */
  async page(): Promise<readonly WorkerRecord[]> {
    const { last } = this.#pool;
    const page = await this.#registry.workers(this.#namespace, { after: this.#after, limit: pageSize });
    this.#after = page.at(-1)?.workerId ?? last;
    this.#isDone = page.length < pageSize || this.#after >= last;
    // Some registries answer at once. A long read must let other work run between pages.
    await turn();
    return page.filter(({ workerId }) => workerId <= last);
  }
}
