import { z } from "zod";
import { encodings, type EncodingName } from "../id/encodings.ts";
import type { HolderLabel } from "../rule/registry.ts";
import type { FieldSchemas, Schema } from "./schema.ts";

/* A schema's message is the rule alone, `to be ...`: `checked` adds which field broke it, and with what. */

/** Longest request body, bytes. */
export const maxBody: number = 64 * 1024;

/** Most workers or history rows in one answer. */
const maxPage = 10_000;
/** Highest worker ID of any layout. */
export const maxWorkerId: number = 2 ** 31 - 1;
/** The last Unix ms that a Date can show. */
const maxTime = 8_640_000_000_000_000;
/** Texts are for people: no control characters, which a terminal obeys, and no half characters, which a store changes. */
export const printable: RegExp = /^[^\p{Cc}\p{Cs}\p{Zl}\p{Zp}]*$/u;

export function integer(first: number, last: number = Number.MAX_SAFE_INTEGER, unit = ""): Schema<number> {
  const rule = `to be an integer from ${first} to ${last}${unit && ` (${unit})`}`;
  return z.int(rule).min(first, rule).max(last, rule);
}

export function text(longest: number): Schema<string> {
  const rule = `to be a well-formed string of at most ${longest} characters without control characters`;
  return z.string(rule).max(longest, rule).regex(printable, rule);
}

export function oneOf<Value extends string>(...values: Value[]): Schema<Value> {
  return z.enum(values, `to be one of ${values.join(", ")}`);
}

/** A list of 1 to `most` items. @param what an item is, in the plural. */
export function someOf<Item>(item: Schema<Item>, most: number, what: string): Schema<readonly Item[]> {
  const rule = `to be 1 to ${most} ${what}`;
  return z.array(item, rule).min(1, rule).max(most, rule);
}

/** A worker ID in a URL or a body. */
export const workerId: Schema<number> = integer(0, maxWorkerId);
export const fence: Schema<number> = integer(0);
export const time: Schema<number> = integer(0, maxTime, "Unix ms");
/** Also before 1970. */
export const anyTime: Schema<number> = z.int("to be an integer (Unix ms)");
export const duration: Schema<number> = integer(1, maxTime, "ms");
export const span: Schema<number> = integer(0, maxTime, "ms");
export const flag: Schema<boolean> = z.boolean("to be true or false");
export const layout: Schema<string> = text(1024);
export const page: Schema<number> = integer(1, maxPage);
export const format: Schema<EncodingName | undefined> = oneOf(...(Object.keys(encodings) as EncodingName[])).optional();

/** A holder's label in an answer. */
export const label: FieldSchemas<HolderLabel> = {
  host: z.string(),
  ip: z.string(),
  pid: z.number(),
  instance: z.string(),
};
