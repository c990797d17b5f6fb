import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeAny, type EncodingName, encodings } from "../../src/id/encodings.ts";
import { IncrementalEncoder } from "../../src/generator/incremental-encoder.ts";
import { isSnowleaseError } from "../../src/id/errors.ts";

const max = 2n ** 63n - 1n;
const alphabets: Record<EncodingName, string> = {
  decimal: "0123456789",
  hex: "0123456789abcdef",
  base36: "0123456789abcdefghijklmnopqrstuvwxyz",
  base62: "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
  base64url: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
  crockford32: "0123456789ABCDEFGHJKMNPQRSTVWXYZ",
  base62sort: "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
  base64sort: "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz",
};
const widths: Record<EncodingName, number> = {
  decimal: 19,
  hex: 16,
  base36: 13,
  base62: 11,
  base64url: 12,
  crockford32: 13,
  base62sort: 11,
  base64sort: 11,
};
/** Always of full width. */
const wide: readonly EncodingName[] = ["base64url", "base62sort", "base64sort"];
const sorting = Object.keys(alphabets).filter((name) => name !== "base62" && name !== "base64url") as EncodingName[];
const names = Object.keys(alphabets) as EncodingName[];
const positional = names.filter((name) => !wide.includes(name));

/** Any ID; small ones, powers of two and the border of the halves as often as the others. */
const anyId = fc.oneof(
  fc.bigInt({ min: 0n, max }),
  fc.bigInt({ min: 0n, max: 5000n }),
  fc.tuple(fc.bigInt({ min: 1n, max: 62n }), fc.bigInt({ min: -2n, max: 2n })).map(([bits, by]) => 2n ** bits + by),
);
const anyBits = fc.oneof(fc.constantFrom(31, 53, 63), fc.integer({ min: 1, max: 63 }));
/** Byte order: the order of a database's binary collation and of `memcmp`. */
const byteOrder = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));

/** Digit by digit: the definition, to compare the fast ways with. */
function naive(name: EncodingName, id: bigint): string {
  if (name === "base64url") {
    const bytes = Buffer.alloc(8);
    bytes.writeBigUInt64BE(id);
    return `${bytes.toString("base64url")}=`;
  }
  const alphabet = alphabets[name];
  const base = BigInt(alphabet.length);
  let text = "";
  for (let rest = id; rest > 0n || text === ""; rest /= base) text = alphabet.charAt(Number(rest % base)) + text;
  return wide.includes(name) ? text.padStart(widths[name], alphabet.charAt(0)) : text;
}

function refused(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (!isSnowleaseError(error, "CONFIG_INVALID")) throw error;
    expect(error.message).not.toMatch(/[\r\n]/);
    expect(error.message.length).toBeLessThan(400);
    return error.message;
  }
  throw new Error("Expected a refusal, got none");
}

describe("golden values", () => {
  it.each([
    ["decimal", "9223372036854775807"],
    ["hex", "7fffffffffffffff"],
    ["base36", "1y2p0ij32e8e7"],
    ["base62", "aZl8N0y58M7"],
    ["base64url", "f_________8="],
    ["crockford32", "7ZZZZZZZZZZZZ"],
    ["base62sort", "AzL8n0Y58m7"],
    ["base64sort", "6zzzzzzzzzz"],
  ] as const)("%s of 2^63-1 is %s", (name, text) => {
    expect(encodings[name].encode(max)).toBe(text);
    expect(encodings[name].encodeFixed(max)).toBe(text);
    expect(encodings[name].decode(text)).toBe(max);
    if (!name.endsWith("sort")) expect(decodeAny(text)).toEqual({ id: max, encoding: name });
  });

  it.each([
    ["decimal", "1278549019894743040"],
    ["hex", "11be518f3ec00000"],
    ["base64url", "Eb5Rjz7AAAA="],
  ] as const)("%s of an ID of 2026 is %s", (name, text) => {
    expect(encodings[name].encode(1278549019894743040n)).toBe(text);
    expect(encodings[name].decode(text)).toBe(1278549019894743040n);
  });

  it("writes zero as one digit, or as all of them", () => {
    expect(positional.map((name) => encodings[name].encode(0n))).toEqual(["0", "0", "0", "0", "0"]);
    expect(encodings.base62.encodeFixed(0n)).toBe("00000000000");
    expect(encodings.base64url.encode(0n)).toBe("AAAAAAAAAAA=");
  });
});

