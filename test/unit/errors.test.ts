import { runInThisContext } from "node:vm";
import { describe, expect, test } from "vitest";
import {
  asSnowleaseError,
  type ErrorCode,
  errorCodes,
  type ErrorDetails,
  shown,
  SnowleaseError,
} from "../../src/id/errors.ts";

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

describe("in a web service", () => {
  const answer = (code: ErrorCode, details?: ErrorDetails): unknown => {
    const { status, statusCode, headers, expose } = new SnowleaseError(code, "Said.", details);
    return [status, statusCode, headers?.["Retry-After"], expose];
  };

  test("503 is for what another instance, or a later call, may do; the rest is left to frameworks", () => {
    const final = errorCodes.filter((code) => new SnowleaseError(code, "").status === undefined);
    expect(final).toEqual([
      "CONFIG_INVALID",
      "OTHER_REGISTRY",
      "LAYOUT_MISMATCH",
      "LAYOUT_EXPIRED",
      "SCHEMA_INCOMPATIBLE",
      "DRIVER_MISSING",
      "DEFECT",
      "NOT_FOUND",
      "UNAUTHORIZED",
      "FORBIDDEN",
    ]);
    expect(answer("CONFIG_INVALID", { retryAfterMs: 1000 })).toEqual([undefined, undefined, undefined, undefined]);
  });

  test.each([
    [undefined, "1"],
    [0, "1"],
    [1, "1"],
    [1000, "1"],
    [1001, "2"],
    [41_000, "41"],
  ])("Retry-After is in whole seconds, not before the time that is known: %s ms", (retryAfterMs, seconds) => {
    expect(answer("LEASE_EXPIRED", { retryAfterMs })).toEqual([503, 503, seconds, false]);
    expect(answer("LEASE_LOST", { retryAfterMs })).toEqual([503, 503, seconds, false]);
  });

  test.each(["LEASE_EXPIRED", "CONFIG_INVALID"] as const)(
    "%s prints none of it, and a framework may set it",
    (code) => {
      const error = new SnowleaseError(code, "Said.");
      expect(Object.keys(error)).toEqual(["name", "code", "retryable", "details"]);
      expect(Object.assign(error, { status: 400, statusCode: 400, headers: {}, expose: true })).toMatchObject({
        status: 400,
      });
    },
  );
});

describe("an error of somebody else", () => {
  const broken = (code: string): unknown => {
    try {
      return runInThisContext(code);
    } catch (error) {
      return error;
    }
  };

  test.each([
    ["undefined.x", "TypeError: Cannot read properties of undefined"],
    ["x", "ReferenceError: x is not defined"],
    ["new Array(-1)", "RangeError: Invalid array length"],
    ["new URL('x')", "TypeError: Invalid URL"],
    ["Buffer.from(1)", "TypeError: The first argument must be of type string"],
    [
      "process.getBuiltinModule('module').createRequire('/x.js')('./nowhere.js')",
      "Error: Cannot find module './nowhere.js'",
    ],
  ])("is a defect where JavaScript itself throws it: %s", (code, said) => {
    const cause = broken(code);
    const error = asSnowleaseError(cause);
    expect(error).toMatchObject({ code: "DEFECT", retryable: false, cause });
    expect(error.message).toContain(
      `A program error ended a request to the registry, and whether it was applied is unknown: ${said}`,
    );
  });

  test.each([
    new Error("socket hang up"),
    Object.assign(new RangeError("The value of offset is out of range."), { code: "ERR_OUT_OF_RANGE" }),
    new TypeError("error sending request for url (http://127.0.0.1:1/)"),
    new SyntaxError("Unexpected token '<', \"<html>\" is not valid JSON"),
    new TypeError("fetch failed", { cause: new Error("connect ECONNREFUSED") }),
    "a text",
  ])("is a registry that did not answer in all other cases: %s", (cause) => {
    expect(asSnowleaseError(cause)).toMatchObject({ code: "REGISTRY_UNAVAILABLE", retryable: true });
  });
});
