import { checkInteger } from "./check.ts";
import type { LayoutField } from "./notation.ts";

/** A field of a worker ID, and its place in it. */
export interface IdentityField extends LayoutField {
  readonly shift: number;
  readonly mask: number;
}

/** A mask of this many bits, up to 31. `| 0` makes it an integer: with a double, decomposing an ID takes a third longer. */
export function ones(bits: number): number {
  return (2 ** bits - 1) | 0;
}

export function bitsOf(fields: readonly LayoutField[]): number {
  return fields.reduce((sum, field) => sum + field.bits, 0);
}

/** Identity fields with their places in a worker ID. */
export function placeFields(fields: readonly LayoutField[]): IdentityField[] {
  // The keys of an object are interned strings. A substring of a notation costs 100 ns each time it is used as a key.
  const names = Object.keys(Object.fromEntries(fields.map(({ name }) => [name, 0])));
  return fields.map(({ bits }, i) => {
    return { name: names[i] ?? "", bits, shift: bitsOf(fields.slice(i + 1)), mask: ones(bits) };
  });
}

export function namesOf(fields: readonly LayoutField[]): string {
  return fields.map(({ name }) => name).join(", ");
}

/** Packs `values` into one number, the first field on top. @throws SnowleaseError CONFIG_INVALID for a value that does not fit. */
export function joinFields(fields: readonly LayoutField[], values: Readonly<Record<string, unknown>>): number {
  return fields.reduce((number, { name, bits }) => {
    return number * 2 ** bits + checkInteger(name, values[name], 0, 2 ** bits - 1, `${bits} bits`);
  }, 0);
}
