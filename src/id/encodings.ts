import { shown, SnowleaseError } from "./errors.ts";

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
   * The shortest text. base64url, base62sort and base64sort have one width only, that of 63 bits.
   * @throws SnowleaseError CONFIG_INVALID when `id` is not a bigint from 0 to 2^63-1.
   */
  encode(id: bigint): string;
  /**
   * The text with leading zero digits, as wide as 2^bits-1 is; `bits` is a layout's `totalBits`, default 63: decimal 19, hex 16,
   * base36 13, base62 11, base64url 12 for any, crockford32 13, base62sort 11, base64sort 11. Compared byte by byte, texts of one width
   * sort like the numbers, but for base62 (`a` is the lower digit but the higher byte than `A`) and base64url (`A` is the lower digit,
   * `0` the lower byte): base62sort and base64sort are the same with their digits in the order of bytes.
   * @throws SnowleaseError CONFIG_INVALID when `id` is not a bigint from 0 to 2^bits-1.
   */
  encodeFixed(id: bigint, bits?: number): string;
  /**
   * Reads what `encode`, or `encodeFixed` with these `bits`, wrote, and nothing else: no other number of leading zeros, no other
   * case, no sign, no white space, no look-alikes (crockford32's I, L, O), no padding bits.
   * @throws SnowleaseError CONFIG_INVALID that names what was expected.
   */
  decode(text: string, bits?: number): bigint;
}

/** What tells one text form from another. */
interface TextForm {
  readonly name: EncodingName;
  readonly alphabet: string;
  /** Digits of 2^63-1. */
  readonly width: number;
  /** All `width` digits of an ID that was checked. */
  readonly fixed: (id: bigint) => string;
  /** What `encode` writes, where that is not `fixed` without its leading zeros. */
  readonly shortest?: (id: bigint) => string;
}

const maxId = 2n ** 63n - 1n;
export const base62Digits: string = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
/** Douglas Crockford's, upper case: no I, L and O, which look like digits, and no U. */
const crockfordDigits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/** RFC 4648, section 5. */
export const base64urlDigits: string = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const inByteOrder = (digits: string): string => digits.split("").toSorted().join("");
export const base62SortDigits: string = inByteOrder(base62Digits);
export const base64SortDigits: string = inByteOrder(base64urlDigits);

// An ID's halves as uint32, where bits are cut without BigInt arithmetic. Measured on Node 20, range check included:
// base64url 52 ns an ID, crockford32 58, base62 83; a BigInt division for each digit costs 217 (base62) to 280.
const halves = new DataView(new ArrayBuffer(8));

const digit62 = (value: number, digits: string): number => digits.charCodeAt((value | 0) % 62);
const digit32 = (bits: number): number => crockfordDigits.charCodeAt(bits & 31);
const digit64 = (bits: number, digits: string): number => digits.charCodeAt(bits & 63);

// One BigInt division by 62^5 leaves two Numbers. But for the top digit they are below 2^30, where `| 0` truncates
// exactly; without it `%` would be a division of doubles, and all of this no faster than digit by digit.
function base62(id: bigint, digits: string): string {
  const quotient = id / 916132832n;
  const low = Number(id - quotient * 916132832n);
  const high = Number(quotient);
  const top = Math.floor(high / 916132832);
  const middle = high - top * 916132832;
  return String.fromCharCode(
    digit62(top, digits),
    digit62(middle / 14776336, digits),
    digit62(middle / 238328, digits),
    digit62(middle / 3844, digits),
    digit62(middle / 62, digits),
    digit62(middle, digits),
    digit62(low / 14776336, digits),
    digit62(low / 238328, digits),
    digit62(low / 3844, digits),
    digit62(low / 62, digits),
    digit62(low, digits),
  );
}

function crockford32(id: bigint): string {
  halves.setBigUint64(0, id);
  const high = halves.getUint32(0);
  const low = halves.getUint32(4);
  return String.fromCharCode(
    digit32(high >>> 28),
    digit32(high >>> 23),
    digit32(high >>> 18),
    digit32(high >>> 13),
    digit32(high >>> 8),
    digit32(high >>> 3),
    digit32((high << 2) | (low >>> 30)),
    digit32(low >>> 25),
    digit32(low >>> 20),
    digit32(low >>> 15),
    digit32(low >>> 10),
    digit32(low >>> 5),
    digit32(low),
  );
}

