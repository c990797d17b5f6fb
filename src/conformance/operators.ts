import { mostPins } from "../rule/registry.ts";
import { between, ensure, equal, outcome, refuses, textOf } from "./assert.ts";
import { check, type ConformanceCheck } from "./check.ts";
import { long, on, recentsFrom, type Trial } from "./trial.ts";

/** Checks that worker 7, which has no holder, stays closed up to its `until`. */
async function ensureClosed(trial: Trial, until: number, what: string): Promise<void> {
  equal((await trial.record(7)).until, until, `\`until\` after ${what}`);
  await trial.refusedUntil(until, { workerId: 7, holder: on("gamma") }, `a claim after ${what}`);
}

/** What operators may do to a worker ID: end its claim, and keep it out of the pool. */
export const operators: readonly ConformanceCheck[] = [
  check("an operator's release of a live holder is refused without `force`, and names the holder", async (trial) => {
    const held = await trial.claim({ workerId: 7, window: 30_000 });
    const before = await trial.record(7);
    const { fence } = held.grant;
    for (const resetWindow of [false, true]) {
      const answer = await trial.force(7, { force: false, fence, resetWindow });
      equal(answer, { outcome: "live", holder: on("alpha"), until: held.grant.until }, "the answer");
    }
    equal(await trial.record(7), before, "the record");
    await trial.renewed(held);
  }),

  check("a forced release ends the claim, and the window stays closed", async (trial) => {
    const held = await trial.claim({ workerId: 7 });
    const { until } = held.grant;
    equal(await trial.force(7), { outcome: "released", until }, "the answer");
    outcome(await trial.renew(held), "lost", "a renewal by the holder");
    await ensureClosed(trial, until, "a forced release");
    const { state, clean } = await trial.record(7);
    equal([state, clean], ["resting", false], "state and `clean`");
  }),

  check("the holder's own release after a forced release changes nothing", async (trial) => {
    const held = await trial.claim({ workerId: 7 });
    const { from } = held.grant;
    await trial.force(7);
    const before = await trial.record(7);
    await trial.release(held, { until: from, recents: recentsFrom(from) });
    equal(await trial.record(7), before, "the record");
  }),

  check("a forced release of a resting worker ID keeps its window closed", async (trial) => {
    const held = await trial.claim({ workerId: 7 });
    await trial.released(held);
    const { until } = held.grant;
    equal(await trial.force(7, { force: false }), { outcome: "released", until }, "the answer");
    await ensureClosed(trial, until, "a forced release");
  }),

  check("an operator releases a holder whose window has passed without `force`", async (trial) => {
    const held = await trial.crashed();
    equal(await trial.force(7, { force: false }), { outcome: "released", until: held.grant.until }, "the answer");
    outcome(await trial.renew(held), "lost", "a renewal by the holder");
  }),

  check("a forced release of an unused worker ID answers `absent`", async (trial) => {
    await trial.pin(8);
    for (const workerId of [7, 8]) equal(await trial.force(workerId), { outcome: "absent" }, "the answer");
    equal(await trial.registry.worker(trial.namespace, 7), undefined, "the record");
  }),

  check("an operator's release ends the claim that it names, and no later one", async (trial) => {
    const gone = await trial.crashed();
    const held = await trial.claim({ workerId: 7, holder: on("beta"), window: 30_000 });
    const { fence, until } = held.grant;
    const before = await trial.record(7);
    const expected = { outcome: "superseded", fence, holder: on("beta"), until };
    for (const options of [{ force: false }, { force: true }, { force: true, resetWindow: true }]) {
      const late = { ...options, fence: gone.grant.fence };
      equal(await trial.force(7, late), expected, `the answer to ${textOf(late)}`);
    }
    const unnamed = trial.force(7, { resetWindow: true });
    await refuses("CONFIG_INVALID", "a reset that does not name the claim", unnamed);
    equal(await trial.record(7), before, "the record");
    await trial.renewed(held);
    equal((await trial.force(7, { fence })).outcome, "released", "the answer to its own fence");
    outcome(await trial.renew(held), "lost", "a renewal by the holder");
  }),

  check("only `resetWindow` lowers `until`, to the registry's clock", async (trial) => {
    const held = await trial.claim({ workerId: 7 });
    const reset = await trial.force(7, { fence: held.grant.fence, resetWindow: true });
    const { until } = outcome(reset, "released", "a forced release");
    const { clock } = await trial.registry.ping();
    between(until, held.grant.clock, clock, "`until`");
    equal((await trial.record(7)).until, until, "`until` in the record");
    outcome(await trial.renew(held), "lost", "a renewal by the holder");
    await trial.passed(until);
    const next = await trial.claim({ workerId: 7, holder: on("beta") });
    ensure(next.grant.from >= until, `\`from\` at or after ${until}`, next.grant.from);
    ensure(next.grant.fence > held.grant.fence, `a fence above ${held.grant.fence}`, next.grant.fence);
  }),

  check("`resetWindow` keeps the times closed that a holder said that it used", async (trial) => {
    const live = await trial.claim({ workerId: 7 });
    const timestamp = live.grant.until - 100;
    await trial.renewed(live, { checkpoint: { timestamp, sequence: 0 } });
    const until = timestamp + 1;
    const reset = { force: true, fence: live.grant.fence, resetWindow: true };
    equal(await trial.force(7, reset), { outcome: "released", until }, "the answer");
    equal((await trial.record(7)).until, until, "`until` in the record");
    // The clock of this holder was ahead, and it sent no checkpoint.
    const gone = await trial.claim({ workerId: 8 });
    const end = gone.grant.until - 100;
    await trial.released(gone, { until: end });
    const again = { ...reset, fence: gone.grant.fence };
    equal(await trial.force(8, again), { outcome: "released", until: end }, "the answer");
  }),

  check("`resetWindow` never raises `until`", async (trial) => {
    const { from, fence } = (await trial.usedOnce(7, 100, "alpha")).grant;
    const answer = await trial.force(7, { fence, resetWindow: true });
    equal(answer, { outcome: "released", until: from + 100 }, "the answer");
  }),

  check("a pinned worker ID stays out of the pool", async (trial) => {
    const pool = { first: 0, last: 2 };
    await trial.usedOnce(0, 100, "alpha");
    for (const workerId of [0, 1]) await trial.pin(workerId, "kept for the printer");
    equal((await trial.claim({ pool, preferred: [0, 1] })).grant.workerId, 2, "the worker ID");
    outcome(await trial.ask({ pool }), "exhausted", "a claim where all others are pinned");
    for (const workerId of [0, 1]) {
      const refusal = outcome(await trial.ask({ workerId }), "pinned", "a claim of a pinned worker ID");
      equal([refusal.workerId, refusal.reason], [workerId, "kept for the printer"], "worker ID and reason");
    }
  }),

  check("a holder keeps a worker ID that is pinned meanwhile, and its release leaves the pin", async (trial) => {
    const held = await trial.claim({ workerId: 7, window: 1000 });
    await trial.pin(7);
    const again = outcome(await trial.registry.claim(held.request), "granted", "the holder's own claim, repeated");
    equal(again.fence, held.grant.fence, "its fence");
    await trial.renewed(held);
    const live = await trial.record(7);
    equal([live.state, live.pinned], ["live", "kept"], "state and reason");
    await trial.released(held, { until: held.grant.from });
    const record = await trial.record(7);
    equal([record.state, record.pinned], ["pinned", "kept"], "state and reason after the release");
    outcome(await trial.ask({ workerId: 7 }), "pinned", "the next claim");
  }),

  check("pin and unpin keep the window closed", async (trial) => {
    const held = await trial.claim({ workerId: 7 });
    await trial.released(held);
    const before = await trial.record(7);
    await trial.pin(7);
    const pinned = { ...(await trial.record(7)), state: "", pinned: undefined };
    equal(pinned, { ...before, state: "" }, "the record while pinned");
    equal(await trial.unpin(7), true, "the answer to `unpin`");
    equal(await trial.record(7), before, "the record after `unpin`");
    await ensureClosed(trial, held.grant.until, "pin and unpin");
  }),

  check("pin and unpin keep a live holder's claim", async (trial) => {
    const held = await trial.claim({ workerId: 7, window: 30_000 });
    const before = await trial.record(7);
    await trial.pin(7);
    await trial.unpin(7);
    equal(await trial.record(7), before, "the record");
    await trial.renewed(held);
  }),

  check("an unused worker ID that is pinned is listed, and unused again after `unpin`", async (trial) => {
    await trial.pin(0);
    const { workerId, state, pinned, holder, claimedAt } = await trial.record(0);
    const expected = { workerId: 0, state: "pinned", pinned: "kept" };
    equal({ workerId, state, pinned, holder, claimedAt }, expected, "the record");
    equal((await trial.claim()).grant.workerId, 1, "the worker ID beside a pinned one");
    equal(await trial.unpin(0), true, "the answer to `unpin`");
    equal(await trial.registry.worker(trial.namespace, 0), undefined, "the record of an unused worker ID");
    const { grant } = await trial.claim({ workerId: 0, holder: on("beta") });
    equal(grant.from < grant.clock && grant.recents === undefined, true, "a first window");
  }),

  check("a pin outside the layout, or without a reason, is CONFIG_INVALID, and changes nothing", async (trial) => {
    await trial.claim({ workerId: 7 });
    const before = await trial.records();
    for (const workerId of [1024, -1, 7.5])
      await refuses("CONFIG_INVALID", `a pin of ${workerId} in 10 bits`, trial.pin(workerId));
    for (const reason of ["", " ", "x".repeat(201), "two\nlines", "half \ud83d"])
      await refuses("CONFIG_INVALID", `a pin for the reason ${textOf(reason)}`, trial.pin(7, reason));
    equal(await trial.records(), before, "the records");
  }),

  check("an unused worker ID is granted again after `unpin`", async (trial) => {
    const pool = { first: 0, last: 2 };
    await trial.pin(1);
    for (const host of ["beta", "gamma"]) await trial.claim({ pool, holder: on(host) });
    await trial.unpin(1);
    equal((await trial.claim({ pool })).grant.workerId, 1, "the worker ID");
  }),

  check("several pins together have the effect of single pins: all of them, or an error", async (trial) => {
    const { registry, namespace } = trial;
    if (registry.pinAll === undefined || registry.unpinAll === undefined) return;
    const held = await trial.claim({ workerId: 3 });
    const rests = await trial.claim({ workerId: 7 });
    await trial.released(rests);
    const owner = { ip: "192.0.2.7" };
    const pins = Array.from({ length: mostPins }, (_, workerId) => {
      return { workerId, reason: `kept ${workerId}`, ...(workerId % 2 === 1 && { owner }) };
    });
    for (const time of ["first", "second"]) {
      await registry.pinAll(namespace, pins);
      const listed = (await trial.records()).map(({ workerId, pinned, owner: ip }) => {
        return { workerId, reason: pinned, ...(ip !== undefined && { owner: { ip } }) };
      });
      equal(listed, pins, `what is pinned the ${time} time`);
    }
    const beta = { holder: on("beta") };
    equal((await trial.claim(beta)).grant.workerId, mostPins, "the first worker ID behind them");
    await trial.renewed(held);
    const early = { workerId: 3, reason: "other", owner: { ...owner, usedUntil: held.grant.from + 1 } };
    await refuses("WORKER_ID_HELD", "a pin of a held number", registry.pinAll(namespace, [early]));
    equal((await trial.record(3)).pinned, "kept 3", "the reason after a pin that was refused");
    const beyond = [{ workerId: 1024, reason: "kept" }];
    await refuses("CONFIG_INVALID", "a pin of 1024 in 10 bits", registry.pinAll(namespace, beyond));
    const ids = pins.map(({ workerId }) => workerId).slice(2);
    equal(await registry.unpinAll(namespace, [...ids, 900].slice(1)), ids.slice(1), "what is unpinned");
    equal(await registry.unpinAll(namespace, ids), [2], "what is unpinned the second time");
    const left = (await trial.records()).filter(({ pinned }) => pinned !== undefined);
    equal([left.length, left[0]?.workerId, left[1]?.workerId], [2, 0, 1], "what is left");
    equal((await trial.claim(beta)).grant.workerId, 2, "the lowest that is unused again");
    await ensureClosed(trial, rests.grant.until, "pins and unpins of several");
    await trial.renewed(held);
  }),

  check("a second pin replaces the reason, and `unpin` says whether there was a pin", async (trial) => {
    await trial.usedOnce(7, 100, "alpha");
    for (const reason of ["old", "Grüße, für später: 'x'"]) {
      await trial.pin(7, reason);
      equal((await trial.record(7)).pinned, reason, "the reason");
    }
    const answers = [await trial.unpin(7), await trial.unpin(7), await trial.unpin(8)];
    equal(answers, [true, false, false], "the answers to `unpin`");
    equal((await trial.record(7)).pinned, undefined, "the reason after `unpin`");
    equal((await trial.claim({ workerId: 7, window: long })).grant.workerId, 7, "the worker ID");
  }),
];
