import { DecimalWriter } from "../generator/decimal-writer.ts";
import type { SnowleaseError } from "../id/errors.ts";

// Each character of a reply is one byte (latin1).

export const ok = "+OK\r\n";

export type ProtocolVersion = 2 | 3;

/** A value in an answer. An error is a text that begins with its code. */
export type ReplyValue = string | number | readonly ReplyValue[] | { readonly [name: string]: ReplyValue };

/** How many IDs are written at a time. An ID has at most 20 digits. */
const mostTogether = 1024;
/** One buffer is enough, because no other code runs between writing and reading it. */
const bytes = Buffer.alloc(mostTogether * "$20\r\n01234567890123456789\r\n".length);
/** One writer for each number of digits of an ID. `end`: the first number with more digits. */
const writers: { readonly writer: DecimalWriter; readonly end: bigint }[] = [];

export function bulk(text: string): string {
  return `$${text.length}\r\n${text}\r\n`;
}

export function integer(value: number | bigint): string {
  return `:${value}\r\n`;
}

export function nothing(version: ProtocolVersion): string {
  return version === 3 ? "_\r\n" : "$-1\r\n";
}

/** An answer of several parts. RESP2 has no maps, so it gets lists of names and values. */
export function reply(value: ReplyValue, version: ProtocolVersion): string {
  if (typeof value === "string") return bulk(bytesOf(value));
  if (typeof value === "number") return integer(value);
  if (Array.isArray(value))
    return `*${value.length}\r\n${value.map((part: ReplyValue) => reply(part, version)).join("")}`;
  const entries = Object.entries(value);
  const head = version === 3 ? `%${entries.length}` : `*${2 * entries.length}`;
  return `${head}\r\n${entries.map(([name, part]) => bulk(name) + reply(part, version)).join("")}`;
}

/** An error that Redis has, too. `code` is its first word. */
export function failure(code: string, message: string): string {
  return `-${oneLine(`${code} ${message}`)}\r\n`;
}

/** An error of Snowlease. Its first word is its code. Its last word is the time before the next try. */
export function refusal({ code, message, details }: SnowleaseError): string {
  const { retryAfterMs } = details;
  return failure(code, retryAfterMs === undefined ? message : `${message} retryAfterMs=${Math.ceil(retryAfterMs)}`);
}

/** The ID as a bulk string. */
export function idReply(id: bigint | undefined): string {
  const digits = String(id);
  return `$${digits.length}\r\n${digits}\r\n`;
}

/** IDs, in ascending order, as bulk strings one after the other. */
export function idReplies(ids: BigUint64Array): string {
  if (ids.length <= mostTogether) return textOf(ids);
  let text = "";
  for (let i = 0; i < ids.length; i += mostTogether) text += textOf(ids.subarray(i, i + mostTogether));
  return text;
}

/** At most `mostTogether`. IDs of one tick follow each other, and differ in their last digits only. */
function textOf(ids: BigUint64Array): string {
  const [first = 0n] = ids;
  const last = ids[ids.length - 1] ?? 0n;
  if (ids.length > 1 && last - first === BigInt(ids.length - 1)) {
    const { writer, end } = writerOf(String(first).length);
    if (last < end) return bytes.toString("latin1", 0, writer.write(bytes, 0, ids.length, first, 1n));
  }
  let text = "";
  for (const id of ids) text += idReply(id);
  return text;
}

function writerOf(digits: number): (typeof writers)[number] {
  return (writers[digits] ??= {
    writer: new DecimalWriter({ before: `$${digits}\r\n`, after: "\r\n" }),
    end: 10n ** BigInt(digits),
  });
}

/** Replaces line ends in a value, because a line end ends the reply. */
function oneLine(text: string): string {
  return bytesOf(text.replace(/[\0-\x1f\x7f]+/g, " "));
}

/** UTF-8 with one character for each byte. If a character above U+00FF were written as latin1, it could become a line end. */
function bytesOf(text: string): string {
  return Buffer.from(text, "utf8").toString("latin1");
}
