import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isForgotten, isUncovered, readReceipt, type Receipt, receiptOf } from "../../src/rule/receipt.ts";
import { storedToken } from "../../src/rule/token.ts";
import type { Stored } from "../../src/rule/window.ts";

const info = { id: "0f".repeat(16), layout: "a", maxWindow: 600_000, maxClockSkew: 10_000 };
const era = { era: "1700000000000-0a", quarantineEnd: 5000 };
const token = storedToken("secret");
const record: Stored = {
  workerId: 7,
  fence: 3,
  token,
  from: 0,
  until: 1_700_000_060_000,
  seenClock: 0,
  clean: false,
  knownFrom: 0,
  renewals: 5,
};
const text = `1.${info.id}.1700000000000-0a.7.3.${token}.5.1700000060000.600000.10000`;
const receipt: Receipt = {
  namespaceId: info.id,
  era: era.era,
  workerId: 7,
  fence: 3,
  token,
  renewals: 5,
  until: record.until,
  maxWindow: 600_000,
  maxClockSkew: 10_000,
};

describe("the text of a receipt", () => {
  test("says what was stored, and reads back as the same", () => {
    expect(receiptOf({ info, ...era }, record)).toBe(text);
    expect(readReceipt(text)).toEqual(receipt);
    expect(receiptOf({ info, ...era }, { ...record, renewals: undefined })).toContain(`${token}.0.`);
  });

  test("reads back for any stored values", () => {
    const whole = fc.nat(Number.MAX_SAFE_INTEGER);
    const time = fc.nat(8.64e15);
    const hex = (most: number) => fc.stringMatching(new RegExp(`^[0-9a-f]{1,${most}}$`));
    const any = fc.record({
      id: hex(64),
      token: hex(128),
      mark: hex(64),
      number: time,
      fence: whole,
      n: whole,
      end: time,
    });
    fc.assert(
      fc.property(any, fc.nat(), fc.nat(), ({ id, token, mark, number, fence, n, end }, maxWindow, maxClockSkew) => {
        const named = { info: { ...info, id, maxWindow, maxClockSkew }, era: `${number}-${mark}` };
        const written = receiptOf(named, { ...record, token, fence, renewals: n, until: end });
        expect(readReceipt(written)).toEqual({
          namespaceId: id,
          era: named.era,
          workerId: 7,
          fence,
          token,
          renewals: n,
          until: end,
          maxWindow,
          maxClockSkew,
        });
      }),
    );
  });

  test("does not exist for a namespace without an id, nor for an ended claim", () => {
    expect(receiptOf({ info: { ...info, id: undefined }, ...era }, record)).toBeUndefined();
    expect(receiptOf({ info, ...era }, { ...record, token: undefined })).toBeUndefined();
  });

  const parts = text.split(".");
  const withPart = (at: number, part: string): string => parts.with(at, part).join(".");

  test.each([
    ["none", undefined],
    ["empty", ""],
    ["of another version", withPart(0, "2")],
    ["with a part less", parts.slice(0, -1).join(".")],
    ["with a part more", `${text}.1`],
    ["with a space before it", ` ${text}`],
    ["with a line behind it", `${text}\n`],
    ["with an id that is no hex", withPart(1, "0g")],
    ["without an id", withPart(1, "")],
    ["with an id that is too long", withPart(1, "0".repeat(65))],
    ["with an era without a mark", withPart(2, "1700000000000")],
    ["with an era without a number", withPart(2, "-0a")],
    ["with a negative worker ID", withPart(3, "-1")],
    ["with a fence in hex", withPart(4, "0x3")],
    ["with a broken fence", withPart(4, "1e3")],
    ["with a token that has other characters", withPart(5, "a+b")],
    ["without a token", withPart(5, "")],
    ["with a token that is too long", withPart(5, "a".repeat(129))],
    ["with a number of renewals that is too long", withPart(6, "1".repeat(17))],
    ["with an end that no number holds exactly", withPart(7, "9007199254740993")],
    ["with an end after every time", withPart(7, "8640000000000001")],
    ["with an era after every time", withPart(2, "8640000000000001-0a")],
    ["with an unlimited window", withPart(8, "Infinity")],
    ["with a window that no namespace allows", withPart(8, "1000000000001")],
    ["with a skew of another script", withPart(9, "\u0661")],
  ])("is not taken where it is %s", (_, bad) => {
    expect(readReceipt(bad)).toBeUndefined();
  });

  test("of another form is refused, and quickly", () => {
    fc.assert(fc.property(fc.string(), (other) => readReceipt(other) === undefined));
    expect(readReceipt("1.".repeat(1_000_000))).toBeUndefined();
    expect(readReceipt(`1.${"0".repeat(1_000_000)}`)).toBeUndefined();
  });
});

