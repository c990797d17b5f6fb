import { decodeAny, type EncodingName } from "../id/encodings.ts";
import { withSource } from "../id/errors.ts";
import type { IdParts, Layout } from "../id/layout.ts";

export interface Inspection {
  readonly id: bigint;
  readonly format: EncodingName;
  readonly parts: IdParts;
  /** The text is one that only a number of 53 bits has: one in 256 IDs looks so, and each that was rounded. Absent for all others. */
  readonly rounded?: true;
}

/** For people, behind what an ID tells that looks rounded. */
export const roundedNote: string =
  "looks rounded to 53 bits, as by JavaScript's numbers, JSON readers and spreadsheets: then worker ID and sequence are wrong; take the ID from where it is stored as text or as an integer of 64 bits";

/** Facts about an ID that its text does not contain. */
export interface Reading {
  /** The encoding; left out: recognized by the text. */
  readonly format?: EncodingName | undefined;
  /** A time near its making, Unix ms: for a layout whose timestamp wraps. */
  readonly at?: number | undefined;
  /** The place to correct, for the message about a text that is no ID. Default: `the ID`. */
  readonly from?: string | undefined;
}

/**
 * Takes an ID apart, without a registry.
 * @throws SnowleaseError CONFIG_INVALID when the text is no ID, or one that the layout cannot hold, or a time is missing.
 */
export function inspect(text: string, layout: Layout, { format, at, from = "the ID" }: Reading = {}): Inspection {
  const { id, encoding } = withSource(from, () => decodeAny(text, format, layout.totalBits));
  const isRounded = encoding === "decimal" && id > Number.MAX_SAFE_INTEGER && String(Number(id)) === String(id);
  return { id, format: encoding, parts: layout.decompose(id, at), ...(isRounded && { rounded: true }) };
}
