import { describe, expect, test } from "vitest";
import { commandOf, prove } from "../../prove/prove.ts";
import { stages } from "../../prove/scenes.ts";

const few = stages.filter(({ name }) => name === "sqlite" || name === "redis");

/** What slowness cannot bring about. `test/crowds/prove.test.ts` asks for more, on every store. */
const never = { duplicates: 0, outside: 0, unrecorded: 0, overlaps: 0, fences: 0 };

describe.concurrent.each(few)("$name under a nemesis", (stage) => {
  test.skipIf(stage.missing !== undefined)(
    stage.missing ?? "no ID twice, none outside its window, no windows that overlap",
    async () => {
      const run = { minutes: 0.3, holders: 4, rate: 5, seed: 1 };
      const { flaws, ids, findings, folder } = await prove(stage, run);
      const again = `again: ${commandOf(stage.name, run)}; logs: ${folder}; ${findings.join("; ")}`;
      expect(flaws, again).toMatchObject(never);
      expect(ids, again).toBeGreaterThan(0);
    },
  );
});
