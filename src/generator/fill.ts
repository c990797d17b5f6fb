/**
 * Writes `count` IDs that follow each other into an array, from `at`. An ID below 0x7ff0... read as a float64 is a finite number, and the next bit pattern is
 * the next representable number as long as the exponent stays: adding one unit in the last place steps the ID, without a bigint
 * in the loop. (What an ID counts in a tick lies in the mantissa's 52 bits, so the exponent stays.)
 * @param start the first ID, read as a float64; `unit` is how much the second one is above it.
 * @returns false, and nothing is written, where an ID would not be finite.
 */
export function fillIds(target: BigUint64Array, at: number, count: number, start: number, unit: number): boolean {
  if (!Number.isFinite(start + count * unit)) return false;
  const floats = new Float64Array(target.buffer, target.byteOffset + 8 * at, count);
  // Eight chains of additions, so that one need not wait for the one before. Not out of a destructured array: V8 then takes them
  // for values of any kind and boxes every sum, which costs seven times as much.
  let a = start;
  let b = start + unit;
  let c = start + 2 * unit;
  let d = start + 3 * unit;
  let e = start + 4 * unit;
  let f = start + 5 * unit;
  let g = start + 6 * unit;
  let h = start + 7 * unit;
  const eight = 8 * unit;
  let i = 0;
  // `i | 1` is `i + 1` where i is a multiple of 8, and costs no check for an overflow: a tenth of all.
  for (const end = count - 7; i < end; i += 8) {
    floats[i] = a;
    floats[i | 1] = b;
    floats[i | 2] = c;
    floats[i | 3] = d;
    floats[i | 4] = e;
    floats[i | 5] = f;
    floats[i | 6] = g;
    floats[i | 7] = h;
    a += eight;
    b += eight;
    c += eight;
    d += eight;
    e += eight;
    f += eight;
    g += eight;
    h += eight;
  }
  for (; i < count; i++) floats[i] = start + i * unit;
  return true;
}
