import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { check, type Flaw, type Incidents, type Verdict } from "../../prove/checker.ts";
import type { Fact } from "../../prove/log.ts";
import { defaultLayout as layout } from "../../src/id/layout.ts";
import { HeldIntervals } from "../../src/ops/audit/interval-set.ts";

const start = 1_767_225_600_000;

/** The ID of worker 3 that has this sequence in the tick so many ms after the start. */
function id(ms: number, sequence = 0, workerId = 3): bigint {
  return layout.encode(layout.tickOf(start + ms), workerId, sequence);
}

/** A window of worker 3, in ms after the start. */
function window(from: number, until: number, fence: number, more: { knownFrom?: number; generation?: number } = {}) {
  const { knownFrom = from, generation = 1 } = more;
  return {
    window: { workerId: 3, fence, from: start + from, until: start + until, knownFrom: start + knownFrom, generation },
  };
}

/** What a holder wrote down, in its order. */
type Life = readonly (bigint | Omit<Fact, "at">)[];

/** Checks the logs of these lives; `record`: what the registry has of worker 3, ms after the start. */
async function verdictOf(
  lives: readonly Life[],
  record?: readonly [from: number, until: number][],
  incidents?: Incidents,
): Promise<Verdict> {
  const folder = mkdtempSync(join(tmpdir(), "snowlease-checker-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const logs = lives.map((life, i) => {
    const log = join(folder, `holder-${i}-life-1`);
    const ids: bigint[] = [];
    let facts = "";
    for (const each of life) {
      if (typeof each === "bigint") ids.push(each);
      else facts += `${JSON.stringify({ at: ids.length, ...each })}\n`;
    }
    writeFileSync(`${log}.ids`, new BigUint64Array(ids));
    writeFileSync(`${log}.facts`, facts);
    return log;
  });
  if (record === undefined) return check(logs, layout, undefined, incidents);
  const rows = record.map(([from, until]) => ({ from: start + from, until: start + until }));
  return check(logs, layout, async (workerId) => new HeldIntervals(workerId === 3 ? (rows as never) : [], layout));
}

/** How many there are of each flaw, where there is any. */
async function flawsOf(...args: Parameters<typeof verdictOf>): Promise<Partial<Record<Flaw, number>>> {
  const { flaws } = await verdictOf(...args);
  return Object.fromEntries(Object.entries(flaws).filter(([, count]) => count > 0));
}

