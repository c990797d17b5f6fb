import { ensure, equal, outcome, refuses } from "./assert.ts";
import { check, type ConformanceCheck } from "./check.ts";
import { grantedClaim, long, on, recentsFrom, short, type GrantedClaim, type Trial } from "./trial.ts";

/** Worker 7, used on host alpha up to half a second ahead of the clock, and given back with recents. */
async function givenBack(trial: Trial, begin = 100): Promise<{ first: GrantedClaim; until: number; inside: number }> {
  const first = await trial.claim({ workerId: 7 });
  const until = first.request.clock + 500;
  // Its clock stands still meanwhile: however long that takes, `inside` is not behind it.
  const { clock } = first.request;
  await trial.released(first, { until, recents: recentsFrom(first.grant.from + begin) }, { clock });
  return { first, until, inside: until - 300 };
}

/** The right to go on behind what the holder before has used. */
export const continuing: readonly ConformanceCheck[] = [
  check("who claims after a clean give-back, with its clock inside the recents, gets them", async (trial) => {
    const { first, until, inside } = await givenBack(trial);
    const { grant } = await trial.claim({ workerId: 7, clock: inside, holder: on("beta") });
    equal(grant.recents, recentsFrom(first.grant.from + 100), "the recents");
    equal(grant.from, until, "`from`");
  }),

  check("a claim for any worker ID continues behind its own host's recents", async (trial) => {
    const { first, inside } = await givenBack(trial);
    const { grant } = await trial.claim({ clock: inside });
    equal([grant.workerId, grant.recents], [7, recentsFrom(first.grant.from + 100)], "worker ID and recents");
  }),

  check("a claim repeated before the first renewal gets the recents again, after it no more", async (trial) => {
    const second = await trial.another();
    const { inside } = await givenBack(trial);
    const held = await trial.claim({ workerId: 7, clock: inside });
    for (const registry of [trial.registry, second]) {
      const again = await registry.claim(held.request);
      outcome(again, "granted", "a repeated claim");
      equal({ ...again, clock: 0 }, { ...held.grant, clock: 0 }, "the repeated grant");
    }
    await trial.renewed(held);
    const late = await second.claim(held.request);
    outcome(late, "granted", "a claim repeated after the first renewal");
    equal(late.recents, undefined, "its recents");
  }),

  check("the right to continue is used up by whoever takes it, even by a holder that crashes", async (trial) => {
    const { inside } = await givenBack(trial);
    const second = await trial.claim({ workerId: 7, clock: inside, window: short });
    ensure(second.grant.recents !== undefined, "recents for the second holder", second.grant);
    await trial.passed(second.grant.until);
    const third = await trial.claim({ workerId: 7, holder: on("gamma") });
    equal(third.grant.recents, undefined, "the recents of the third holder");
    ensure(third.grant.from >= second.grant.until, `\`from\` at or after ${second.grant.until}`, third.grant.from);
  }),

  check("the right to continue is used up by a holder that gives back without recents", async (trial) => {
    const { inside } = await givenBack(trial);
    const second = await trial.claim({ workerId: 7, clock: inside });
    await trial.released(second, { until: second.grant.from });
    const third = await trial.claim({ workerId: 7, clock: second.grant.from });
    equal(third.grant.recents, undefined, "the recents of the third holder");
  }),

  check("of claims at once exactly one continues", async (trial) => {
    const clients = [trial.registry, await trial.another()];
    const { inside } = await givenBack(trial);
    const asked = Array.from({ length: 10 }, (_, i) => {
      return (clients[i % 2] ?? trial.registry).claim(trial.request({ clock: inside, holder: on("alpha") }));
    });
    const grants = (await Promise.all(asked)).filter((answer) => answer.outcome === "granted");
    equal(grants.filter(({ recents }) => recents !== undefined).length, 1, "the number of holders with recents");
  }),

  check(
    "a holder that does not continue gets no recents, and waits until its clock is past the window",
    async (trial) => {
      const { until, inside } = await givenBack(trial);
      const wanted = { workerId: 7, continues: false, holder: on("beta") };
      const refusal = await trial.ask({ ...wanted, clock: inside });
      outcome(refusal, "held", "a claim with the clock before `until`");
      equal([refusal.live, refusal.freeAt], [false, until], "whether it is live, and when it comes free");
      const second = await trial.claim({ ...wanted, clock: until });
      equal(second.grant.recents, undefined, "the recents");
      await trial.released(second, { until: second.grant.from });
      const third = await trial.claim({ workerId: 7, clock: second.grant.from, holder: on("gamma") });
      equal(third.grant.recents, undefined, "the recents of the next holder");
    },
  ),

  check(
    "a holder that leads its clock takes up what was given back ahead of it, behind all that was used",
    async (trial) => {
      const held = await trial.claim({ workerId: 7 });
      const until = held.request.clock + 40_000;
      await trial.released(held, { until });
      const clock = trial.now();
      const wanted = { workerId: 7, holder: on("beta"), clock };
      outcome(await trial.ask({ ...wanted, lead: until - clock - 20_000 }), "held", "a claim that leads too little");
      const { grant } = await trial.claim({ ...wanted, lead: until - clock });
      equal([grant.from, grant.recents], [until, undefined], "`from` and the recents");
      ensure(grant.until >= clock + long, `\`until\` at or after ${clock + long}`, grant.until);
    },
  ),

  check("leading its clock helps nobody to a worker ID that was not given back, or by force", async (trial) => {
    const held = await trial.claim({ workerId: 7 });
    const wanted = { workerId: 7, holder: on("beta"), lead: long };
    outcome(await trial.ask(wanted), "held", "a claim of a live one");
    const { namespace, registry } = trial;
    await registry.forceRelease({ namespace, workerId: 7, force: true });
    const refusal = await trial.ask(wanted);
    outcome(refusal, "held", "a claim after a forced release");
    equal(refusal.freeAt, held.grant.until, "when it comes free");
  }),

  check("a worker ID given back without recents cannot be continued", async (trial) => {
    const held = await trial.claim({ workerId: 7 });
    const until = held.request.clock + 500;
    await trial.released(held, { until });
    const refusal = await trial.ask({ workerId: 7, clock: until - 1, holder: on("beta") });
    outcome(refusal, "held", "a claim with the clock before `until`");
    equal([refusal.live, refusal.freeAt], [false, until], "whether it is live, and when it comes free");
    const next = await trial.claim({ workerId: 7, clock: until, holder: on("beta") });
    equal(next.grant.recents, undefined, "the recents");
  }),

  check("a clock before the recents cannot continue behind them", async (trial) => {
    const { first, until } = await givenBack(trial, 9000);
    const begin = first.grant.from + 9000;
    const claim = { workerId: 7, holder: on("beta") };
    const refusal = await trial.ask({ ...claim, clock: begin - 1 });
    outcome(refusal, "held", "a claim with the clock before the recents");
    equal(refusal.freeAt, until, "when it comes free");
    const { grant } = await trial.claim({ ...claim, clock: begin });
    equal(grant.recents?.from, begin, "where the recents begin");
  }),

  check("a holder that continued hands on what it inherited", async (trial) => {
    const { first, until, inside } = await givenBack(trial);
    const second = await trial.claim({ workerId: 7, clock: inside });
    const begin = first.grant.from + 100;
    // It never got past what it inherited: its own window, which begins later, stays unused.
    await trial.released(second, { until, recents: recentsFrom(begin, 1, 2, 3) }, { clock: inside });
    const third = await trial.claim({ workerId: 7, clock: inside + 1, holder: on("gamma") });
    equal(third.grant.recents, recentsFrom(begin, 1, 2, 3), "the recents of the third holder");
    equal(third.grant.from, until, "`from`");
  }),

  check(
    "what a holder may know still reaches to the inherited recents after renewals, and no further",
    async (trial) => {
      const { first, until, inside } = await givenBack(trial);
      const second = await trial.claim({ workerId: 7, clock: inside });
      await trial.renewed(second);
      const begin = first.grant.from + 100;
      const tooFar = trial.release(second, { until, recents: recentsFrom(begin - 1) });
      await refuses("CONFIG_INVALID", "recents that begin below the inherited ones", tooFar);
      await trial.released(second, { until, recents: recentsFrom(begin) });
    },
  ),

  check("a forced release voids the right to continue", async (trial) => {
    const { until } = await givenBack(trial);
    const { namespace, registry } = trial;
    await registry.forceRelease({ namespace, workerId: 7, force: true });
    const record = await trial.record(7);
    equal([record.recents, record.clean, record.until], [undefined, false, until], "recents, `clean` and `until`");
    await trial.passed(until);
    const next = await trial.claim({ workerId: 7 });
    equal(next.grant.recents, undefined, "the recents");
  }),

  check("a continued claim stands in the history with where it goes on", async (trial) => {
    const { first, until, inside } = await givenBack(trial);
    const request = trial.request({ workerId: 7, clock: inside, holder: on("beta") });
    const answer = await trial.registry.claim(request);
    outcome(answer, "granted", "this claim");
    const held = grantedClaim(request, answer);
    const begin = first.grant.from + 100;
    const rows = async (): Promise<unknown> => {
      const found = await trial.registry.history(trial.namespace, 7, { from: begin, until: begin + 1 });
      return found.map(({ fence, continuedFrom }) => [fence, continuedFrom ?? null]);
    };
    const expected = [
      [first.grant.fence, null],
      [answer.fence, begin],
    ];
    equal(await rows(), expected, "the claims that could use a time before `from`");
    await trial.renewed(held);
    await trial.released(held, { until });
    equal(await rows(), expected, "the claims that could use a time before `from`, later");
  }),
];
