import { raw } from "hono/html";
import type { Html } from "./text.ts";

/* The room of the parts of a page, bytes. The page stays below 200 KB. The grid comes first, and the lists share the rest. */

export const pageRoom = 190_000;
/** Room for the cells of the grid. Their labels are cut if they need more. */
export const gridRoom = 145_000;
/** Room for the rows of one worker ID's history, or of the worker IDs in a cell. */
export const detailRoom = 12_000;
export const eventsRoom = 6000;
/** Least room for the rows of the holders, even if the other parts leave less. */
export const leastRoom = 4000;

/** A piece of a page without the blanks of its template. Blanks between the elements of a table have no meaning. */
export function tight(piece: Html): Html {
  const text = textOf(piece).replace(/\s*\n\s*/g, " ");
  return raw(text.replaceAll("> <", "><"));
}

/** The text of a piece. A piece is never a promise here. */
function textOf(piece: Html | string): string {
  if (piece instanceof Promise) throw new TypeError("a piece of the page is not there yet");
  return String(piece);
}

/** Size of a piece in a page, bytes. */
export function sizeOf(piece: Html | string): number {
  return Buffer.byteLength(plain(textOf(piece)));
}

/** A page or piece as it is sent, without the indents of its templates. */
export function plain(text: string): string {
  return text.replace(/\n\s+/g, "\n");
}

/** The first items that fit into the room, at least one, each with its piece of the page. */
export function fitting<Item>(
  items: readonly Item[],
  room: number,
  pieceOf: (item: Item) => Html,
): { readonly shown: readonly Item[]; readonly pieces: readonly Html[] } {
  const pieces: Html[] = [];
  let left = room;
  for (const item of items) {
    const piece = pieceOf(item);
    left -= sizeOf(piece);
    if (left < 0 && pieces.length > 0) break;
    pieces.push(piece);
  }
  return { shown: items.slice(0, pieces.length), pieces };
}

/** Largest size of a text in a page, bytes. An escape adds at most 5 (`&quot;`). */
export function writtenSize(text: string): number {
  const escaped = text.match(/["&<>']/g)?.length ?? 0;
  return Buffer.byteLength(text) + escaped * 5;
}

/** The beginning of a text that takes at most `room` bytes in a page. */
export function cut(text: string, room: number): string {
  if (writtenSize(text) <= room) return text;
  let left = room;
  let kept = "";
  for (const character of text) {
    left -= writtenSize(character);
    if (left < 0) return `${kept}…`;
    kept += character;
  }
  return text;
}
