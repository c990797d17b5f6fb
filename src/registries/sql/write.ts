import type { PoolBounds } from "../../id/pool-bounds.ts";
import type { Stored } from "../../rule/window.ts";
import { together } from "../compare-and-set/decide.ts";
import { Changed, type RecordChange } from "../compare-and-set/store.ts";
import { isForeign } from "./assign.ts";
import { columnsOf, foreign, type StoredRow, storedRowOf } from "./records.ts";
import { ownedEntry, poolEntry, type SqlNamespace } from "./namespace-state.ts";
import type { Transaction } from "./transaction.ts";

/*
 * Every write takes effect only on what was read: the same version of the record, the same server, the same era. Otherwise it is
 * Beaten, and the operation decides again.
 */

/**
 * Stores a record in the place of the one that was read. `pool`: from which it is claimed now. `era`: the present one where a holder
 * speaks, or has come to its end; what anybody else changes makes a record no newer than it was. `filed`: where claims find it; by
 * default in its pool, or among those in foreign hands.
 */
export async function put(
  tx: Transaction,
  state: SqlNamespace,
  kept: StoredRow,
  record: Stored,
  {
    pool = kept.pool,
    era = state.era,
    filed = isForeign(kept.assignRow, kept.record) ? foreign : pool,
  }: { readonly pool?: string | undefined; readonly era?: number; readonly filed?: string | undefined } = {},
): Promise<void> {
  const columns = columnsOf(record, pool, filed);
  await tx.swap("record.put", { ...columns, ...conditions(state), era, version: kept.version });
}

/** Stores the first record of a number. */
export async function add(
  tx: Transaction,
  state: SqlNamespace,
  record: Stored,
  pool: string | undefined,
): Promise<void> {
  await tx.swap("record.add", { ...columnsOf(record, pool, pool), ...conditions(state), era: state.era });
}

function conditions({ identity, era }: SqlNamespace): { identity: string; present_era: string } {
  return { identity, present_era: String(era) };
}

/** Remembers that Java processes take numbers here, too. @throws Changed where it was not known. */
export async function noteBeside(tx: Transaction, state: SqlNamespace): Promise<void> {
  const entry = state.entries.get("beside");
  if (state.beside || entry === undefined) return;
  await tx.write(() => [tx.swap("meta.set", { name: "beside", value: "1", version: entry.version })]);
  throw new Changed("those beside us were noted");
}

/** Files numbers of a span that are in foreign hands where claims do not come by, and remembers that there are such. */
export async function noteForeigners(tx: Transaction, state: SqlNamespace, { first, last }: PoolBounds): Promise<void> {
  await tx.atomically(async () => {
    let noted = await tx.change("assign.note-foreigners", { first, last });
    const row = await tx.get("record.get", { worker_id: first });
    const kept = row && storedRowOf(row);
    if (kept !== undefined && isForeign(kept.assignRow, kept.record)) {
      await put(tx, state, kept, kept.record, kept);
      noted++;
    }
    const beside = state.entries.get("beside");
    if (noted === 0 || state.beside || beside === undefined) return;
    await tx.swap("meta.set", { name: "beside", value: "1", version: beside.version });
  });
}

/** Takes the records of numbers away that nobody ever used: they are unused again, and no claim may have passed them by for good. */
async function forget(tx: Transaction, state: SqlNamespace, numbers: readonly StoredRow[]): Promise<void> {
  const hints = [...state.entries].flatMap(([name, { value, version }]) => {
    if (!name.startsWith(poolEntry)) return [];
    const [first = 0, last = 0] = name.slice(poolEntry.length).split("-").map(Number);
    const own = numbers.map(({ record }) => record.workerId).filter((id) => id >= first && id <= last);
    return own.length === 0 ? [] : [{ name, value: String(Math.min(Number(value), ...own)), version }];
  });
  await together([
    ...numbers.map(({ record: { workerId }, version }) => tx.swap("record.forget", { worker_id: workerId, version })),
    ...hints.map((hint) => tx.swap("meta.set", hint)),
  ]);
}

/** Stores the records of numbers that are kept out of the pool from now on. */
export async function putPinned(
  tx: Transaction,
  state: SqlNamespace,
  changes: readonly RecordChange<StoredRow | undefined>[],
): Promise<void> {
  const isFirst = changes.some(({ after }) => after.owner !== undefined) && !state.entries.has(ownedEntry);
  await together([
    // A claim looks for pins with an owner only where there were any.
    isFirst && tx.change("meta.add", { name: ownedEntry, value: "1" }),
    ...changes.map(({ before, after }) =>
      before === undefined ? add(tx, state, after, undefined) : put(tx, state, before, after, before),
    ),
  ]);
}

/** Puts pinned numbers back; one that nobody ever used loses its record then. */
export async function unpin(
  tx: Transaction,
  state: SqlNamespace,
  changes: readonly RecordChange<StoredRow, Stored | undefined>[],
): Promise<void> {
  await together([
    forget(
      tx,
      state,
      changes.flatMap(({ before, after }) => (after === undefined ? [before] : [])),
    ),
    ...changes.map(({ before, after }) => after && put(tx, state, before, after, before)),
  ]);
}
