import { expect, test } from "vitest";
import { errorLine } from "../../src/cli/exit-codes.ts";
import { Output, table } from "../../src/cli/terminal/output.ts";
import { shown, SnowleaseError } from "../../src/id/errors.ts";
import { printable, printableJson, printableLines } from "../../src/id/printable.ts";

/** Each of these controls some terminal, or the direction of the following text. */
const hostile = [
  ["ESC", "\u001b[2J"],
  ["BEL", "\u0007"],
  ["DEL", "\u007f"],
  ["CSI of C1", "\u009b31m"],
  ["OSC of C1", "\u009d0;title\u009c"],
  ["right-to-left override", "\u202e"],
  ["isolates", "\u2067\u2069"],
  ["Arabic letter mark", "\u061c"],
  ["line separator", "\u2028"],
  ["half a character", "\ud83d"],
  ["a tag", "\u{e0041}"],
] as const;
const obeyed = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u;

test.each(hostile)("%s is shown, not obeyed", (_, text) => {
  const value = `a${text}b`;
  expect(printable(value)).not.toMatch(obeyed);
  expect(printableLines(`${value}\n`).slice(0, -1)).not.toMatch(obeyed);
  expect(table(["host"], [[value]]).replace(/\n/g, "")).not.toMatch(obeyed);
  expect(shown(value)).not.toMatch(obeyed);
  expect(new SnowleaseError("REGISTRY_UNAVAILABLE", `The daemon said: ${value}`).message).not.toMatch(obeyed);
  expect(errorLine(new Error(value))).not.toMatch(obeyed);
});

test.each(hostile)("%s in JSON is escaped, and the value is the same", (_, text) => {
  const value = { host: `a${text}b` };
  const json = printableJson(`${JSON.stringify(value)}\n`);
  expect(json.slice(0, -1)).not.toMatch(obeyed);
  expect(JSON.parse(json)).toEqual(value);
});

test.each(["", "plain\tand\nlines", "Zürich, 東京, Ελλάδα, 😀"])("%j is printed as it is", (text) => {
  expect(printableLines(text)).toBe(text);
});

test("a command's output is made harmless before it is printed", async () => {
  const written: string[] = [];
  const stream = { on() {}, write: (text: string, done?: () => void) => (written.push(text), done?.(), true) };
  const output = new Output(stream as unknown as NodeJS.WriteStream);
  await output.line("a\u009b31mb\u202ec");
  await output.json({ host: "a\u009b31m" });
  await output.end();
  expect(written.join("")).toBe('a?31mb?c\n{"host":"a\\u009b31m"}\n');
});
