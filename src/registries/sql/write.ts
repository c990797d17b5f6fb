import type { PoolBounds } from "../../id/pool-bounds.ts";
import { unpinnedRecord } from "../../rule/pin.ts";
import type { Stored } from "../../rule/window.ts";
import { isForeign } from "./assign.ts";
import { columnsOf, foreign, type Kept, keptOf } from "./records.ts";
import { ownedEntry, poolEntry, type Space } from "./namespace-state.ts";
import { Changed, together, type Unit } from "./transaction.ts";

/*
 * Every write takes effect only on what was read: the same version of the record, the same server, the same era. Otherwise it is
 * Raced, and the operation decides again.
 */

/**
 * Stores a record in the place of the one that was read. `pool`: from which it is claimed now. `era`: the present one where a holder
 * speaks, or has come to its end; what anybody else changes makes a record no newer than it was. `filed`: where claims find it; by
 * default in its pool, or among those in foreign hands.
 */
export async function put(
  unit: Unit,
  space: Space,
  kept: Kept,
  record: Stored,
  {
    pool = kept.pool,
    era = space.era,
    filed = isForeign(kept.row, kept.record) ? foreign : pool,
  }: { readonly pool?: string | undefined; readonly era?: number; readonly filed?: string | undefined } = {},
): Promise<void> {
  const columns = columnsOf(record, pool, filed);
  await unit.swap("record.put", { ...columns, ...conditions(space), era, version: kept.version });
}

/** Stores the first record of a number. */
export async function add(unit: Unit, space: Space, record: Stored, pool: string | undefined): Promise<void> {
  await unit.swap("record.add", { ...columnsOf(record, pool, pool), ...conditions(space), era: space.era });
}

function conditions({ identity, era }: Space): { identity: string; present_era: string } {
  return { identity, present_era: String(era) };
}

/** Remembers that Java processes take numbers here, too. @throws Changed where it was not known. */
export async function noteBeside(unit: Unit, space: Space): Promise<void> {
  const entry = space.entries.get("beside");
  if (space.beside || entry === undefined) return;
  await unit.write(() => [unit.swap("meta.set", { name: "beside", value: "1", version: entry.version })]);
  throw new Changed("those beside us were noted");
}

/** Files numbers of a span that are in foreign hands where claims do not come by, and remembers that there are such. */
export async function noteForeigners(unit: Unit, space: Space, { first, last }: PoolBounds): Promise<void> {
  await unit.transaction(async () => {
    let noted = await unit.change("assign.note-foreigners", { first, last });
    const row = await unit.get("record.get", { worker_id: first });
    const kept = row && keptOf(row);
    if (kept !== undefined && isForeign(kept.row, kept.record)) {
      await put(unit, space, kept, kept.record, kept);
      noted++;
    }
    const beside = space.entries.get("beside");
    if (noted === 0 || space.beside || beside === undefined) return;
    await unit.swap("meta.set", { name: "beside", value: "1", version: beside.version });
  });
}

/** Takes the records of numbers away that nobody ever used: they are unused again, and no claim may have passed them by for good. */
async function forget(unit: Unit, space: Space, numbers: readonly Kept[]): Promise<void> {
  const hints = [...space.entries].flatMap(([name, { value, version }]) => {
    if (!name.startsWith(poolEntry)) return [];
    const [first = 0, last = 0] = name.slice(poolEntry.length).split("-").map(Number);
    const own = numbers.map(({ record }) => record.workerId).filter((id) => id >= first && id <= last);
    return own.length === 0 ? [] : [{ name, value: String(Math.min(Number(value), ...own)), version }];
  });
  await together([
    ...numbers.map(({ record: { workerId }, version }) => unit.swap("record.forget", { worker_id: workerId, version })),
    ...hints.map((hint) => unit.swap("meta.set", hint)),
  ]);
}

/** Stores the records of numbers that are kept out of the pool from now on; `kept`: as each was, where it has one. */
export async function putPinned(
  unit: Unit,
  space: Space,
  pinned: readonly { readonly kept: Kept | undefined; readonly record: Stored }[],
): Promise<void> {
  const isFirst = pinned.some(({ record }) => record.owner !== undefined) && !space.entries.has(ownedEntry);
  await together([
    // A claim looks for pins with an owner only where there were any.
    isFirst && unit.change("meta.add", { name: ownedEntry, value: "1" }),
    ...pinned.map(({ kept, record }) =>
      kept === undefined ? add(unit, space, record, undefined) : put(unit, space, kept, record, kept),
    ),
  ]);
}

/** Puts pinned numbers back; one that nobody ever used loses its record then. */
export async function unpin(unit: Unit, space: Space, numbers: readonly Kept[]): Promise<void> {
  const unused = numbers.filter(({ record }) => record.fence === 0);
  const used = numbers.filter(({ record }) => record.fence > 0);
  await together([
    forget(unit, space, unused),
    ...used.map((kept) => put(unit, space, kept, unpinnedRecord(kept.record), kept)),
  ]);
}
