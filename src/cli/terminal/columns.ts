/** A piece of a line, and its look on a terminal: the numbers of an SGR sequence. */
export type Piece = readonly [text: string, look?: string | undefined];

const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });
/** Characters that take two columns on terminals: East Asian wide characters, and pictures. */
const wide =
  /\p{Emoji_Presentation}|[\u1100-\u115f\u2e80-\ua4cf\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}]/u;
const plain = /^[\x20-\x7e]*$/;

/** How many columns a text takes. */
function widthOf(text: string): number {
  if (plain.test(text)) return text.length;
  let width = 0;
  for (const { segment } of graphemes.segment(text)) width += wide.test(segment) ? 2 : 1;
  return width;
}

/** As much of a text as fits into so many columns, with an ellipsis if it is cut. */
function cut(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  let [kept, used] = ["", 0];
  for (const { segment } of graphemes.segment(text)) {
    used += widthOf(segment);
    if (used > width - 1) break;
    kept += segment;
  }
  return width < 1 ? "" : `${kept}…`;
}

/** A text of exactly so many columns. */
export function fitted(text: string, width: number, align: "left" | "right" = "left"): string {
  const short = cut(text, width);
  const gap = " ".repeat(Math.max(0, width - widthOf(short)));
  return align === "left" ? short + gap : gap + short;
}

/** Pieces as one line of at most so many columns. */
export function lineOf(pieces: readonly Piece[], width: number, colored: boolean): string {
  let left = width;
  let line = "";
  for (const [text, look] of pieces) {
    const shown = cut(text, left);
    left -= widthOf(shown);
    line += look === undefined || !colored || shown === "" ? shown : `\u001b[${look}m${shown}\u001b[0m`;
  }
  return line;
}
