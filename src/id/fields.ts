import { checkInteger } from "./check.ts";
import type { LayoutField } from "./notation.ts";

/** A field of a lease's number, and where it lies in it. */
export interface IdentityField extends LayoutField {
  readonly shift: number;
  readonly mask: number;
}

/** So many bits, up to 31, all of them 1. As an integer: what `**` makes V8 keeps as a double, which made taking an ID apart a third dearer. */
export function ones(bits: number): number {
  return (2 ** bits - 1) | 0;
}

/** How many bits they are together. */
export function bitsOf(fields: readonly LayoutField[]): number {
  return fields.reduce((sum, field) => sum + field.bits, 0);
}

/** Where identity fields lie in a lease's number. */
export function placeFields(fields: readonly LayoutField[]): IdentityField[] {
  // The keys of an object are interned strings; as a key, one that was cut out of a notation costs 100 ns each time.
  const names = Object.keys(Object.fromEntries(fields.map(({ name }) => [name, 0])));
  return fields.map(({ bits }, i) => {
    return { name: names[i] ?? "", bits, shift: bitsOf(fields.slice(i + 1)), mask: ones(bits) };
  });
}

/** Their names, for a message. */
export function namesOf(fields: readonly LayoutField[]): string {
  return fields.map(({ name }) => name).join(", ");
}

/** The bits of `values`, the first field on top. @throws SnowleaseError CONFIG_INVALID for a value that does not fit its field. */
export function joinFields(fields: readonly LayoutField[], values: Readonly<Record<string, unknown>>): number {
  return fields.reduce((number, { name, bits }) => {
    return number * 2 ** bits + checkInteger(name, values[name], 0, 2 ** bits - 1, `${bits} bits`);
  }, 0);
}
