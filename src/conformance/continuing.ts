import { ensure, equal, outcome, refuses } from "./assert.ts";
import { check, type ConformanceCheck } from "./check.ts";
import { long, on, recentsFrom, short, type Trial } from "./trial.ts";

/** A worker ID that was given back with recents of [begin, until). `inside` is a time in them. */
interface GivenBack {
  readonly fence: number;
  readonly begin: number;
  readonly until: number;
  readonly inside: number;
}

/** Worker 7, used on host alpha up to half a second ahead of the clock, and given back. */
async function givenBack(trial: Trial, unknown = 100): Promise<GivenBack> {
  const first = await trial.claim({ workerId: 7 });
  const { fence, from } = first.grant;
  // The holder's clock stands still: however long the release takes, `inside` is not before it.
  const { clock } = first.request;
  const [begin, until] = [from + unknown, clock + 500];
  await trial.released(first, { until, recents: recentsFrom(begin) }, { clock });
  return { fence, begin, until, inside: until - 300 };
}

/** The right to continue after the sequences that the previous holder used. */
export const continuing: readonly ConformanceCheck[] = [
  check("a claim after a clean give-back, with a clock inside the recents, gets the recents", async (trial) => {
    const { begin, until, inside } = await givenBack(trial);
    const { grant } = await trial.claim({ workerId: 7, clock: inside, holder: on("beta") });
    equal(grant.recents, recentsFrom(begin), "the recents");
    equal(grant.from, until, "`from`");
  }),

  check("a claim for any worker ID continues after its own host's recents", async (trial) => {
    const { begin, inside } = await givenBack(trial);
    const { grant } = await trial.claim({ clock: inside });
    equal([grant.workerId, grant.recents], [7, recentsFrom(begin)], "worker ID and recents");
  }),

  check("a claim repeated before the first renewal gets the recents again, a later one does not", async (trial) => {
    const second = await trial.another();
    const { inside } = await givenBack(trial);
    const held = await trial.claim({ workerId: 7, clock: inside });
    for (const registry of [trial.registry, second]) {
      const again = outcome(await registry.claim(held.request), "granted", "a repeated claim");
      equal({ ...again, clock: 0 }, { ...held.grant, clock: 0 }, "the repeated grant");
    }
    await trial.renewed(held);
    const late = outcome(await second.claim(held.request), "granted", "a claim repeated after the first renewal");
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
    const refusal = outcome(await trial.ask(wanted), "held", "a claim after a forced release");
    equal(refusal.freeAt, held.grant.until, "when it becomes free");
  }),

  check("a worker ID given back without recents cannot be continued", async (trial) => {
    const held = await trial.claim({ workerId: 7 });
    const until = held.request.clock + 500;
    await trial.released(held, { until });
    const wanted = { workerId: 7, holder: on("beta") };
    await trial.refusedUntil(until, { ...wanted, clock: until - 1 }, "a claim with the clock before `until`");
    const next = await trial.claim({ ...wanted, clock: until });
    equal(next.grant.recents, undefined, "the recents");
  }),

  check("a holder whose clock is before the recents cannot continue", async (trial) => {
    const { begin, until } = await givenBack(trial, 9000);
    const claim = { workerId: 7, holder: on("beta") };
    const early = await trial.ask({ ...claim, clock: begin - 1 });
    const refusal = outcome(early, "held", "a claim with the clock before the recents");
    equal(refusal.freeAt, until, "when it becomes free");
    const { grant } = await trial.claim({ ...claim, clock: begin });
    equal(grant.recents?.from, begin, "where the recents begin");
  }),

  check("a holder that continued hands on the recents that it inherited", async (trial) => {
    const { begin, until, inside } = await givenBack(trial);
    const second = await trial.claim({ workerId: 7, clock: inside });
    // The holder never used more than the recents that it inherited. Its own window, which begins later, stays unused.
    await trial.released(second, { until, recents: recentsFrom(begin, 1, 2, 3) }, { clock: inside });
    const third = await trial.claim({ workerId: 7, clock: inside + 1, holder: on("gamma") });
    equal(third.grant.recents, recentsFrom(begin, 1, 2, 3), "the recents of the third holder");
    equal(third.grant.from, until, "`from`");
  }),

  check(
    "after a renewal a holder's recents may still begin where the inherited ones did, and no earlier",
    async (trial) => {
      const { begin, until, inside } = await givenBack(trial);
      const second = await trial.claim({ workerId: 7, clock: inside });
      await trial.renewed(second);
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
    const { fence: first, begin, until, inside } = await givenBack(trial);
    const held = await trial.claim({ workerId: 7, clock: inside, holder: on("beta") });
    const rows = async (): Promise<unknown> => {
      const found = await trial.history(7, { from: begin, until: begin + 1 });
      return found.map(({ fence, continuedFrom }) => [fence, continuedFrom ?? null]);
    };
    const expected = [
      [first, null],
      [held.grant.fence, begin],
    ];
    equal(await rows(), expected, "the claims that could use a time before `from`");
    await trial.renewed(held);
    await trial.released(held, { until });
    equal(await rows(), expected, "the claims that could use a time before `from`, later");
  }),
];