describe("consecutive IDs", () => {
  const forms = ["base62", "base64url", "base62sort", "base64sort"] as const;

  it.each(forms)("in %s are written from one learned text, while only the last two digits differ", (name) => {
    const encoder = new IncrementalEncoder();
    const { encode } = encodings[name];
    // A multiple of 62^2 and of 64^2.
    const row = 879351421382717440n - (879351421382717440n % (62n * 64n) ** 2n);
    const size = { base62: 62 ** 2, base64url: 64 * 16, base62sort: 62 ** 2, base64sort: 64 ** 2 }[name];
    const tail = { base62: 62, base64url: 16, base62sort: 62, base64sort: 64 }[name];
    encoder.learn(100, name, encode(row + 3n));
    const text = (place: number): string => encode(row + BigInt(place - 97));
    expect(encoder.at(96, name)).toBeUndefined();
    expect(encoder.at(97 + tail + 1, name)).toBeUndefined();
    for (let place = 97; place < 97 + size; place++) expect(encoder.at(place, name)).toBe(text(place));
    expect(encoder.at(97 + size, name)).toBeUndefined();
    // The encoder goes on, never back.
    expect(encoder.at(97, name)).toBeUndefined();
    expect(encoder.at(97 + size - 1, name)).toBe(text(97 + size - 1));
    expect(encoder.at(97 + size - 1, "hex")).toBeUndefined();
    encoder.forget();
    expect(encoder.at(97 + size - 1, name)).toBeUndefined();
  });

  it("are written correctly, or left to the general encoder", () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...names),
        anyId,
        fc.array(fc.oneof(fc.constant(1), fc.integer({ min: 0, max: 200 })), { maxLength: 200 }),
        (name, id, steps) => {
          const encoder = new IncrementalEncoder();
          const { encode } = encodings[name];
          encoder.learn(0, name, encode(id));
          let place = 0;
          for (const step of steps) {
            place += step;
            if (id + BigInt(place) > max) break;
            const text = encoder.at(place, name);
            expect([undefined, encode(id + BigInt(place))]).toContain(text);
            if (text === undefined) encoder.learn(place, name, encode(id + BigInt(place)));
          }
        },
      ),
    );
  });
});

