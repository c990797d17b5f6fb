import { decodeAny, type EncodingName } from "../id/encodings.ts";
import { withSource } from "../id/errors.ts";
import type { IdParts, Layout } from "../id/layout.ts";

export interface Inspection {
  readonly id: bigint;
  readonly format: EncodingName;
  readonly parts: IdParts;
  /** True if the ID looks rounded to 53 bits. One in 256 IDs looks like this, and every rounded ID does. Undefined for all others. */
  readonly rounded?: true;
}

/** For people, after the parts of an ID that looks rounded. */
export const roundedNote: string =
  "looks rounded to 53 bits, as by JavaScript's numbers, JSON readers and spreadsheets: then worker ID and sequence are wrong; take the ID from where it is stored as text or as an integer of 64 bits";

/** Facts about an ID that its text does not contain. */
export interface Reading {
  /** The encoding. Default: it is recognized by the text. */
  readonly format?: EncodingName | undefined;
  /** A time near its creation, Unix ms. A layout whose timestamp wraps needs it. */
  readonly at?: number | undefined;
  /** The source of the text, for the message about an invalid ID. Default: `the ID`. */
  readonly from?: string | undefined;
}

/**
 * Takes an ID apart, without a registry.
 * @throws SnowleaseError CONFIG_INVALID when the text is not an ID, the layout cannot hold the ID, or a time is missing.
 */
export function inspect(text: string, layout: Layout, { format, at, from = "the ID" }: Reading = {}): Inspection {
  const { id, encoding } = withSource(from, () => decodeAny(text, format, layout.totalBits));
  const isRounded = encoding === "decimal" && id > Number.MAX_SAFE_INTEGER && String(Number(id)) === String(id);
  return { id, format: encoding, parts: layout.decompose(id, at), ...(isRounded && { rounded: true }) };
}