function base64url(id: bigint): string {
  halves.setBigUint64(0, id);
  const high = halves.getUint32(0);
  const low = halves.getUint32(4);
  return String.fromCharCode(
    digit64(high >>> 26, base64urlDigits),
    digit64(high >>> 20, base64urlDigits),
    digit64(high >>> 14, base64urlDigits),
    digit64(high >>> 8, base64urlDigits),
    digit64(high >>> 2, base64urlDigits),
    digit64((high << 4) | (low >>> 28), base64urlDigits),
    digit64(low >>> 22, base64urlDigits),
    digit64(low >>> 16, base64urlDigits),
    digit64(low >>> 10, base64urlDigits),
    digit64(low >>> 4, base64urlDigits),
    digit64(low << 2, base64urlDigits),
    61,
  );
}

function base64sort(id: bigint): string {
  halves.setBigUint64(0, id);
  const high = halves.getUint32(0);
  const low = halves.getUint32(4);
  return String.fromCharCode(
    digit64(high >>> 28, base64SortDigits),
    digit64(high >>> 22, base64SortDigits),
    digit64(high >>> 16, base64SortDigits),
    digit64(high >>> 10, base64SortDigits),
    digit64(high >>> 4, base64SortDigits),
    digit64((high << 2) | (low >>> 30), base64SortDigits),
    digit64(low >>> 24, base64SortDigits),
    digit64(low >>> 18, base64SortDigits),
    digit64(low >>> 12, base64SortDigits),
    digit64(low >>> 6, base64SortDigits),
    digit64(low, base64SortDigits),
  );
}

function checked(id: bigint, bits: number = 63): bigint {
  if (typeof id === "bigint" && id >= 0n && id <= maxOf(bits)) return id;
  return refuse("`id`", `to be a bigint from 0 to ${maxOf(bits)} (${bits} bits)`, id);
}

function maxOf(bits: number): bigint {
  if (bits === 63) return maxId;
  if (Number.isInteger(bits) && bits >= 1 && bits < 63) return 2n ** BigInt(bits) - 1n;
  return refuse("`bits`", "to be an integer from 1 to 63", bits);
}

function refuse(what: string, rule: string, value: unknown): never {
  throw new SnowleaseError("CONFIG_INVALID", `Expected ${what} ${rule}, got ${shown(value)}`);
}

/** Digit values by character code; 255 is no digit. */
function valuesOf(alphabet: string): Uint8Array {
  const values = new Uint8Array(128).fill(255);
  for (let value = 0; value < alphabet.length; value++) values[alphabet.charCodeAt(value)] = value;
  return values;
}

/**
 * Reads digits `from` to `to` as a number; NaN when one of them is no digit. Half an ID's digits stay below 2^53 in every
 * alphabet, so that only two BigInts are made: 80 ns for base62, against 190 digit by digit.
 */
function digits(text: string, from: number, to: number, values: Uint8Array, base: number): number {
  let number = 0;
  for (let index = from; index < to; index++) {
    const value = values[text.charCodeAt(index)] ?? 255;
    if (value === 255) return NaN;
    number = number * base + value;
  }
  return number;
}

