import { encodings, type EncodingName } from "../../id/encodings.ts";
import { configInvalid, isSnowleaseError, shown, type SnowleaseError } from "../../id/errors.ts";
import { isUtf16 } from "../../id/utf8.ts";

/** A text with one ID a line. */
export interface IdInput {
  /** A path or `stdin`, for people. */
  readonly name: string;
  readonly chunks: AsyncIterable<Uint8Array>;
}

/** Receives each line that is not empty. Lines count from 1. */
export interface LineReader {
  /** An ID that the layout can hold, by its halves. */
  id(upper: number, lower: number, line: number): void;
  /** An ID with more bits than the layout. */
  beyond(id: bigint, line: number): void;
  /** A line that is not an ID. `why` is a message. */
  invalid(why: string, line: number): void;
}

/** Longest line, bytes. Longer lines are read as if they ended here, because no ID is so long. */
const longestLine = 80;
const newline = 0x0a;
const carriageReturn = 0x0d;
const zero = 0x30;
/** Length of 19 digits and CRLF, bytes. */
const longestPlain = 21;
const two32 = 2 ** 32;
const byteOrderMark = [0xef, 0xbb, 0xbf] as const;

/** Converts an ID to its halves, and back. */
const id64 = new DataView(new ArrayBuffer(8));

/**
 * Reads IDs of one format from the bytes of a text, chunk by chunk. Lines end with LF or CRLF. The last line may end without them. Empty
 * lines and a byte order mark are skipped.
 */
export class IdLines {
  readonly #format: EncodingName;
  readonly #bits: number;
  readonly #maxUpper: number;
  readonly #maxLower: number;
  readonly #reader: LineReader;
  /** The start of an incomplete line. */
  readonly #begun = new Uint8Array(longestLine);
  #begunLength = 0;
  #line = 0;

  /** @param bits of the layout's IDs. */
  constructor(format: EncodingName, bits: number, reader: LineReader) {
    this.#format = format;
    this.#bits = bits;
    const max = 2n ** BigInt(bits) - 1n;
    this.#maxUpper = Number(max >> 32n);
    this.#maxLower = Number(max & 0xffff_ffffn);
    this.#reader = reader;
  }

  /** Number of lines so far. */
  get lines(): number {
    return this.#line;
  }

  feed(chunk: Uint8Array): void {
    let start = 0;
    if (this.#begunLength > 0) {
      const end = chunk.indexOf(newline);
      this.#begin(chunk, 0, end < 0 ? chunk.length : end);
      if (end < 0) return;
      this.#endBegun();
      start = end + 1;
    }
    for (;;) {
      const next = this.#format === "decimal" ? this.#plainLines(chunk, start) : start;
      const end = chunk.indexOf(newline, next);
      start = next;
      if (end < 0) break;
      this.#read(chunk, start, end);
      start = end + 1;
    }
    this.#begin(chunk, start, chunk.length);
  }

  end(): void {
    if (this.#begunLength > 0) this.#endBegun();
  }

  #begin(chunk: Uint8Array, start: number, end: number): void {
    const part = chunk.subarray(start, Math.min(end, start + longestLine - this.#begunLength));
    this.#begun.set(part, this.#begunLength);
    this.#begunLength += part.length;
  }

  #endBegun(): void {
    this.#read(this.#begun, 0, this.#begunLength);
    this.#begunLength = 0;
  }

  #read(bytes: Uint8Array, first: number, after: number): void {
    const line = ++this.#line;
    const start = line === 1 && byteOrderMark.every((byte, i) => bytes[first + i] === byte) ? first + 3 : first;
    const end = after > start && bytes[after - 1] === carriageReturn ? after - 1 : after;
    if (start >= end) return;
    this.#readText(Buffer.from(bytes.buffer, bytes.byteOffset + start, Math.min(end - start, longestLine)), line);
  }

