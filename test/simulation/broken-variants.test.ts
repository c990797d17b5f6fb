import { describe, expect, test } from "vitest";
import type { Broken } from "./broken/distort.ts";
import { brokenCopies } from "./broken/copies.ts";
import { brokenHolders } from "./broken/holders.ts";
import { brokenLeads } from "./broken/leads.ts";
import { brokenShares } from "./broken/shares.ts";
import { brokenStores } from "./broken/stores.ts";
import { brokenSwitches } from "./broken/switches.ts";
import { play, type Outcome } from "./history.ts";

const firstSeed = Number(process.env["SNOWLEASE_SEED"] ?? 1);

/** Enough to meet each mistake many times. */
const brokenHistories = 20_000;

// Refusals are most of what happens here, and nobody reads where they came from.
Error.stackTraceLimit = 0;

const broken: readonly Broken[] = [
  ...brokenHolders,
  ...brokenLeads,
  ...brokenSwitches,
  ...brokenShares,
  ...brokenStores,
  ...brokenCopies,
];

describe.each(broken)("broken: $name", ({ variant, found }) => {
  // Some are found out by one history in ten thousand: on a busy machine that takes minutes.
  test.each(found)("is found out: %s", { timeout: 1_200_000 }, async (sought) => {
    let convicted: Outcome | undefined;
    for (let seed = firstSeed; seed < firstSeed + brokenHistories && convicted === undefined; seed++) {
      const outcome = await play(seed, variant(), sought);
      if (outcome.violation !== undefined) convicted = outcome;
    }
    expect(convicted?.violation).toMatch(sought);
  });
});
