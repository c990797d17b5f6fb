import { describe, expect, onTestFinished, test } from "vitest";
import { isSnowleaseError } from "../../src/id/errors.ts";
import { tellPowerStory, type PowerStory } from "../support/power-cuts.ts";
import { powerLossMissing } from "../support/power-loss.ts";
import { powerSettings, type PowerSetting, sqlite } from "../support/power-stores.ts";

if (powerLossMissing !== undefined) console.warn(`NOT RUN: ${powerLossMissing}.`);

const cuts = Number(process.env["SNOWLEASE_POWER_CUTS"] ?? 5);
/** A busy machine takes long to start servers and holders, ms. */
const [patience, patienceOfCut] = [120_000, 30_000];

async function storyOf(setting: PowerSetting, times = cuts): Promise<PowerStory & { readonly again: string }> {
  const seed = Number(process.env["SNOWLEASE_SEED"] ?? Math.floor(Math.random() * 2 ** 31));
  const story = await tellPowerStory(setting, times, seed);
  const { acknowledged, lost, lossyCuts, oldestLoss, renewed, forgotten, quarantines, ids, leases } = story;
  const figures = {
    cuts: times,
    acknowledged,
    lost,
    lossyCuts,
    oldestLoss,
    renewed,
    forgotten,
    quarantines,
    leases,
    ids,
  };
  if (process.env["SNOWLEASE_POWER_CUTS"] !== undefined) console.log(setting.title, JSON.stringify(figures));
  const again = `SNOWLEASE_POWER_CUTS=${times} SNOWLEASE_SEED=${seed} npm test -- power-loss -t "${setting.title}"; logs: ${story.logs}`;
  return { ...story, again };
}

function flawsIn({ findings, flaws, crashes }: PowerStory): object {
  const counts = Object.fromEntries(Object.entries(flaws).filter(([, count]) => count > 0));
  return { findings, flaws: counts, crashes };
}

const noFlaws = { findings: [], flaws: {}, crashes: [] };

describe.skipIf(powerLossMissing !== undefined)(powerLossMissing ?? "the power is lost", () => {
  describe.concurrent.each(powerSettings)("its power is cut", (setting) => {
    const { title, missing } = setting;
    test.skipIf(missing !== undefined)(
      `${title}: ${missing ?? "its promise for acknowledged writes holds, and no ID comes twice"}`,
      { timeout: 6 * (patience + cuts * patienceOfCut) },
      async () => {
        let story = await storyOf(setting);
        // Any of five cuts may by chance lose nothing that was acknowledged.
        for (let more = 5; setting.forgets && story.lossyCuts === 0 && more > 0; more--) story = await storyOf(setting);
        const { again, acknowledged, gone, lossyCuts, renewed } = story;
        expect(flawsIn(story), again).toEqual(noFlaws);
        expect(story.durability, again).toMatch(setting.durability);
        expect(acknowledged, again).toBeGreaterThan(cuts);
        if (setting.forgets) expect(lossyCuts, again).toBeGreaterThan(0);
        else expect(gone, again).toEqual([]);
        // Holders of a server are on other machines, and live on.
        if (!setting.forgets && setting !== sqlite) expect(renewed, again).toBeGreaterThan(0);
      },
    );
  });

  test.concurrent(
    "sqlite, made a moment before, where a name is durable only with its folder",
    { timeout: patience + 4 * patienceOfCut },
    async () => {
      for (let files = 0; files < 4; files++) {
        const story = await storyOf({ ...sqlite, title: "sqlite, made", modes: ["strict"] }, 1);
        const { again, acknowledged, gone } = story;
        expect(flawsIn(story), again).toEqual(noFlaws);
        expect(gone, again).toEqual([]);
        expect(acknowledged, again).toBeGreaterThan(0);
      }
    },
  );

  test.concurrent(
    "a service that opens sqlite on a disk that fails is told that this may pass",
    { timeout: patience },
    async () => {
      const store = await sqlite.start([]);
      onTestFinished(() => store.remove());
      const code = (): Promise<unknown> =>
        store.look(true).then(
          () => "open",
          (error: { code?: string }) => error.code,
        );
      await store.disk.mount(1);
      await store.start();
      await (await store.look(true)).close();
      await store.disk.cut();
      // The kernel still knows the file's rights, and the file cannot be opened.
      expect(await code()).toBe("REGISTRY_UNAVAILABLE");
      await store.disk.unmount();
      await store.disk.mount(2);
      await store.disk.cut();
      // Nothing is known of the file.
      expect(await code()).toBe("REGISTRY_UNAVAILABLE");
    },
  );

  test.concurrent(
    "the same check finds sqlite on a lying disk at fault",
    { timeout: patience + 4 * patienceOfCut },
    async () => {
      const story = storyOf({ ...sqlite, title: "sqlite on a disk that lies", modes: ["lies"] }, 4);
      // The rest of a file may not be a registry any more.
      const found = await story.then(
        ({ lost, flaws }) => lost + flaws.duplicates + flaws.overlaps > 0,
        (error: unknown) => isSnowleaseError(error) || /grants nothing/.test(String(error)),
      );
      expect(found).toBe(true);
    },
  );
});