describe("what a receipt proves", () => {
  const rows: readonly (readonly [string, boolean, string | undefined, Partial<Stored> | undefined])[] = [
    ["another id", true, "ff", {}],
    ["another id without a record", true, "ff", undefined],
    ["a namespace that has no id yet", false, undefined, {}],
    ["a namespace without an id that counts less", true, undefined, { renewals: 4 }],
    ["no record", true, info.id, undefined],
    ["a lower fence", true, info.id, { fence: 2 }],
    ["a lower fence, whatever else it has", true, info.id, { fence: 2, token: undefined, renewals: 9 }],
    ["the same claim", false, info.id, {}],
    ["the same claim with more renewals", false, info.id, { renewals: 6 }],
    ["the same claim with fewer renewals", true, info.id, { renewals: 4 }],
    ["the same claim with no renewals", true, info.id, { renewals: undefined }],
    ["another token under the fence", true, info.id, { token: storedToken("other") }],
    ["another token under the fence, with more renewals", true, info.id, { token: storedToken("other"), renewals: 9 }],
    ["a claim that was ended, by its holder or by force", false, info.id, { token: undefined }],
    ["a claim that was ended after more renewals", false, info.id, { token: undefined, renewals: 6 }],
    // Another claim under this fence may have been given back, and this one was renewed more often.
    ["a claim that was ended after fewer renewals", true, info.id, { token: undefined, renewals: 4 }],
    ["a higher fence", false, info.id, { fence: 4, token: storedToken("other"), renewals: undefined }],
    ["a higher fence that has ended", false, info.id, { fence: 4, token: undefined }],
    ["a window that was reset", false, info.id, { token: undefined, until: 0 }],
  ];

  test.each(rows)("where the registry has %s: forgotten %s", (_, expected, id, changes) => {
    const state = { info: { ...info, id }, era: era.era };
    expect(isForgotten(receipt, state, changes && { ...record, ...changes })).toBe(expected);
  });

  test("if the registry is in an earlier era, or in another one with that number: eras rise", () => {
    const forgottenIn = (present: string): boolean => isForgotten(receipt, { info, era: present }, record);
    expect(["1699999999999-ff", "1700000000000-0b", "1700000000000-0a", "1700000000001-00"].map(forgottenIn)).toEqual([
      true,
      true,
      false,
      false,
    ]);
  });

  test("counts in the era that it names, and if its window ends after the quarantine", () => {
    expect(isUncovered(receipt, era)).toBe(true);
    expect(isUncovered({ ...receipt, until: 0 }, era)).toBe(true);
    const older = { ...receipt, era: "1-0a" };
    expect(isUncovered({ ...older, until: 4999 }, era)).toBe(false);
    expect(isUncovered({ ...older, until: 5000 }, era)).toBe(false);
    expect(isUncovered({ ...older, until: 5001 }, era)).toBe(true);
    // Eras that this copy forgot, one of them begun by another copy in the same ms: the next era is above them.
    expect(isUncovered({ ...receipt, era: "1700000000000-0b", until: 5000 }, era)).toBe(true);
    expect(isUncovered({ ...receipt, era: "1700000000001-00", until: 5000 }, era)).toBe(true);
  });
});

describe("the stored form of a token", () => {
  test("is 32 hex digits that do not reveal it, the same ones for the same token", () => {
    expect(storedToken("a".repeat(32))).toMatch(/^[\da-f]{32}$/);
    expect(storedToken("a".repeat(32))).toBe(storedToken("a".repeat(32)));
    expect(storedToken("a".repeat(32))).not.toBe(storedToken("b".repeat(32)));
    // Redis computes the same in its scripts.
    expect(storedToken("secret")).toBe("2bb80d537b1da3e38bd30361aa855686");
  });
});
