import { describe, expect, test } from "vitest";
import { fc } from "../support/fast-check.ts";
import { type Era, nextEra } from "../../src/rule/era.ts";
import { readReceipt, type Receipt, receiptOf } from "../../src/rule/receipt.ts";
import type { ReleaseRequest, RenewRequest } from "../../src/rule/registry.ts";
import { decideRelease, decideRenewal, isInQuarantine, recalledEra, type Verdict } from "../../src/rule/verdict.ts";
import type { Stored } from "../../src/rule/window.ts";

const limits = { maxWindow: 600_000, maxClockSkew: 10_000 };
const info = { id: "0f", layout: "a", ...limits };
const now = 1_700_000_000_000;
const mark = (): string => "ab";
/** The first era, and one that began after a quarantine that is over. */
const first: Era = { era: "1-aa", quarantineEnd: 0, opensAt: 0 };
const second: Era = { era: "2-aa", quarantineEnd: now - 1000, opensAt: now - 1000 };
/** A quarantine that lasts. */
const waiting: Era = { era: "2-aa", quarantineEnd: now + 5000, opensAt: now + 5000 };
const [calm, past, inside] = [first, second, waiting].map((era) => ({ ...era, info, clock: now }));
if (calm === undefined || past === undefined || inside === undefined) throw new Error("There are three.");

function record(options: Partial<Stored> = {}): Stored {
  return {
    workerId: 7,
    fence: 3,
    token: "t1",
    from: now - 10_000,
    until: now + 60_000,
    seenClock: now,
    clean: false,
    knownFrom: now - 10_000,
    era: first.era,
    renewals: 4,
    turn: "b",
    ...options,
  };
}

/** The receipt of the record, with changes. */
function receipt(changes: Partial<Receipt> = {}): string {
  const own = {
    namespaceId: "0f",
    era: first.era,
    workerId: 7,
    fence: 3,
    token: "t1",
    renewals: 4,
    until: now + 60_000,
  };
  const all: Receipt = { ...own, ...limits, ...changes };
  const namespace = { info: { ...info, ...all, id: all.namespaceId }, era: all.era };
  return receiptOf(namespace, record({ ...all })) ?? "";
}

const key = { namespace: "orders", workerId: 7, fence: 3, token: "t1" };

function renewal(options: Partial<RenewRequest> = {}): RenewRequest {
  return { ...key, clock: now, window: 60_000, turn: "b", nextTurn: "c", receipt: receipt(), ...options };
}

function release(options: Partial<ReleaseRequest> = {}): ReleaseRequest {
  return { ...key, clock: now, turn: "b", nextTurn: "c", receipt: receipt(), used: { until: now }, ...options };
}

const renewIn = (state: typeof calm, before: Stored | undefined, options?: Partial<RenewRequest>) =>
  decideRenewal(state, before, renewal(options), mark);
const releaseIn = (state: typeof calm, before: Stored | undefined, options?: Partial<ReleaseRequest>) =>
  decideRelease(state, before, release(options), mark);

/** Of a record: another holder claimed the worker ID behind the window of the receipt. */
const next = { fence: 4, token: "t2", from: now + 60_000, until: now + 120_000 };

/** Where the times in doubt begin for a holder whose window ends at `until`. */
const doubtFrom = (until: number): number => until - limits.maxWindow - limits.maxClockSkew;
const lost = (reason: string, doubt?: object) => ({ answer: { outcome: "lost", reason, ...(doubt && { doubt }) } });
const beganWith = (state: typeof calm, text: string): Era => nextEra(state, now, info, mark, readReceipt(text));

/** A verdict that changes nothing. */
function changesNothing({ begins, record: after }: Verdict<unknown>): void {
  expect([begins, after]).toEqual([undefined, undefined]);
}

const toldToWait = (era: string, opensAt = now + 5000): object => ({
  outcome: "quarantine",
  namespace: "orders",
  era,
  clock: now,
  opensAt,
  maxClockSkew: limits.maxClockSkew,
});

