import { describe, expect, test } from "vitest";
import { findOut, naiveMakers } from "../../prove/naive.ts";
import { isFlawed, prove } from "../../prove/prove.ts";
import { stages } from "../../prove/scenes.ts";

/** A busy machine takes long to start processes; the run waits for them. */
const timeout = 300_000;
const run = { minutes: 0.2, holders: 4, rate: 5 };

/** The others take their turn in a long run. */
const short = stages.filter(({ name }) => ["redis", "daemon"].includes(name));

describe.each(short)("$name under fire", (stage) => {
  test.skipIf(stage.missing !== undefined)(
    stage.missing ?? "no ID twice, none outside its window, no worker ID stuck",
    { timeout },
    async () => {
      const outcome = await prove(stage, { ...run, seed: 20_260_101 });
      const { findings, stuck, crashes, ids, faults } = outcome;
      expect({ findings, stuck, crashes }).toEqual({ findings: [], stuck: [], crashes: [] });
      expect(isFlawed(outcome)).toBe(false);
      expect(ids).toBeGreaterThan(0);
      expect(faults.size).toBeGreaterThan(0);
    },
  );
});

describe("the same check of IDs that naive holders make", () => {
  const redis = stages.find(({ name }) => name === "redis");
  test.skipIf(redis?.missing !== undefined).each(naiveMakers)("finds out $module", { timeout }, async (maker) => {
    if (redis === undefined) throw new Error("There is no Redis among the stages.");
    expect((await findOut(redis, maker, 100)).flaws.duplicates).toBeGreaterThan(0);
  });
});
