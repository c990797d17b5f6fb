import { Layout } from "../../id/layout.ts";
import type { Era } from "../../rule/era.ts";
import type { HistoryRow, WorkerState } from "../../rule/registry.ts";
import type { NamespaceInfo } from "../../rule/limits.ts";
import type { NewNamespace } from "../../rule/new-namespace.ts";
import type { Stored } from "../../rule/window.ts";
import type { HistoryTimes, ListPart, StepNamespace } from "../in-one-step/store.ts";
import { type ClockAcceptance, guardClock, type Uptime } from "./clock-guard.ts";
import type { SqliteRow } from "./driver.ts";
import { holderColumns, holderOf, recordOfRow, SqliteRecords } from "./records.ts";
import { type SqliteStatements, statementsFor } from "./statements.ts";
import type { SqliteTransaction } from "./transaction.ts";

/** Rows that one step returns, and that it looks at: SQLite blocks the event loop meanwhile, a few ms for so many. */
const mostReturned = 250;
const mostLookedAt = 10_000;
/** Claims that one step of `prune` deletes: other processes wait for it to end. */
const pruneBatch = 500;
/** Rows that one step of a removal deletes. */
const eraseBatch = 500;

/** A namespace during one transaction. */
export class SqliteNamespace extends SqliteRecords implements StepNamespace {
  readonly info: NamespaceInfo;
  #era: Era;
  readonly #acceptance: ClockAcceptance;
  readonly #transaction: SqliteTransaction;
  readonly #sql: SqliteStatements;
  readonly #uptime: () => Uptime | undefined;

  constructor(transaction: SqliteTransaction, row: SqliteRow, uptime: () => Uptime | undefined) {
    const id = Number(row["namespace_id"]);
    const sql = statementsFor(transaction.sql, id);
    super(sql, transaction.now);
    const [maxWindow, maxClockSkew] = [Number(row["max_window"]), Number(row["max_clock_skew"])];
    this.info = { id: String(row["id"]), layout: String(row["layout"]), maxWindow, maxClockSkew };
    this.#era = eraOf(row);
    const boot = row["clock_boot"] ?? undefined;
    this.#acceptance = { id, maxClockSkew, boot, ahead: Number(row["clock_ahead"]) };
    this.#transaction = transaction;
    this.#sql = sql;
    this.#uptime = uptime;
  }

  get era(): Era {
    return this.#era;
  }

  get receiptKey(): string {
    return String(this.#sql.get("namespace.receipt-key")?.["receipt_key"]);
  }

  beginEra(era: Era): void {
    this.#sql.run("namespace.put-era", eraColumns(era));
    this.#era = era;
  }

  replace({ info, era, receiptKey }: NewNamespace): void {
    this.#sql.run("namespace.replace", { id: info.id ?? null, receipt_key: receiptKey, ...eraColumns(era) });
  }

  /**
   * The tick in which the registry was made belongs to no holder: holders of another file that stood here before may have used it. A
   * tick of 1 ms has passed before the first claim, and then windows may begin earlier, for clocks that are set back.
   */
  get earliest(): number {
    const { sql, earliest } = this.#transaction;
    if (Layout.parse(this.info.layout).tick === 1) return earliest;
    return Math.max(Number(sql.get("registry.made")?.["made_at"]), earliest);
  }

  checkClock(): void {
    const { sql, now } = this.#transaction;
    guardClock(sql, this.#acceptance, now, this.#uptime());
  }

  noteClaim(claim: HistoryRow, before: Stored | undefined): void {
    const { workerId } = claim;
    if (before !== undefined) this.#sql.run("history.supersede", { worker_id: workerId, fence: before.fence });
    this.#sql.run("history.add", columnsOfClaim(claim));
  }

  noteEnd({ workerId, fence, until }: Stored, endedAt: number, end: NonNullable<HistoryRow["end"]>): void {
    this.#sql.run("history.end", { worker_id: workerId, fence, until_ms: until, ended_at: endedAt, ended_by: end });
  }

  list(state: WorkerState | undefined, after: number, limit: number, now: number): ListPart<Stored> {
    const most = Math.min(limit, mostReturned);
    // Among the records of all states, those of one state may be few.
    const end = state && this.#sql.get("workers.last-of", { after, rows: mostLookedAt })?.["worker_id"];
    const range = state === undefined ? {} : { now, last: end ?? Number.MAX_SAFE_INTEGER };
    const rows = this.#sql.all(`workers.${state ?? "all"}`, { after, ...range, limit: most }).map(recordOfRow);
    const next = rows.length === most ? rows.at(-1)?.workerId : end;
    return { rows, next: next === undefined ? undefined : Number(next) };
  }

  claims(workerId: number, { from, until }: HistoryTimes, before: number, limit: number): ListPart<HistoryRow> {
    const most = Math.min(limit, mostReturned);
    const range = { from_ms: from, until_ms: until, before, limit: most };
    const rows = this.#sql.all("history.list", { worker_id: workerId, ...range }).map(claimOf);
    return { rows, next: rows.length === most ? rows.at(-1)?.fence : undefined };
  }

  prune(before: number): { readonly pruned: number; readonly isDone: boolean } {
    const pruned = this.#sql.run("history.prune", { before, limit: pruneBatch });
    return { pruned, isDone: pruned < pruneBatch };
  }

  erase(): boolean {
    // The history first: it is listed by the records.
    const batch = { limit: eraseBatch };
    return ["erase.history", "erase.worker"].every((name) => this.#sql.run(name, batch) < eraseBatch);
  }
}

/** The inverse of `eraColumns`. */
export function eraOf(row: SqliteRow): Era {
  const [quarantineEnd, opensAt] = [Number(row["quarantine_end"]), Number(row["opens_at"])];
  return { era: String(row["era"]), quarantineEnd, opensAt };
}

/** An era as columns. */
export function eraColumns({
  era,
  quarantineEnd,
  opensAt,
}: Era): Readonly<Record<"era" | "quarantine_end" | "opens_at", string | number>> {
  return { era, quarantine_end: quarantineEnd, opens_at: opensAt };
}

function columnsOfClaim({ workerId, fence, from, until, continuedFrom, holder, claimedAt }: HistoryRow) {
  const window = { from_ms: from, until_ms: until, continued_from: continuedFrom ?? null };
  return { worker_id: workerId, fence, ...window, ...holderColumns(holder), claimed_at: claimedAt };
}

/** A row of the statement `history.list` as a claim. */
function claimOf(columns: SqliteRow): HistoryRow {
  const row = columns as ReturnType<typeof columnsOfClaim> & {
    readonly ended_at: number | null;
    readonly ended_by: HistoryRow["end"] | null;
  };
  return {
    workerId: row.worker_id,
    fence: row.fence,
    from: row.from_ms,
    until: row.until_ms,
    continuedFrom: row.continued_from ?? undefined,
    holder: holderOf(row),
    claimedAt: row.claimed_at,
    endedAt: row.ended_at ?? undefined,
    end: row.ended_by ?? undefined,
  };
}
