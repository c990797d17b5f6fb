import type { Checkpoint } from "../rule/registry.ts";
import { between, ensure, equal, outcome, refuses } from "./assert.ts";
import { check, type ConformanceCheck } from "./check.ts";
import { long, on, recentsFrom, wrongKeys } from "./trial.ts";

/** What a renewal may and may not do. */
export const renewals: readonly ConformanceCheck[] = [
  check("a renewal moves `until` to one window after the later clock, and keeps `from`", async (trial) => {
    const held = await trial.claim({ window: 1000 });
    for (const ahead of [0, 3000]) {
      const clock = trial.now() + ahead;
      const renewal = await trial.renewed(held, { clock });
      // A store that waited or tried again counts from the holder's clock at its last attempt.
      const latest = Math.max(clock, trial.now() + ahead);
      equal(renewal.from, held.grant.from, "`from`");
      const [least, most] = [clock, latest].map((seen) => Math.max(seen, renewal.clock) + long);
      between(renewal.until, least ?? 0, most ?? 0, `\`until\` with a clock ${ahead} ms ahead`);
      const record = await trial.record(held.grant.workerId);
      equal([record.from, record.until], [renewal.from, renewal.until], "the record");
      between(record.seenClock, clock, latest, "`seenClock`, the holder's clock");
    }
  }),

  check("a renewal never lowers `until`", async (trial) => {
    const held = await trial.claim();
    const { until } = held.grant;
    const renewal = await trial.renewed(held, { window: 10, clock: trial.now() - 3000 });
    const stored = (await trial.record(held.grant.workerId)).until;
    equal([renewal.until, stored], [until, until], "`until`, answered and stored");
  }),

  check("concurrent renewals leave the latest `until` and the highest checkpoint", async (trial) => {
    const held = await trial.claim({ window: 1000 });
    const timestamp = held.request.clock;
    const renewals = await trial.concurrently(10, (registry, i) => {
      return trial.renewed(held, { window: 10_000 * (10 - i), checkpoint: { timestamp, sequence: i }, registry });
    });
    const untils = renewals.map(({ until }) => until);
    const record = await trial.record(held.grant.workerId);
    equal(record.until, Math.max(...untils), "`until`");
    equal(record.checkpoint, { timestamp, sequence: 9 }, "the checkpoint");
  }),

  check("a checkpoint only rises", async (trial) => {
    const held = await trial.claim();
    const { clock } = held.request;
    const stored = async (checkpoint?: Checkpoint): Promise<Checkpoint | undefined> => {
      await trial.renewed(held, checkpoint && { checkpoint });
      return (await trial.record(held.grant.workerId)).checkpoint;
    };
    equal(await stored(), undefined, "the checkpoint before there was one");
    const at = (ms: number, sequence: number): Checkpoint => ({ timestamp: clock + ms, sequence });
    const steps: [sent: Checkpoint, stored: Checkpoint][] = [
      [at(0, 5), at(0, 5)],
      [at(0, 3), at(0, 5)],
      [at(-1, 4095), at(0, 5)],
      [at(0, 4095), at(0, 4095)],
      [at(1, 0), at(1, 0)],
    ];
    for (const [sent, expected] of steps) equal(await stored(sent), expected, "the checkpoint");
    equal(await stored(), at(1, 0), "the checkpoint after a renewal without one");
    await trial.released(held, { until: clock + 2, checkpoint: { timestamp: clock, sequence: 9 } });
    const { checkpoint } = await trial.record(held.grant.workerId);
    equal(checkpoint, { timestamp: clock + 1, sequence: 0 }, "the checkpoint after a release with a lower one");
  }),

  check(
    "a checkpoint outside the times that the holder may use is CONFIG_INVALID, and changes nothing",
    async (trial) => {
      const held = await trial.claim({ workerId: 7 });
      const { from, until } = held.grant;
      const before = await trial.record(7);
      for (const timestamp of [until, until + 1e9, from - 1, Math.floor(from / 1000)]) {
        const checkpoint = { timestamp, sequence: 0 };
        const renewal = trial.renew(held, { checkpoint });
        await refuses("CONFIG_INVALID", `a renewal that says ${timestamp} of ${until}`, renewal);
        const release = trial.release(held, { until, checkpoint });
        await refuses("CONFIG_INVALID", `a release that says ${timestamp} of ${until}`, release);
      }
      equal(await trial.record(7), before, "the record");
      await trial.renewed(held, { checkpoint: { timestamp: until - 1, sequence: 0 } });
    },
  ),

  check("a renewal with a wrong token, fence, worker ID or namespace is `lost`, and changes nothing", async (trial) => {
    const held = await trial.claim({ workerId: 7, window: 30_000 });
    await trial.claim({ workerId: 8, window: 30_000 });
    const namespace = await trial.otherNamespace();
    const before = await trial.records();
    for (const key of wrongKeys(held, namespace)) {
      const what = `a renewal with another ${Object.keys(key)[0]}`;
      outcome(await trial.renew(held, { ...key, window: long }), "lost", what);
    }
    equal(await trial.records(), before, "the records");
    equal(await trial.registry.workers(namespace), [], "the records of the other namespace");
  }),

  check("a holder may renew after `until` while no other holder has claimed", async (trial) => {
    const held = await trial.crashed();
    const renewal = await trial.renewed(held);
    ensure(renewal.until > held.grant.until, "the window to be open again", renewal);
    equal(renewal.from, held.grant.from, "`from`");
    outcome(await trial.ask({ workerId: 7, holder: on("beta") }), "held", "a claim by another");
  }),

  check("a renewal after another holder's claim is `lost`, and changes nothing", async (trial) => {
    const held = await trial.crashed();
    await trial.claim({ workerId: 7, holder: on("beta"), window: 30_000 });
    const before = await trial.record(7);
    outcome(await trial.renew(held, { checkpoint: { timestamp: trial.now(), sequence: 1 } }), "lost", "this renewal");
    equal(await trial.record(7), before, "the record");
  }),

  check("a renewal after the release is `lost`, and keeps `until` and recents", async (trial) => {
    const held = await trial.claim({ workerId: 7 });
    const { from } = held.grant;
    const until = from + 5000;
    await trial.released(held, { until, recents: recentsFrom(from) });
    const before = await trial.record(7);
    const late = { checkpoint: { timestamp: held.request.clock, sequence: 1 } };
    outcome(await trial.renew(held, late), "lost", "a late renewal");
    const after = await trial.record(7);
    equal(after, before, "the record");
    equal(after.until, until, "`until`");
    const next = await trial.claim({ workerId: 7, holder: on("beta"), clock: until });
    ensure(next.grant.recents !== undefined, "the recents to be handed over", next.grant);
  }),

  check("a renewal after a release without usage, or a forced one, is `lost`", async (trial) => {
    const [gone, ended] = [await trial.claim({ workerId: 7 }), await trial.claim({ workerId: 8 })];
    await trial.released(gone);
    await trial.force(8);
    const before = await trial.records();
    for (const held of [gone, ended]) outcome(await trial.renew(held), "lost", "a late renewal");
    equal(await trial.records(), before, "the records");
  }),

  check("a refused renewal changes nothing", async (trial) => {
    const held = await trial.claim({ workerId: 7, window: 30_000 });
    const before = await trial.record(7);
    for (const window of [600_001, 0, -1, 1.5])
      await refuses("CONFIG_INVALID", `a renewal for ${window} ms`, trial.renew(held, { window }));
    for (const skew of [60_000, -60_000]) {
      await refuses("CLOCK_SKEW", `a clock ${skew} ms ahead`, trial.renew(held, { clock: trial.now() + skew }));
    }
    equal(await trial.record(7), before, "the record");
    await trial.renewed(held);
  }),
];
