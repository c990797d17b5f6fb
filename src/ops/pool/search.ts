import { type Clock, monotonic } from "../../lease/clock.ts";
import type { Registry } from "../../rule/registry.ts";
import { isListed, type ListFilter, matches } from "./listing.ts";
import type { ReadRecord } from "./overdue.ts";
import { PoolReader } from "./pool-reader.ts";
import type { Picture } from "./pool-watch.ts";

/** What a search is for, and behind which worker ID it begins. */
export interface PoolQuery {
  readonly filter: ListFilter;
  readonly text: string;
  readonly after?: number | undefined;
}

/** Records that were found. `next`: the search can go on behind this worker ID. */
export interface FoundWorkers {
  readonly records: readonly ReadRecord[];
  readonly next?: number | undefined;
}

/** A search of a pool that is too large to be kept ends after so many pages, matches, or ms. */
const mostPages = 32;
const mostFound = 500;
const mostTime = 250;

/** The records that the picture itself has. */
export function knownIn({ lists }: Picture, { filter, text }: PoolQuery): readonly ReadRecord[] {
  const known = lists.of(filter);
  return text === "" ? known : known.filter((record) => matches(record, text));
}

/** Finds records by a text: in a small pool all of them, in a large one a part of the pool at a time. Rejects as the registry does. */
export async function searchPool(
  registry: Registry,
  clock: Clock,
  picture: Picture,
  { filter, text, after }: PoolQuery,
): Promise<FoundWorkers> {
  const { namespace, pool, cellSize, clock: readAt } = picture;
  if (text === "" || cellSize === 1) return { records: knownIn(picture, { filter, text }) };
  const first = Math.max(pool.first, (after ?? -1) + 1);
  const reader = new PoolReader(registry, namespace, { first, last: pool.last });
  const deadline = monotonic(clock) + mostTime;
  const records: ReadRecord[] = [];
  let next = first - 1;
  for (let pages = 0; !reader.isDone; pages++) {
    if (pages >= mostPages || records.length >= mostFound || monotonic(clock) > deadline) return { records, next };
    for (const { recents: _, ...rest } of await reader.page()) {
      const record = { ...rest, readAt };
      next = record.workerId;
      if (isListed(record, filter) && matches(record, text)) records.push(record);
    }
  }
  return { records };
}
