import { shown } from "../id/errors.ts";

/** An ID in the form in which a program has it. */
export type MadeId = bigint | string | number;

/** An ID that was made more than once. */
export interface Duplicate {
  readonly id: string;
  /** Its places among all IDs, from 0. */
  readonly places: readonly number[];
}

/**
 * Checks that no ID occurs twice. IDs are compared as text: give all of them in one encoding.
 * @throws Error that names the first duplicate and counts all; TypeError for a number that JavaScript rounds, and for a value that is no
 * ID.
 */
export function expectNoDuplicates(ids: Iterable<MadeId>): void {
  const all = Array.from(ids, textOf);
  const [first, ...others] = duplicatesIn(all);
  if (first === undefined) return;
  const places = first.places.map((place) => place + 1).join(", ");
  throw new Error(
    `${others.length + 1} of ${all.length} IDs were made more than once; the first one is ${first.id}, number ${places} in the list.`,
  );
}

/** All duplicates, in the order in which they first occur. */
export function duplicatesIn(ids: readonly string[]): readonly Duplicate[] {
  const seen = new Map<string, number>();
  const doubled = new Map<string, number[]>();
  for (const [place, id] of ids.entries()) {
    const before = seen.get(id);
    if (before === undefined) seen.set(id, place);
    else doubled.set(id, [...(doubled.get(id) ?? [before]), place]);
  }
  return Array.from(doubled, ([id, places]) => ({ id, places })).toSorted(
    (a, b) => (a.places[0] ?? 0) - (b.places[0] ?? 0),
  );
}

/** @throws TypeError */
export function textOf(id: unknown): string {
  if (typeof id === "bigint" || (typeof id === "string" && id !== "" && !id.includes("\n"))) return String(id);
  if (Number.isSafeInteger(id)) return String(id);
  throw new TypeError(
    `Expected an ID as a bigint, as text of one line, or as an integer of at most 53 bits, got ${shown(id)}; JavaScript rounds larger numbers.`,
  );
}