describe("a renewal", () => {
  test("in turn is accepted, moves the turn on and counts", () => {
    const { answer, record: after, begins } = renewIn(calm, record());
    expect(begins).toBeUndefined();
    expect(after).toEqual({ ...record(), renewals: 5, turn: "c", recents: undefined, checkpoint: undefined });
    expect(answer).toEqual({
      outcome: "renewed",
      from: now - 10_000,
      until: now + 60_000,
      clock: now,
      turn: "c",
      receipt: receipt({ renewals: 5 }),
    });
  });

  test("without turns goes on where the record has none", () => {
    const { answer, record: after } = renewIn(calm, record({ turn: undefined }), {
      turn: undefined,
      nextTurn: undefined,
    });
    expect(answer).toMatchObject({ outcome: "renewed", turn: undefined });
    expect(after).toMatchObject({ renewals: 5, turn: undefined });
  });

  test("counts from nothing where nothing was counted, and never below the receipt", () => {
    expect(renewIn(calm, record({ renewals: undefined }), { receipt: undefined }).record).toMatchObject({
      renewals: 1,
    });
    const covered = { receipt: receipt({ until: now - 1000 }) };
    expect(renewIn(past, record({ renewals: 2 }), covered).record).toMatchObject({ renewals: 5 });
    expect(renewIn(past, record({ renewals: 9 }), covered).record).toMatchObject({ renewals: 10 });
  });

  test("out of turn is lost, and changes nothing", () => {
    for (const sent of [
      { turn: "a" },
      { turn: "a", nextTurn: "x", sentTurns: ["y"] },
      { turn: undefined, nextTurn: undefined },
    ]) {
      expect(renewIn(calm, record(), sent)).toEqual(lost("cloned"));
    }
  });

  test("in the turn of a request whose answer was lost is accepted", () => {
    expect(renewIn(calm, record(), { turn: "a", nextTurn: "d", sentTurns: ["b"] }).record).toMatchObject({ turn: "d" });
  });

  test("repeated is answered from the record, whatever else it asks for, and counts once", () => {
    const before = record({ recents: undefined });
    const asked = { turn: "a", nextTurn: "b", window: 600_000, checkpoint: { timestamp: now, sequence: 1 } };
    const { answer, record: after } = renewIn(calm, before, asked);
    expect(after).toBe(before);
    expect(answer).toMatchObject({ until: before.until, turn: "b", receipt: receipt() });
  });

  test("repeated after the window has passed opens it again, in the same turn, and counts", () => {
    const before = record({ until: now });
    const { answer, record: after } = renewIn(calm, before, { turn: "a", nextTurn: "b", receipt: undefined });
    expect(after).toMatchObject({ from: before.from, until: now + 60_000, turn: "b", renewals: 5 });
    expect(answer).toMatchObject({ until: now + 60_000, turn: "b", receipt: receipt({ renewals: 5 }) });
  });

  test("whose turn does not move on is refused before its receipt is looked at", () => {
    const sent = { turn: "b", nextTurn: "b", receipt: receipt({ renewals: 9 }) };
    expect(() => renewIn(calm, record(), sent)).toThrow(/Expected `nextTurn` to differ from `turn`/);
  });

  test("of a claim that is over is lost, with the reason, with and without a receipt", () => {
    for (const sent of [receipt(), undefined]) {
      const asked = { receipt: sent };
      expect(renewIn(calm, record({ token: undefined }), asked)).toEqual(lost("released"));
      expect(renewIn(calm, record(next), asked)).toEqual(lost("taken"));
      expect(renewIn(calm, record({ ...next, token: undefined }), asked)).toEqual(lost("taken"));
    }
    expect(renewIn(calm, undefined, { receipt: undefined })).toEqual(lost("taken"));
    expect(renewIn(calm, record({ token: "t2" }), { receipt: undefined })).toEqual(lost("taken"));
  });

  test("is refused for its clock or window before its turn is looked at, and changes nothing", () => {
    for (const turn of ["a", "b"]) {
      expect(() => renewIn(calm, record(), { turn, clock: now + 10_001 })).toThrow(/10001 ms ahead/);
      expect(() => renewIn(calm, record(), { turn, window: 600_001 })).toThrow(/Expected `window`/);
    }
    expect(() => renewIn(calm, record({ fence: 4 }), { receipt: undefined, window: 0 })).toThrow(/Expected `window`/);
    expect(() => renewIn(calm, record(), { checkpoint: { timestamp: 1, sequence: 0 } })).toThrow(
      /Expected the checkpoint/,
    );
  });

  test("of a claim that is over is lost before its clock and window are looked at, where it has a receipt", () => {
    expect(renewIn(calm, record(next), { window: 0, clock: 0 })).toEqual(lost("taken"));
  });

  test("in a quarantine is answered so, before its clock, window and turn are looked at", () => {
    for (const options of [{}, { receipt: undefined }, { turn: "x", nextTurn: "y" }, { window: 0 }, { clock: 0 }]) {
      const verdict = renewIn(inside, record(), options);
      expect(verdict).toEqual({ answer: toldToWait(inside.era) });
      expect(isInQuarantine(verdict.answer)).toBe(true);
    }
    // Without a receipt, a claim that is over has to wait to hear of it.
    expect(isInQuarantine(renewIn(inside, record({ fence: 4 }), { receipt: undefined }).answer)).toBe(true);
  });

  test("of a claim that is over and was not forgotten is lost at once, in a quarantine, too", () => {
    expect(renewIn(inside, record(next))).toEqual(lost("taken"));
    expect(renewIn(inside, record({ token: undefined }))).toEqual(lost("released"));
  });

  test("is accepted from the time on at which an operator ended the quarantine", () => {
    const opened = { ...inside, opensAt: now };
    expect(renewIn(opened, record()).answer).toMatchObject({ outcome: "renewed", from: now });
    expect(isInQuarantine(renewIn({ ...inside, opensAt: now + 1 }, record()).answer)).toBe(true);
  });
});

