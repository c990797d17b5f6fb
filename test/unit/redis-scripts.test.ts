import { readdirSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { readSql } from "../../src/registries/sql-files.ts";

const filesIn = (folder: string): string[] =>
  readdirSync(new URL(`../../sql/${folder}`, import.meta.url))
    .filter((file) => file.endsWith(".lua"))
    .map((file) => file.replace(".lua", ""));

describe.each(filesIn("redis"))("the script %s of Redis", (name) => {
  const text = readSql(`redis/${name}.lua`);

  test("names its answers, its keys and each argument on a line of its own", () => {
    const begin = text.indexOf("\n-- KEYS[1]: ");
    const end = text.indexOf("\n\n", begin);
    expect(text.slice(0, begin)).toMatch(/^-- answers: \w+/m);
    const lines = text.slice(begin, end).split("\n").slice(2);
    for (const [i, line] of lines.entries()) {
      expect(line).toMatch(new RegExp(`^local \\w+ = (?:tonumber\\()?ARGV\\[${i + 1}\\]`));
    }
    // No other line reads an argument.
    expect(text.slice(end)).not.toMatch(/ARGV|KEYS/);
  });

  test("includes files that exist, each behind those that it needs", () => {
    const [, list = ""] = /^-- include: (.*)$/m.exec(text) ?? [];
    const included = list.split(" ");
    expect(filesIn("redis/includes")).toEqual(expect.arrayContaining(included));
    for (const [place, file] of included.entries()) {
      const [, needs = ""] = /Needs: ([\w, ]+)\./.exec(readSql(`redis/includes/${file}.lua`)) ?? [];
      expect(included.slice(0, place)).toEqual(expect.arrayContaining(needs.match(/\w+/g) ?? []));
    }
  });
});