describe("the checker of the proof suite", () => {
  test("finds nothing in holders that follow each other", async () => {
    const first: Life = [window(0, 10, 1), id(0), id(0, 1), window(0, 20, 1), id(15), { left: "own will" }];
    const second: Life = [
      window(16, 40, 2),
      id(16),
      id(39, 4095),
      { left: "lost" },
      window(50, 60, 3, { generation: 2 }),
    ];
    const verdict = await verdictOf([first, second], [[0, 60]]);
    expect(verdict).toMatchObject({ ids: 5, lives: 2, leases: 3, findings: [] });
  });

  test("finds an ID that came twice, in one life or in two, and by whom", async () => {
    expect(await flawsOf([[window(0, 10, 1), id(1), id(2), id(1)]])).toEqual({ duplicates: 1 });
    const { flaws, findings } = await verdictOf([
      [window(0, 10, 1), id(1), id(2)],
      [window(10, 20, 2), id(2)],
    ]);
    expect(flaws).toMatchObject({ duplicates: 1, outside: 1 });
    expect(findings).toContain(`duplicates: ${id(2)}, by holder 0 life 1 as its 2th and by holder 1 life 1 as its 1th`);
  });

  test.each<[string, Life]>([
    ["before it", [window(10, 20, 1), id(9)]],
    ["at its end", [window(10, 20, 1), id(20)]],
    ["of another worker ID", [window(10, 20, 1), id(10, 0, 4)]],
    ["before the holder was granted it", [id(12), window(10, 20, 1)]],
    ["before the holder was granted more", [window(10, 20, 1), id(25), window(10, 30, 1)]],
    ["after the holder gave it up", [window(10, 20, 1), { left: "own will" }, id(12)]],
    ["after a quarantine closed its beginning", [window(10, 20, 1), window(30, 40, 1), id(12)]],
    ["before the recents that it continues", [window(10, 20, 1, { knownFrom: 5 }), id(4)]],
  ])("finds an ID outside the window that its maker knew of: %s", async (_, life) => {
    expect(await flawsOf([life])).toEqual({ outside: 1 });
  });

  test("lets a holder continue behind recents, and use each tick of its window", async () => {
    expect(await flawsOf([[window(10, 20, 1, { knownFrom: 5 }), id(5), id(19, 4095)]])).toEqual({});
  });

  test("finds an ID outside of all windows on record", async () => {
    const life: Life = [window(0, 30, 1), id(0), id(10), id(10, 1), id(12), id(29)];
    const record: [number, number][] = [
      [0, 10],
      [12, 30],
    ];
    expect(await flawsOf([life], record)).toEqual({ unrecorded: 2 });
    expect(await flawsOf([life], [])).toEqual({ unrecorded: 5 });
    expect(await flawsOf([life])).toEqual({});
  });

  test.each<[string, readonly Life[]]>([
    ["of two holders", [[window(0, 20, 1)], [window(19, 40, 2)]]],
    ["one within the other", [[window(0, 40, 1)], [window(10, 20, 2)]]],
    ["with one that ended before a third", [[window(0, 40, 1)], [window(41, 50, 2)], [window(30, 39, 3)]]],
    [
      "of one holder that switched to the same",
      [[window(0, 20, 1), { left: "lost" }, window(10, 30, 2, { generation: 2 })]],
    ],
    ["after a renewal", [[window(0, 20, 1), window(0, 25, 1)], [window(20, 40, 2)]]],
    [
      "with what was used until it was given back",
      [[window(0, 20, 1), id(15), { left: "own will" }], [window(15, 40, 2)]],
    ],
    ["with what was not given back but lost", [[window(0, 20, 1), id(5), { left: "lost" }], [window(15, 40, 2)]]],
  ])("finds windows that overlap: %s", async (_, lives) => {
    expect(await flawsOf(lives)).toMatchObject({ overlaps: 1 });
  });

  test("lets the next window begin where the one before was used up to, when it was given back", async () => {
    const first: Life = [window(0, 20, 1), id(15), { left: "own will" }];
    expect(await flawsOf([first, [window(16, 40, 2)]])).toEqual({});
    // A quarantine in between leaves a window with a hole.
    const raised: Life = [window(0, 20, 1), id(3), window(30, 50, 1), id(31), { left: "own will" }];
    expect(await flawsOf([raised, [window(32, 40, 2)]])).toEqual({});
  });

  test("finds a fence that did not rise", async () => {
    expect(await flawsOf([[window(0, 10, 2)], [window(10, 20, 2)]])).toEqual({ fences: 1 });
    expect(await flawsOf([[window(0, 10, 2)], [window(20, 30, 3)], [window(10, 20, 1)]])).toEqual({ fences: 1 });
  });

  test("finds a refusal for which nothing was the reason", async () => {
    const strange = "CONFIG_INVALID: Expected `until` to be from 1 to 2";
    const { flaws, findings } = await verdictOf([[window(0, 10, 1), { strange }]]);
    expect(flaws).toMatchObject({ refusals: 1 });
    expect(findings).toEqual([`refusals: ${strange}, to holder 0 life 1`]);
  });

  test("counts the refusals of each life, as it told them last", async () => {
    const { errors } = await verdictOf([
      [{ errors: { LEASE_EXPIRED: 1 } }, { errors: { LEASE_EXPIRED: 3 } }],
      [{ errors: { LEASE_EXPIRED: 1, CLOCK_SKEW: 2 } }],
    ]);
    expect(errors).toEqual({ LEASE_EXPIRED: 4, CLOCK_SKEW: 2 });
  });
});

/** What a holder was told so many ms after the start, which it had asked for a little before. */
function heard(answer: string, time: number, turn?: string): Omit<Fact, "at"> {
  return { heard: answer, sent: time - 5, time, turn };
}

const calm: Incidents = { restores: [], restarts: [], mayForget: false };
/** The copy is from 50 ms after the start, and was put back 200 ms after it. */
const restored: Incidents = {
  ...calm,
  restores: [{ copied: 50, begin: 200, end: 210, served: 210, wall: start + 200 }],
};