function positional(form: TextForm): Encoding {
  const { name, alphabet, width, fixed, shortest } = form;
  const zero = alphabet.charAt(0);
  const base = alphabet.length;
  const values = valuesOf(alphabet);
  const lowWidth = width >> 1;
  const lowScale = BigInt(base) ** BigInt(lowWidth);
  const widthOf = (bits: number): number => Math.ceil(bits / Math.log2(base));

  const stripped = (id: bigint): string => {
    const text = fixed(id);
    let start = 0;
    while (start < width - 1 && text.charAt(start) === zero) start++;
    return text.slice(start);
  };
  const write = shortest ?? stripped;
  /** Whether `encode` writes all digits. */
  const isWide = write(0n).length === width;

  return {
    name,
    encode: (id) => write(checked(id)),
    encodeFixed: (id, bits = 63) => fixed(checked(id, bits)).slice(width - widthOf(bits)),
    decode(text, bits = 63) {
      const max = maxOf(bits);
      const fixedWidth = widthOf(bits);
      const longest = isWide ? width : fixedWidth;
      // The length comes first: a hostile megabyte must cost no more than a typing error.
      if (typeof text !== "string" || text.length < 1 || text.length > longest) {
        refuse(`${name} text`, `to be a string of 1 to ${longest} characters`, text);
      }
      const split = Math.max(0, text.length - lowWidth);
      const high = digits(text, 0, split, values, base);
      const low = digits(text, split, text.length, values, base);
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

/** A form that the engine's own `toString` writes: 50 to 74 ns, the fastest of eight ways that were measured. */
function radix(name: EncodingName, base: number, width: number): Encoding {
  return positional({
    name,
    alphabet: base62Digits.slice(0, base),
    width,
    shortest: (id) => id.toString(base),
    fixed: (id) => id.toString(base).padStart(width, "0"),
  });
}

/** A form of 11 characters, whatever the ID. */
function wide(name: EncodingName, alphabet: string, fixed: (id: bigint) => string): Encoding {
  return positional({ name, alphabet, width: 11, fixed, shortest: fixed });
}

const base64urlValues = valuesOf(base64urlDigits);

/**
 * The text forms by name. `base64url` is the ID's 8 bytes, big-endian, padded with `=`; the others are the number in the
 * base of their alphabet: digits, then lower case (hex, base36), then upper case (base62); Crockford's upper case; base62's
 * and base64url's in the order of their bytes (base62sort, base64sort).
 */
export const encodings: { readonly [Name in EncodingName]: Encoding } = {
  decimal: radix("decimal", 10, 19),
  hex: radix("hex", 16, 16),
  base36: radix("base36", 36, 13),
  base62: positional({ name: "base62", alphabet: base62Digits, width: 11, fixed: (id) => base62(id, base62Digits) }),
  base64url: {
    name: "base64url",
    encode: (id) => base64url(checked(id)),
    encodeFixed: (id, bits) => base64url(checked(id, bits)),
    decode(text, bits = 63) {
      const max = maxOf(bits);
      if (typeof text !== "string" || text.length !== 12 || !text.endsWith("=")) {
        refuse("base64url text", "to be a string of 11 characters and `=`", text);
      }
      const high = digits(text, 0, 6, base64urlValues, 64);
      const low = digits(text, 6, 11, base64urlValues, 64);
      if (Number.isNaN(high + low)) refuse("base64url text", `to have no characters but \`${base64urlDigits}\``, text);
      // Eleven characters hold 66 bits: the last two are padding, and any but zero would be a second text for one ID.
      if (low % 4 !== 0) refuse("base64url text", "to end in two zero bits", text);
      const id = BigInt(high) * 268435456n + BigInt(low / 4);
      if (id > max) refuse("base64url text", `to be at most \`${base64url(max)}\` (2^${bits}-1)`, text);
      return id;
    },
  },
  crockford32: positional({ name: "crockford32", alphabet: crockfordDigits, width: 13, fixed: crockford32 }),
  base62sort: wide("base62sort", base62SortDigits, (id) => base62(id, base62SortDigits)),
  base64sort: wide("base64sort", base64SortDigits, base64sort),
};

/** The first that matches decides. Lengths are bounded, so that the time to match is too. */
const textPatterns: readonly (readonly [EncodingName, RegExp])[] = [
  ["decimal", /^[0-9]{1,19}$/],
  ["base64url", /^[A-Za-z0-9_-]{11}=$/],
  ["base62", /^[0-9a-zA-Z]{1,11}$/],
  ["base36", /^[0-9a-z]{12,13}$/],
  ["crockford32", /^[0-9A-Z]{12,13}$/],
  ["hex", /^[0-9a-f]{14,16}$/],
];

/**
 * Reads an ID in the form `name`, or else in the one that its look tells, by the first rule that applies:
 *
 * | text | is read as |
 * |---|---|
 * | digits only, up to 19 | decimal |
 * | 12 characters that end with `=` | base64url |
 * | up to 11 letters and digits | base62 |
 * | 12 or 13 digits and lower-case letters | base36 |
 * | 12 or 13 digits and upper-case letters | crockford32 |
 * | 14 to 16 of `0-9a-f` | hex |
 *
 * So every text of an ID of 63 bits with a fixed width, and the shortest text of every ID from 36^11 (about 1.3 * 10^17: 363 days
 * after the epoch in a layout of 22 bits below the milliseconds), finds its form, unless it happens to consist of digits only.
 * Texts of smaller IDs in hex, base36 and crockford32 need their name, and so do base62sort and base64sort.
 * @param bits of the ID's layout, default 63.
 * @throws SnowleaseError CONFIG_INVALID when no form or not the one told accepts the text, or `name` is not a form.
 */
export function decodeAny(
  text: string,
  name?: EncodingName,
  bits: number = 63,
): { readonly id: bigint; readonly encoding: EncodingName } {
  const known = Object.keys(encodings).join(", ");
  if (name !== undefined) {
    if (Object.hasOwn(encodings, name)) return { id: encodings[name].decode(text, bits), encoding: name };
    return refuse("the format of an ID", `to be one of ${known}`, name);
  }
  const encoding = typeof text === "string" ? textPatterns.find(([, look]) => look.test(text))?.[0] : undefined;
  if (encoding === undefined) return refuse("an ID", `to be text in one of ${known}`, text);
  try {
    return { id: encodings[encoding].decode(text, bits), encoding };
  } catch (error) {
    const advice = `it looked like ${encoding}: name its format if it is another of ${known}`;
    throw new SnowleaseError("CONFIG_INVALID", `${(error as SnowleaseError).message}; ${advice}`);
  }
}
