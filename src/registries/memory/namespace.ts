import type { HistoryRow, WorkerState } from "../../rule/registry.ts";
import { stateOf, type Stored } from "../../rule/window.ts";
import type { Part, Replacement, Standing, StoreChanges, StoreView } from "../engine/port.ts";
import { MemoryRecords } from "./records.ts";

/** How many records one step looks at for a list. */
const mostLookedAt = 10_000;

/** The contents of one name, as the present step sees them. */
export class MemoryNamespace extends MemoryRecords implements StoreView {
  clock = 0;
  standing: Standing;
  /** The claims of each worker ID that have ended, oldest first. */
  readonly #ended = new Map<number, HistoryRow[]>();

  constructor(standing: Standing) {
    super();
    this.standing = standing;
  }

  commit({ becomes, records }: StoreChanges): void {
    if (becomes !== undefined) this.standing = becomes;
    for (const record of records) this.#replace(record);
  }

  page(after: number, limit: number, state: WorkerState | undefined): Part<Stored> {
    const rows: Stored[] = [];
    let looked = 0;
    for (const record of this.ascending(after)) {
      if (state === undefined || stateOf(record, this.clock) === state) rows.push(record);
      if (rows.length === limit || ++looked === mostLookedAt) return { rows, next: record.workerId };
    }
    return { rows, next: undefined };
  }

  ended(workerId: number, before: number, limit: number): Part<HistoryRow> {
    const rows = (this.#ended.get(workerId) ?? []).filter(({ fence }) => fence < before);
    return { rows: rows.slice(-limit).toReversed(), next: rows.length > limit ? rows.at(-limit)?.fence : undefined };
  }

  prune(before: number): { readonly pruned: number; readonly isDone: boolean } {
    let pruned = 0;
    for (const [workerId, rows] of this.#ended) {
      const last = this.byId(workerId)?.fence;
      const kept = rows.filter(({ fence, until }) => fence === last || until >= before);
      pruned += rows.length - kept.length;
      this.#ended.set(workerId, kept);
    }
    return { pruned, isDone: true };
  }

  #replace({ workerId, after, ended }: Replacement): void {
    if (after === undefined) this.forget(workerId);
    else this.put(after);
    if (ended === undefined) return;
    const rows = this.#ended.get(workerId) ?? [];
    rows.push(ended);
    this.#ended.set(workerId, rows);
  }
}
