import { describe, expect, test } from "vitest";
import { events, Tally } from "./events.ts";
import { play } from "./history.ts";

/** `SNOWLEASE_HISTORIES=1000000 SNOWLEASE_SEED=7` for more, or for others. */
const histories = Number(process.env["SNOWLEASE_HISTORIES"] ?? 2000);
const firstSeed = Number(process.env["SNOWLEASE_SEED"] ?? 1);

/** A simulation in which something hardly ever happens finds nothing about it: so often at least in a thousand histories. */
const leastPerThousand = 3;

// Refusals are most of what happens here, and nobody reads where they came from.
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