describe("the checker of the proof suite, where the store was put back", () => {
  /** A holder that the older copy does not know. */
  const forgotten: Life = [heard("granted", 100), window(100, 1000, 5)];
  /** A holder that has its worker ID from the older copy. */
  const later: Life = [heard("granted", 225), window(220, 1000, 5)];
  const word: Life = [heard("quarantine", 400)];

  async function judged(...lives: readonly Life[]): Promise<Partial<Record<Flaw | "excused", number>>> {
    const { flaws, restores } = await verdictOf(lives, undefined, restored);
    const found = Object.entries(flaws).filter(([, count]) => count > 0);
    return { ...Object.fromEntries(found), ...(restores.twice > 0 && { excused: restores.twice }) };
  }

  test("lets IDs come twice until the earlier holder is answered, and tells how long that took", async () => {
    const [one, other]: Life[] = [
      [
        ...forgotten,
        id(300),
        ...word,
        { left: "own will" },
        { left: "lost", reason: "forgotten", fence: 5, time: 400 },
      ],
      [...later, id(300), id(410)],
    ];
    expect(await judged(one ?? [], other ?? [])).toEqual({ excused: 1 });
    const { restores } = await verdictOf([one ?? [], other ?? []], undefined, restored);
    expect(restores).toEqual({ count: 1, toldAfter: [190], twice: 1 });
    const next = { copied: 215, begin: 380, end: 385, served: 390, wall: start + 380 };
    const twice = await verdictOf([word], undefined, { ...restored, restores: [...restored.restores, next] });
    expect(twice.restores).toEqual({ count: 2, toldAfter: [10], twice: 0 });
  });

  test("takes no word for the first one that was asked for before the older copy stood there", async () => {
    // It answers to the restore before, and says so late: the lease ends with it.
    const late: Life = [
      heard("granted", 100),
      window(100, 1000, 6),
      { heard: "lost forgotten", sent: 190, time: 195 },
      { left: "own will", time: 205 },
      { left: "lost", reason: "forgotten", fence: 6, time: 205 },
      { heard: "quarantine", time: 215 },
    ];
    const twice = [
      [...forgotten, id(300), ...word],
      [...later, id(300)],
    ] as const;
    expect(await judged(late, ...twice)).toEqual({ excused: 1 });
    const { restores } = await verdictOf([late, ...twice], undefined, restored);
    expect(restores.toldAfter).toEqual([190]);
    // Of a file in the place of another one nobody asks, and nobody is told.
    const seen: Life = [
      heard("granted", 100),
      window(100, 1000, 6),
      { left: "own will", time: 215 },
      { left: "lost", reason: "forgotten", fence: 6, time: 215 },
    ];
    expect((await verdictOf([seen, ...twice], undefined, restored)).restores.toldAfter).toEqual([5]);
  });

  test("takes no word of an earlier restore for one of this restore", async () => {
    const twice = [
      [...forgotten, id(300), heard("quarantine", 5400)],
      [...later, id(300)],
    ] as const;
    // It was granted nothing that this restore forgot.
    const earlier: Life = [
      heard("granted", 40),
      window(40, 1000, 6),
      heard("lost forgotten", 220),
      { left: "own will", time: 220 },
      { left: "lost", reason: "forgotten", fence: 6, time: 220 },
    ];
    expect(await judged(earlier, ...twice)).toEqual({ excused: 1 });
    // The copy was taken in a quarantine.
    const quarantined: Life = [heard("quarantine", 30), heard("quarantine", 220)];
    const { flaws } = await verdictOf([quarantined, ...twice], undefined, { ...restored, restarts: [20] });
    expect(Object.values(flaws).filter((count) => count > 0)).toEqual([]);
    expect(await judged([heard("quarantine", 220)], ...twice)).toEqual({ duplicates: 1 });
  });

  test.each<[string, readonly Life[]]>([
    [
      "after the earlier holder was answered",
      [
        [...forgotten, ...word, id(500)],
        [...later, id(500)],
      ],
    ],
    [
      "after another answer to it",
      [
        [...forgotten, heard("renewed", 390), id(500), ...word],
        [...later, id(500)],
      ],
    ],
    [
      "where the later one was granted its window in the quarantine",
      [[...forgotten, id(500)], word, [heard("granted", 410), window(400, 1000, 5), id(500)]],
    ],
    [
      "of long before the restore",
      [
        [...forgotten, window(-3000, 1000, 5), id(-2500)],
        [...later, window(-3000, 1000, 5), id(-2500)],
      ],
    ],
    [
      "of two holders that the copy knew both",
      [
        [...forgotten, id(150)],
        [heard("granted", 120), window(100, 1000, 6), id(150)],
      ],
    ],
    [
      "of two holders that the copy made both",
      [
        [...later, id(300)],
        [heard("granted", 230), window(220, 1000, 6), id(300)],
      ],
    ],
  ])("finds an ID that came twice %s", async (_, lives) => {
    expect(await judged(...lives, word)).toMatchObject({ duplicates: 1 });
    expect(await judged(...lives, word)).not.toHaveProperty("excused");
  });

  test.each([heard("renewed", 300), heard("lost cloned", 300)])(
    "finds $heard, if no quarantine follows",
    async (fact) => {
      expect(await judged([...forgotten, fact])).toEqual({ unnoticed: 1 });
      expect(await judged([...forgotten, fact], [heard("quarantine", 1250)])).toEqual({});
      expect(await judged([...forgotten, fact], [heard("quarantine", 1350)])).toEqual({ unnoticed: 1 });
      // The store may have done what was repeated before the copy was taken.
      expect(await judged([{ ...heard("granted", 100), isRepeat: true }, window(100, 1000, 5), fact])).toEqual({});
      // What the copy knew is not forgotten.
      expect(await judged([heard("granted", 40), window(40, 1000, 5), fact])).toEqual({});
    },
  );

  test("takes the word of a request that waited while the store was put back, unless another quarantine may be meant", async () => {
    const life = [...forgotten, heard("renewed", 3000)];
    const waited: Life = [{ heard: "quarantine", sent: 190, time: 700 }];
    expect(await judged(life, waited)).toEqual({});
    const before = { copied: -50, begin: 10, end: 20, served: 20, wall: start + 10 };
    const twice = { ...restored, restores: [before, ...restored.restores] };
    expect(await flawsOf([life, waited], undefined, twice)).toEqual({ unnoticed: 1 });
    expect(await flawsOf([life, waited], undefined, { ...restored, restarts: [10] })).toEqual({ unnoticed: 1 });
  });

  test("finds a lease that was lost as forgotten, though the store never forgot it", async () => {
    const loss: Life = [{ left: "own will" }, { left: "lost", reason: "forgotten", fence: 5, time: 500 }];
    expect(await judged([...forgotten, ...loss])).toEqual({});
    expect(await judged([...later, ...loss])).toEqual({ innocents: 1 });
  });
});

