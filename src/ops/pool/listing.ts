import { isOverdue, type ReadRecord } from "./overdue.ts";
import { takenStates } from "./pool-counts.ts";

/** Which worker IDs a list has: those of one state, or of several. */
export const listFilters = ["taken", "overdue", "live", "resting", "pinned", "foreign", "free", "used"] as const;
export type ListFilter = (typeof listFilters)[number];

/** What a list is sorted by. */
export const listOrders = ["id", "state", "host", "address", "end"] as const;
export type ListOrder = (typeof listOrders)[number];

const taken: ReadonlySet<string> = new Set(takenStates);
/** `web-2` comes before `web-10`. */
const texts = new Intl.Collator("en", { numeric: true });

/** Whether a record belongs to a list. `used`: each that has a record. */
export function isListed(record: ReadRecord, filter: ListFilter): boolean {
  if (filter === "used") return true;
  if (filter === "taken") return taken.has(record.state);
  if (filter === "overdue") return isOverdue(record);
  if (filter === "pinned") return record.pinned !== undefined;
  return record.state === filter;
}

/** Whether a record has a text in its host, address, instance or pin, or is the worker ID itself. */
export function matches({ workerId, holder, pinned, owner }: ReadRecord, text: string): boolean {
  const wanted = text.toLowerCase();
  const parts = [holder?.host, holder?.ip, holder?.instance, pinned, owner];
  return String(workerId) === wanted || parts.some((part) => part?.toLowerCase().includes(wanted));
}

/** The records in another order; equal ones by worker ID. */
export function sorted(
  records: readonly ReadRecord[],
  { order, descending }: { readonly order: ListOrder; readonly descending: boolean },
): readonly ReadRecord[] {
  const sign = descending ? -1 : 1;
  const compare = comparisons[order];
  return records.toSorted((one, other) => sign * compare(one, other) || sign * (one.workerId - other.workerId));
}

type Comparison = (one: ReadRecord, other: ReadRecord) => number;

const comparisons: Readonly<Record<ListOrder, Comparison>> = {
  id: () => 0,
  state: (one, other) => rank(one) - rank(other),
  host: (one, other) => texts.compare(one.holder?.host ?? "", other.holder?.host ?? ""),
  address: (one, other) => texts.compare(one.holder?.ip ?? "", other.holder?.ip ?? ""),
  end: (one, other) => one.until - other.until,
};

/** Holders that are late come first. */
function rank(record: ReadRecord): number {
  return isOverdue(record) ? -1 : listFilters.indexOf(record.state);
}

/** The records of each list as a pool is read, as many as a list may keep, in ascending order of the worker IDs. */
export class PoolLists {
  readonly #most: number;
  readonly #lists = new Map<ListFilter, ReadRecord[]>(listFilters.map((filter) => [filter, []]));
  readonly #counts = new Map<ListFilter, number>();

  constructor(most: number) {
    this.#most = most;
  }

  add(record: ReadRecord): void {
    for (const [filter, list] of this.#lists) {
      if (!isListed(record, filter)) continue;
      this.#counts.set(filter, this.countOf(filter) + 1);
      if (list.length < this.#most) list.push(record);
    }
  }

  /** How many records belong to a list, also those that it does not keep. */
  countOf(filter: ListFilter): number {
    return this.#counts.get(filter) ?? 0;
  }

  of(filter: ListFilter): readonly ReadRecord[] {
    return this.#lists.get(filter) ?? [];
  }
}
