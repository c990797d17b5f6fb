import { describe, expect, test } from "vitest";
import { shown, SnowleaseError } from "../../src/id/errors.ts";

const said = (text: string): string => new SnowleaseError("CONFIG_INVALID", text).message;

describe("a message", () => {
  test.each([
    ["redis://user:secret@host/0", "redis://***@host/0"],
    ["redis://:sec/re@t@host", "redis://***@host"],
    ["at postgres:/user:secret@host", "at postgres:/***@host"],
    ["http://a:secret@one,http://b:***@two", "http://***@two"],
    ["http://a:***@one,http://b:secret@two", "http://***@two"],
    ["redis://h?sentinelPassword=secret&wait=1", "redis://h?sentinelPassword=***&wait=1"],
    ["http://h?x=1&token=secret.", "http://h?x=1&token=***"],
  ])("has no login of a URL: %s", (text, expected) => {
    expect(said(text)).toBe(expected);
    expect(shown(text)).toBe(`\`${expected}\` (string)`);
  });

  test.each([
    "give it in the URL, http://:TOKEN@HOST:PORT.",
    "to be like redis://USER:PASSWORD@HOST:PORT/NAME",
    "run `snowlease init --registry 'mysql://ids:***@db/x'`",
    "no daemon at http://***@one:7070,http://ops:***@two:7070 answers",
    "see https://example.org, or write to ops@example.org",
  ])("keeps %s", (text) => expect(said(text)).toBe(text));

  test("is not cut in the middle of a login", () => {
    expect(shown(`redis://user:${"secret".repeat(20)}@host`)).toBe("`redis://***@host` (string)");
  });
});
