import { layouts } from "../id/layout.ts";
import { RecentTicks } from "../generator/recent-ticks.ts";
import type { Recents, Usage } from "../rule/registry.ts";
import { between, ensure, equal, outcome, refuses } from "./assert.ts";
import { check, type ConformanceCheck } from "./check.ts";
import { long, on, recentsFrom, type Trial, wrongKeys } from "./trial.ts";

const { westid } = layouts;

/** Recents with every kind of byte: each tick of the first `used` ms up to a different sequence. */
function recentsOf(used: number, from: number, until: number): Recents {
  const [first, end] = [westid.tickOf(from), westid.tickOf(from + used)];
  const ticks = new RecentTicks(westid, from, undefined, until - from);
  for (let tick = first; tick < end; tick++) ticks.raise(tick, tick & westid.maxSequence);
  return ticks.handOver(until);
}

/** Checks that the next holder gets the recents of a holder that used so many ms, at most 9 s. */
async function returned(trial: Trial, workerId: number, used: number): Promise<void> {
  const held = await trial.claim({ workerId });
  const until = held.request.clock + 9000;
  const recents = recentsOf(used, held.grant.from, until);
  await trial.released(held, { until, recents });
  const { grant } = await trial.claim({ workerId, clock: until });
  ensure(grant.recents?.bytes instanceof Uint8Array, "recents as a Uint8Array", grant.recents?.bytes);
  equal(grant.recents, recents, `recents of ${recents.bytes.length} bytes`);
}

/** How a worker ID is given back. */
export const releases: readonly ConformanceCheck[] = [
  check("a release stores the usage and ends the claim in one step", async (trial) => {
    const second = await trial.another();
    const held = await trial.claim({ workerId: 7 });
    const { from, fence, clock: claimedAt } = held.grant;
    const clock = held.request.clock + 3;
    const used: Usage = {
      until: clock + 5,
      checkpoint: { timestamp: clock + 4, sequence: 17 },
      recents: recentsFrom(from + 100),
    };
    await trial.released(held, used, { clock });
    // Whether Java processes still see the worker ID as used (`marked`) depends on whether its window has passed by now.
    const { releasedAt, marked: _, ...record } = await trial.record(7, second);
    const { checkpoint, recents, until } = used;
    const about = { workerId: 7, state: "free", fence, from, until, seenClock: clock, clean: true };
    equal(record, { ...about, recents, checkpoint, holder: on("alpha"), claimedAt }, "the record");
    between(releasedAt, claimedAt, claimedAt + long, "`releasedAt`");
    outcome(await trial.renew(held), "lost", "a renewal after it");
  }),

  check("a second release answers `released`, and changes nothing", async (trial) => {
    const second = await trial.another();
    const held = await trial.claim({ workerId: 7 });
    const { from, until } = held.grant;
    await trial.released(held, { until: from + 1000, recents: recentsFrom(from) });
    const before = await trial.record(7);
    const again: (Usage | undefined)[] = [{ until: from }, { until }, undefined];
    for (const used of again) await trial.released(held, used, { registry: second });
    equal(await trial.record(7), before, "the record");
    equal((await trial.history(7)).length, 1, "the number of claims in the history");
  }),

  check("a release without usage ends the claim, keeps `until` and is not clean", async (trial) => {
    const held = await trial.claim({ workerId: 7 });
    await trial.released(held);
    const { state, until, clean, recents } = await trial.record(7);
    equal({ state, until, clean, recents }, { state: "resting", until: held.grant.until, clean: false }, "the record");
  }),

  check("a holder whose window has passed may still give its worker ID back", async (trial) => {
    const held = await trial.crashed();
    const until = held.grant.from + 1;
    await trial.released(held, { until });
    const record = await trial.record(7);
    equal([record.until, record.clean], [until, true], "`until` and `clean`");
  }),

  check("a release after another holder's claim is `lost`, and changes nothing", async (trial) => {
    const held = await trial.crashed();
    await trial.claim({ workerId: 7, holder: on("beta") });
    const before = await trial.record(7);
    outcome(await trial.release(held, { until: held.grant.until }), "lost", "this release");
    equal(await trial.record(7), before, "the record");
  }),

  check("a release with a wrong token, fence, worker ID or namespace is `lost`, and changes nothing", async (trial) => {
    const held = await trial.claim({ workerId: 7 });
    await trial.claim({ workerId: 8 });
    const namespace = await trial.otherNamespace();
    const before = await trial.records();
    for (const key of wrongKeys(held, namespace)) {
      const what = `a release with another ${Object.keys(key)[0]}`;
      outcome(await trial.release(held, { until: held.grant.until }, key), "lost", what);
    }
    equal(await trial.records(), before, "the records");
    await trial.renewed(held);
  }),

  check("a release with `until` outside its window is CONFIG_INVALID, and changes nothing", async (trial) => {
    const held = await trial.claim({ workerId: 7 });
    const { from, until } = held.grant;
    const before = await trial.record(7);
    for (const wrong of [from - 1, until + 1, from + 0.5]) {
      const release = trial.release(held, { until: wrong });
      await refuses("CONFIG_INVALID", `\`until\` ${wrong} of [${from}, ${until}]`, release);
    }
    equal(await trial.record(7), before, "the record");
    await trial.renewed(held);
  }),

  check("a release with `until` before what was used is CONFIG_INVALID, and changes nothing", async (trial) => {
    const held = await trial.claim({ workerId: 7 });
    const { from, until } = held.grant;
    const timestamp = from + 500;
    const checkpoint = { timestamp, sequence: 1 };
    const release = trial.release(held, { until: timestamp, checkpoint });
    await refuses("CONFIG_INVALID", "a release with `until` before its own checkpoint", release);
    await trial.renewed(held, { checkpoint });
    const before = await trial.record(7);
    for (const wrong of [from, timestamp])
      await refuses("CONFIG_INVALID", `\`until\` ${wrong} behind ${timestamp}`, trial.release(held, { until: wrong }));
    equal(await trial.record(7), before, "the record");
    await trial.released(held, { until: timestamp + 1 });
    ensure(timestamp + 1 < until, "a window that was closed early", until);
  }),

  check("a release may have any `until` in its window, both ends included", async (trial) => {
    for (const end of ["from", "until"] as const) {
      const held = await trial.claim();
      await trial.released(held, { until: held.grant[end] });
      equal((await trial.record(held.grant.workerId)).until, held.grant[end], "`until`");
    }
  }),

  check("recents that begin before the holder's knowledge are CONFIG_INVALID, and change nothing", async (trial) => {
    const held = await trial.claim({ workerId: 7 });
    const { from } = held.grant;
    const until = from + 1000;
    const before = await trial.record(7);
    for (const wrong of [from - 1, until + 1]) {
      const release = trial.release(held, { until, recents: recentsFrom(wrong) });
      await refuses("CONFIG_INVALID", `recents from ${wrong} in [${from}, ${until}]`, release);
    }
    equal(await trial.record(7), before, "the record");
    await trial.released(held, { until, recents: recentsFrom(from) });
  }),

  check("recents are returned byte for byte", async (trial) => {
    for (const [workerId, used] of [0, 1000].entries()) await returned(trial, workerId, used);
  }),

  check("the longest recents are returned byte for byte", (trial) => returned(trial, 0, 9000), "long-recents"),
];
