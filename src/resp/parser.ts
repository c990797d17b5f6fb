/** Arguments of one request, including its name. SNOWLEASE.IDS exists for more IDs. */
export const mostArguments = 1024;
/** Bytes of one argument. */
export const longestArgument = 4096;
/** Bytes of all arguments of one request. */
export const longestRequest: number = 64 * 1024;

/** The client sent bytes that are not a request. The bytes after them cannot be read either. The message quotes none of them. */
export class ProtocolError extends Error {}

const [star, dollar, zero, carriageReturn, lineFeed] = [0x2a, 0x24, 0x30, 0x0d, 0x0a];
/** Most digits of a length. */
const mostDigits = 5;

/**
 * Reads requests of the Redis protocol: arrays of bulk strings, one character for each byte (latin1). It keeps at most one unfinished
 * argument and the finished arguments of the same request. So a request that arrives byte by byte costs no more than others.
 */
export class RequestParser {
  #text = "";
  #at = 0;
  /** Index at which the present request begins. -1: it began in an earlier text. */
  #begin = 0;
  #arguments: string[] = [];
  /** How many arguments are copies that keep no larger text in memory. */
  #kept = 0;
  /** Arguments that are still missing. 0: no request has begun. */
  #left = 0;
  /** Length of the next argument. -1: unknown. */
  #length = -1;
  #size = 0;

  /** Adds a text that has arrived. */
  push(text: string): void {
    this.#text = this.#at < this.#text.length ? this.#text.slice(this.#at) + text : text;
    this.#at = 0;
    this.#begin = -1;
  }

  /** Number of bytes that have arrived and were not read yet. */
  get unread(): number {
    return this.#text.length - this.#at;
  }

  /** Whether an incomplete request has arrived. */
  get isPartial(): boolean {
    return this.#left > 0 || this.unread > 0;
  }

  /** The next whole request. Undefined: it is incomplete. @throws ProtocolError */
  next(): readonly string[] | undefined {
    for (;;) {
      if (this.#left === 0) {
        this.#begin = this.#at;
        const count = this.#line(star, mostArguments);
        if (count === undefined) return this.#wait();
        if (count === 0) continue;
        this.#left = count;
        this.#size = 0;
        this.#kept = 0;
        this.#arguments = [];
      }
      if (this.#length < 0) {
        const length = this.#line(dollar, longestArgument);
        if (length === undefined) return this.#wait();
        this.#size += length;
        if (this.#size > longestRequest) throw new ProtocolError(`more than ${longestRequest} bytes in one request`);
        this.#length = length;
      }
      const end = this.#at + this.#length;
      if (this.#text.length < end + 2) return this.#wait();
      if (this.#text.charCodeAt(end) !== carriageReturn || this.#text.charCodeAt(end + 1) !== lineFeed) {
        throw new ProtocolError("a bulk string that is longer than announced");
      }
      this.#arguments.push(this.#text.slice(this.#at, end));
      this.#at = end + 2;
      this.#length = -1;
      if (--this.#left === 0) return this.#arguments;
    }
  }

  /** The text of the request that was read last. Undefined if it arrived in several parts. */
  get lastText(): string | undefined {
    return this.#begin < 0 ? undefined : copied(this.#text.slice(this.#begin, this.#at));
  }

  /** Skips requests with exactly this text. Returns how many, at most `most`. Skips none within a request. */
  skip(request: string, most: number): number {
    let count = 0;
    if (this.#left > 0) return 0;
    while (count < most && this.#text.startsWith(request, this.#at)) {
      this.#at += request.length;
      count++;
    }
    return count;
  }

  /** Reads a line of a sign and a length. Undefined: the line is incomplete. */
  #line(sign: number, most: number): number | undefined {
    const text = this.#text;
    let at = this.#at;
    if (at >= text.length) return undefined;
    if (text.charCodeAt(at++) !== sign) throw new ProtocolError("expected an array of bulk strings");
    let number = 0;
    const digits = at;
    for (; at < text.length; at++) {
      const digit = text.charCodeAt(at) - zero;
      if (digit < 0 || digit > 9) break;
      if (at - digits >= mostDigits) throw new ProtocolError(`a length above ${most}`);
      number = number * 10 + digit;
    }
    if (at === text.length) return undefined;
    if (at === digits || text.charCodeAt(at) !== carriageReturn) throw new ProtocolError("expected a length");
    if (number > most) throw new ProtocolError(`a length above ${most}`);
    if (at + 1 === text.length) return undefined;
    if (text.charCodeAt(at + 1) !== lineFeed) throw new ProtocolError("expected a length");
    this.#at = at + 2;
    return number;
  }

  /** Copies the unread part of the text and the arguments, because a slice of a text keeps the whole text in memory. */
  #wait(): undefined {
    this.#begin = -1;
    for (; this.#kept < this.#arguments.length; this.#kept++) {
      this.#arguments[this.#kept] = copied(this.#arguments[this.#kept] ?? "");
    }
    this.#text = copied(this.#text.slice(this.#at));
    this.#at = 0;
    return undefined;
  }
}

/** A copy of a text that keeps no larger text in memory. */
export function copied(text: string): string {
  return text === "" ? "" : Buffer.from(text, "latin1").toString("latin1");
}
