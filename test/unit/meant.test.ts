import { describe, expect, test } from "vitest";
import { commands } from "../../src/cli/commands.ts";
import { commandsElsewhere, flagsElsewhere, meantBy } from "../../src/cli/meant.ts";
import { optionTable } from "../../src/config/options.ts";

const names = [...Object.keys(commands), "help", "--version"];

describe("a word of another program", () => {
  test.each(Object.entries(commandsElsewhere))("for %s: %j", (command, words) => {
    expect(names).toContain(command);
    for (const word of words) {
      expect(names).not.toContain(word);
      expect([word, meantBy(word, names, commandsElsewhere)]).toEqual([word, command]);
    }
  });

  test("stands for one command", () => {
    const words = Object.values(commandsElsewhere).flat();
    expect(words).toEqual([...new Set(words)]);
  });

  test("is no option, and counts only where the command has what it stands for", () => {
    for (const [flag, words] of Object.entries(flagsElsewhere)) {
      for (const word of words) {
        expect(optionTable.map((option) => option.flag)).not.toContain(`--${word}`);
        expect(meantBy(word, [flag, "json"], flagsElsewhere)).toBe(flag);
        expect(meantBy(word, ["json"], flagsElsewhere)).toBeUndefined();
      }
    }
  });
});

describe("a misspelt word", () => {
  test.each([
    ["hlep", "help"],
    ["Explian", "explain"],
    ["deamon", "daemon"],
    ["worker", "workers"],
    ["mig", "migrate"],
    ["ids", "id"],
    ["statsu", "workers"],
    ["SERVE", "daemon"],
    ["lsit", "workers"],
    ["delte", "remove"],
  ])("%s is %s", (word, meant) => {
    expect(meantBy(word, names, commandsElsewhere)).toBe(meant);
  });

  test.each(["", "x", "re", "idempotent", "frobnicate", "constructor", "toString", "__proto__", "s".repeat(100)])(
    "%j is none",
    (word) => {
      expect(meantBy(word, names, commandsElsewhere)).toBeUndefined();
    },
  );
});
