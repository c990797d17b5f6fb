import { describe, expect, it } from "vitest";
import { Layout } from "../../src/id/layout.ts";
import type { Mode } from "../../src/generator/tick-allocator.ts";
import { type TextOptions, DecimalWriter } from "../../src/generator/decimal-writer.ts";
import { fakeClock } from "../../src/testing.ts";
import { coded, open, start, thrown } from "../support/generator.ts";

const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString("latin1");

describe("consecutive texts", () => {
  it.each([
    [0n, 1n, 9],
    [1n, 1n, 9],
    [95n, 1n, 5],
    [990n, 1n, 10],
    [1000n, 1n, 2500],
    [99_990n, 1n, 10],
    [1_278_549_019_894_743_999n, 1n, 4096],
    [9_223_372_036_854_775_000n, 1n, 808],
    [487_328_464_441_967_107n, 65_536n, 256],
  ])("from %i by %i are the numbers", (first, step, count) => {
    const texts = new DecimalWriter({ before: '"', after: '",' });
    const expected = Array.from({ length: count }, (_, i) => `"${first + BigInt(i) * step}",`).join("");
    const target = new Uint8Array(expected.length + 10).fill(1);
    expect(texts.fitting(first, step, expected.length)).toBe(count);
    expect(texts.fitting(first, step, expected.length - 1)).toBe(count - 1);
    expect(texts.write(target, 5, count, first, step)).toBe(5 + expected.length);
    expect(textOf(target)).toBe(`${"\x01".repeat(5)}${expected}${"\x01".repeat(5)}`);
  });

  it("end where the number of digits grows", () => {
    expect(new DecimalWriter().fitting(8n, 1n, 1000)).toBe(2);
    expect(new DecimalWriter().fitting(8n, 5n, 1000)).toBe(1);
    expect(new DecimalWriter().fitting(9_999_000n, 1n, 1_000_000)).toBe(1000);
  });

  it("have only short ASCII around them", () => {
    for (const bad of ["ä", "x".repeat(17), 3, null]) {
      expect(thrown(() => new DecimalWriter({ before: bad as string })).code).toBe("CONFIG_INVALID");
      expect(thrown(() => new DecimalWriter({ after: bad as string })).code).toBe("CONFIG_INVALID");
    }
  });
});

describe("fillText", () => {
  it.each<readonly [string, number, Mode, TextOptions]>([
    ["westid", start, "wall", {}],
    ["westid", start, "lead", { before: '"', after: '",' }],
    ["sonyflake", start, "lead", { after: "" }],
    ["safe53", start, "lead", { before: "<", after: ">" }],
    // IDs of one digit, then of two, then of more.
    [`timestamp:41,worker:10,sequence:12@${start}/1`, start, "wall", {}],
  ])("in %s at %i, %s mode, writes what next would make, %j", async (name, at, mode, options) => {
    const layout = Layout.parse(name);
    const wish = { layout, mode, workerId: 0 };
    const one = await open({ ...wish, clock: fakeClock({ start: at }) });
    const other = await open({ ...wish, clock: fakeClock({ start: at }) });
    const { before = "", after = "\n" } = options;
    for (const bytes of [0, 1, 25, 50, 1000, 12_000]) {
      const target = new Uint8Array(bytes).fill(1);
      const end = one.ids.fillText(target, options);
      let expected = "";
      for (; expected.length < end;) expected += `${before}${other.ids.next()}${after}`;
      expect(textOf(target.subarray(0, end))).toBe(expected);
      expect(target.subarray(end).every((byte) => byte === 1)).toBe(true);
      expect(bytes - end).toBeLessThan(22);
    }
    expect(one.ids.next()).toBe(other.ids.next());
  });

  it("ends with the tick, or in lead mode with the window", async () => {
    const layout = Layout.parse("timestamp:41,worker:10,sequence:2@1490346283706/1");
    const target = new Uint8Array(10_000);
    const wall = await open({ layout });
    expect(
      textOf(target.subarray(0, wall.ids.fillText(target)))
        .trim()
        .split("\n").length,
    ).toBe(4);
    expect(thrown(() => wall.ids.fillText(target))).toEqual(coded("SEQUENCE_EXHAUSTED"));
    const lead = await open({ layout, mode: "lead", window: 50 });
    const texts = textOf(target.subarray(0, lead.ids.fillText(target)))
      .trim()
      .split("\n");
    expect([texts.length, new Set(texts).size]).toEqual([200, 200]);
  });

  it("uses no ID for a wrong target", async () => {
    const { ids, next } = await open();
    for (const target of [[], "x", new Uint16Array(40), undefined]) {
      expect(thrown(() => ids.fillText(target as unknown as Uint8Array)).code).toBe("CONFIG_INVALID");
    }
    expect(thrown(() => ids.fillText(new Uint8Array(40), { after: "é" })).code).toBe("CONFIG_INVALID");
    expect(next()).toEqual([start, 0]);
  });
});
