import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

/** One of `test/mutants.mjs`. */
interface Mutant {
  readonly name: string;
  readonly row: string;
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

const root = join(import.meta.dirname, "../..");
const { mutants } = (await import(join(root, "test/mutants.mjs"))) as { readonly mutants: readonly Mutant[] };
const rows = readFileSync(join(root, "test/bugs.md"), "utf8").split("\n");

it("has one mutant for each name", () => {
  expect(new Set(mutants.map(({ name }) => name)).size).toBe(mutants.length);
});

describe.each(mutants)("the mutant $name", ({ row, file, from, to }) => {
  it("replaces a text that occurs once", () => {
    const text = readFileSync(join(root, file), "utf8");
    expect(text.split(from).length - 1, `how often ${file} has ${JSON.stringify(from)}; mend test/mutants.mjs`).toBe(1);
    expect(to).not.toBe(from);
  });

  it("is one row of the record of bugs", () => {
    expect(rows.filter((each) => each.startsWith(`| ${row}`))).toHaveLength(1);
  });
});
