import type { Turns } from "../rule/registry.ts";
import { equal, outcome, refuses } from "./assert.ts";
import { check, type ConformanceCheck } from "./check.ts";
import { long, newToken, on, recentsFrom, short, type GrantedClaim, type Trial } from "./trial.ts";

/** A claim of worker 7 that was renewed once, and the turn of that renewal. */
async function renewedOnce(trial: Trial): Promise<{ held: GrantedClaim; turn: string }> {
  const held = await trial.claim({ workerId: 7 });
  const turn = newToken();
  equal((await trial.renewed(held, { nextTurn: turn })).turn, turn, "the turn in the answer");
  return { held, turn };
}

/** Expects that a renewal with these turns is lost, and changes nothing. */
async function isCloned(trial: Trial, held: GrantedClaim, sent: Turns, what: string): Promise<void> {
  const before = await trial.record(held.key.workerId);
  const { reason } = outcome(await trial.renew(held, sent), "lost", what);
  equal(reason, "cloned", `the reason of ${what}`);
  equal(await trial.record(held.key.workerId), before, `the record after ${what}`);
}

/** The right to renew, which changes with each renewal: of two copies of one process, one loses its lease. */
export const turns: readonly ConformanceCheck[] = [
  check("each renewal answers the turn that it stored, and the next one names it", async (trial) => {
    const { held, turn } = await renewedOnce(trial);
    let acknowledged = turn;
    for (let i = 0; i < 3; i++) {
      const nextTurn = newToken();
      equal((await trial.renewed(held, { turn: acknowledged, nextTurn })).turn, nextTurn, "the turn in the answer");
      acknowledged = nextTurn;
    }
  }),

  check("a renewal out of turn is lost `cloned`, and changes nothing", async (trial) => {
    const { held, turn } = await renewedOnce(trial);
    await isCloned(trial, held, { nextTurn: newToken() }, "the first renewal of a copy");
    const nextTurn = newToken();
    await trial.renewed(held, { turn, nextTurn });
    await isCloned(trial, held, { turn, nextTurn: newToken() }, "a renewal with the turn before");
    await isCloned(trial, held, { turn: newToken(), nextTurn: newToken() }, "a renewal with another turn");
    await trial.renewed(held, { turn: nextTurn, nextTurn: newToken() });
  }),

  check("of ten copies that renew at the same time, one is renewed", async (trial) => {
    const held = await trial.claim({ workerId: 7 });
    const answers = await trial.concurrently(10, (registry) => trial.renew(held, { nextTurn: newToken(), registry }));
    const ends = answers.map((answer) => (answer.outcome === "lost" ? answer.reason : answer.outcome));
    const counts = [ends.filter((end) => end === "cloned").length, ends.filter((end) => end === "renewed").length];
    equal(counts, [9, 1], "how many are cloned, and how many are renewed");
  }),

  check("a renewal repeated with its turn is answered from the record, and changes nothing", async (trial) => {
    const held = await trial.claim({ workerId: 7, window: 20_000 });
    const nextTurn = newToken();
    const first = await trial.renewed(held, { nextTurn, window: 30_000 });
    const before = await trial.record(7);
    await trial.pause(5);
    const checkpoint = { timestamp: held.request.clock, sequence: 1 };
    const again = await trial.renewed(held, { nextTurn, clock: trial.now() + 100, checkpoint });
    equal({ ...again, clock: 0 }, { ...first, clock: 0 }, "the repeated answer");
    equal(await trial.record(7), before, "the record");
    await trial.renewed(held, { turn: nextTurn, nextTurn: newToken() });
  }),

  check("a renewal repeated after its window has passed opens it again, in the same turn", async (trial) => {
    const held = await trial.claim({ workerId: 7, window: short });
    const nextTurn = newToken();
    const first = await trial.renewed(held, { nextTurn, window: short });
    await trial.passed(first.until);
    const clock = trial.now();
    const again = await trial.renewed(held, { nextTurn, clock });
    equal(again.until, Math.max(clock, again.clock) + long, "`until` of the repeated renewal");
    equal([again.from, again.turn], [first.from, nextTurn], "its `from` and turn");
    equal((await trial.record(7)).until, again.until, "`until` of the record");
    const { until } = await trial.renewed(held, { nextTurn, clock: trial.now() + 100 });
    equal(until, again.until, "`until` of one that is repeated while the window lasts");
    await isCloned(trial, held, { nextTurn: newToken() }, "the first renewal of a copy");
    await trial.renewed(held, { turn: nextTurn, nextTurn: newToken() });
  }),

  check("a renewal whose `nextTurn` is its `turn` is refused, and changes nothing", async (trial) => {
    const { held, turn } = await renewedOnce(trial);
    const before = await trial.record(7);
    await refuses("CONFIG_INVALID", "a renewal in a turn that stays", trial.renew(held, { turn, nextTurn: turn }));
    equal(await trial.record(7), before, "the record");
    await trial.renewed(held, { turn, nextTurn: newToken() });
  }),

  check("a renewal may name 8 turns that were sent since the last answer", async (trial) => {
    const { held, turn } = await renewedOnce(trial);
    const others = Array.from({ length: 8 }, newToken);
    const sent = { turn: newToken(), nextTurn: newToken() };
    await isCloned(
      trial,
      held,
      { ...sent, sentTurns: [...others, turn] },
      "a renewal whose ninth turn is the record's",
    );
    await trial.renewed(held, { ...sent, sentTurns: [...others.slice(1), turn] });
  }),

  check("a request without turns cannot touch a record that has one", async (trial) => {
    const { held, turn } = await renewedOnce(trial);
    await isCloned(trial, held, {}, "a renewal without turns");
    const before = await trial.record(7);
    const { reason } = outcome(await trial.release(held), "lost", "a release without turns");
    equal(reason, "cloned", "its reason");
    equal(await trial.record(7), before, "the record");
    await trial.renewed(held, { turn, nextTurn: newToken() });
  }),

  check("the first renewal after a claim takes any turn", async (trial) => {
    const held = await trial.claim({ workerId: 7 });
    const sent = { turn: newToken(), nextTurn: newToken(), sentTurns: [newToken()] };
    equal((await trial.renewed(held, sent)).turn, sent.nextTurn, "the turn in the answer");
  }),

  check("no turn passes to the next claim of the worker ID", async (trial) => {
    const { held, turn } = await renewedOnce(trial);
    await trial.released(held, { until: held.grant.from }, { turn });
    const next = await trial.claim({ workerId: 7, holder: on("beta") });
    const again = outcome(await trial.registry.claim(next.request), "granted", "a repeated claim");
    equal([again.fence, again.until], [next.grant.fence, next.grant.until], "the repeated grant");
    await trial.renewed(next, { nextTurn: newToken() });
  }),

  check("a claim repeated with its token after a renewal with a turn is lost `cloned`", async (trial) => {
    const { held, turn } = await renewedOnce(trial);
    const before = await trial.records();
    const { reason } = outcome(await trial.registry.claim(held.request), "lost", "a repeated claim");
    equal(reason, "cloned", "its reason");
    equal(await trial.records(), before, "the records");
    await trial.renewed(held, { turn, nextTurn: newToken() });
  }),

  check("a give-back out of turn is lost `cloned`, and changes nothing", async (trial) => {
    const { held, turn } = await renewedOnce(trial);
    const before = await trial.record(7);
    const used = { until: held.grant.from, recents: recentsFrom(held.grant.from) };
    for (const wrong of [{ nextTurn: newToken() }, { turn: newToken() }]) {
      const { reason } = outcome(await trial.release(held, used, wrong), "lost", "a give-back out of turn");
      equal(reason, "cloned", "its reason");
    }
    equal(await trial.record(7), before, "the record");
    await trial.released(held, used, { turn });
    equal((await trial.record(7)).clean, true, "whether it is clean");
    // Any copy may release.
    await trial.released(held, used, { nextTurn: newToken() });
  }),

  check("a give-back after a renewal whose answer was lost is taken", async (trial) => {
    const { held, turn } = await renewedOnce(trial);
    const [second, third] = [newToken(), newToken()];
    await trial.renewed(held, { turn, nextTurn: second });
    await trial.released(held, { until: held.grant.from }, { turn, nextTurn: third, sentTurns: [second] });
  }),

  check("a lost claim says whether it was taken over or released", async (trial) => {
    const crashed = await trial.claim({ workerId: 7, window: short });
    const [gone, ended] = [await trial.claim({ workerId: 8 }), await trial.claim({ workerId: 9 })];
    await trial.passed(crashed.grant.until);
    const next = await trial.claim({ workerId: 7, holder: on("beta") });
    await trial.released(next, { until: next.grant.from });
    await trial.released(gone);
    await trial.force(9);
    const reasons: (string | undefined)[] = [];
    for (const held of [crashed, gone, ended]) {
      const { receipt } = held.grant;
      reasons.push(outcome(await trial.renew(held), "lost", "a late renewal").reason);
      reasons.push(outcome(await trial.renew(held, { receipt }), "lost", "one with its receipt").reason);
    }
    equal(reasons, ["taken", "taken", "released", "released", "released", "released"], "the reasons");
    const used = { until: crashed.grant.from };
    equal(outcome(await trial.release(crashed, used), "lost", "a late release").reason, "taken", "its reason");
    equal(
      outcome(await trial.release(ended, used), "lost", "one after a forced release").reason,
      "released",
      "its reason",
    );
  }),
];