describe.each(names)("%s", (name) => {
  const encoding = encodings[name];
  const alphabet = alphabets[name];
  const width = widths[name];

  it("knows its name", () => expect(encoding.name).toBe(name));

  it("writes the text of the definition, and reads it back", () => {
    fc.assert(
      fc.property(anyId, (id) => {
        const text = encoding.encode(id);
        const fixed = encoding.encodeFixed(id);
        expect(text).toBe(naive(name, id));
        expect(fixed).toBe(text.padStart(width, alphabet.charAt(0)));
        expect(encoding.decode(text)).toBe(id);
        expect(encoding.decode(fixed)).toBe(id);
      }),
      { numRuns: 2000 },
    );
  });

  it("reads only what it writes", () => {
    const characters = `${alphabet} -+_=.,\n\0aAiIlLoOuU٣é`.split("");
    const text = fc.string({ unit: fc.constantFrom(...characters), maxLength: width + 2 });
    const close = fc.tuple(anyId, fc.nat(width), fc.constantFrom("", ...characters)).map(([id, at, put]) => {
      const written = encoding.encode(id);
      return written.slice(0, at) + put + written.slice(at + 1);
    });
    fc.assert(
      fc.property(fc.oneof(text, close), (candidate) => {
        let id: bigint;
        try {
          id = encoding.decode(candidate);
        } catch (error) {
          return isSnowleaseError(error, "CONFIG_INVALID");
        }
        return id >= 0n && id <= max && [encoding.encode(id), encoding.encodeFixed(id)].includes(candidate);
      }),
      { numRuns: 3000 },
    );
  });

  it.each([
    ["empty", ""],
    ["a sign", "-1"],
    ["a plus", "+1"],
    ["white space before", ` ${encoding.encodeFixed(5n).slice(1)}`],
    ["white space after", `${encoding.encodeFixed(5n).slice(1)} `],
    ["a line feed after", `${encoding.encode(5n)}\n`],
    ["an underscore between", "1_1"],
    ["a prefix", "0x1f"],
    ["a foreign digit", "٣"],
    ["a digit too many", `${encoding.encodeFixed(5n)}0`],
    ["a zero too many", `${alphabet.charAt(0)}${encoding.encodeFixed(5n)}`],
    ["two of ten leading zeros", `${alphabet.charAt(0).repeat(2)}1`],
    ["zero twice", alphabet.charAt(0).repeat(2)],
  ])("refuses text with %s", (_, text) => {
    expect(refused(() => encoding.decode(text))).toContain(name);
  });

  it("refuses values above 2^63-1", () => {
    for (const id of [2n ** 63n, 2n ** 63n + 1n, 2n ** 63n + 2n ** 31n]) {
      const message = refused(() => encoding.decode(naive(name, id)));
      expect(message).toContain(`to be at most \`${encoding.encode(max)}\` (2^63-1), got \`${naive(name, id)}\``);
    }
    const top = alphabet.charAt(alphabet.length - 1);
    refused(() => encoding.decode(name === "base64url" ? "__________8=" : top.repeat(width)));
  });

  it("refuses a megabyte as fast as a typing error, and shows only its beginning", () => {
    const megabyte = alphabet.charAt(1).repeat(2 ** 20);
    expect(refused(() => encoding.decode(megabyte))).toContain("...` (string)");
    refused(() => decodeAny(megabyte));
    refused(() => decodeAny(megabyte, name));
  });

  it.each([[undefined], [null], [5], [NaN], [5n], [{}], [["1"]], [new String("1")], [Symbol("1")], [() => "1"]])(
    "refuses to read or write %o",
    (value) => {
      refused(() => encoding.decode(value as string));
      refused(() => decodeAny(value as string));
      if (typeof value === "bigint") return;
      refused(() => encoding.encode(value as unknown as bigint));
      refused(() => encoding.encodeFixed(value as unknown as bigint));
    },
  );

  it.each([-1n, -(2n ** 63n), 2n ** 63n, 2n ** 64n, 2n ** 64n + 5n, 2n ** 200n])("refuses to write %d", (id) => {
    const rule = "Expected `id` to be a bigint from 0 to 9223372036854775807 (63 bits)";
    expect(refused(() => encoding.encode(id))).toContain(rule);
    expect(refused(() => encoding.encodeFixed(id))).toContain(rule);
  });
});

describe("one text for one ID", () => {
  it("refuses the other case", () => {
    for (const text of ["7FFFFFFFFFFFFFFF", "Ff"]) refused(() => encodings.hex.decode(text));
    refused(() => encodings.base36.decode("1Y2P0IJ32E8E7"));
    refused(() => encodings.crockford32.decode("7zzzzzzzzzzzz"));
  });

  it("refuses Crockford's look-alikes and hyphens", () => {
    for (const text of ["1O", "1I", "1L", "1U", "1-1", "1o", "1i", "1l"]) {
      expect(refused(() => encodings.crockford32.decode(text))).toContain(alphabets.crockford32);
    }
  });

  it("refuses base64url without padding, with more, with `+` and `/`, with bits in the padding", () => {
    for (const text of [
      "AAAAAAAAAAA",
      "AAAAAAAAAA==",
      "AAAAAAAAAA=A",
      "AAAAAAAAA+A=",
      "AAAAAAAAA/A=",
      "A=AAAAAAAAA=",
    ]) {
      refused(() => encodings.base64url.decode(text));
    }
    for (const last of "BCD_9") {
      expect(refused(() => encodings.base64url.decode(`AAAAAAAAAA${last}=`))).toContain("to end in two zero bits");
    }
    expect(encodings.base64url.decode("AAAAAAAAAAE=")).toBe(1n);
  });

  it("names the rule and the value", () => {
    expect(refused(() => encodings.base62.decode("007"))).toBe(
      "Expected `base62 text` to have no leading zeros unless they fill it up to 11 characters, got `007` (string)",
    );
    expect(refused(() => encodings.hex.decode("xyz"))).toBe(
      "Expected `hex text` to have no characters but `0123456789abcdef`, got `xyz` (string)",
    );
    expect(refused(() => encodings.decimal.decode(5 as unknown as string))).toBe(
      "Expected `decimal text` to be a string of 1 to 19 characters, got `5` (number)",
    );
  });
});

