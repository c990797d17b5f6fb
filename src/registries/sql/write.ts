import type { PoolBounds } from "../../id/pool-bounds.ts";
import { unusedRecord } from "../../rule/pin.ts";
import type { Stored } from "../../rule/window.ts";
import { together } from "../together.ts";
import { Changed } from "../engine/operate.ts";
import type { RecordChange } from "../compare-and-set/store.ts";
import { isForeign } from "./assign.ts";
import { columnsOf, foreign, readRecord, type StoredRow } from "./records.ts";
import { conditions, ownedEntry, poolEntry, setEntry, type SqlNamespace, stay } from "./namespace-state.ts";
import { drawVersion } from "./version.ts";

/* A write takes effect only where what was read still stands: the version of the record, the server, the era. Otherwise it is beaten. */

/**
 * Stores a record in the place of the one that was read. `band`: the name of its band. `filedUnder`: where claims find it; by default
 * under its band, or under `foreign` where another program has taken the number.
 */
export async function put(
  state: SqlNamespace,
  kept: StoredRow,
  record: Stored,
  {
    band = kept.band,
    filedUnder = isForeign(kept.assignRow, kept.record) ? foreign : band,
  }: { readonly band?: string | undefined; readonly filedUnder?: string | undefined } = {},
): Promise<void> {
  const columns = columnsOf(record, band, filedUnder);
  await state.tx.swap("record.put", { ...columns, ...conditions(state), version: kept.version });
}

/** Stores the first record of a number. `version`: for a caller that goes on with it. */
export async function add(
  state: SqlNamespace,
  record: Stored,
  band: string | undefined,
  version: number = drawVersion(),
): Promise<void> {
  await state.tx.swap("record.add", { ...columnsOf(record, band, band), ...conditions(state), new_version: version });
}

/**
 * Makes sure that a record is as it was read, until the transaction ends. A record that was missing is made, which fails where another
 * transaction makes it, and deleted again.
 */
export async function hold(state: SqlNamespace, row: StoredRow | undefined, workerId: number): Promise<void> {
  if (row !== undefined) {
    const key = { worker_id: workerId, version: row.version };
    return state.tx.swap("record.touch", { ...key, ...conditions(state) });
  }
  const version = drawVersion();
  await together([
    add(state, unusedRecord(workerId), undefined, version),
    state.tx.swap("record.forget", { worker_id: workerId, version }),
  ]);
}

/** Notes that Java processes take numbers here, too. @throws Changed where that was not noted before. */
export async function noteBeside(state: SqlNamespace): Promise<void> {
  if (state.beside) return;
  await state.tx.write(() => [setEntry(state, "beside", 1)]);
  throw new Changed("those beside us were noted");
}

/** Files the numbers of a span that other programs have taken under `foreign`, and notes that there are such programs. */
export async function noteForeigners(state: SqlNamespace, { first, last }: PoolBounds): Promise<void> {
  await state.tx.atomically(async () => {
    const [, added] = await together([stay(state), state.tx.change("assign.note-foreigners", { first, last })]);
    let noted = added;
    const kept = await readRecord(state.tx, first);
    if (kept !== undefined && isForeign(kept.assignRow, kept.record)) {
      await put(state, kept, kept.record, kept);
      noted++;
    }
    if (noted > 0 && !state.beside) await setEntry(state, "beside", 1);
  });
}

/** Deletes the records of numbers that were never claimed, and lowers the hints of their pools: claims find them as unused again. */
async function forget(state: SqlNamespace, numbers: readonly StoredRow[]): Promise<void> {
  const ids = numbers.map(({ record }) => record.workerId);
  const hints = [...state.entries].flatMap(([name, { value }]) => {
    if (!name.startsWith(poolEntry)) return [];
    const [first = 0, last = 0] = name.slice(poolEntry.length).split("-").map(Number);
    const own = ids.filter((id) => id >= first && id <= last);
    return own.length === 0 ? [] : [{ name, lowest: Math.min(Number(value), ...own) }];
  });
  await together([
    ...numbers.map(({ record: { workerId }, version }) =>
      state.tx.swap("record.forget", { worker_id: workerId, version }),
    ),
    ...hints.map(({ name, lowest }) => setEntry(state, name, lowest)),
  ]);
}

/** Stores the records of pinned numbers. */
export async function putPinned(
  state: SqlNamespace,
  changes: readonly RecordChange<StoredRow | undefined>[],
): Promise<void> {
  const isFirst = changes.some(({ after }) => after.owner !== undefined) && !state.entries.has(ownedEntry);
  await state.tx.write(() => [
    // A claim looks for pins with an owner only where there were any.
    isFirst && setEntry(state, ownedEntry, 1),
    ...changes.map(({ before, after }) =>
      before === undefined ? add(state, after, undefined) : put(state, before, after, before),
    ),
  ]);
}

/** Puts pinned numbers back into the pool, and deletes the records of those that were never claimed. */
export async function unpin(
  state: SqlNamespace,
  changes: readonly RecordChange<StoredRow, Stored | undefined>[],
): Promise<void> {
  const unused = changes.flatMap(({ before, after }) => (after === undefined ? [before] : []));
  await state.tx.write(() => [
    forget(state, unused),
    ...changes.map(({ before, after }) => after && put(state, before, after, before)),
  ]);
}
