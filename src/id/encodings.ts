import { refuse } from "./check.ts";
import {
  base62Digits,
  base62SortDigits,
  base64SortDigits,
  base64urlDigits,
  crockfordDigits,
  digitValues,
  readDigits,
  writeBase62,
  writeBase64sort,
  writeBase64url,
  writeCrockford32,
} from "./digits.ts";
import { configInvalid, type SnowleaseError } from "./errors.ts";

/** Names of the text forms of an ID. */
export type EncodingName =
  | "decimal"
  | "hex"
  | "base36"
  | "base62"
  | "base64url"
  | "crockford32"
  | "base62sort"
  | "base64sort";

/** One way to write an ID, 0 to 2^63-1, as text and to read it back. */
export interface Encoding {
  readonly name: EncodingName;
  /**
   * The shortest text. base64url, base62sort and base64sort always have the width of 63 bits.
   * @throws SnowleaseError CONFIG_INVALID when `id` is not a bigint from 0 to 2^63-1.
   */
  encode(id: bigint): string;
  /**
   * The text, padded with leading zero digits to the width of 2^bits-1; `bits` is a layout's `totalBits`, default 63. Widths for 63 bits:
   * decimal 19, hex 16, base36 13, base62 11, base64url 12 (for any `bits`), crockford32 13, base62sort 11, base64sort 11. Texts of one
   * width sort like the numbers, byte by byte, except those of base62 and base64url, whose digits are not in byte order.
   * @throws SnowleaseError CONFIG_INVALID when `id` is not a bigint from 0 to 2^bits-1.
   */
  encodeFixed(id: bigint, bits?: number): string;
  /**
   * Reads only what `encode`, or `encodeFixed` with these `bits`, writes. Refuses any other number of leading zeros, any other case, signs,
   * white space, look-alikes (crockford32's I, L, O) and padding bits. @throws SnowleaseError CONFIG_INVALID
   */
  decode(text: string, bits?: number): bigint;
}

const maxId = 2n ** 63n - 1n;

function checked(id: bigint, bits: number = 63): bigint {
  if (typeof id === "bigint" && id >= 0n && id <= maxOf(bits)) return id;
  return refuse("id", `to be a bigint from 0 to ${maxOf(bits)} (${bits} bits)`, id);
}

function maxOf(bits: number): bigint {
  if (bits === 63) return maxId;
  if (Number.isInteger(bits) && bits >= 1 && bits < 63) return 2n ** BigInt(bits) - 1n;
  return refuse("bits", "to be an integer from 1 to 63", bits);
}

/**
 * A form that is the number in the base of its alphabet.
 * @param fixed writes all digits of a 63-bit ID.
 * @param shortest what `encode` writes. Default: `fixed` without its leading zeros.
 */
function positional(
  name: EncodingName,
  alphabet: string,
  fixed: (id: bigint) => string,
  shortest?: (id: bigint) => string,
): Encoding {
  const zero = alphabet.charAt(0);
  const base = alphabet.length;
  const values = digitValues(alphabet);
  const widthOf = (bits: number): number => Math.ceil(bits / Math.log2(base));
  const width = widthOf(63);
  const lowWidth = width >> 1;
  const lowScale = BigInt(base) ** BigInt(lowWidth);
  /** Whether `encode` always writes all digits. */
  const isWide = shortest === fixed;

  const stripped = (id: bigint): string => {
    const text = fixed(id);
    let start = 0;
    while (start < width - 1 && text.charAt(start) === zero) start++;
    return text.slice(start);
  };
  const write = shortest ?? stripped;

  return {
    name,
    encode: (id) => write(checked(id)),
    encodeFixed: (id, bits = 63) => fixed(checked(id, bits)).slice(width - widthOf(bits)),
    decode(text, bits = 63) {
      const max = maxOf(bits);
      const fixedWidth = widthOf(bits);
      const longest = isWide ? width : fixedWidth;
      // Check the length first: a hostile megabyte must cost no more than a typing error.
      if (typeof text !== "string" || text.length < 1 || text.length > longest) {
        refuse(`${name} text`, `to be a string of 1 to ${longest} characters`, text);
      }
      const split = Math.max(0, text.length - lowWidth);
      const high = readDigits(text, 0, split, values, base);
      const low = readDigits(text, split, text.length, values, base);
      if (Number.isNaN(high + low)) refuse(`${name} text`, `to have no characters but \`${alphabet}\``, text);
      if (isWide && text.length !== width && text.length !== fixedWidth) {
        refuse(`${name} text`, `to have ${fixedWidth === width ? "" : `${fixedWidth} or `}${width} characters`, text);
      }
      if (!isWide && text.startsWith(zero) && text.length > 1 && text.length < fixedWidth) {
        refuse(`${name} text`, `to have no leading zeros unless they fill it up to ${fixedWidth} characters`, text);
      }
      const id = BigInt(high) * lowScale + BigInt(low);
      if (id > max)
        refuse(`${name} text`, `to be at most \`${fixed(max).slice(width - fixedWidth)}\` (2^${bits}-1)`, text);
      return id;
    },
  };
}

/** A form that the engine's own `toString` writes, the fastest of eight ways measured. */
function radix(name: EncodingName, base: number, width: number): Encoding {
  const shortest = (id: bigint): string => id.toString(base);
  return positional(name, base62Digits.slice(0, base), (id) => shortest(id).padStart(width, "0"), shortest);
}

