import { type ErrorCode, shown, SnowleaseError } from "./errors.ts";

/** Refuses a value: "Expected `name` to be …, got …". */
export function refuse(name: string, rule: string, value: unknown, code: ErrorCode = "CONFIG_INVALID"): never {
  throw new SnowleaseError(code, `Expected \`${name}\` ${rule}, got ${shown(value)}`);
}

/** Returns the value if it is an integer from `first` to `last`. @throws SnowleaseError CONFIG_INVALID */
export function checkInteger(name: string, value: unknown, first: number, last: number, unit?: string): number {
  if (typeof value === "number" && Number.isInteger(value) && value >= first && value <= last) return value;
  return refuse(name, `to be an integer from ${first} to ${last}${unit === undefined ? "" : ` (${unit})`}`, value);
}

/** Returns the value if it is a boolean; undefined counts as false. @throws SnowleaseError CONFIG_INVALID */
export function checkTruth(name: string, value: unknown = false): boolean {
  return typeof value === "boolean" ? value : refuse(name, "to be true or false", value);
}
