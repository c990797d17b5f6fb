import type { PoolBounds } from "../id/pool-bounds.ts";

/*
 * Claims of a pool must not read past records of worker IDs outside of it. So the records of a namespace are filed by bands, and a pool
 * is nothing but whole bands. A pool with new limits cuts the bands there, and the records inside of it are filed under the new names,
 * some with each claim. A record stays with the band of its worker ID until a pool cuts again, whatever pool it is claimed from.
 */

/** Numbers whose records lie together in a registry's indexes. */
export interface Band extends PoolBounds {
  /** The limits with which the band was made. Bands may have one name, where another band was cut out between them. */
  readonly name: string;
  /** Records of worker IDs below this one are filed under `name`; others may be under the name that they had. */
  readonly filed: number;
}

/** How many records are filed anew in one step: other work waits so long. */
export const filedAtOnce = 500;

/** Bands in ascending order, cut so that the pool is nothing but whole bands, which no record of another number is filed under. */
export function cutBands(bands: readonly Band[], pool: PoolBounds): readonly Band[] {
  const cut = bands.flatMap((band) => partsOf(band, pool)).toSorted((a, b) => a.first - b.first);
  const inside = bandsIn(cut, pool);
  const outside = cut.filter((band) => !inside.includes(band));
  const own = inside.map((band) => (outside.some((other) => isMixed(band, other)) ? renamed(band) : band));
  return [...outside, ...own, ...holesIn(inside, pool)].toSorted((a, b) => a.first - b.first);
}

/** The bands that lie in a pool. */
export function bandsIn<Each extends Band>(bands: readonly Each[], { first, last }: PoolBounds): readonly Each[] {
  return bands.filter((band) => band.first >= first && band.last <= last);
}

/** The band of a number. */
export function bandAt(bands: readonly Band[], workerId: number): Band | undefined {
  return bands.find(({ first, last }) => workerId >= first && workerId <= last);
}

/** Whether some records of the band may still be filed under another name. */
export function isUnfiled({ last, filed }: Band): boolean {
  return filed <= last;
}

/** What a band becomes where it is cut at the limits of a pool. */
function partsOf(band: Band, pool: PoolBounds): readonly Band[] {
  const limits = [band.first, pool.first, pool.last + 1].filter((at) => at >= band.first && at <= band.last);
  const begins = [...new Set(limits)].toSorted((a, b) => a - b);
  return begins.map((first, i) => {
    const last = (begins[i + 1] ?? band.last + 1) - 1;
    return { name: band.name, first, last, filed: Math.min(Math.max(band.filed, first), last + 1) };
  });
}

/** Whether records of the other band may be filed under this one's name. */
function isMixed({ name }: Band, other: Band): boolean {
  if (name === other.name) return true;
  const [first = 0, last = 0] = name.split("-").map(Number);
  return isUnfiled(other) && first <= other.first && last >= other.last;
}

/** No other band ever had the name: each was made with other limits. */
function renamed({ first, last }: Band): Band {
  return { name: nameOf({ first, last }), first, last, filed: first };
}

/** Bands for the numbers of a pool that are in none: they have no records. */
function holesIn(inside: readonly Band[], pool: PoolBounds): readonly Band[] {
  const begins = [pool.first, ...inside.map(({ last }) => last + 1)];
  const ends = [...inside.map(({ first }) => first - 1), pool.last];
  return begins.flatMap((first, i) => {
    const last = ends[i] ?? pool.last;
    return first > last ? [] : [{ name: nameOf({ first, last }), first, last, filed: last + 1 }];
  });
}

function nameOf({ first, last }: PoolBounds): string {
  return `${first}-${last}`;
}

/** The bands that were not so before. */
export function changedBands(before: readonly Band[], after: readonly Band[]): readonly Band[] {
  const known = new Set(before.map(bandText));
  return after.filter((band) => !known.has(bandText(band)));
}

function bandText({ name, first, last, filed }: Band): string {
  return `${name} ${first} ${last} ${filed}`;
}
