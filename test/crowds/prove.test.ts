import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { languageNames, makeClientPrograms } from "../../prove/clients.ts";
import { type ClientProgram, Crew } from "../../prove/crew.ts";
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
      // Each run strikes in another order, so that runs together see more than one.
      const run = { minutes: 0.3, holders: 4, rate: 5, seed: Math.floor(Math.random() * 2 ** 32) };
      const { findings, flaws, stuck, crashes, ids, faults, folder } = await prove(stage, run);
      const total = Object.values(flaws).reduce((sum, count) => sum + count, 0);
      const again = `again: ${commandOf(stage.name, run)}; logs: ${folder}`;
      expect({ findings, total, stuck, crashes }, again).toEqual({ findings: [], total: 0, stuck: [], crashes: [] });
      expect(ids, again).toBeGreaterThan(0);
      expect(faults.size, again).toBeGreaterThan(0);
    },
  );
});

describe("holders of Node and in other languages in one pool", () => {
  let folder: string;
  let clients: readonly ClientProgram[];
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "snowlease-clients-"));
    clients = makeClientPrograms(folder, (why) => {
      if (process.env["CI"] !== undefined) throw new Error(why);
      console.warn(`NOT RUN: holders in ${why}`);
    });
  }, timeout);
  afterAll(() => rmSync(folder, { recursive: true }));

  test.each(stages.filter(({ hasDaemon }) => hasDaemon))("$name under fire", { timeout }, async (stage) => {
    const holders = 2 * (1 + languageNames.length);
    const run = { minutes: 0.3, holders, rate: 5, seed: Math.floor(Math.random() * 2 ** 32), clients };
    const { findings, flaws, stuck, crashes, languages, folder } = await prove(stage, run);
    const total = Object.values(flaws).reduce((sum, count) => sum + count, 0);
    const again = `again: ${commandOf(stage.name, run)}; logs: ${folder}`;
    expect({ findings, total, stuck, crashes }, again).toEqual({ findings: [], total: 0, stuck: [], crashes: [] });
    expect(
      [...languages.values()].every((ids) => ids > 0),
      again,
    ).toBe(true);
    expect(languages.size, again).toBe(1 + clients.length);
  });
});

const copied = ["sqlite", "redis", "postgres", "zookeeper", "etcd", "daemon"];

describe.concurrent.each(stages.filter(({ name }) => copied.includes(name)))(
  "$name, put back and its holders copied",
  (stage) => {
    test.skipIf(stage.missing !== undefined)(
      stage.missing ?? "no ID twice once the holder in question was told, and no lease lost without a reason",
      { timeout: 2 * timeout },
      async () => {
        let again = "";
        let hasAll = false;
        // On a busy machine a run may end before a holder had anything to copy: another one follows then.
        for (let runs = 0; runs < 3 && !hasAll; runs++) {
          const seed = Math.floor(Math.random() * 2 ** 32);
          const run = { minutes: 0.4, holders: 6, rate: 2, seed, restores: true, copies: true };
          const { findings, flaws, stuck, crashes, restores, copies, folder } = await prove(stage, run);
          const total = Object.values(flaws).reduce((sum, count) => sum + count, 0);
          again = `again: ${commandOf(stage.name, run)}; logs: ${folder}`;
          expect({ findings, total, stuck, crashes }, again).toEqual({
            findings: [],
            total: 0,
            stuck: [],
            crashes: [],
          });
          hasAll = [restores.count, restores.toldAfter.length, copies.count].every((count) => count > 0);
        }
        expect(hasAll, again).toBe(true);
      },
    );
  },
);

describe.concurrent("the same check of IDs that naive holders make", () => {
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

test("a holder that ends by itself is told of, with its last words", { timeout }, async () => {
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
