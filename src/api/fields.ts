import { z } from "zod";
import { encodings, type EncodingName } from "../id/encodings.ts";
import { presetNames, presets } from "../id/notation.ts";
import type { HolderLabel } from "../rule/registry.ts";
import type { FieldSchemas, Schema } from "./schema.ts";

/* A schema's message is only the rule, `to be ...`. `checked` adds the field and its value. */

/** Longest request body, bytes. */
export const maxBody: number = 64 * 1024;

/** Most workers or history rows in one answer. */
const maxPage = 10_000;
/** Highest worker ID of any layout. */
export const maxWorkerId: number = 2 ** 31 - 1;
/** The last Unix ms that a Date can show. */
const maxTime = 8_640_000_000_000_000;
const withoutControls = /^[^\u0000-\u001f\u007f-\u009f\u2028\u2029]*$/u;
const halfCharacter = /\p{Cs}/u;

export function integer(first: number, last: number = Number.MAX_SAFE_INTEGER, unit = ""): Schema<number> {
  const rule = `to be an integer from ${first} to ${last}${unit && ` (${unit})`}`;
  return z.int(rule).min(first, rule).max(last, rule);
}

/** Texts are for people: no control characters, which a terminal obeys, and no half characters, which a store changes. */
export function printable(schema: z.ZodString, rule: string): Schema<string> {
  // This check is not a pattern, because validators in other languages have none for half characters.
  return schema.regex(withoutControls, rule).check(({ value: input, issues }) => {
    if (halfCharacter.test(input)) issues.push({ code: "invalid_format", format: "text", input, message: rule });
  });
}

export function text(longest: number): Schema<string> {
  const rule = `to be a well-formed string of at most ${longest} characters without control characters`;
  return printable(z.string(rule).max(longest, rule), rule);
}

export function oneOf<Value extends string>(...values: Value[]): Schema<Value> {
  return z.enum(values, `to be one of ${values.join(", ")}`);
}

/** A list of 1 to `most` items. @param what the name of the items, in the plural. */
export function someOf<Item>(item: Schema<Item>, most: number, what: string): Schema<readonly Item[]> {
  const rule = `to be 1 to ${most} ${what}`;
  return z.array(item, rule).min(1, rule).max(most, rule);
}

/** A worker ID in a URL or a body. */
export const workerId: Schema<number> = integer(0, maxWorkerId);
export const fence: Schema<number> = integer(0);
export const time: Schema<number> = integer(0, maxTime, "Unix ms");
/** A time, which may be before 1970. */
export const anyTime: Schema<number> = z.int("to be an integer (Unix ms)");
export const duration: Schema<number> = integer(1, maxTime, "ms");
export const span: Schema<number> = integer(0, maxTime, "ms");
export const flag: Schema<boolean> = z.boolean("to be true or false");

const layoutGrammar = `A preset (${presetNames.join(", ")}), or a notation such as \`${presets.twitter}\`: \`NAME:BITS\` from the top field down, separated by commas; \`@\` and the epoch in Unix ms; \`/\` and the tick in ms, where it is not 1; \`/wraps\` where the timestamp begins again at 0. Numbers are plain decimal. The first field is \`timestamp\` (21 to 47 bits, of 64 bits 22 to 48: ticks since the epoch). \`sequence\` (1 to 31 bits) counts within a tick; directly above it may be \`rollback\` (up to 8 bits, 31 with the sequence: how often the clock went back). Any other name of 1 to 16 lower-case letters and digits, a letter first, is a part of the worker ID, from the top down, 31 bits in all. 64 bits at most, 63 where the timestamp wraps, each name once; of 64 the top bit stays 0. The epoch is at most 4102444800000, the tick at most 60000, and the last timestamp at most 8640000000000000.`;

/** A layout by its name or notation. @param otherwise describes the default. */
export function layout(otherwise: string): Schema<string | undefined> {
  return text(1024).describe(`${layoutGrammar} Default: ${otherwise}.`).optional();
}

export const page: Schema<number> = integer(1, maxPage);
export const format: Schema<EncodingName | undefined> = oneOf(...(Object.keys(encodings) as EncodingName[])).optional();

/** A holder's label in an answer. */
export const label: FieldSchemas<HolderLabel> = {
  host: z.string().describe("The host name of the holder."),
  ip: z.string().describe("The address of the holder's host."),
  pid: z.int().describe("The process ID of the holder."),
  instance: z.string().describe("The name that the holder gave to this process. Empty: none."),
};
