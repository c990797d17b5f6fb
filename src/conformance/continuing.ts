import { ensure, equal, outcome, refuses } from "./assert.ts";
import { check, type ConformanceCheck } from "./check.ts";
import { grantedClaim, long, on, recentsFrom, short, type GrantedClaim, type Trial } from "./trial.ts";

/** Worker 7, used on host alpha up to half a second ahead of the clock, and given back with recents. */
async function givenBack(trial: Trial, begin = 100): Promise<{ first: GrantedClaim; until: number; inside: number }> {
  const first = await trial.claim({ workerId: 7 });
  const until = first.request.clock + 500;
  // The holder's clock stands still meanwhile: however long the release takes, `inside` is not before it.
  const { clock } = first.request;
  await trial.released(first, { until, recents: recentsFrom(first.grant.from + begin) }, { clock });
  return { first, until, inside: until - 300 };
}

/** The right to continue after the sequences that the previous holder used. */
export const continuing: readonly ConformanceCheck[] = [
  check("a claim after a clean give-back, with a clock inside the recents, gets the recents", async (trial) => {
    const { first, until, inside } = await givenBack(trial);
    const { grant } = await trial.claim({ workerId: 7, clock: inside, holder: on("beta") });
    equal(grant.recents, recentsFrom(first.grant.from + 100), "the recents");
    equal(grant.from, until, "`from`");
  }),

  check("a claim for any worker ID continues after its own host's recents", async (trial) => {
    const { first, inside } = await givenBack(trial);
    const { grant } = await trial.claim({ clock: inside });
    equal([grant.workerId, grant.recents], [7, recentsFrom(first.grant.from + 100)], "worker ID and recents");
  }),

  check("a claim repeated before the first renewal gets the recents again, a later one does not", async (trial) => {
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

  check("a holder that gets the right to continue uses it up, even if it crashes", async (trial) => {
    const { inside } = await givenBack(trial);
    const second = await trial.claim({ workerId: 7, clock: inside, window: short });
    ensure(second.grant.recents !== undefined, "recents for the second holder", second.grant);
    await trial.passed(second.grant.until);
    const third = await trial.claim({ workerId: 7, holder: on("gamma") });
    equal(third.grant.recents, undefined, "the recents of the third holder");
    ensure(third.grant.from >= second.grant.until, `\`from\` at or after ${second.grant.until}`, third.grant.from);
  }),

  check("a holder that gives back without recents uses up the right to continue", async (trial) => {
    const { inside } = await givenBack(trial);
    const second = await trial.claim({ workerId: 7, clock: inside });
    await trial.released(second, { until: second.grant.from });
    const third = await trial.claim({ workerId: 7, clock: second.grant.from });
    equal(third.grant.recents, undefined, "the recents of the third holder");
  }),

  check("of concurrent claims exactly one continues", async (trial) => {
    const { inside } = await givenBack(trial);
    const answers = await trial.concurrently(10, (registry) => trial.ask({ clock: inside }, registry));
    const grants = answers.filter((answer) => answer.outcome === "granted");
    equal(grants.filter(({ recents }) => recents !== undefined).length, 1, "the number of holders with recents");
  }),

  check(
    "a holder that does not continue gets no recents, and waits until its clock is past the window",
    async (trial) => {
      const { until, inside } = await givenBack(trial);
      const wanted = { workerId: 7, continues: false, holder: on("beta") };
      await trial.refusedUntil(until, { ...wanted, clock: inside }, "a claim with the clock before `until`");
      const second = await trial.claim({ ...wanted, clock: until });
      equal(second.grant.recents, undefined, "the recents");
      await trial.released(second, { until: second.grant.from });
      const third = await trial.claim({ workerId: 7, clock: second.grant.from, holder: on("gamma") });
      equal(third.grant.recents, undefined, "the recents of the next holder");
    },
  ),

  check(
    "a holder that leads its clock gets a worker ID given back ahead of the clock, after all used times",
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

  check("a holder that leads its clock gets no worker ID that is live or was released by force", async (trial) => {
    const held = await trial.claim({ workerId: 7 });
    const wanted = { workerId: 7, holder: on("beta"), lead: long };
    outcome(await trial.ask(wanted), "held", "a claim of a live one");
    await trial.force(7);
    const refusal = await trial.ask(wanted);
    outcome(refusal, "held", "a claim after a forced release");
    equal(refusal.freeAt, held.grant.until, "when it becomes free");
  }),

  check("a worker ID given back without recents cannot be continued", async (trial) => {
    const held = await trial.claim({ workerId: 7 });
    const until = held.request.clock + 500;
    await trial.released(held, { until });
    const early = { workerId: 7, clock: until - 1, holder: on("beta") };
    await trial.refusedUntil(until, early, "a claim with the clock before `until`");
    const next = await trial.claim({ workerId: 7, clock: until, holder: on("beta") });
    equal(next.grant.recents, undefined, "the recents");
  }),

  check("a holder whose clock is before the recents cannot continue", async (trial) => {
    const { first, until } = await givenBack(trial, 9000);
    const begin = first.grant.from + 9000;
    const claim = { workerId: 7, holder: on("beta") };
    const refusal = await trial.ask({ ...claim, clock: begin - 1 });
    outcome(refusal, "held", "a claim with the clock before the recents");
    equal(refusal.freeAt, until, "when it becomes free");
    const { grant } = await trial.claim({ ...claim, clock: begin });
    equal(grant.recents?.from, begin, "where the recents begin");
  }),

  check("a holder that continued hands on the recents that it inherited", async (trial) => {
    const { first, until, inside } = await givenBack(trial);
    const second = await trial.claim({ workerId: 7, clock: inside });
    const begin = first.grant.from + 100;
    // The holder never got past the recents that it inherited: its own window, which begins later, stays unused.
    await trial.released(second, { until, recents: recentsFrom(begin, 1, 2, 3) }, { clock: inside });
    const third = await trial.claim({ workerId: 7, clock: inside + 1, holder: on("gamma") });
    equal(third.grant.recents, recentsFrom(begin, 1, 2, 3), "the recents of the third holder");
    equal(third.grant.from, until, "`from`");
  }),

  check(
    "after a renewal a holder's recents may still begin where the inherited ones did, and no earlier",
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
    await trial.force(7);
    const record = await trial.record(7);
    equal([record.recents, record.clean, record.until], [undefined, false, until], "recents, `clean` and `until`");
    await trial.passed(until);
    const next = await trial.claim({ workerId: 7 });
    equal(next.grant.recents, undefined, "the recents");
  }),

  check("the history shows where a continued claim begins", async (trial) => {
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
