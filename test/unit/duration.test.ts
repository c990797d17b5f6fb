import { expect, test } from "vitest";
import { durationOf, lengthText } from "../../src/id/duration.ts";

test.each([
  [0, "0 s"],
  [0.2, "1 ms"],
  [999, "999 ms"],
  [1000, "1 s"],
  [1001, "2 s"],
  [60_000, "1 min"],
  [632_000, "10 min 32 s"],
  [3_600_000, "1 h"],
  [3_661_500, "1 h 1 min 2 s"],
  [-5, "0 s"],
])("%d ms is for people %s", (ms, text) => expect(lengthText(ms)).toBe(text));

test.each([
  ["0", 0],
  ["500ms", 500],
  ["30s", 30_000],
  ["2m", 120_000],
  ["1h", 3_600_000],
  ["30", undefined],
  ["1.5s", undefined],
  ["-1s", undefined],
  ["01s", undefined],
  [" 1s", undefined],
])("the text %j is %s ms", (text, ms) => expect(durationOf(text)).toBe(ms));