describe("order of fixed-width text", () => {
  it.each(sorting)("%s sorts like the numbers, in every width", (name) => {
    fc.assert(
      fc.property(anyId, anyId, anyBits, (anyA, anyB, bits) => {
        const [a, b] = [BigInt.asUintN(bits, anyA), BigInt.asUintN(bits, anyB)];
        const [textA, textB] = [encodings[name].encodeFixed(a, bits), encodings[name].encodeFixed(b, bits)];
        expect(textA.length).toBe(textB.length);
        expect(byteOrder(textA, textB)).toBe(a < b ? -1 : a > b ? 1 : 0);
      }),
    );
  });

  it("base62 and base64url sort differently, as their documentation says", () => {
    expect(byteOrder(encodings.base62.encodeFixed(10n), encodings.base62.encodeFixed(36n))).toBe(1);
    expect(byteOrder(encodings.base64url.encodeFixed(0n), encodings.base64url.encodeFixed(13n))).toBe(1);
  });
});

describe("fixed width of fewer bits", () => {
  it.each(names)("in %s is the width of the largest such number, and is read back", (name) => {
    const { encode, encodeFixed, decode } = encodings[name];
    fc.assert(
      fc.property(anyId, anyBits, (any, bits) => {
        const id = BigInt.asUintN(bits, any);
        const text = encodeFixed(id, bits);
        const largest = name === "base64url" ? encode(0n) : encodeFixed(2n ** BigInt(bits) - 1n, bits);
        expect(text.length).toBe(largest.length);
        expect(encode(id).endsWith(text) || text.endsWith(encode(id))).toBe(true);
        expect(decode(text, bits)).toBe(id);
        expect(decode(encode(id), bits)).toBe(id);
        expect(decodeAny(text, name, bits)).toEqual({ id, encoding: name });
      }),
      { numRuns: 1000 },
    );
  });

  it.each(names)("in %s reads only what it writes", (name) => {
    const { encode, encodeFixed, decode } = encodings[name];
    const zero = alphabets[name].charAt(0);
    fc.assert(
      fc.property(anyId, anyBits, fc.nat(widths[name]), (any, bits, zeros) => {
        const text =
          zero.repeat(zeros) +
          (name === "base64url" ? encode(any) : naive(name, any).replace(new RegExp(`^${zero}+(?=.)`), ""));
        let id: bigint;
        try {
          id = decode(text, bits);
        } catch (error) {
          expect(isSnowleaseError(error, "CONFIG_INVALID")).toBe(true);
          return;
        }
        expect(id < 2n ** BigInt(bits)).toBe(true);
        expect([encode(id), encodeFixed(id, bits)]).toContain(text);
      }),
      { numRuns: 1000 },
    );
  });

  it.each([
    ["hex", 31, 8],
    ["decimal", 31, 10],
    ["base36", 53, 11],
    ["base62", 53, 9],
    ["crockford32", 31, 7],
    ["base62sort", 31, 6],
    ["base64sort", 53, 9],
    ["base64url", 31, 12],
  ] as const)("%s of %i bits has %i characters", (name, bits, width) => {
    expect(encodings[name].encodeFixed(0n, bits)).toHaveLength(width);
    expect(encodings[name].encodeFixed(2n ** BigInt(bits) - 1n, bits)).toHaveLength(width);
    refused(() => encodings[name].encodeFixed(2n ** BigInt(bits), bits));
    refused(() => encodings[name].decode(encodings[name].encode(2n ** BigInt(bits)), bits));
  });

  it.each([0, -1, 64, 1.5, NaN, "63", null])("of %s bits is refused", (bits) => {
    for (const name of names) {
      refused(() => encodings[name].encodeFixed(1n, bits as number));
      refused(() => encodings[name].decode(encodings[name].encode(1n), bits as number));
    }
  });
});

