import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { longestArgument, longestRequest, mostArguments, ProtocolError, RequestParser } from "../../src/resp/parser.ts";
import { failure, idReplies, idReply, refusal, reply } from "../../src/resp/replies.ts";
import { SnowleaseError } from "../../src/id/errors.ts";

const written = (request: readonly string[]): string =>
  `*${request.length}\r\n${request.map((argument) => `$${argument.length}\r\n${argument}\r\n`).join("")}`;

/** All requests in the parts of a text. */
function parsed(parts: readonly string[]): (readonly string[])[] {
  const parser = new RequestParser();
  const requests: (readonly string[])[] = [];
  for (const part of parts) {
    parser.push(part);
    for (let next = parser.next(); next !== undefined; next = parser.next()) requests.push([...next]);
  }
  expect(parser.isPartial).toBe(false);
  return requests;
}

const requests = [["GET", "orders"], ["PING"], ["ECHO", "a\r\n$3\r\nb"], ["ECHO", ""], ["MGET", "a", "b", "a"]];
const text = requests.map(written).join("");

test("requests are read alike wherever they are split", () => {
  for (let at = 0; at <= text.length; at++) expect(parsed([text.slice(0, at), text.slice(at)])).toEqual(requests);
  expect(parsed(Array.from(text))).toEqual(requests);
});

const argument = fc.string({
  unit: fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code)),
  maxLength: 40,
});

test("any arguments in any parts are read as written", () => {
  fc.assert(
    fc.property(
      fc.array(fc.array(argument, { minLength: 1, maxLength: 5 }), { maxLength: 5 }),
      fc.array(fc.nat(400), { maxLength: 8 }),
      (asked, cuts) => {
        const whole = asked.map(written).join("");
        const places = [0, ...cuts.map((cut) => Math.min(cut, whole.length)).toSorted((a, b) => a - b), whole.length];
        const parts = places.slice(1).map((place, i) => whole.slice(places[i], place));
        expect(parsed(parts)).toEqual(asked);
      },
    ),
  );
});

test("any bytes are read, refused or waited for, and the parser never stores more than its bounds", () => {
  const bits = fc.constantFrom("*", "$", "1", "3", "-1", "\r", "\n", "\r\n", "GET", "*1\r\n", "$3\r\n", "\0", "*3\r\n");
  fc.assert(
    fc.property(fc.array(fc.oneof(bits, argument), { maxLength: 60 }), (parts) => {
      const parser = new RequestParser();
      try {
        for (const part of parts) {
          parser.push(part);
          while (parser.next() !== undefined);
          expect(parser.unread).toBeLessThan(longestArgument + 16);
        }
      } catch (error) {
        expect(error).toBeInstanceOf(ProtocolError);
      }
    }),
  );
});

describe("bytes that are not a request are refused", () => {
  test.each([
    ["POST / HTTP/1.1\r\n"],
    ["Host: localhost\r\n"],
    ["PING\r\n"],
    ["\r\n"],
    ["*-1\r\n"],
    ["*\r\n"],
    ["*1\n"],
    ["*1\r\r"],
    ["*01234567\r\n"],
    [`*${mostArguments + 1}\r\n`],
    ["*99999999999999999999"],
    ["*1\r\n*1\r\n"],
    ["*1\r\n+OK\r\n"],
    ["*1\r\n:1\r\n"],
    ["*1\r\n$-1\r\n"],
    [`*1\r\n$${longestArgument + 1}\r\n`],
    ["*1\r\n$3\r\nPINGS\r\n"],
    ["*1\r\n$4\r\nPING\n\n"],
  ])("%j", (bytes) => {
    for (const parts of [[bytes], Array.from(bytes)]) expect(() => parsed(parts)).toThrow(ProtocolError);
  });

  test("a request longer than the limit is refused before its end has come", () => {
    const parser = new RequestParser();
    parser.push(`*${mostArguments}\r\n`);
    let came = 0;
    const read = (): void => {
      for (; ; came += longestArgument) {
        parser.push(`$${longestArgument}\r\n${"x".repeat(longestArgument)}\r\n`);
        expect(parser.next()).toBeUndefined();
      }
    };
    expect(read).toThrow(ProtocolError);
    expect(came).toBe(longestRequest);
  });
});

test("an empty request is skipped", () => {
  expect(parsed([`*0\r\n${written(["PING"])}*0\r\n`])).toEqual([["PING"]]);
});

test("identical requests are skipped together, as far as they are complete", () => {
  const get = written(["GET", "orders"]);
  const parser = new RequestParser();
  parser.push(get.repeat(4) + get.slice(0, 9));
  expect(parser.next()).toEqual(["GET", "orders"]);
  expect(parser.lastText).toBe(get);
  expect(parser.skip(get, 2)).toBe(2);
  expect(parser.skip(get, 9)).toBe(1);
  expect(parser.skip(get, 9)).toBe(0);
  expect(parser.next()).toBeUndefined();
  // The rest is not a request that begins like the other one: this request has begun.
  parser.push(get.slice(9));
  expect(parser.skip(get, 9)).toBe(0);
  expect(parser.next()).toEqual(["GET", "orders"]);
  expect(parser.lastText).toBeUndefined();
});

test.each(["a\r\n+OK", "a\nb", "\u010d\u010a+OK", "\0", "\x7f"])("an error stays one line of bytes: %j", (value) => {
  const lines = [failure("ERR", value), refusal(new SnowleaseError("NOT_FOUND", value, { retryAfterMs: 1.5 }))];
  for (const line of lines) expect(line).toMatch(/^-[\x20-\x7e\x80-\xff]*\r\n$/);
  expect(lines[1]).toMatch(/^-NOT_FOUND .* retryAfterMs=2\r\n$/);
});

test("a map is a map in RESP3, and a list of names and values in RESP2", () => {
  expect(reply({ a: 1, b: ["č"] }, 3)).toBe("%2\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n*1\r\n$2\r\n\xc4\x8d\r\n");
  expect(reply({ a: 1 }, 2)).toBe("*2\r\n$1\r\na\r\n:1\r\n");
});

test.each<[string, bigint[]]>([
  ["none", []],
  ["one", [7n]],
  ["two alike", [1278549019894743040n, 1278549019894743041n]],
  ["more digits in between", [8n, 9n, 10n, 11n]],
  ["another thousand in between", Array.from({ length: 1500 }, (_, i) => 1278549019894743990n + BigInt(i))],
  ["of several ticks", [4096n, 4097n, 8192n, 8193n, 12288n]],
  ["the largest", [2n ** 64n - 2n, 2n ** 64n - 1n]],
  ["as many as are written at a time, and one", Array.from({ length: 1025 }, (_, i) => 2n ** 63n + BigInt(i))],
])("IDs are answered together as they are alone: %s", (_, ids) => {
  const together = idReplies(BigUint64Array.from(ids));
  expect(together).toBe(ids.map((id) => idReply(id)).join(""));
});
