import type { Turns } from "../../src/rule/registry.ts";
import { describe, expect, test } from "vitest";
import { checkTurns, isRepeat, isTurnOf, mostSentTurns } from "../../src/rule/turn.ts";
import { freshToken, HolderTurns } from "../../src/lease/turns.ts";
import { fakeClock } from "../../src/testing.ts";

describe("whose turn it is", () => {
  const record = { turn: "b" };
  const sent = Array.from({ length: mostSentTurns }, (_, i) => `s${i}`);

  test("is that of a request which names the record's turn in any way", () => {
    expect(isTurnOf(record, { turn: "b", nextTurn: "c" })).toBe(true);
    expect(isTurnOf(record, { turn: "a", nextTurn: "b" })).toBe(true);
    expect(isTurnOf(record, { turn: "a", nextTurn: "d", sentTurns: ["b", "c"] })).toBe(true);
    expect(isTurnOf(record, { turn: "a", nextTurn: "c" })).toBe(false);
    expect(isTurnOf(record, { turn: "a", nextTurn: "c", sentTurns: ["d"] })).toBe(false);
  });

  test("is not that of a request without turns, unless the record has none", () => {
    expect(isTurnOf(record, {})).toBe(false);
    expect(isTurnOf({}, {})).toBe(true);
    expect(isTurnOf({ turn: undefined }, { turn: "a", nextTurn: "b" })).toBe(true);
  });

  test("is told by 8 sent turns at most", () => {
    expect(isTurnOf(record, { sentTurns: [...sent.slice(1), "b"] })).toBe(true);
    expect(isTurnOf(record, { sentTurns: [...sent, "b"] })).toBe(false);
  });

  test("a repeat names the record's turn as its next one", () => {
    const isRepeatOf = (stored: { turn?: string }, sent: Turns): boolean =>
      isRepeat({ ...stored, until: 1001 }, { ...sent, clock: 1000 }, 1000);
    expect(isRepeatOf(record, { turn: "a", nextTurn: "b" })).toBe(true);
    expect(isRepeatOf(record, { turn: "b", nextTurn: "c" })).toBe(false);
    expect(isRepeatOf(record, { sentTurns: ["b"] })).toBe(false);
    expect(isRepeatOf({}, {})).toBe(false);
    expect(isRepeatOf({}, { nextTurn: "b" })).toBe(false);
  });

  test("no renewal is a repeat once the window has passed by one of both clocks", () => {
    const isRepeatAt = (holder: number, registry: number): boolean =>
      isRepeat({ ...record, until: 1000 }, { nextTurn: "b", clock: holder }, registry);
    expect(isRepeatAt(999, 999)).toBe(true);
    expect(isRepeatAt(1000, 999)).toBe(false);
    expect(isRepeatAt(999, 1000)).toBe(false);
  });

  test("a turn that does not move on is refused", () => {
    for (const sent of [{}, { turn: "a" }, { nextTurn: "a" }, { turn: "a", nextTurn: "b" }]) checkTurns(sent);
    expect(() => checkTurns({ turn: "a", nextTurn: "a" })).toThrow(
      /^Expected `nextTurn` to differ .* got the same text; draw/,
    );
  });
});