describe("a renewal with evidence", () => {
  const counting: readonly (readonly [string, Stored | undefined, Partial<Receipt>])[] = [
    ["another id", record(), { namespaceId: "ff" }],
    ["no record", undefined, {}],
    ["a lower fence that has passed", record({ fence: 2, token: "t2", until: now - 10_000 }), {}],
    ["another token whose window has passed", record({ token: "t2", until: now - 10_000 }), {}],
    [
      "another claim that ended, and fewer renewals",
      record({ token: undefined, renewals: 0, until: now - 10_000 }),
      {},
    ],
    ["fewer renewals", record({ renewals: 3 }), {}],
    ["fewer renewals and another turn", record({ renewals: 3, turn: "z" }), {}],
  ];

  test.each(counting)("of the present era begins a quarantine: %s", (_, before, changes) => {
    const text = receipt(changes);
    const begins = beganWith(calm, text);
    const answer = toldToWait(begins.era, begins.opensAt);
    expect(renewIn(calm, before, { receipt: text })).toEqual({ begins, answer });
    // Before its clock and its window are looked at, and in another quarantine, too.
    expect(renewIn(calm, before, { receipt: text, window: 0, clock: 0 }).begins).toEqual(begins);
    const again = receipt({ ...changes, era: inside.era });
    expect(renewIn(inside, before, { receipt: again }).begins).toEqual(beganWith(inside, again));
  });

  test.each(counting)("of an older era, of a window in the quarantine, begins none: %s", (_, before, changes) => {
    const text = receipt({ ...changes, until: now + 5000 });
    expect(renewIn(inside, before, { receipt: text })).toEqual({ answer: toldToWait(inside.era) });
    const beyond = receipt({ ...changes, until: now + 5001 });
    expect(renewIn(inside, before, { receipt: beyond }).begins).toEqual(beganWith(inside, beyond));
  });

  test("begins a quarantine with the largest limits and the latest end, which is never shorter than the last one", () => {
    const ends = (state: typeof calm, changes: Partial<Receipt>): number | undefined =>
      renewIn(state, undefined, { receipt: receipt({ era: state.era, ...changes }) }).begins?.quarantineEnd;
    const length = limits.maxWindow + 2 * limits.maxClockSkew;
    expect(ends(calm, {})).toBe(now + length);
    expect(ends(calm, { maxWindow: 1, maxClockSkew: 0 })).toBe(now + length);
    expect(ends(calm, { maxWindow: 700_000, maxClockSkew: 20_000 })).toBe(now + 740_000);
    expect(ends(calm, { until: now + 900_000 })).toBe(now + 900_000);
    const longer = { ...inside, quarantineEnd: now + 2_000_000, opensAt: now + 2_000_000 };
    expect(ends(longer, {})).toBe(now + 2_000_000);
    // An operator ended that one early: the next one is as long as any.
    expect(
      renewIn({ ...longer, opensAt: now }, undefined, { receipt: receipt({ era: longer.era }) }).begins,
    ).toMatchObject({
      quarantineEnd: now + 2_000_000,
      opensAt: now + length,
    });
  });

  test("beside another claim's window is lost at once, with the times in doubt, and begins a quarantine if it counts", () => {
    const until = now + 30_000;
    for (const other of [
      record({ token: "t2", until, renewals: 0 }),
      record({ token: "t2", until, renewals: 9 }),
      record({ fence: 2, token: "t2", until }),
      record({ fence: 2, token: undefined, until }),
      // The other holder gave it back.
      record({ token: undefined, until, renewals: 0, clean: true }),
    ]) {
      const expected = lost("forgotten", { from: doubtFrom(now + 60_000), until });
      expect(renewIn(calm, other)).toEqual({ ...expected, begins: beganWith(calm, receipt()) });
      const covered = receipt({ until: now + 5000 });
      const doubt = { from: doubtFrom(now + 5000), until: now + 5000 };
      expect(renewIn(inside, other, { receipt: covered })).toEqual(lost("forgotten", doubt));
      expect(renewIn(past, other, { receipt: receipt({ until: now - 1000 }) })).toEqual(
        lost("forgotten", { from: doubtFrom(now - 1000), until: now - 1000 }),
      );
    }
  });

  test("beside a claim whose window the holder's own clock has not passed is lost at once, too: it would use these times again", () => {
    const other = record({ token: "t2", until: now - 20_000 });
    const covered = receipt({ until: now + 5000 });
    const renewAt = (clock: number): unknown => renewIn(inside, other, { receipt: covered, clock }).answer;
    expect(renewAt(now)).toMatchObject({ outcome: "quarantine" });
    expect(renewAt(now - 20_000)).toMatchObject({ outcome: "quarantine" });
    expect(renewAt(now - 20_001)).toMatchObject({ outcome: "lost", reason: "forgotten" });
    expect(renewAt(now - 100_000)).toMatchObject({ outcome: "lost", reason: "forgotten" });
  });

  test("names the times in doubt after a quarantine, too, where the other claim began before the end of its window", () => {
    const covered = { receipt: receipt({ until: now - 1000 }) };
    const other = record({ token: "t2" });
    const reasonAfter = (options: Partial<Stored>) => renewIn(past, { ...other, ...options }, covered);
    const from = doubtFrom(now - 1000);
    // The quarantine protected the holder from then on, and not before.
    expect(reasonAfter({ until: now - 10_000 })).toEqual(lost("forgotten", { from, until: now - 10_000 }));
    expect(reasonAfter({ token: undefined, renewals: 0, until: now - 10_000 })).toEqual(
      lost("forgotten", { from, until: now - 10_000 }),
    );
    // The copy has only an earlier claim.
    expect(reasonAfter({ fence: 0, until: now - 10_000 })).toEqual(lost("forgotten"));
    expect(reasonAfter({ until: now - 9999 })).toEqual(lost("forgotten", { from, until: now - 9999 }));
    // A claim before that one may have begun earlier.
    expect(reasonAfter({ from: now - 1000 })).toEqual(lost("forgotten", { from, until: now - 1000 }));
    expect(renewIn(past, undefined, covered)).toEqual(lost("forgotten"));
  });

  test("that is no evidence names the times in doubt, and closes its window where the other claim is over", () => {
    const from = doubtFrom(now + 60_000);
    const until = now + 5000;
    const after = (options: Partial<Stored>) => {
      const verdict = renewIn(calm, record(options), { receipt: receipt() });
      if (verdict.record !== undefined) {
        const { token, clean, recents } = verdict.record;
        expect([token, clean, recents, verdict.end]).toEqual([undefined, false, undefined, "forced"]);
        // It is closed once.
        expect(renewIn(calm, verdict.record, { receipt: receipt() })).not.toHaveProperty("record");
      }
      return [verdict.answer, verdict.record?.until];
    };
    const answer = (...told: Parameters<typeof lost>) => lost(...told).answer;
    // Claimed by two holders, one after the other: the last one stands, or has given it back.
    const twice = { fence: 9, from: now - 1000 };
    const whole = answer("taken", { from, until: now + 60_000 });
    for (const [token, closed] of [
      ["t2", undefined],
      [undefined, now + 60_000],
    ] as const) {
      expect(after({ ...twice, token, until })).toEqual([answer("taken", { from, until }), closed]);
      expect(after({ ...twice, token, from: now + 59_999, until: now + 90_000, clean: true })).toEqual([
        whole,
        closed && now + 90_000,
      ]);
      expect(after({ ...twice, token, from: now + 60_000 })).toEqual([answer("taken"), undefined]);
    }
    // Given back by another claim or by a copy.
    const recents = { from: now, bytes: new Uint8Array() };
    const given = { token: undefined, until, clean: true, recents };
    expect(after(given)).toEqual([answer("released", { from, until }), now + 60_000]);
    // Ended by an operator.
    expect(after({ token: undefined, until: now + 60_000 })).toEqual([answer("released"), undefined]);
  });

  test("waits for the end of the quarantine where no other claim uses its times", () => {
    const covered = { receipt: receipt({ until: now - 1000 }) };
    for (const before of [undefined, record({ token: "t2", until: now - 10_000 })]) {
      expect(isInQuarantine(renewIn(inside, before, covered).answer)).toBe(true);
    }
  });

  test("is accepted after the quarantine where fence and token are the same, whatever the turn", () => {
    const covered = receipt({ renewals: 6, until: now - 1000 });
    const { answer, record: after } = renewIn(past, record(), { receipt: covered, turn: "x", nextTurn: "y" });
    const renewed = { from: second.opensAt, until: now + 60_000 };
    expect(after).toMatchObject({ ...renewed, knownFrom: second.opensAt, era: second.era, renewals: 7, turn: "y" });
    expect(answer).toMatchObject({ ...renewed, outcome: "renewed", turn: "y" });
    expect(answer).toHaveProperty("receipt", receipt({ era: second.era, renewals: 7 }));
  });

  test("of a copy is decided by its turn once the record is of the present era", () => {
    const before = record({ era: second.era, renewals: 5, turn: "y" });
    const covered = { receipt: receipt({ renewals: 9, until: now - 1000 }) };
    expect(renewIn(past, before, { ...covered, turn: "x", nextTurn: "z" })).toEqual(lost("cloned"));
    // The very renewal that the record is from: its answer was lost.
    expect(renewIn(past, before, { ...covered, turn: "x", nextTurn: "y" }).record).toBe(before);
    expect(renewIn(past, before, { ...covered, turn: "y", nextTurn: "z" }).record).toMatchObject({ renewals: 10 });
  });

  test("repeated in the next era is a renewal of that era", () => {
    const { record: after } = renewIn(past, record({ turn: "c" }));
    expect(after).toMatchObject({ era: second.era, from: second.opensAt, renewals: 5, turn: "c" });
  });

  test("drops a checkpoint from before the quarantine", () => {
    const checkpoint = { timestamp: now - 2000, sequence: 0 };
    expect(renewIn(past, record(), { checkpoint }).record).toMatchObject({ checkpoint: undefined });
  });

  test("of another claim, and any other text, is ignored", () => {
    const ignored = [
      receipt({ workerId: 8, namespaceId: "ff" }),
      receipt({ fence: 4 }),
      receipt({ token: "t2", namespaceId: "ff" }),
      `${receipt({ namespaceId: "ff" })}.`,
      "",
    ];
    for (const text of ignored) {
      expect(renewIn(calm, record(), { receipt: text }).answer).toMatchObject({ outcome: "renewed" });
      expect(releaseIn(calm, record(), { receipt: text }).answer).toEqual({ outcome: "released" });
    }
  });
});

