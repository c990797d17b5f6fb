import type { PoolBounds } from "../../core/layout.ts";
import type { PinOwner } from "../../core/registry.ts";
import { pinnedRecord, unpinnedRecord, unusedRecord } from "../../core/pin.ts";
import { type Stored } from "../../core/window.ts";
import { isForeign } from "./assign.ts";
import { columnsOf, foreign, type Kept, keptOf, poolName } from "./records.ts";
import { ownedEntry, poolEntry, type Space } from "./space.ts";
import { Changed, together, type Unit } from "./unit.ts";

/*
 * Every write takes effect only on what was read: the same version of the record, the same server, the same era. Otherwise it is
 * Raced, and the operation decides again.
 */

/**
 * Stores a record in the place of the one that was read. `pool`: from which it is claimed now. `era`: the present one where a holder
 * speaks, or has come to its end; what anybody else changes makes a record no newer than it was.
 */
export async function put(
  unit: Unit,
  space: Space,
  kept: Kept,
  record: Stored,
  { pool = kept.pool, era = space.era }: { readonly pool?: string | undefined; readonly era?: number } = {},
): Promise<void> {
  const filed = isForeign(kept.row, kept.record) ? foreign : pool;
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

/** Sees to it that a pool is known before anything is looked for or filed under its name. @throws Changed where it was not. */
export async function ensurePool(unit: Unit, space: Space, pool: PoolBounds): Promise<void> {
  const name = poolEntry + poolName(pool);
  if (space.entries.has(name)) return;
  await unit.write(() => [unit.change("meta.add", { name, value: String(pool.first) })]);
  throw new Changed("the pool was noted");
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

/** Takes the record of a number away that nobody ever used: it is unused again, and nobody may have passed it by for good. */
async function forget(unit: Unit, space: Space, { record: { workerId }, version }: Kept): Promise<void> {
  const hints = [...space.entries].filter(([name]) => {
    const [first = 0, last = 0] = name.slice(poolEntry.length).split("-").map(Number);
    return name.startsWith(poolEntry) && workerId >= first && workerId <= last;
  });
  await together([
    unit.swap("record.forget", { worker_id: workerId, version }),
    ...hints.map(([name, { value, version }]) =>
      unit.swap("meta.set", { name, value: String(Math.min(Number(value), workerId)), version }),
    ),
  ]);
}

/** Keeps a number out of the pool. */
export async function pin(
  unit: Unit,
  space: Space,
  workerId: number,
  kept: Kept | undefined,
  reason: string,
  owner: PinOwner | undefined,
): Promise<void> {
  const record = pinnedRecord(kept?.record ?? unusedRecord(workerId), reason, owner);
  const isFirst = owner !== undefined && !space.entries.has(ownedEntry);
  await together([
    // Whoever claims looks for such pins only where there were any.
    isFirst && unit.change("meta.add", { name: ownedEntry, value: "1" }),
    kept === undefined ? add(unit, space, record, undefined) : put(unit, space, kept, record, kept),
  ]);
}

/** Puts a pinned number back; one that nobody ever used loses its record then. */
export async function unpin(unit: Unit, space: Space, kept: Kept): Promise<void> {
  if (kept.record.fence === 0) return forget(unit, space, kept);
  await put(unit, space, kept, unpinnedRecord(kept.record), kept);
}
