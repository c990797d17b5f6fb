/**
 * Writes `count` consecutive IDs into an array, from index `at`, without a bigint in the loop. An ID below 0x7ff0... read as a float64 is a
 * finite number. Sequences are in its mantissa, so adding one unit in the last place gives the next ID.
 * @param start the first ID, read as a float64.
 * @param unit the difference between two neighbours, as a float64.
 * @returns false, without writing, if an ID is not finite as a float64.
 */
export function fillIds(target: BigUint64Array, at: number, count: number, start: number, unit: number): boolean {
  if (!Number.isFinite(start + count * unit)) return false;
  const floats = new Float64Array(target.buffer, target.byteOffset + 8 * at, count);
  // Eight chains, so that an addition does not wait for the one before. Do not destructure an array here: V8 then boxes every sum.
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
  // `i | 1` is `i + 1` for a multiple of 8, and needs no check for an overflow: it takes a tenth of the time.
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
