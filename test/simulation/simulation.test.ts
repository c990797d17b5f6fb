import { describe, expect, test } from "vitest";
import type { Broken } from "./broken/distort.ts";
import { brokenCalls } from "./broken/calls.ts";
import { brokenCopies } from "./broken/copies.ts";
import { brokenDrops } from "./broken/drops.ts";
import { brokenHolders } from "./broken/holders.ts";
import { brokenLeads } from "./broken/leads.ts";
import { brokenShares } from "./broken/shares.ts";
import { brokenStores } from "./broken/stores.ts";
import { brokenSwitches } from "./broken/switches.ts";
import { events, Tally } from "./events.ts";
import { play, type Outcome } from "./history.ts";

/** `SNOWLEASE_HISTORIES=1000000 SNOWLEASE_SEED=7` for more, or for others. */
const histories = Number(process.env["SNOWLEASE_HISTORIES"] ?? 4000);
const firstSeed = Number(process.env["SNOWLEASE_SEED"] ?? 1);

/** Enough to meet each mistake many times. */
const brokenHistories = 20_000;

/** A simulation in which an event hardly ever happens finds nothing about it: each occurs at least this often in a thousand histories. */
const leastPerThousand = 3;

// Most operations end in refusals here, and no reader needs their stack traces.
Error.stackTraceLimit = 0;

describe("histories of holders that crash, stop, lose messages, have wrong clocks, switch, lend and lead, and of stores that forget", () => {
  test(`no ID is made twice in ${histories} histories`, { timeout: 36_000_000 }, async () => {
    const total = new Tally();
    for (let seed = firstSeed; seed < firstSeed + histories; seed++) {
      const { violation, counts } = await play(seed);
      expect(violation, `SNOWLEASE_HISTORIES=1 SNOWLEASE_SEED=${seed}`).toBeUndefined();
      total.add(counts);
    }
    console.log(`${histories} histories:`, total.counts);
    if (histories < 1000) return;
    const rare = events.filter((event) => total.counts[event] < (histories / 1000) * leastPerThousand);
    expect(rare).toEqual([]);
  });

  test("the same seed plays the same history", async () => {
    for (let seed = 1; seed <= 20; seed++) expect(await play(seed)).toEqual(await play(seed));
  });
});

const broken: readonly Broken[] = [
  ...brokenHolders,
  ...brokenLeads,
  ...brokenSwitches,
  ...brokenShares,
  ...brokenStores,
  ...brokenCopies,
  ...brokenCalls,
  ...brokenDrops,
];

describe.each(broken)("broken: $name", ({ variant, found, near = firstSeed }) => {
  // Some are found by one history in ten thousand: on a busy machine that takes minutes.
  test.each(found)("is found out: %s", { timeout: 1_200_000 }, async (sought) => {
    let convicted: Outcome | undefined;
    for (let seed = near; seed < near + brokenHistories && convicted === undefined; seed++) {
      const outcome = await play(seed, variant(), sought);
      if (outcome.violation !== undefined) convicted = outcome;
    }
    expect(convicted?.violation).toMatch(sought);
  });
});
