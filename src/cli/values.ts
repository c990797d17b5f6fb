import { configInvalid, shown } from "../id/errors.ts";
import { encodings, type EncodingName } from "../id/encodings.ts";
import type { CommandFlags, Invocation } from "./command.ts";

/** The encodings of IDs, for `--format`. */
export const formatNames: readonly EncodingName[] = Object.keys(encodings) as EncodingName[];

/** One of several allowed words. @throws SnowleaseError CONFIG_INVALID */
export function wordOf<Word extends string>(
  { flags }: Invocation,
  flag: string,
  words: readonly Word[],
): Word | undefined {
  const text = flags.get(flag);
  const word = words.find((word) => word === text);
  if (word !== undefined || text === undefined) return word;
  throw configInvalid(`Expected \`--${flag}\` to be one of ${words.join(", ")}, got ${shown(text)}; name one of them.`);
}

/** Flags of a command that reads IDs. */
export const nearFlag: CommandFlags = {
  "--at TIME":
    "A time close to the making of the IDs, for a layout whose timestamp wraps: Unix ms, or like 2026-11-20T12:02:04Z. It may be off by less than half a wrap.",
};

/** Flags of a command that reads IDs of any encoding. */
export const readingFlags: CommandFlags = {
  "--format FORMAT": `The encoding of the IDs: ${formatNames.join(", ")}. Left out: recognized for each ID.`,
  ...nearFlag,
};

/** The time of a flag, Unix ms. @throws SnowleaseError CONFIG_INVALID */
export function timeOf({ flags }: Invocation, flag: string): number | undefined {
  if (!flags.has(flag)) return undefined;
  const text = String(flags.get(flag));
  if (/^(?:0|[1-9][0-9]{0,15})$/.test(text)) return Number(text);
  const ms = /^\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)$/.test(text) ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(ms)) return ms;
  throw configInvalid(
    `Expected \`--${flag}\` to be a time, in Unix ms or like 2026-11-20T12:02:04Z, got ${shown(text)}; correct it.`,
  );
}

/** A plain decimal integer within bounds. @throws SnowleaseError CONFIG_INVALID */
export function integerOf(text: string | true | undefined, name: string, first: number, last: number): number {
  const number = typeof text === "string" && /^(?:0|[1-9][0-9]{0,9})$/.test(text) ? Number(text) : Number.NaN;
  if (number >= first && number <= last) return number;
  throw configInvalid(`Expected ${name} to be an integer from ${first} to ${last}, got ${shown(text)}; correct it.`);
}

/** How a command reads IDs: the values of `readingFlags`. */
export function readingOf(invocation: Invocation): { format: EncodingName | undefined; at: number | undefined } {
  return { format: wordOf(invocation, "format", formatNames), at: timeOf(invocation, "at") };
}

/** The worker IDs on the command line, without repeats. @throws SnowleaseError CONFIG_INVALID */
export function workerIdsOf(operands: readonly string[]): readonly number[] {
  return [...new Set(operands.map((text) => integerOf(text, "WORKER_ID", 0, 2 ** 31 - 1)))];
}
