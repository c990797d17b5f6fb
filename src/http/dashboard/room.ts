import { raw } from "../../vendor/hono.ts";
import type { Html } from "./text.ts";

/* The room of the parts of a page, bytes. The page stays below 200 KB: the grid comes first, the lists share what it leaves. */

export const pageRoom = 190_000;
/** The cells of the grid: their labels are cut where they would take more. */
export const gridRoom = 145_000;
/** The rows of one worker ID's history, or of those in a cell. */
export const detailRoom = 12_000;
export const eventsRoom = 6000;
/** The rows of the holders, however much the other parts take. */
export const leastRoom = 4000;

/** A piece of a page without the blanks of its template: between the elements of a table, none has a meaning. */
export function tight(piece: Html): Html {
  const text = textOf(piece).replace(/\s*\n\s*/g, " ");
  return raw(text.replaceAll("> <", "><"));
}

/** None of them waits for anything. */
function textOf(piece: Html | string): string {
  if (piece instanceof Promise) throw new TypeError("a piece of the page is not there yet");
  return String(piece);
}

/** What a page gains by a piece, bytes. */
export function sizeOf(piece: Html | string): number {
  return Buffer.byteLength(plain(textOf(piece)));
}

/** A page or piece of it as it is sent: without the indents of its templates. */
export function plain(text: string): string {
  return text.replace(/\n\s+/g, "\n");
}

/** As many of the first items as have room, and at least one; each with its piece of the page. */
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

/** What a text comes to in a page, bytes; an escape adds 5 at most (`&quot;`). */
export function writtenSize(text: string): number {
  const escaped = text.match(/["&<>']/g)?.length ?? 0;
  return Buffer.byteLength(text) + escaped * 5;
}

/** The beginning of a text, of so many bytes as it is written in a page. */
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
