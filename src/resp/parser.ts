/** Arguments of one request, its name among them. For more IDs than that there is SNOWLEASE.IDS. */
export const mostArguments = 1024;
/** Bytes of one argument. */
export const longestArgument = 4096;
/** Bytes of all arguments of one request. */
export const longestRequest: number = 64 * 1024;

/** What is no request: nothing behind it can be read either. The message quotes nothing of what came. */
export class ProtocolError extends Error {}

const [star, dollar, zero, carriageReturn, lineFeed] = [0x2a, 0x24, 0x30, 0x0d, 0x0a];
/** Of a length: as many digits as the largest one has. */
const mostDigits = 5;

/**
 * Reads requests of the Redis protocol: arrays of bulk strings, a character a byte (latin1). It keeps at most one unfinished argument as it came,
 * and the finished ones of the same request, so that a request that comes byte by byte costs no more than others.
 */
export class RequestParser {
  #text = "";
  #at = 0;
  /** Where the present request began; -1: in a text before. */
  #begin = 0;
  #arguments: string[] = [];
  /** How many of them have memory of their own. */
  #kept = 0;
  /** Arguments that are still to come; 0: no request has begun. */
  #left = 0;
  /** Length of the argument that comes next; -1: unknown. */
  #length = -1;
  #size = 0;

  /** Adds what has arrived. */
  push(text: string): void {
    this.#text = this.#at < this.#text.length ? this.#text.slice(this.#at) + text : text;
    this.#at = 0;
    this.#begin = -1;
  }

  /** The bytes that have arrived and are not read. */
  get unread(): number {
    return this.#text.length - this.#at;
  }

  /** Whether a request has begun that is not whole. */
  get isPartial(): boolean {
    return this.#left > 0 || this.unread > 0;
  }

  /** The next whole request; undefined: more has to arrive. @throws ProtocolError */
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

  /** The request that was read last, as it came; undefined where it came in several parts. */
  get lastText(): string | undefined {
    return this.#begin < 0 ? undefined : copied(this.#text.slice(this.#begin, this.#at));
  }

  /** Skips requests that came just so; returns how many, at most `most`. Expects to stand between two requests. */
  skip(request: string, most: number): number {
    let count = 0;
    if (this.#left > 0) return 0;
    while (count < most && this.#text.startsWith(request, this.#at)) {
      this.#at += request.length;
      count++;
    }
    return count;
  }

  /** Reads a line of a sign and a length. Undefined: it is not whole. */
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

  /** Keeps only what is not read: a part of a text would keep all of it. */
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

/** The same text with memory of its own. */
export function copied(text: string): string {
  return text === "" ? "" : Buffer.from(text, "latin1").toString("latin1");
}
