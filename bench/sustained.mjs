import { setTimeout as sleep } from "node:timers/promises";
import { layouts, snowlease } from "snowlease";
import { median } from "./bursts.mjs";
import { interleave } from "./interleave.mjs";
import { figure, printTable } from "./table.mjs";

/** How long the callers go on in a round, ms. */
const length = 1000;
/** Before that, ms. */
const settling = 200;
const callers = 200;

/**
 * Callers who each want the next ID as soon as they have one, while the event loop is theirs alone. A round answers how much of what the
 * layout can make they got, how much of a core that took, and how many IDs led the clock.
 */
async function callersOf(preset) {
  const layout = layouts[preset];
  const ids = await snowlease({ registry: "memory:", workerId: 7, layout });
  const ceiling = (layout.maxSequence + 1) / layout.tick;
  let [made, ahead, open] = [0, 0, true];
  const call = async () => {
    while (open) {
      const id = await ids.nextAsync();
      // Some of them are taken apart, so that looking is not what is measured.
      if (++made % 64 === 0 && layout.decompose(id).timestamp > Date.now()) ahead++;
    }
  };
  const round = async () => {
    open = true;
    const all = Promise.all(Array.from({ length: callers }, call));
    // What the last few ticks left over is no part of it.
    await sleep(settling);
    [made, ahead] = [0, 0];
    const [begin, before] = [performance.now(), process.cpuUsage()];
    await sleep(length);
    const [passed, { user, system }] = [performance.now() - begin, process.cpuUsage(before)];
    const share = made / (passed * ceiling);
    open = false;
    await all;
    return { share, cpu: (user + system) / 1000 / passed, ahead };
  };
  return { warm: round, round };
}

export const groups = {
  callers: {
    title: `${callers} asynchronous callers without a pause: what they get of the layout's ceiling`,
    cases: Object.fromEntries(["sonyflake", "safe53"].map((preset) => [preset, () => callersOf(preset)])),
  },
};

export async function run() {
  const { title, cases } = groups.callers;
  const results = await interleave(import.meta.url, "callers", Object.keys(cases), { rounds: 7 });
  const rows = [...results].map(([name, { rounds }]) => [
    `${name}, ${((layouts[name].maxSequence + 1) / layouts[name].tick) * 1000} a second`,
    ...["share", "cpu"].map((key) => `${figure(median(rounds.map((round) => round[key])) * 100)} %`),
    rounds.reduce((sum, { ahead }) => sum + ahead, 0),
  ]);
  printTable(title, ["", "of the ceiling", "of a core", "ahead of the clock"], rows);
}
