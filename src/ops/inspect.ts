import { decodeAny, type EncodingName } from "../core/encoding.ts";
import type { IdParts, Layout } from "../core/layout.ts";

/** An ID taken apart. */
export interface Inspection {
  readonly id: bigint;
  /** The form in which it was written. */
  readonly format: EncodingName;
  readonly parts: IdParts;
}

/**
 * Takes an ID apart; asks nobody.
 * @param format of the text; told by its look when left out.
 * @throws SnowleaseError CONFIG_INVALID when the text is no ID, or one that the layout cannot hold.
 */
export function inspect(text: string, layout: Layout, format?: EncodingName): Inspection {
  const { id, encoding } = decodeAny(text, format);
  return { id, format: encoding, parts: layout.decompose(id) };
}
