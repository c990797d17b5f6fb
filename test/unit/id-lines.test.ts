import { fc } from "../support/fast-check.ts";
import { describe, expect, test } from "vitest";
import { type EncodingName, encodings } from "../../src/id/encodings.ts";
import { IdLines, idOf, textLines } from "../../src/ops/audit/id-lines.ts";

type Read = readonly [line: number, what: bigint | "beyond" | "invalid"];

/** What a text comes to, fed in chunks of these sizes, the last one for all that is left. */
function read(
  text: string | Uint8Array,
  {
    format = "decimal",
    bits = 63,
    sizes = [Infinity],
  }: { format?: EncodingName; bits?: number; sizes?: number[] } = {},
): { readonly found: Read[]; readonly lines: number; readonly said: string[] } {
  const found: Read[] = [];
  const said: string[] = [];
  const lines = new IdLines(format, bits, {
    id: (upper, lower, line) => found.push([line, idOf(upper, lower)]),
    beyond: (_, line) => found.push([line, "beyond"]),
    invalid(why, line) {
      found.push([line, "invalid"]);
      said.push(why);
    },
  });
  const bytes = Buffer.from(text);
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const size = sizes[Math.min(turn, sizes.length - 1)] ?? Infinity;
    lines.feed(bytes.subarray(at, at + size));
    at += size;
  }
  lines.end();
  return { found, lines: lines.lines, said };
}

/** The same by the decoders alone. */
function expected(texts: readonly string[], format: EncodingName, bits: number): Read[] {
  const attempt = (text: string, bits?: number): bigint | undefined => {
    try {
      return encodings[format].decode(text, bits);
    } catch {
      return undefined;
    }
  };
  return texts.flatMap((text, i): Read[] => {
    if (text === "") return [];
    const id = attempt(text, bits);
    return [[i + 1, id ?? (attempt(text) === undefined ? "invalid" : "beyond")]];
  });
}

const max = 2n ** 63n - 1n;
const anyId = fc.oneof(
  fc.bigInt({ min: 0n, max }),
  fc.bigInt({ min: 0n, max: 5000n }),
  fc.tuple(fc.integer({ min: 1, max: 63 }), fc.bigInt({ min: -2n, max: 2n })).map(([n, by]) => {
    return 2n ** BigInt(n) + by > max ? max : 2n ** BigInt(n) + by;
  }),
  fc.tuple(fc.integer({ min: 0, max: 18 }), fc.bigInt({ min: -2n, max: 2n })).map(([n, by]) => {
    return 10n ** BigInt(n) + (by + 2n);
  }),
  fc.bigInt({ min: 9n * 10n ** 18n - 3n, max: 9n * 10n ** 18n + 3n }),
);
const names = Object.keys(encodings) as EncodingName[];

describe("lines of IDs", () => {
  test.each(names)("in %s are what its decoder reads, however the text is cut and its lines end", (format) => {
    const anyText = fc.oneof(
      { weight: 5, arbitrary: anyId.map((id) => encodings[format].encode(id)) },
      anyId.map((id) => encodings[format].encodeFixed(id)),
      fc.constantFrom("", "0", "00", "-1", "+1", " 1", "1 ", "1,2", "9223372036854775808", "99999999999999999999", "x"),
      fc.string().map((text) => text.replaceAll(/[\r\n\uFEFF]/g, "")),
    );
    const anyEnd = fc.constantFrom("\n", "\r\n");
    const anySizes = fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1 });
    fc.assert(
      fc.property(
        fc.array(fc.tuple(anyText, anyEnd), { maxLength: 40 }),
        anySizes,
        fc.constantFrom(31, 53, 63),
        (lines, sizes, bits) => {
          const text = lines.flat().join("");
          const texts = lines.map(([text]) => text);
          expect(read(text, { format, bits, sizes }).found).toEqual(expected(texts, format, bits));
        },
      ),
    );
  });

  test("may lack the last end, and begin with a byte order mark", () => {
    expect(read("\uFEFF1\n2\n3").found).toEqual([1n, 2n, 3n].map((id, i) => [i + 1, id]));
    expect(read("\uFEFF1\n2\n3", { sizes: [1] }).found).toEqual([1n, 2n, 3n].map((id, i) => [i + 1, id]));
    expect(read("1\n\uFEFF2\n").found).toEqual([
      [1, 1n],
      [2, "invalid"],
    ]);
  });

  test.each(["", "\n", "\r\n\n\r\n", "\uFEFF"])("%j holds nothing", (text) => {
    expect(read(text)).toMatchObject({ found: [], said: [] });
  });

  test("a line may be as long as it likes", () => {
    const long = "7".repeat(5_000_000);
    for (const sizes of [[Infinity], [65_536], [3, 70, 9]]) {
      const { found, said, lines } = read(`1\n${long}\n2\n${long}`, { sizes });
      expect(found).toEqual([
        [1, 1n],
        [2, "invalid"],
        [3, 2n],
        [4, "invalid"],
      ]);
      expect(lines).toBe(4);
      for (const why of said) expect(why.length).toBeLessThan(200);
    }
  });

  test("any bytes are lines without IDs, printed without what a terminal would obey", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 500 }), (bytes) => {
        const { said } = read(bytes);
        for (const why of said) expect(why).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/);
      }),
    );
  });

  test("IDs of more bits than the layout differ from lines without IDs", () => {
    const { found } = read(`${2n ** 53n - 1n}\n${2n ** 53n}\n${max}\n9223372036854775808\n`, { bits: 53 });
    expect(found).toEqual([
      [1, 2n ** 53n - 1n],
      [2, "beyond"],
      [3, "beyond"],
      [4, "invalid"],
    ]);
  });
});

describe("lines as texts", () => {
  async function textsOf(bytes: Uint8Array, size: number): Promise<(readonly [number, string])[]> {
    async function* chunks(): AsyncGenerator<Uint8Array> {
      for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
    }
    const found: (readonly [number, string])[] = [];
    for await (const { line, text } of textLines({ name: "ids.txt", chunks: chunks() })) found.push([line, text]);
    return found;
  }

  test.each([1, 2, 3, 7, 1000])("are the same, however they are cut: every %d bytes", async (size) => {
    const text = "\ufeff1\r\n\n 2 3\n\r\né\n4";
    const lines = [
      [1, "1"],
      [3, " 2 3"],
      [5, "é"],
      [6, "4"],
    ];
    expect(await textsOf(Buffer.from(text), size)).toEqual(lines);
    expect(await textsOf(Buffer.from(`${text}\n\n`), size)).toEqual(lines);
  });

  test("are cut short where they are longer than any ID", async () => {
    for (const size of [1, 50, 1000]) {
      const [first, second, ...more] = await textsOf(Buffer.from(`${"1".repeat(300)}\n2\n`), size);
      expect([first?.[1].length, second, more]).toEqual([80, [2, "2"], []]);
    }
  });

  test("are none in nothing, and refused in UTF-16", async () => {
    expect(await textsOf(new Uint8Array(), 1)).toEqual([]);
    expect(await textsOf(Buffer.from("\n\r\n"), 1)).toEqual([]);
    await expect(textsOf(Buffer.from("\ufeff1\n", "utf16le"), 9)).rejects.toMatchObject({
      code: "CONFIG_INVALID",
      message: "IDs cannot be read from `ids.txt` (string): it is UTF-16; save it as UTF-8.",
    });
  });
});
