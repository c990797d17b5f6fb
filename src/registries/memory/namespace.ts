import type { HistoryRow, WorkerState } from "../../rule/registry.ts";
import type { Era } from "../../rule/era.ts";
import type { NamespaceInfo } from "../../rule/limits.ts";
import { stateOf, type Stored } from "../../rule/window.ts";
import type { HistoryTimes, ListPart, StepNamespace } from "../in-one-step/store.ts";
import type { NewNamespace } from "../../rule/new-namespace.ts";
import { MemoryRecords } from "./records.ts";

/** Records that one step looks at for a list. */
const mostLookedAt = 10_000;

/** The records of a namespace, and the claims of each worker ID. */
export class MemoryNamespace extends MemoryRecords implements StepNamespace {
  #made: NewNamespace;
  /** By worker ID, oldest first. */
  readonly #claims = new Map<number, HistoryRow[]>();

  constructor(made: NewNamespace) {
    super();
    this.#made = made;
  }

  get info(): NamespaceInfo {
    return this.#made.info;
  }

  get receiptKey(): string {
    return this.#made.receiptKey;
  }

  get era(): Era {
    return this.#made.era;
  }

  beginEra(era: Era): void {
    this.#made = { ...this.#made, era };
  }

  replace(made: NewNamespace): void {
    this.#made = made;
  }

  noteClaim(claim: HistoryRow): void {
    const claims = this.#claims.get(claim.workerId) ?? [];
    claims.push(claim);
    this.#claims.set(claim.workerId, claims);
  }

  noteEnd({ workerId, until }: Stored, endedAt: number, end: HistoryRow["end"]): void {
    const claims = this.#claims.get(workerId) ?? [];
    const newest = claims.at(-1);
    if (newest !== undefined && newest.end === undefined) claims.splice(-1, 1, { ...newest, until, endedAt, end });
  }

  list(state: WorkerState | undefined, after: number, limit: number, now: number): ListPart<Stored> {
    const rows: Stored[] = [];
    let looked = 0;
    for (const record of this.ascending(after)) {
      if (state === undefined || stateOf(record, now) === state) rows.push(record);
      if (rows.length === limit || ++looked === mostLookedAt) return { rows, next: record.workerId };
    }
    return { rows, next: undefined };
  }

  claims(workerId: number, times: HistoryTimes, before: number, limit: number): ListPart<HistoryRow> {
    const live = this.byId(workerId)?.until;
    const rows = (this.#claims.get(workerId) ?? [])
      .map((row) => (row.end === undefined && live !== undefined ? { ...row, until: live } : row))
      .filter((row) => row.until > times.from && (row.continuedFrom ?? row.from) < times.until && row.fence < before);
    return { rows: rows.slice(-limit).toReversed(), next: undefined };
  }

  prune(before: number): { readonly pruned: number; readonly isDone: boolean } {
    let pruned = 0;
    for (const [workerId, rows] of this.#claims) {
      const kept = rows.filter((row, i) => i === rows.length - 1 || row.until >= before);
      pruned += rows.length - kept.length;
      this.#claims.set(workerId, kept);
    }
    return { pruned, isDone: true };
  }

  /** The namespace goes as a whole. */
  erase(): boolean {
    return true;
  }
}