describe("decodeAny", () => {
  it.each([
    ["0", "decimal", 0n],
    ["1278549019894743040", "decimal", 1278549019894743040n],
    // It could be hex, too: a text of digits only is always decimal.
    ["1234567812345678", "decimal", 1234567812345678n],
    ["Eb5Rjz7AAAA=", "base64url", 1278549019894743040n],
    // It could be hex, base36 or base62: a text of up to 11 characters is always base62.
    ["ff", "base62", 945n],
    ["FF", "base62", 2583n],
    ["9pqfffwe000g", "base36", encodings.base36.decode("9pqfffwe000g")],
    ["13FJHHWZC0000", "crockford32", encodings.crockford32.decode("13FJHHWZC0000")],
    ["11be518f3ec00000", "hex", 1278549019894743040n],
    ["1be518f3ec0000", "hex", 0x1be518f3ec0000n],
  ] as const)("takes %s for %s", (text, encoding, id) => {
    expect(decodeAny(text)).toEqual({ id, encoding });
  });

  it("finds every form of a present-day ID, short or of fixed width, except texts of digits only", () => {
    fc.assert(
      fc.property(fc.constantFrom(...positional, "base64url"), fc.bigInt({ min: 36n ** 11n, max }), (name, id) => {
        const text = encodings[name].encode(id);
        const encoding = /^[0-9]+$/.test(text) ? "decimal" : name;
        fc.pre(encoding === name);
        expect(decodeAny(text)).toEqual({ id, encoding });
        expect(decodeAny(encodings[name].encodeFixed(id))).toEqual({ id, encoding });
      }),
      { numRuns: 2000 },
    );
  });

  it("reads any ID in the named form", () => {
    fc.assert(
      fc.property(fc.constantFrom(...names), anyId, (name, id) => {
        expect(decodeAny(encodings[name].encode(id), name)).toEqual({ id, encoding: name });
      }),
    );
    expect(decodeAny("ff", "hex").id).toBe(255n);
    expect(decodeAny("10", "base36").id).toBe(36n);
  });

  it("says how to name the format if the guess was wrong", () => {
    expect(refused(() => decodeAny("0012"))).toBe(
      "Expected `decimal text` to have no leading zeros unless they fill it up to 19 characters, got `0012` (string); " +
        "it looked like decimal: name its format if it is another of decimal, hex, base36, base62, base64url, crockford32, base62sort, base64sort",
    );
    expect(refused(() => decodeAny("zzzzzzzzzzzzz"))).toContain("it looked like base36");
  });

  it.each([
    "",
    " ",
    "7 ",
    "-7",
    "7!",
    "0x1f",
    "a-b",
    "mixedCASEtext",
    "ABCDEFABCDEFABC",
    "1".repeat(20),
    "f".repeat(17),
  ])("refuses `%s`", (text) => {
    const message = refused(() => decodeAny(text));
    expect(message).toContain("decimal, hex, base36, base62, base64url, crockford32");
  });

  it.each(["HEX", "", "toString", "__proto__", null, 16])("refuses the format %o", (name) => {
    expect(refused(() => decodeAny("7", name as EncodingName))).toContain("Expected `format` to be one of decimal, ");
  });
});
