import { type Band, bandAt, bandsIn, changedBands, cutBands, filedAtOnce, isUnfiled } from "../bands.ts";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import { numberOf, poolName, type StoredRow, storedRowOf } from "./records.ts";
import { poolEntry, setEntry, type SqlNamespace, stay } from "./namespace-state.ts";
import type { SqlParameters } from "./dialect.ts";
import { together } from "../together.ts";
import { Changed } from "../engine/operate.ts";

/*
 * The bands of a namespace. Each is an entry, such as `band:512` with `1023 512-1023 1024`: its last number, its name, and the number
 * below which all records are filed. Two claims that cut the same band, or file the same records, race.
 */

const bandEntry = "band:";

/** A band as it is stored. */
interface StoredBand extends Band {
  /** When its records are filed once more, Unix ms: a claim that read the bands before the cut files by the old ones. */
  readonly again?: number | undefined;
}

/** How long after a cut its records are filed once more, ms: longer than an operation takes. */
const settled = 60_000;

function bandsOf({ entries }: SqlNamespace): readonly StoredBand[] {
  return [...entries].flatMap(([entry, { value }]) => {
    if (!entry.startsWith(bandEntry)) return [];
    const [last, name = "", filed, again] = value.split(" ");
    const first = Number(entry.slice(bandEntry.length));
    return [{ first, last: Number(last), name, filed: Number(filed), ...(again && { again: Number(again) }) }];
  });
}

/** The records that a statement finds under the names of a pool's bands. */
export async function searchBands(
  state: SqlNamespace,
  pool: PoolBounds,
  statement: string,
  parameters: SqlParameters,
): Promise<readonly StoredRow[]> {
  const names = new Set(bandsIn(bandsOf(state), pool).map(({ name }) => name));
  const rows = await together(
    [...names].map((name) => state.tx.all(statement, { filed_under: name, ...pool, ...parameters })),
  );
  return rows.flat().map(storedRowOf);
}

/** The name of the band of a number. */
export function nameAt(state: SqlNamespace, workerId: number): string | undefined {
  return bandAt(bandsOf(state), workerId)?.name;
}

/**
 * Notes a pool before a claim searches it: cuts the bands at its limits. A claim of one number cuts only where no band has that number.
 * @throws Changed where it had to write.
 */
export async function ensurePool(state: SqlNamespace, pool: PoolBounds, workerId: number | undefined): Promise<void> {
  const hint = poolEntry + poolName(pool);
  const bands = bandsOf(state);
  const isHeld = workerId !== undefined && bandAt(bands, workerId) !== undefined;
  const changed = isHeld ? [] : changedBands(bands, cutBands(bands, pool));
  if (state.entries.has(hint) && changed.length === 0) return;
  await state.tx.write(() => [
    stay(state),
    state.entries.has(hint) || setEntry(state, hint, pool.first),
    ...changed.map((band) => putBand(state, isUnfiled(band) ? { ...band, again: state.clock + settled } : band)),
  ]);
  throw new Changed("the pool was noted");
}

/**
 * Files some of the records of a pool under the names of their bands. Returns whether all are filed now. A holder that renews one of
 * them at this moment is beaten, and reads again.
 * @throws Beaten where another claim filed them.
 */
export async function fileSome(state: SqlNamespace, pool: PoolBounds): Promise<boolean> {
  const bands = bandsIn(bandsOf(state), pool).map((band) => {
    const isDue = !isUnfiled(band) && band.again !== undefined && band.again <= state.clock;
    return isDue ? { ...band, filed: band.first, again: undefined } : band;
  });
  const [next, ...more] = bands.filter(isUnfiled);
  if (next === undefined) return true;
  const { name, filed: first, last } = next;
  const rows = await state.tx.all("claim.numbers", { first, last, limit: filedAtOnce });
  const end = rows.length < filedAtOnce ? last : numberOf(rows.at(-1) ?? {}, "worker_id");
  await state.tx.write(() => [
    state.tx.change("record.file", { band: name, first, last: end }),
    putBand(state, { ...next, filed: end + 1 }),
  ]);
  return end === last && more.length === 0;
}

function putBand(state: SqlNamespace, { first, last, name, filed, again }: StoredBand): Promise<void> {
  const value = [last, name, filed, ...(again === undefined ? [] : [again])].join(" ");
  return setEntry(state, bandEntry + first, value);
}
