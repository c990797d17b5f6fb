import type { Layout } from "../../id/layout.ts";
import type { HistoryRow, Registry } from "../../rule/registry.ts";

const pageSize = 10_000;

/** The recorded windows of a worker ID. */
export class HeldIntervals {
  /** Unix ms, ascending: from, until, from, until, ... Whole ticks. */
  readonly #bounds: number[] = [];
  #last = 0;

  /** @param rows in any order. */
  constructor(rows: readonly HistoryRow[], layout: Layout) {
    const { epoch, tick } = layout;
    // Neither a holder nor the next one can use a tick that is only partly in its window.
    const spans = rows.map(({ from, continuedFrom = from, until }) => ({
      from: layout.timeOf(Math.ceil((continuedFrom - epoch) / tick)),
      until: layout.timeOf(Math.floor((until - epoch) / tick)),
    }));
    const bounds = this.#bounds;
    for (const { from, until } of spans.toSorted((a, b) => a.from - b.from)) {
      const end = bounds.at(-1);
      if (from >= until) continue;
      if (end === undefined || end < from) bounds.push(from, until);
      else bounds[bounds.length - 1] = Math.max(end, until);
    }
  }

  /** Start of the first window on record, Unix ms. Infinity without a window. */
  get first(): number {
    return this.#bounds[0] ?? Infinity;
  }

  /** Whether the tick that starts at the Unix ms `timestamp` is in a window. */
  has(timestamp: number): boolean {
    const bounds = this.#bounds;
    if (bounds.length === 0) return false;
    // Try the last interval first, because the times of IDs mostly rise.
    if (timestamp < (bounds[this.#last] as number) || timestamp >= (bounds[this.#last + 1] as number)) {
      let low = 0;
      for (let high = bounds.length / 2; high - low > 1;) {
        const middle = (low + high) >>> 1;
        if ((bounds[middle * 2] as number) <= timestamp) low = middle;
        else high = middle;
      }
      this.#last = low * 2;
    }
    return (bounds[this.#last] as number) <= timestamp && timestamp < (bounds[this.#last + 1] as number);
  }
}

/** Reads the windows of a worker ID, one page of its history after another. */
export async function readHeldIntervals(
  registry: Registry,
  namespace: string,
  workerId: number,
  layout: Layout,
): Promise<HeldIntervals> {
  const rows: HistoryRow[] = [];
  for (let until: number | undefined; ;) {
    const page = await registry.history(namespace, workerId, { until, limit: pageSize });
    rows.push(...page);
    if (page.length < pageSize) return new HeldIntervals(rows, layout);
    // An older row that begins later adds nothing, because it lies in the time that one of these rows inherited.
    until = Math.min(...page.map(({ from, continuedFrom = from }) => continuedFrom));
  }
}
