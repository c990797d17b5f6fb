import { refuse } from "../id/check.ts";

/** The text before and after each ID. */
export interface TextOptions {
  /** Text before each ID, up to 16 ASCII characters. Default: none. */
  readonly before?: string | undefined;
  /** Text after each ID, up to 16 ASCII characters. Default: a line feed. */
  readonly after?: string | undefined;
}

const part = /^[\u0000-\u007f]{0,16}$/;

/** The last three digits of 0 to 999 in a little-endian word, after a byte that is reserved for the digit before them. */
const lastDigits = Int32Array.from({ length: 1000 }, (_, number) => {
  const text = String(number).padStart(3, "0");
  return (text.charCodeAt(0) << 8) | (text.charCodeAt(1) << 16) | (text.charCodeAt(2) << 24);
});

/** Writes consecutive numbers as decimal text into a buffer, each between the same two texts. */
export class DecimalWriter {
  readonly #before: string;
  readonly #after: string;

  /** @throws SnowleaseError CONFIG_INVALID */
  constructor({ before = "", after = "\n" }: TextOptions = {}) {
    const rule = "to be up to 16 characters of ASCII";
    this.#before = typeof before === "string" && part.test(before) ? before : refuse("before", rule, before);
    this.#after = typeof after === "string" && part.test(after) ? after : refuse("after", rule, after);
  }

  /** How many of `first`, `first + step`, … have as many digits as `first` and fit into this number of bytes. */
  fitting(first: bigint, step: bigint, bytes: number): number {
    const { length } = String(first);
    const alike = (10n ** BigInt(length) - 1n - first) / step + 1n;
    return Math.min(Number(alike), Math.floor(bytes / this.#widthOf(length)));
  }

  /**
   * Writes `count` numbers, which must fit, from index `at`; returns the index after the last byte. Numbers that differ only in their last
   * three digits are written together: the first one, then copies of it, doubling each time, then one word into each copy.
   */
  write(target: Uint8Array, at: number, count: number, first: bigint, step: bigint): number {
    const { length } = String(first);
    const width = this.#widthOf(length);
    const view = new DataView(target.buffer, target.byteOffset, target.byteLength);
    const together = step === 1n && length > 3;
    for (let done = 0; done < count;) {
      const number = first + BigInt(done) * step;
      const low = Number(number % 1000n);
      const some = together ? Math.min(count - done, 1000 - low) : 1;
      this.#writeOne(target, at, number);
      for (let copied = 1; copied < some; copied *= 2) {
        target.copyWithin(at + copied * width, at, at + Math.min(copied, some - copied) * width);
      }
      if (some > 1) writeLastDigits(view, at + this.#before.length + length - 4, width, low, some);
      done += some;
      at += some * width;
    }
    return at;
  }

  #widthOf(digits: number): number {
    return this.#before.length + digits + this.#after.length;
  }

  #writeOne(target: Uint8Array, at: number, number: bigint): void {
    const text = this.#before + String(number) + this.#after;
    for (let i = 0; i < text.length; i++) target[at + i] = text.charCodeAt(i);
  }
}

/** Writes the last four digits, the first of which is already there, of `count` numbers from the one that ends with `low`. */
function writeLastDigits(view: DataView, at: number, width: number, low: number, count: number): void {
  const digit = view.getUint8(at);
  for (const end = low + count; low < end; low++) {
    view.setInt32(at, (lastDigits[low] as number) | digit, true);
    at += width;
  }
}