describe("the checker of the proof suite, where a holder was copied", () => {
  const copied = (pending?: string): Omit<Fact, "at"> => ({ copied: { number: 1, pending }, time: 200 });
  const original = (pending?: string): Life => [heard("granted", 100), window(100, 1000, 5), copied(pending)];
  const copy = (pending?: string): Life => [copied(pending), heard("granted", 100), window(110, 1000, 5)];
  const renewed = [heard("renewed", 300, "a"), heard("renewed", 310, "b")] as const;

  async function judged(...lives: readonly Life[]): Promise<[twice: number, excused: number]> {
    const { flaws, copies } = await verdictOf(lives, undefined, calm);
    return [flaws.duplicates, copies.twice];
  }

  test("lets IDs come twice until one of the two is answered, and tells how long that took", async () => {
    const lost: Life = [
      heard("lost cloned", 350),
      { left: "own will" },
      { left: "lost", reason: "cloned", fence: 5, time: 350 },
    ];
    const lives: Life[] = [
      [...original(), id(290), renewed[0], id(320)],
      [...copy(), id(290), id(320), ...lost],
    ];
    expect(await judged(...lives)).toEqual([0, 2]);
    const { copies, flaws } = await verdictOf(lives, undefined, calm);
    expect(copies).toEqual({ count: 1, toldAfter: [150], twice: 2 });
    expect(flaws).toMatchObject({ innocents: 0, overlaps: 0, fences: 0 });
  });

  test("finds an ID that came twice after both were answered", async () => {
    const lives = (pending?: string): Life[] => [
      [...original(pending), renewed[0], id(400)],
      [...copy(pending), renewed[1], id(400)],
    ];
    expect(await judged(...lives())).toEqual([1, 0]);
    // A turn that both had drawn is one answer more.
    expect(await judged(...lives("b"))).toEqual([0, 1]);
    const [one = [], other = []] = lives("b");
    expect(await judged(one, [...other, heard("renewed", 500, "c"), id(600)], [window(0, 1, 1), id(600)])).toEqual([
      1, 1,
    ]);
  });

  test("finds an ID of a copy that another holder made, which got nothing that was given back", async () => {
    const other: Life = [heard("granted", 150), window(100, 1000, 6), id(300)];
    expect(await judged([...original(), id(300)], copy(), other)).toEqual([1, 0]);
    const next: Life = [heard("granted", 260), window(250, 1000, 6), id(300)];
    expect(await judged([...original(), id(300)], [...copy(), { left: "own will" }], next)).toEqual([0, 1]);
  });
});

describe("the checker of the proof suite, of what holders are told for no reason", () => {
  const lost = (reason: string): Life => [
    heard("granted", 100),
    window(100, 1000, 5),
    { left: "own will" },
    { left: "lost", reason, fence: 5, time: 500 },
  ];

  test.each(["forgotten", "cloned"])("finds a lease that was lost as %s", async (reason) => {
    const { flaws } = await verdictOf([lost(reason)], undefined, calm);
    expect(flaws.innocents).toBe(1);
    const forgetful = await verdictOf([lost(reason)], undefined, { ...calm, mayForget: true });
    expect(forgetful.flaws.innocents).toBe(reason === "forgotten" ? 0 : 1);
    expect((await verdictOf([lost("taken")], undefined, calm)).flaws.innocents).toBe(0);
  });

  test("finds a quarantine that no restart explains", async () => {
    const told = async (time: number, restarts: number[]): Promise<number> =>
      (await verdictOf([[heard("quarantine", time)]], undefined, { ...calm, restarts })).flaws.quarantines;
    expect(await told(1000, [])).toBe(1);
    expect(await told(1000, [900])).toBe(0);
    expect(await told(1000, [1100])).toBe(1);
    expect(await told(60_000, [900])).toBe(1);
  });
});
