/** What a terminal obeys (controls of C0 and C1, the direction of writing) or cannot show (halves of characters). */
const unsafe = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;
const plainLines = /^[\x20-\x7e\n\t]*$/;
const unsafeInLines = /(?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** A text on one line that a terminal only shows: `?` stands for each character that it would obey. */
export function printable(text: string): string {
  return text.replace(unsafe, "?");
}

/** The same of a text of several lines, which may have tabs. */
export function printableLines(text: string): string {
  // Nearly all that is printed is such, and of a million IDs it counts.
  return plainLines.test(text) ? text : text.replace(unsafeInLines, "?");
}

/** JSON of the same value that a terminal only shows: JSON itself leaves most such characters as they are. */
export function printableJson(json: string): string {
  if (plainLines.test(json)) return json;
  return json.replace(unsafeInLines, (character) =>
    Array.from(
      { length: character.length },
      (_, i) => `\\u${character.charCodeAt(i).toString(16).padStart(4, "0")}`,
    ).join(""),
  );
}