  /**
   * Reads lines from `start` on while they are plain: 1 to 19 digits, no zero in front, and below 9e18. Nearly all lines are plain. 100
   * million of them take some seconds, but a minute with a text and a BigInt for each. Returns the start of the first other line.
   */
  #plainLines(bytes: Uint8Array, start: number): number {
    const safe = bytes.length - longestPlain;
    for (let next = start; ; start = next) {
      let at = start;
      if (at > safe || (bytes[at] as number) === zero) return start;
      let high = 0;
      for (const end = start + 10; at < end; at++) {
        const digit = (bytes[at] as number) - zero;
        if (digit < 0 || digit > 9) break;
        high = high * 10 + digit;
      }
      let low = 0;
      let scale = 1;
      for (const end = start + 19; at < end; at++) {
        const digit = (bytes[at] as number) - zero;
        if (digit < 0 || digit > 9) break;
        low = low * 10 + digit;
        scale *= 10;
      }
      if (at === start || high * scale >= 9e18) return start;
      if (bytes[at] === carriageReturn) at++;
      if (bytes[at] !== newline) return start;
      next = at + 1;
      // Computes high * scale + low in two parts, so that each part is an exact double. `upper` counts units of 65,536.
      const top = Math.floor(high / 65_536);
      const upper = top * scale;
      const lower = (high - top * 65_536) * scale + low;
      const over = upper % 65_536;
      const rest = over * 65_536 + lower;
      const carry = Math.floor(rest / two32);
      this.#accept((upper - over) / 65_536 + carry, rest - carry * two32, ++this.#line);
    }
  }

  #readText(bytes: Buffer, line: number): void {
    const text = bytes.toString("utf8");
    const { decode } = encodings[this.#format];
    let id: bigint;
    try {
      id = decode(text, this.#bits);
    } catch (error) {
      const beyond = decoded(() => decode(text));
      if (beyond !== undefined) return this.#reader.beyond(beyond, line);
      if (!isSnowleaseError(error)) throw error;
      return this.#reader.invalid(error.message, line);
    }
    id64.setBigUint64(0, id);
    this.#accept(id64.getUint32(0), id64.getUint32(4), line);
  }

  #accept(upper: number, lower: number, line: number): void {
    if (upper < this.#maxUpper || (upper === this.#maxUpper && lower <= this.#maxLower)) {
      this.#reader.id(upper, lower, line);
    } else this.#reader.beyond(idOf(upper, lower), line);
  }
}

function decoded(decode: () => bigint): bigint | undefined {
  try {
    return decode();
  } catch {
    return undefined;
  }
}

/** The ID with these halves. */
export function idOf(upper: number, lower: number): bigint {
  id64.setUint32(0, upper);
  id64.setUint32(4, lower);
  return id64.getBigUint64(0);
}

/** A source that cannot be read. */
export function unreadable(name: string, error: unknown): SnowleaseError {
  const { code, message } = error as NodeJS.ErrnoException;
  const why = code === "ENOENT" ? "it does not exist" : code === "EISDIR" ? "it is a folder" : message;
  return configInvalid(`IDs cannot be read from ${shown(name)}: ${why}; name a file of IDs.`);
}

/** The chunks. A read error gets a message that names the source. */
export async function* readable({ name, chunks }: IdInput): AsyncGenerator<Uint8Array> {
  let isFirst = true;
  try {
    for await (const chunk of chunks) {
      if (isFirst && isUtf16(chunk)) throw inUtf16(name);
      isFirst = false;
      yield chunk;
    }
  } catch (error) {
    throw isSnowleaseError(error) ? error : unreadable(name, error);
  }
}

/** The lines that are not empty, as texts, with their numbers from 1. They begin and end as for `IdLines`. A long line is cut. */
export async function* textLines(input: IdInput): AsyncGenerator<{ readonly text: string; readonly line: number }> {
  let begun = Buffer.alloc(0);
  let line = 0;
  const textOf = (bytes: Buffer): string => {
    line++;
    const start = line === 1 && byteOrderMark.every((byte, i) => bytes[i] === byte) ? byteOrderMark.length : 0;
    return bytes.toString("utf8", start).replace(/\r$/, "");
  };
  for await (const chunk of readable(input)) {
    for (let start = 0, end = 0; end >= 0; start = end + 1) {
      end = chunk.indexOf(newline, start);
      const rest = chunk.subarray(start, end < 0 ? chunk.length : end);
      begun = Buffer.concat([begun, rest.subarray(0, longestLine - begun.length)]);
      if (end < 0) break;
      const text = textOf(begun);
      if (text !== "") yield { text, line };
      begun = Buffer.alloc(0);
    }
  }
  const text = begun.length > 0 ? textOf(begun) : "";
  if (text !== "") yield { text, line };
}

/** The error for a source in UTF-16. Otherwise each of its lines would be a finding. */
function inUtf16(name: string): SnowleaseError {
  return configInvalid(`IDs cannot be read from ${shown(name)}: it is UTF-16; save it as UTF-8.`);
}