describe("a release", () => {
  test("in turn ends the claim with its usage", () => {
    const { begins, answer, record: after } = releaseIn(calm, record());
    expect([begins, answer]).toEqual([undefined, { outcome: "released" }]);
    expect(after).toMatchObject({ token: undefined, clean: true, until: now, releasedAt: now });
  });

  test("out of turn is lost, and changes nothing", () => {
    expect(releaseIn(calm, record(), { turn: "a" })).toEqual(lost("cloned"));
    expect(releaseIn(calm, record(), { turn: undefined, nextTurn: undefined })).toEqual(lost("cloned"));
    for (const sent of [
      { turn: "a", nextTurn: "b" },
      { turn: "a", sentTurns: ["b"] },
    ]) {
      expect(releaseIn(calm, record(), sent).answer).toEqual({ outcome: "released" });
    }
  });

  test("that was done before is answered again, whatever its turn, and changes nothing", () => {
    const done = record({ token: undefined, clean: true, until: now });
    for (const options of [{}, { turn: "x" }, { receipt: undefined }, { receipt: undefined, used: undefined }]) {
      expect(releaseIn(calm, done, options)).toEqual({ answer: { outcome: "released" } });
      expect(releaseIn(inside, done, options)).toEqual({ answer: { outcome: "released" } });
    }
    expect(releaseIn(calm, record({ token: undefined }), { used: undefined })).toEqual({
      answer: { outcome: "released" },
    });
  });

  test("after an operator ended the claim is lost, where the holder reports its usage", () => {
    expect(releaseIn(calm, record({ token: undefined }))).toEqual(lost("released"));
  });

  test("without usage, after a clean one, closes the window: another copy may have given it back", () => {
    const done = record({ token: undefined, clean: true, until: now });
    const { answer, record: after } = releaseIn(calm, done, { used: undefined });
    expect(answer).toEqual({ outcome: "released" });
    expect(after).toMatchObject({ clean: false, until: now + 60_000 });
  });

  test("of a claim that was taken over is lost", () => {
    const behind = { fence: 4, from: now };
    expect(releaseIn(calm, record({ ...behind, token: "t2" }))).toEqual(lost("taken"));
    expect(releaseIn(calm, record({ ...behind, token: undefined, clean: true }))).toEqual(lost("taken"));
    expect(releaseIn(calm, undefined, { receipt: undefined })).toEqual(lost("taken"));
  });

  test("closes the window up to what the holder used, where another claim of the same times is over", () => {
    const other = { fence: 4, from: now - 10, until: now - 5, clean: true };
    const doubt = { from: doubtFrom(now + 60_000), until: now - 5 };
    const { answer, record: after } = releaseIn(calm, record({ ...other, token: undefined }));
    expect(answer).toEqual(lost("taken", doubt).answer);
    expect([after?.until, after?.clean]).toEqual([now, false]);
    expect(releaseIn(calm, record({ ...other, token: "t2" }))).toEqual(lost("taken", doubt));
  });

  test("is answered in a quarantine, not clean where the claim is from an older era", () => {
    const { answer, record: after } = releaseIn(inside, record());
    expect(answer).toEqual({ outcome: "released" });
    expect(after).toMatchObject({ token: undefined, clean: false, until: now + 60_000 });
    const present = record({ era: inside.era, fence: now + 6000 });
    const own = { ...key, fence: now + 6000, receipt: undefined };
    expect(releaseIn(inside, present, own).record).toMatchObject({ clean: true, until: now });
  });

  test("of an older era is taken whatever its turn", () => {
    expect(releaseIn(past, record(), { turn: "x" }).record).toMatchObject({ token: undefined, clean: false });
  });

  test("with evidence is answered where fence and token are the same, and is never clean", () => {
    const text = receipt({ renewals: 5 });
    const { begins, answer, record: after } = releaseIn(calm, record(), { receipt: text, turn: "x" });
    expect(begins).toEqual(beganWith(calm, text));
    expect(answer).toEqual({ outcome: "released" });
    expect(after).toMatchObject({ token: undefined, clean: false, until: now + 60_000, era: first.era });
    const covered = receipt({ renewals: 5, until: now });
    const before = record({ era: inside.era });
    for (const turn of ["b", "x"]) {
      const used = { until: now + 6000 };
      expect(releaseIn(inside, before, { receipt: covered, turn, used })).toMatchObject({
        answer: { outcome: "released" },
        record: { clean: false, until: now + 60_000 },
      });
    }
  });

  test("with evidence of a claim that the registry does not have is lost, with the times in doubt", () => {
    const begins = beganWith(calm, receipt());
    expect(releaseIn(calm, undefined)).toEqual({ ...lost("forgotten"), begins });
    const doubt = { from: doubtFrom(now + 60_000), until: now + 60_000 };
    expect(releaseIn(calm, record({ token: "t2" }))).toEqual({ ...lost("forgotten", doubt), begins });
    const covered = receipt({ until: now - 1000 });
    expect(releaseIn(past, record({ token: "t2", until: now - 10_000 }), { receipt: covered })).toEqual(
      lost("forgotten", { from: doubtFrom(now - 1000), until: now - 10_000 }),
    );
  });

  test("with an impossible usage is refused", () => {
    expect(() => releaseIn(calm, record(), { used: { until: now + 60_001 } })).toThrow(/Expected `until`/);
  });
});

