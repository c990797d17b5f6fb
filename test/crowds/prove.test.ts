import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { languageNames, makeClientPrograms } from "../../prove/clients.ts";
import { Crew } from "../../prove/crew.ts";
import { findOut, isFoundOut, naiveMakers } from "../../prove/naive.ts";
import { commandOf, prove } from "../../prove/prove.ts";
import { stages } from "../../prove/scenes.ts";
import { eventually } from "../support/holder.ts";

/** A busy machine takes long to start processes; the run waits for them. */
const timeout = 300_000;

describe.concurrent.each(stages)("$name under fire", (stage) => {
  test.skipIf(stage.missing !== undefined)(
    stage.missing ?? "no ID twice, none outside its window, no worker ID stuck",
    { timeout },
    async () => {
      // Each run strikes in another order, so that several runs see more than one.
      const run = { minutes: 0.3, holders: 4, rate: 5, seed: Math.floor(Math.random() * 2 ** 32), operators: true };
      const { findings, flaws, stuck, crashes, troubles, ids, faults, folder } = await prove(stage, run);
      const total = Object.values(flaws).reduce((sum, count) => sum + count, 0);
      const again = `again: ${commandOf(stage.name, run)}; logs: ${folder}`;
      const none = { findings: [], total: 0, stuck: [], crashes: [], troubles: [] };
      expect({ findings, total, stuck, crashes, troubles }, again).toEqual(none);
      expect(ids, again).toBeGreaterThan(0);
      expect(faults.size, again).toBeGreaterThan(0);
    },
  );
});

test(`holders in ${languageNames.join(", ")} and Node share a pool under fire: no ID twice`, { timeout }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "snowlease-clients-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const clients = makeClientPrograms(folder, (why) => {
    if (process.env["CI"] !== undefined) throw new Error(`There is no holder in ${why}`);
    console.warn(`NOT RUN: holders in ${why}`);
  });
  const stage = stages.find(({ name }) => name === "daemon");
  if (stage === undefined) throw new Error("There is no daemon among the stages.");
  const run = { minutes: 0.4, holders: 8, rate: 5, seed: Math.floor(Math.random() * 2 ** 32), clients };
  const { findings, flaws, stuck, crashes, languages, faults, folder: logs } = await prove(stage, run);
  const total = Object.values(flaws).reduce((sum, count) => sum + count, 0);
  const again = `again: ${commandOf(stage.name, run)}; logs: ${logs}`;
  expect({ findings, total, stuck, crashes }, again).toEqual({ findings: [], total: 0, stuck: [], crashes: [] });
  expect([...languages.keys()].toSorted(), again).toEqual(
    ["Node", ...clients.map(({ language }) => language)].toSorted(),
  );
  for (const [language, ids] of languages) expect(ids, `${language}; ${again}`).toBeGreaterThan(0);
  expect(faults.size, again).toBeGreaterThan(0);
});

const copied = ["sqlite", "redis", "postgres", "zookeeper", "etcd", "daemon"];

describe.concurrent.each(stages.filter(({ name }) => copied.includes(name)))(
  "$name, put back and its holders copied",
  (stage) => {
    test.skipIf(stage.missing !== undefined)(
      stage.missing ?? "no ID twice once the holder in question was told, and no lease lost without a reason",
      { timeout: 2 * timeout },
      async () => {
        // On a busy machine a run may by chance copy no holder, or put back nothing of which a holder learns.
        const seen = { restores: 0, told: 0, copies: 0 };
        for (let runs = 3; runs > 0 && Object.values(seen).includes(0); runs--) {
          const seed = Math.floor(Math.random() * 2 ** 32);
          const run = { minutes: 0.4, holders: 6, rate: 2, seed, restores: true, copies: true };
          const { findings, flaws, stuck, crashes, restores, copies, folder } = await prove(stage, run);
          const total = Object.values(flaws).reduce((sum, count) => sum + count, 0);
          const again = `again: ${commandOf(stage.name, run)}; logs: ${folder}`;
          const found = { findings, total, stuck, crashes };
          expect(found, again).toEqual({ findings: [], total: 0, stuck: [], crashes: [] });
          seen.restores += restores.count;
          seen.told += restores.toldAfter.length;
          seen.copies += copies.count;
        }
        expect(Object.entries(seen).filter(([, count]) => count === 0)).toEqual([]);
      },
    );
  },
);

describe.concurrent("the same check, on IDs of naive holders", () => {
  const redis = stages.find(({ name }) => name === "redis");
  test.skipIf(redis?.missing !== undefined).each(naiveMakers)(
    "finds out $module",
    { timeout: 2 * timeout },
    async (maker) => {
      if (redis === undefined) throw new Error("There is no Redis among the stages.");
      const verdict = await findOut(redis, maker, 100);
      expect(isFoundOut(maker, verdict), JSON.stringify(verdict)).toBe(true);
    },
  );
});

test("the run reports a holder that ends by itself, with its last words", { timeout }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "snowlease-crash-"));
  const crew = new Crew({ size: 1, maker: "naive/crashing", folder, optionsOf: () => ({}) });
  onTestFinished(async () => {
    await crew.kill();
    rmSync(folder, { recursive: true });
  });
  await crew.boot(0);
  const [first] = await eventually(
    async () => crew.crashes,
    ({ length }) => length > 0,
  );
  expect(first).toMatch(/life-1 ended by itself \(7\): it was bound to happen/);
});
