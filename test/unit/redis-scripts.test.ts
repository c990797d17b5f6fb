import { readdirSync } from "node:fs";
import { expect, test } from "vitest";
import { readSql } from "../../src/assets.ts";
import { scriptArguments } from "../../src/registries/redis/scripts.ts";

const scripts = Object.entries(scriptArguments);
const filesIn = (folder: string): string[] =>
  readdirSync(new URL(`../../sql/${folder}`, import.meta.url))
    .filter((file) => file.endsWith(".lua"))
    .map((file) => file.replace(".lua", ""));

test("each script of sql/redis has its arguments in the table", () => {
  expect(scripts.map(([name]) => name).toSorted()).toEqual(filesIn("redis").toSorted());
});

test.each(scripts)(
  "%s: the script names its keys and arguments as the table does, each on a line of its own",
  (name, table) => {
    const text = readSql(`redis/${name}.lua`);
    const header = text.slice(0, text.indexOf("\n\n", text.indexOf("-- KEYS[1]: ")));
    const lines = [...header.matchAll(/^local (\w+) = [^\n]*ARGV\[(\d+)\]/gm)];
    expect(lines.map(([, argument]) => argument)).toEqual(table);
    expect(lines.map(([, , place]) => Number(place))).toEqual(table.map((_, i) => i + 1));
    // A line may read its argument twice, and no other line reads one.
    expect(text.slice(header.length)).not.toMatch(/ARGV|KEYS/);
    expect(header).toMatch(/^-- answers: /m);
  },
);

test.each(scripts)("%s: includes what it uses, and each file behind those that it needs", (name) => {
  const [, list = ""] = /^-- include: (.*)$/m.exec(readSql(`redis/${name}.lua`)) ?? [];
  const included = list.split(" ");
  expect(filesIn("redis/includes")).toEqual(expect.arrayContaining(included));
  for (const [place, file] of included.entries()) {
    const [, needs = ""] = /Needs: ([\w, ]+)\./.exec(readSql(`redis/includes/${file}.lua`)) ?? [];
    expect(included.slice(0, place)).toEqual(expect.arrayContaining(needs.match(/\w+/g) ?? []));
  }
});