describe("a recall", () => {
  const recall = (state: typeof calm, before: Stored | undefined, changes: Partial<Receipt> = {}): Era | undefined => {
    const read = readReceipt(receipt(changes));
    if (read === undefined) throw new Error("It is a receipt.");
    return recalledEra(state, before, read, mark);
  };

  test("of what the registry forgot begins a quarantine", () => {
    expect(recall(calm, undefined)).toEqual(beganWith(calm, receipt()));
    expect(recall(calm, record({ renewals: 3 }))).toEqual(beganWith(calm, receipt()));
    expect(recall(calm, record(), { namespaceId: "ff" })).toBeDefined();
    expect(recall(past, undefined, { until: now })).toEqual(beganWith(past, receipt({ until: now })));
  });

  test("of what it knows, or of what a quarantine covers, begins none", () => {
    expect(recall(calm, record())).toBeUndefined();
    expect(recall(calm, record({ fence: 4 }))).toBeUndefined();
    expect(recall(calm, record({ token: undefined }))).toBeUndefined();
    expect(recall(inside, undefined, { until: now + 5000 })).toBeUndefined();
    expect(recall(past, undefined, { until: now - 1000 })).toBeUndefined();
  });
});

describe("a verdict", () => {
  test("that begins an era is the same as one that is decided in it", () => {
    for (const before of [undefined, record({ renewals: 3 }), record({ token: "t2" }), record({ fence: 2 })]) {
      const { begins, ...verdict } = renewIn(calm, before);
      expect(begins).toBeDefined();
      const decided = renewIn({ ...calm, ...begins }, before);
      expect(verdict).toEqual(decided);
      changesNothing(decided);
      const { begins: beganByRelease, ...ended } = releaseIn(calm, before);
      expect(ended).toEqual(releaseIn({ ...calm, ...beganByRelease }, before));
    }
  });
});