describe("a holder's turns", () => {
  const [open, end, late] = [1000, 2000, 2500];

  function turns(): HolderTurns {
    let drawn = 0;
    return new HolderTurns(() => `t${++drawn}`);
  }

  test("are none before the first renewal", () => {
    expect(turns().present).toEqual({ turn: undefined, nextTurn: undefined, sentTurns: [] });
  });

  test("are drawn once, and sent again until an answer acknowledges them", () => {
    const own = turns();
    const first = { turn: undefined, nextTurn: "t1", sentTurns: [] };
    for (let i = 0; i < 3; i++) expect(own.forRenewal(open, end)).toEqual(first);
    expect(own.present).toEqual(first);
    own.acknowledge("t1");
    expect(own.present).toEqual({ turn: "t1", nextTurn: undefined, sentTurns: [] });
    expect(own.forRenewal(open, end)).toEqual({ turn: "t1", nextTurn: "t2", sentTurns: [] });
  });

  test("stay where a registry answers none, or another one", () => {
    const own = turns();
    own.forRenewal(open, end);
    for (const answered of [undefined, "x"]) own.acknowledge(answered);
    expect(own.forRenewal(open, end)).toEqual({ turn: undefined, nextTurn: "t1", sentTurns: [] });
  });

  test("do not go back to one that was sent before", () => {
    const own = turns();
    own.forRenewal(open, end);
    own.noteJump();
    own.forRenewal(open, end);
    // The answer to an earlier request, which the registry gave before it took the later one.
    own.acknowledge("t1");
    expect(own.present).toEqual({ turn: undefined, nextTurn: "t2", sentTurns: ["t1"] });
  });

  test("are drawn anew once when the window passes", () => {
    const own = turns();
    own.forRenewal(open, end);
    const anew = { turn: undefined, nextTurn: "t2", sentTurns: ["t1"] };
    expect(own.forRenewal(end - 1, end)).toMatchObject({ nextTurn: "t1" });
    for (const wall of [end, end + 1, late]) expect(own.forRenewal(wall, end)).toEqual(anew);
    own.acknowledge("t2");
    expect(own.present).toEqual({ turn: "t2", nextTurn: undefined, sentTurns: [] });
  });

  test("that were drawn after the window stay when the window is over for longer", () => {
    const own = turns();
    expect(own.forRenewal(late, end)).toEqual({ turn: undefined, nextTurn: "t1", sentTurns: [] });
    expect(own.forRenewal(late + 1000, end)).toEqual({ turn: undefined, nextTurn: "t1", sentTurns: [] });
  });

  test("are drawn anew once at each jump of the clock", () => {
    const own = turns();
    own.forRenewal(open, end);
    own.noteJump();
    own.noteJump();
    for (let i = 0; i < 2; i++) {
      expect(own.forRenewal(open, end)).toEqual({ turn: undefined, nextTurn: "t2", sentTurns: ["t1"] });
    }
    own.noteJump();
    expect(own.forRenewal(open, end)).toEqual({ turn: undefined, nextTurn: "t3", sentTurns: ["t1", "t2"] });
  });

  test("that were drawn after a jump are not drawn anew for it", () => {
    const own = turns();
    own.noteJump();
    expect(own.forRenewal(open, end)).toMatchObject({ nextTurn: "t1", sentTurns: [] });
    expect(own.forRenewal(open, end)).toMatchObject({ nextTurn: "t1", sentTurns: [] });
  });

  test("name at most 8 that were sent, and then neither draw one nor drop one", () => {
    const own = turns();
    for (let i = 0; i < 20; i++) {
      own.noteJump();
      own.forRenewal(open, end);
    }
    const sentTurns = Array.from({ length: mostSentTurns }, (_, i) => `t${i + 1}`);
    expect(own.present).toEqual({ turn: undefined, nextTurn: "t9", sentTurns });
    own.acknowledge("t9");
    expect(own.forRenewal(open, end)).toMatchObject({ turn: "t9", sentTurns: [] });
  });
});

describe("a fresh token", () => {
  const random = "0".repeat(32);

  test("is 32 hex digits, and another one where any of random bytes and clocks differs", () => {
    const [clock, same, stepped, later] = [fakeClock(), fakeClock(), fakeClock(), fakeClock()];
    stepped.step(1);
    const monotonic = { ...later, nanos: () => 1n };
    expect(freshToken(clock, random)).toMatch(/^[\da-f]{32}$/);
    expect(freshToken(same, random)).toBe(freshToken(clock, random));
    const others = [freshToken(stepped, random), freshToken(monotonic, random), freshToken(clock, "1".repeat(32))];
    expect(new Set([...others, freshToken(clock, random)]).size).toBe(4);
  });
});
