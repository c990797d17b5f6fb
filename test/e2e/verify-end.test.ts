import { join } from "node:path";
import { expect, test } from "vitest";
import type * as Built from "../../src/verify/nemesis.ts";
import { Random } from "../../src/verify/random.ts";
import { root } from "../support/markdown.ts";

/** As it is built: it starts a file beside it. */
const { Nemesis } = (await import(join(root, "dist/verify/nemesis.js"))) as typeof Built;

test("a process that takes its time to end is not killed before, nor is that told as a failure", async () => {
  const nemesis = new Nemesis({
    options: { module: join(root, "test/support/slow-end.mjs") },
    links: [],
    refusals: ["ENDS"],
    // So that processes are about to end when the run is over.
    random: new Random(2),
    time: 4000,
    signal: new AbortController().signal,
    tell: () => undefined,
  });
  const { failures, duplicates, faults } = await nemesis.run();
  expect([failures, duplicates]).toEqual([[], 0]);
  expect(faults["ended and started anew"]).toBeGreaterThan(0);
});