describe("times in doubt", () => {
  test("are those of claims before the last one, too, of which the record shows an empty window", () => {
    const before = record({ fence: 1, from: now + 5000, until: now + 5000 });
    const own = receipt({ until: now - 1000 });
    const doubt = { from: doubtFrom(now - 1000), until: now - 1000 };
    expect(renewIn(calm, before, { receipt: own }).answer).toEqual({ outcome: "lost", reason: "forgotten", doubt });
  });

  const time = fc.integer({ min: now - 2_000_000, max: now + 700_000 });
  /** How the store shows the worker ID now. */
  const shown = fc.record({
    fence: fc.integer({ min: 1, max: 5 }),
    token: fc.constantFrom("t1", "t2", undefined),
    window: fc.tuple(time, time).map((both) => both.toSorted((a, b) => a - b)),
    clean: fc.boolean(),
  });

  test("are those of the record and of the holder, and end behind their beginning", () => {
    fc.assert(
      fc.property(shown, time, fc.constantFrom(calm, past, inside), fc.boolean(), (record_, until, state, covered) => {
        const { window, ...others } = record_;
        const [from = 0, end = 0] = window;
        const before = record({ ...others, from, until: end });
        const own = receipt({ until, ...(covered && { era: state.era }) });
        for (const { answer } of [
          renewIn(state, before, { receipt: own }),
          releaseIn(state, before, { receipt: own, used: { until: Math.max(from, until - 10) } }),
        ]) {
          if (answer.outcome !== "lost" || answer.doubt === undefined) continue;
          expect(answer.doubt.from).toBeLessThanOrEqual(answer.doubt.until);
          if (answer.doubt.from === answer.doubt.until) expect(from).toBe(end);
          expect(answer.doubt.until).toBeLessThanOrEqual(Math.min(until, end));
        }
      }),
    );
  });
});
