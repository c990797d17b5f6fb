import { describe, expect, test } from "vitest";
import { brokenHolders } from "./broken-holders.ts";
import { play, type Outcome } from "./history.ts";

/** 100,000 in CI; `SNOWLEASE_HISTORIES=1000000 SNOWLEASE_SEED=7` for more, or for others. */
const histories = Number(process.env["SNOWLEASE_HISTORIES"] ?? 100_000);
const firstSeed = Number(process.env["SNOWLEASE_SEED"] ?? 1);

/** Enough to meet each mistake hundreds of times. */
const brokenHistories = 20_000;

// Refusals are most of what happens here, and nobody reads where they came from.
Error.stackTraceLimit = 0;

describe("histories of holders that crash, stop, lose messages and have wrong clocks", () => {
  test(`no ID is made twice in ${histories} histories`, { timeout: 3_600_000 }, async () => {
    const total = { ids: 0, claims: 0, continued: 0, switched: 0, taken: 0, led: 0 };
    for (let seed = firstSeed; seed < firstSeed + histories; seed++) {
      const outcome = await play(seed);
      expect(outcome.violation, `SNOWLEASE_HISTORIES=1 SNOWLEASE_SEED=${seed}`).toBeUndefined();
      for (const key of Object.keys(total) as (keyof typeof total)[]) total[key] += outcome[key];
    }
    console.log(`${histories} histories:`, total);
    // A simulation in which nothing happens would find nothing.
    if (histories >= 1000) for (const count of Object.values(total)) expect(count).toBeGreaterThan(histories / 1000);
  });

  test("the same seed plays the same history", async () => {
    for (const seed of [1, 2, 3]) expect(await play(seed)).toEqual(await play(seed));
  });

  for (const { name, kind, found: how } of brokenHolders) {
    test(`a broken holder is found: ${name}`, async () => {
      let found: Outcome | undefined;
      for (let seed = firstSeed; seed < firstSeed + brokenHistories && found === undefined; seed++) {
        const outcome = await play(seed, kind());
        if (outcome.violation !== undefined) found = outcome;
      }
      expect(found?.violation).toMatch(how);
    });
  }
});
