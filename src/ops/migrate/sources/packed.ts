/** The holder in one of Snowlease's records in Redis. Undefined if there is none, or the holder has released the worker ID. */
export function holderIn(
  packed: Uint8Array,
): { readonly pid: string; readonly ip: string; readonly host: string } | undefined {
  const { pid, ip, host, vacated } = fieldsIn(packed);
  if (typeof pid !== "string" || typeof ip !== "string" || typeof host !== "string" || vacated === true)
    return undefined;
  return { pid, ip, host };
}

/** The texts and booleans of a record. The scripts pack it as MessagePack, a map of names and plain values. */
function fieldsIn(packed: Uint8Array): Readonly<Record<string, unknown>> {
  const view = new DataView(packed.buffer, packed.byteOffset, packed.byteLength);
  let at = 0;
  const take = (length: number): number => {
    at += length;
    return at - length;
  };
  const sized = (bytes: number): number => {
    const place = take(bytes);
    return bytes === 1 ? view.getUint8(place) : bytes === 2 ? view.getUint16(place) : view.getUint32(place);
  };
  const text = (length: number): string => {
    const place = take(length);
    return new TextDecoder().decode(packed.subarray(place, place + length));
  };
  const value = (): unknown => {
    const kind = sized(1);
    if (kind >= 0xa0 && kind <= 0xbf) return text(kind & 31);
    if (kind >= 0xd9 && kind <= 0xdb) return text(sized(2 ** (kind - 0xd9)));
    if (kind === 0xc2 || kind === 0xc3) return kind === 0xc3;
    // Skip numbers. A number is in the type byte itself, or in 4 or 8 bytes (floats) or 1 to 8 bytes (integers) after it.
    if (kind === 0xca || kind === 0xcb) take(kind === 0xca ? 4 : 8);
    else if (kind >= 0xcc && kind <= 0xd3) take(2 ** ((kind - 0xcc) % 4));
    return undefined;
  };
  const fields: Record<string, unknown> = {};
  try {
    const kind = sized(1);
    const count = kind === 0xde ? sized(2) : kind & 15;
    for (let i = 0; i < count; i++) fields[String(value())] = value();
    return fields;
  } catch (error) {
    if (error instanceof RangeError) return {};
    throw error;
  }
}
