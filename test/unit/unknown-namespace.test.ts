import { lengthText } from "../../src/id/duration.ts";
import { describe, expect, test } from "vitest";
import type { Era } from "../../src/rule/era.ts";
import { newNamespace } from "../../src/rule/new-namespace.ts";
import { quarantineError } from "../../src/rule/quarantine.ts";
import { type Receipt, receiptOf } from "../../src/rule/receipt.ts";
import {
  decideUnknownRelease,
  decideUnknownRenewal,
  eraToNote,
  type UnknownNamespace,
} from "../../src/rule/unknown-namespace.ts";
import { isInQuarantine } from "../../src/rule/verdict.ts";

const now = 1_700_000_000_000;
const limits = { maxWindow: 120_000, maxClockSkew: 10_000 };
const length = 140_000;
const mark = (): string => "ab";
const key = { namespace: "orders", workerId: 7, fence: 3, token: "t1" };

function receiptText(changes: Partial<Receipt> = {}): string {
  const own = { namespaceId: "0f", era: "5-aa", workerId: 7, fence: 3, token: "t1", renewals: 4, until: now + 60_000 };
  const all: Receipt = { ...own, ...limits, ...changes };
  return receiptOf({ info: { ...all, id: all.namespaceId }, era: all.era }, all) ?? "";
}

const renewal = (receipt?: string) => ({ ...key, clock: now, window: 60_000, receipt });
const nothing: UnknownNamespace = { clock: now, noted: undefined };
const noted: Era = { era: `${now}-ab`, quarantineEnd: now + length, opensAt: now + length };

describe("a holder of a namespace that does not exist", () => {
  test("begins a quarantine for the name, as long as its receipt says, and waits for its end", () => {
    const { begins, answer } = decideUnknownRenewal(nothing, renewal(receiptText()), mark);
    expect(begins).toEqual(noted);
    const { era, opensAt } = noted;
    const unknown = { namespace: "orders", maxClockSkew: 10_000, isUnknown: true };
    expect(answer).toEqual({ outcome: "quarantine", clock: now, era, opensAt, ...unknown });
    const later = { clock: now + length - 1, noted };
    const again = decideUnknownRenewal(later, renewal(receiptText()), mark);
    expect(again).toEqual({ begins: undefined, answer: { ...answer, clock: later.clock } });
    expect(newNamespace("a", {}, later.clock, noted).era).toEqual(noted);
  });

  test("is lost once every forgotten window has passed, and a receipt from before begins nothing anew", () => {
    const later = { clock: now + length, noted };
    const lost = { outcome: "lost", reason: "forgotten" };
    expect(decideUnknownRenewal(later, renewal(receiptText()), mark)).toEqual({ begins: undefined, answer: lost });
  });

  test.each([
    ["of a window that ends later", receiptText({ until: now + length + 1 })],
    ["of the era that is noted", receiptText({ era: noted.era })],
    ["of a later era", receiptText({ era: `${now + 1}-aa` })],
  ])("lengthens the quarantine with a receipt %s", (_, receipt) => {
    const { begins } = decideUnknownRenewal({ clock: now + 1, noted }, renewal(receipt), mark);
    expect(begins?.opensAt).toBe(now + length + 1);
    expect(Number.parseInt(begins?.era ?? "", 10)).toBeGreaterThan(now);
  });

  test("shows larger limits of its namespace", () => {
    const wide = receiptText({ maxWindow: 600_000, maxClockSkew: 20_000, until: now + length + 1 });
    expect(decideUnknownRenewal({ clock: now, noted }, renewal(wide), mark).begins?.opensAt).toBe(now + 640_000);
  });

  test.each([
    ["no receipt", undefined],
    ["a text that is none", "1.2.3"],
    ["that of another worker ID", receiptText({ workerId: 8 })],
    ["that of another fence", receiptText({ fence: 2 })],
    ["that of another token", receiptText({ token: "t2" })],
  ])("proves nothing with %s", (_, receipt) => {
    const answer = { outcome: "lost" };
    expect(decideUnknownRenewal(nothing, renewal(receipt), mark)).toEqual({ answer });
    expect(decideUnknownRelease(nothing, { ...key, clock: now, receipt }, mark)).toEqual({ answer });
  });

  test("does not wait where it gives its worker ID back, and proves the same", () => {
    const release = { ...key, clock: now, receipt: receiptText() };
    const answer = { outcome: "lost", reason: "forgotten" };
    expect(decideUnknownRelease(nothing, release, mark)).toEqual({ begins: noted, answer });
    expect(decideUnknownRelease({ clock: now, noted }, release, mark)).toEqual({ begins: undefined, answer });
  });

  test("is told what is missing", () => {
    const { answer } = decideUnknownRenewal(nothing, renewal(receiptText()), mark);
    if (!isInQuarantine(answer)) throw new Error("It does not wait.");
    const error = quarantineError("The store", answer);
    expect(error).toMatchObject({ code: "QUARANTINE", details: { retryAfterMs: length, until: now + length } });
    expect(error.message).toBe(
      `The store has no namespace \`orders\`, and a holder proves that it had one: nothing is granted in it for ${lengthText(length)}, until the windows have passed that it may have forgotten; put its data back, or wait until ${new Date(now + length).toISOString()}.`,
    );
  });

  test("is remembered by a claimer, whose recall proves the same", () => {
    const own = { namespaceId: "0f", era: "5-aa", workerId: 9, fence: 1, token: "t9", renewals: 0 };
    const recall: Receipt = { ...own, ...limits, until: now + 60_000 };
    expect(eraToNote(nothing, recall, mark)).toEqual(noted);
    expect(eraToNote({ clock: now, noted }, recall, mark)).toBeUndefined();
  });
});
