/** Characters that a terminal obeys (controls of C0 and C1, the direction of writing) or cannot show (halves of characters). */
const unsafe = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;
const plainLines = /^[\x20-\x7e\n\t]*$/;
const unsafeInLines = /(?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** A text on one line that is safe to print: `?` replaces each character that a terminal would obey. */
export function printable(text: string): string {
  return text.replace(unsafe, "?");
}

/** The same for a text of several lines, which may contain tabs. */
export function printableLines(text: string): string {
  // Fast path: almost all printed text is plain, and a command may print a million IDs.
  return plainLines.test(text) ? text : text.replace(unsafeInLines, "?");
}

/** The same JSON value, safe to print: JSON itself leaves most such characters unescaped. */
export function printableJson(json: string): string {
  if (plainLines.test(json)) return json;
  return json.replace(unsafeInLines, (character) => character.split("").map(escaped).join(""));
}

function escaped(utf16Unit: string): string {
  return `\\u${utf16Unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
