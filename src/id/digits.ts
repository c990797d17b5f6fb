export const base62Digits: string = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
/** Douglas Crockford's alphabet, upper case: without I, L and O, which look like digits, and without U. */
export const crockfordDigits: string = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/** RFC 4648, section 5. */
export const base64urlDigits: string = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const inByteOrder = (digits: string): string => digits.split("").toSorted().join("");
export const base62SortDigits: string = inByteOrder(base62Digits);
export const base64SortDigits: string = inByteOrder(base64urlDigits);

// The halves of an ID as uint32: cutting bits from them takes a quarter of the time of a BigInt division for each digit.
const halves = new DataView(new ArrayBuffer(8));

const digit62 = (value: number, digits: string): number => digits.charCodeAt((value | 0) % 62);
const digit32 = (bits: number): number => crockfordDigits.charCodeAt(bits & 31);
const digit64 = (bits: number, digits: string): number => digits.charCodeAt(bits & 63);

// One BigInt division by 62^5 leaves two Numbers. Except for the top digit they are below 2^30, where `| 0` truncates exactly, and `%`
// divides integers.
export function writeBase62(id: bigint, digits: string): string {
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

export function writeCrockford32(id: bigint): string {
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

export function writeBase64url(id: bigint): string {
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

export function writeBase64sort(id: bigint): string {
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

/** Digit values by character code; 255 means not a digit. */
export function digitValues(alphabet: string): Uint8Array {
  const values = new Uint8Array(128).fill(255);
  for (let value = 0; value < alphabet.length; value++) values[alphabet.charCodeAt(value)] = value;
  return values;
}

/** Reads the digits `from` to `to` as a number; NaN when a character is not a digit. In each alphabet, half of an ID stays below 2^53. */
export function readDigits(text: string, from: number, to: number, values: Uint8Array, base: number): number {
  let number = 0;
  for (let index = from; index < to; index++) {
    const value = values[text.charCodeAt(index)] ?? 255;
    if (value === 255) return NaN;
    number = number * base + value;
  }
  return number;
}