/** A form that always has all digits. */
function wide(name: EncodingName, alphabet: string, write: (id: bigint) => string): Encoding {
  return positional(name, alphabet, write, write);
}

const base64urlValues = digitValues(base64urlDigits);

/**
 * The text forms by name. `base64url` is the ID's 8 bytes, big-endian, padded with `=`. The others are the number in the base of their
 * alphabet: digits, then lower case (hex, base36), then upper case (base62); Crockford's upper case; the digits of base62 and base64url in
 * byte order (base62sort, base64sort).
 */
export const encodings: { readonly [Name in EncodingName]: Encoding } = {
  decimal: radix("decimal", 10, 19),
  hex: radix("hex", 16, 16),
  base36: radix("base36", 36, 13),
  base62: positional("base62", base62Digits, (id) => writeBase62(id, base62Digits)),
  base64url: {
    name: "base64url",
    encode: (id) => writeBase64url(checked(id)),
    encodeFixed: (id, bits) => writeBase64url(checked(id, bits)),
    decode(text, bits = 63) {
      const max = maxOf(bits);
      if (typeof text !== "string" || text.length !== 12 || !text.endsWith("=")) {
        refuse("base64url text", "to be a string of 11 characters and `=`", text);
      }
      const high = readDigits(text, 0, 6, base64urlValues, 64);
      const low = readDigits(text, 6, 11, base64urlValues, 64);
      if (Number.isNaN(high + low)) refuse("base64url text", `to have no characters but \`${base64urlDigits}\``, text);
      // Eleven characters hold 66 bits. The last two bits are padding: other values than zero would give one ID several texts.
      if (low % 4 !== 0) refuse("base64url text", "to end in two zero bits", text);
      const id = BigInt(high) * 268435456n + BigInt(low / 4);
      if (id > max) refuse("base64url text", `to be at most \`${writeBase64url(max)}\` (2^${bits}-1)`, text);
      return id;
    },
  },
  crockford32: positional("crockford32", crockfordDigits, writeCrockford32),
  base62sort: wide("base62sort", base62SortDigits, (id) => writeBase62(id, base62SortDigits)),
  base64sort: wide("base64sort", base64SortDigits, writeBase64sort),
};

/** The first match decides. Lengths are bounded, so the time to match is bounded, too. */
const textPatterns: readonly (readonly [EncodingName, RegExp])[] = [
  ["decimal", /^[0-9]{1,19}$/],
  ["base64url", /^[A-Za-z0-9_-]{11}=$/],
  ["base62", /^[0-9a-zA-Z]{1,11}$/],
  ["base36", /^[0-9a-z]{12,13}$/],
  ["crockford32", /^[0-9A-Z]{12,13}$/],
  ["hex", /^[0-9a-f]{14,16}$/],
];

/**
 * Reads an ID in the form `name`. Without a name, the first form that fits: up to 19 digits are decimal; 12 characters that end with `=`
 * base64url; up to 11 digits and letters base62; 12 or 13 digits and lower-case letters base36, upper-case letters crockford32; 14 to 16 of
 * `0-9a-f` hex.
 *
 * This finds the form of every text of fixed width of a 63-bit ID, and of the shortest text of every ID from 36^11 (about 1.3 * 10^17: 363
 * days after the epoch in a layout of 22 bits below the milliseconds), except texts that consist of digits only. Smaller IDs in hex, base36
 * and crockford32 need the name of their form, and so do base62sort and base64sort.
 * @param bits of the ID's layout, default 63.
 * @throws SnowleaseError CONFIG_INVALID when the text does not fit the named form, or any form, or `name` is not a form.
 */
export function decodeAny(
  text: string,
  name?: EncodingName,
  bits: number = 63,
): { readonly id: bigint; readonly encoding: EncodingName } {
  const known = Object.keys(encodings).join(", ");
  if (name !== undefined) {
    if (Object.hasOwn(encodings, name)) return { id: encodings[name].decode(text, bits), encoding: name };
    return refuse("format", `to be one of ${known}`, name);
  }
  const encoding = typeof text === "string" ? textPatterns.find(([, look]) => look.test(text))?.[0] : undefined;
  if (encoding === undefined) return refuse("id", `to be text in one of ${known}${spoiled(text)}`, text);
  try {
    return { id: encodings[encoding].decode(text, bits), encoding };
  } catch (error) {
    const advice = `it looked like ${encoding}${spoiled(text)}: name its format if it is another of ${known}`;
    throw configInvalid(`${(error as SnowleaseError).message}; ${advice}`);
  }
}

/** What probably happened to a text that was an ID. */
function spoiled(text: unknown): string {
  if (typeof text !== "string" || text.length > 40) return "";
  if (/^[+-]?\d+(?:[.,]\d*)?(?:e\+?\d+)?$/i.test(text) && /[.,e]/i.test(text))
    return " (a program that keeps 53 bits, such as a spreadsheet, seems to have rounded it: its last digits are lost; take it from where it is stored as text or as an integer of 64 bits)";
  if (/^0x[0-9a-f]+$/i.test(text)) return " (write hex without `0x`, in lower case, and name its format: hex)";
  if (/^-\d+$/.test(text)) return " (an ID is never negative: one that a program cut to 32 bits may be)";
  return "";
}
