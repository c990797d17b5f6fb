import { decodeAny, type EncodingName } from "../id/encodings.ts";
import { withSource } from "../id/errors.ts";
import type { IdParts, Layout } from "../id/layout.ts";

export interface Inspection {
  readonly id: bigint;
  readonly format: EncodingName;
  readonly parts: IdParts;
}

/** Facts about an ID that its text does not contain. */
export interface Reading {
  /** The encoding; left out: recognized by the text. */
  readonly format?: EncodingName | undefined;
  /** A time near its making, Unix ms: for a layout whose timestamp wraps. */
  readonly at?: number | undefined;
}

/**
 * Takes an ID apart, without a registry.
 * @throws SnowleaseError CONFIG_INVALID when the text is no ID, or one that the layout cannot hold, or a time is missing.
 */
export function inspect(text: string, layout: Layout, { format, at }: Reading = {}): Inspection {
  const { id, encoding } = withSource("the ID", () => decodeAny(text, format, layout.totalBits));
  return { id, format: encoding, parts: layout.decompose(id, at) };
}
