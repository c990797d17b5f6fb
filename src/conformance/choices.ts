import type { PoolBounds } from "../id/pool-bounds.ts";
import { between, ensure, equal, outcome, refuses } from "./assert.ts";
import { check, checkNew, type ConformanceCheck } from "./check.ts";
import { long, newToken, on, recentsFrom, short, type GrantedClaim, type Trial } from "./trial.ts";

/** A layout of 22 worker bits. */
const wideLayout = "timestamp:40,worker:22,sequence:1@1490346283706/1";

/** Claims all worker IDs of the pool, or as many as wanted, each for another host. */
async function fill(
  trial: Trial,
  pool: PoolBounds,
  count: number = pool.last - pool.first + 1,
): Promise<GrantedClaim[]> {
  const held: GrantedClaim[] = [];
  while (held.length < count) held.push(await trial.claim({ pool, holder: on(newToken()) }));
  return held;
}

const idOf = ({ grant }: GrantedClaim): number => grant.workerId;
const ascending = (held: readonly GrantedClaim[]): number[] => held.map(idOf).toSorted((a, b) => a - b);

/** Which worker ID of the pool a claim gets. */
export const choices: readonly ConformanceCheck[] = [
  check("unused worker IDs are granted in ascending order", async (trial) => {
    await trial.claim({ workerId: 1, holder: on("other") });
    const ids: number[] = [];
    for (const host of ["alpha", "beta", "gamma"]) ids.push(idOf(await trial.claim({ holder: on(host) })));
    equal(ids, [0, 2, 3], "the worker IDs beside 1, which is held");
  }),

  check("an unused worker ID is granted before one that another host gave back", async (trial) => {
    await trial.usedOnce(0, 100, "beta");
    equal(idOf(await trial.claim()), 1, "the worker ID");
  }),

  check("a host gets the worker ID back that it used before", async (trial) => {
    await trial.usedOnce(3, 100, "alpha");
    await trial.claim({ holder: on("beta") });
    equal(idOf(await trial.claim({ holder: on("alpha") })), 3, "the worker ID");
  }),

  check("a host gets the worker ID of its crashed process back", async (trial) => {
    const crashed = await trial.claim({ window: short });
    await trial.claim({ holder: on("beta") });
    await trial.passed(crashed.grant.until);
    equal(idOf(await trial.claim()), idOf(crashed), "the worker ID");
  }),

  check("a host whose processes restart keeps the same worker IDs", async (trial) => {
    const round = async (): Promise<number[]> => {
      const held = [await trial.claim(), await trial.claim(), await trial.claim()];
      for (const claim of held) await trial.released(claim, { until: claim.grant.from });
      return ascending(held);
    };
    const first = await round();
    for (let i = 0; i < 3; i++) equal(await round(), first, "the worker IDs after a restart");
  }),

  check("preferred worker IDs come first, in their order", async (trial) => {
    const preferred = [2000, 9, 4];
    equal(idOf(await trial.claim({ preferred })), 9, "the worker ID of the first claim");
    equal(idOf(await trial.claim({ preferred })), 4, "the worker ID of the second claim");
    const third = idOf(await trial.claim({ preferred }));
    ensure(!preferred.includes(third) && third <= 1023, "another worker ID of the pool", third);
  }),

  check(
    "when all worker IDs were used, the one whose window ended longest ago is granted first",
    async (trial) => {
      const pool = { first: 0, last: 2 };
      const held: GrantedClaim[] = [];
      for (const workerId of [0, 1, 2]) held.push(await trial.claim({ workerId, holder: on(`host-${workerId}`) }));
      // From this time on, all three holders may have used their windows, however long their claims took.
      const from = Math.max(...held.map(({ grant }) => grant.from));
      for (const [i, used] of [3000, 1000, 2000].entries())
        await trial.released(held[i] as GrantedClaim, { until: from + used });
      for (const expected of [1, 2, 0])
        equal(idOf(await trial.claim({ pool, holder: on("new") })), expected, "the worker ID");
    },
    "oldest-first",
  ),

  check("a claim gets a worker ID of its pool", async (trial) => {
    const pool = { first: 512, last: 515 };
    equal(ascending(await fill(trial, pool)), [512, 513, 514, 515], "the worker IDs of the pool");
    outcome(await trial.ask({ pool }), "exhausted", "a fifth claim in a pool of four");
    equal(ascending(await fill(trial, { first: 0, last: 1 })), [0, 1], "the worker IDs of another pool");
    equal(ascending(await fill(trial, { first: 516, last: 517 })), [516, 517], "the ones above it");
  }),

  check("a host's worker IDs outside the pool are not granted", async (trial) => {
    await trial.usedOnce(3, 100, "alpha");
    between(idOf(await trial.claim({ pool: { first: 512, last: 513 } })), 512, 513, "the worker ID");
  }),

  check(
    "a pool that is narrowed, moved and widened again keeps its limits, and grants its worker IDs",
    async (trial) => {
      const held = await fill(trial, { first: 0, last: 7 });
      for (const each of held) if (idOf(each) % 3 !== 0) await trial.released(each, { until: each.grant.from });
      const some = async (first: number, last: number, count: number): Promise<number[]> => {
        const pool = { first, last };
        const granted = await fill(trial, pool, count);
        for (const { grant } of granted) equal(grant.fence, 2, `the fence of worker ${grant.workerId}`);
        outcome(await trial.ask({ pool, holder: on("late") }), "exhausted", `a claim of ${first}-${last}`);
        return ascending(granted);
      };
      equal(await some(2, 4, 2), [2, 4], "the worker IDs of 2-4, where 3 is held");
      equal(await some(4, 6, 1), [5], "the worker IDs of 4-6, where 4 and 6 are held");
      equal(await some(0, 7, 2), [1, 7], "the worker IDs that are left");
    },
  ),

  check("a full pool answers `exhausted`, and when the first worker ID becomes free", async (trial) => {
    const pool = { first: 0, last: 1 };
    await trial.claim({ pool, window: 50_000 });
    const { grant } = await trial.claim({ pool, window: 40_000 });
    const refusal = outcome(await trial.ask({ pool, holder: on("beta") }), "exhausted", "a claim in a full pool");
    equal([refusal.pool, refusal.freeAt], [pool, grant.until], "the pool, and when the first one becomes free");
    between(refusal.clock, grant.clock, grant.clock + long, "the registry's clock");
  }),

  check("a pool of resting worker IDs answers `exhausted` until their windows have passed", async (trial) => {
    const pool = { first: 0, last: 0 };
    const held = await trial.claim({ pool, window: short });
    await trial.released(held);
    outcome(await trial.ask({ pool, clock: held.request.clock }), "exhausted", "a claim before the window has passed");
    await trial.passed(held.grant.until);
    await trial.claim({ pool, holder: on("beta") });
  }),

  check("a holder whose clock lags waits until the window has passed on its own clock", async (trial) => {
    const pool = { first: 0, last: 0 };
    const { until } = (await trial.crashed({ pool })).grant;
    const early = await trial.ask({ pool, holder: on("beta"), clock: until - 1 });
    outcome(early, "exhausted", "a claim by a clock that shows a time in the window");
    await trial.claim({ pool, holder: on("beta"), clock: until });
  }),

  check("a pool without a worker ID that becomes free by itself answers `exhausted` without a time", async (trial) => {
    const pool = { first: 0, last: 1 };
    for (const workerId of [0, 1]) await trial.pin(workerId, "not ours");
    const refusal = outcome(await trial.ask({ pool }), "exhausted", "a claim where all is pinned");
    equal(refusal.freeAt, undefined, "the time at which one becomes free");
  }),

  check("`reuse: never` grants each worker ID once", async (trial) => {
    const pool = { first: 0, last: 2 };
    const claims: GrantedClaim[] = [];
    for (let i = 0; i < 3; i++) {
      const held = await trial.claim({ pool, reuse: "never", preferred: [0] });
      await trial.released(held, { until: held.grant.from });
      claims.push(held);
    }
    equal(ascending(claims), [0, 1, 2], "the worker IDs");
    const refusal = outcome(await trial.ask({ pool, reuse: "never" }), "exhausted", "a fourth claim");
    equal(refusal.freeAt, undefined, "the time at which an unused worker ID becomes free");
    await trial.claim({ pool });
  }),

  check("a claim with a clock behind its host's last one gets another worker ID, and the rollback", async (trial) => {
    const begun = trial.now();
    const ahead = await trial.claim({ clock: begun + 2000 });
    const clock = ahead.request.clock - 2000;
    const { grant } = await trial.claim({ clock });
    ensure(grant.workerId !== ahead.grant.workerId, "another worker ID", grant.workerId);
    // A store that waited or tried again counts from the claimer's clock at its last attempt.
    const took = trial.now() - begun;
    between(grant.rollback, 2000 - took, 2000 + took, "the rollback");
    const elsewhere = await trial.claim({ clock, holder: on("beta") });
    equal(elsewhere.grant.rollback, undefined, "the rollback of another host");
  }),

  check("a requested unused worker ID is granted", async (trial) => {
    equal(idOf(await trial.claim({ workerId: 733 })), 733, "the worker ID");
  }),

  check("a requested worker ID that is held is refused, with its holder", async (trial) => {
    const { grant } = await trial.claim({ workerId: 7, holder: on("alpha") });
    const before = await trial.record(7);
    const asked = await trial.ask({ workerId: 7, holder: on("beta") });
    const { clock, ...rest } = outcome(asked, "held", "a claim of a worker ID that is held");
    const holder = { live: true, holder: on("alpha"), since: before.claimedAt, freeAt: grant.until };
    equal(rest, { outcome: "held", workerId: 7, ...holder }, "the refusal");
    between(clock, grant.clock, grant.clock + long, "the registry's clock");
    equal(await trial.record(7), before, "the record after a refusal");
  }),

  check("a requested worker ID that rests is refused until its window has passed", async (trial) => {
    const held = await trial.claim({ workerId: 7, window: short });
    await trial.released(held);
    const early = { workerId: 7, holder: on("beta"), clock: held.request.clock };
    await trial.refusedUntil(held.grant.until, early, "a claim of a worker ID that rests");
    await trial.passed(held.grant.until);
    await trial.claim({ workerId: 7, holder: on("beta") });
  }),

  check("a requested worker ID whose holder crashed is granted after its window has passed", async (trial) => {
    const crashed = await trial.crashed();
    const { grant } = await trial.claim({ workerId: 7, holder: on("beta") });
    ensure(grant.fence > crashed.grant.fence, "a new claim", grant);
    equal((await trial.record(7)).holder, on("beta"), "the holder");
  }),

  check("a requested worker ID that was given back is granted immediately", async (trial) => {
    await trial.usedOnce(7, 100, "beta");
    equal(idOf(await trial.claim({ workerId: 7 })), 7, "the worker ID");
  }),

  check("a requested worker ID that this host used at later times is refused as a rollback", async (trial) => {
    const begun = trial.now();
    const clock = begun + 2000;
    const held = await trial.claim({ workerId: 7, clock });
    await trial.released(held, undefined, { clock });
    const { until } = held.grant;
    const asked = await trial.ask({ workerId: 7, clock: clock - 1500 });
    const refusal = outcome(asked, "rollback", "a claim by a clock that was set back");
    equal([refusal.workerId, refusal.freeAt], [7, until], "worker ID and time");
    // As above.
    const took = trial.now() - begun;
    between(refusal.behind, 1500 - took, 1500 + took, "the rollback");
    const elsewhere = await trial.ask({ workerId: 7, clock: clock - 1500, holder: on("beta") });
    outcome(elsewhere, "held", "a claim by another host, whose clock may differ");
  }),

  check("a requested worker ID outside the pool is CONFIG_INVALID", async (trial) => {
    for (const workerId of [511, 516, -1, 512.5]) {
      const asked = trial.ask({ workerId, pool: { first: 512, last: 515 } });
      await refuses("CONFIG_INVALID", `worker ID ${workerId} outside a pool of 512 to 515`, asked);
    }
    equal(await trial.records(), [], "the worker IDs in use");
  }),

  checkNew("a pool of 4,194,304 worker IDs is served from end to end", async (trial) => {
    await trial.init({ layout: wideLayout, new: true });
    const all = { layout: wideLayout, pool: { first: 0, last: 4_194_303 } };
    const top = await trial.claim({ ...all, workerId: all.pool.last });
    await trial.released(top, { until: top.grant.from, recents: recentsFrom(top.grant.from) });
    equal((await trial.record(all.pool.last)).workerId, all.pool.last, "the highest worker ID");
    equal(idOf(await trial.claim({ ...all, holder: on("beta") })), 0, "the first worker ID");
    const upper = { ...all, pool: { first: 4_194_302, last: 4_194_303 } };
    const rest = [await trial.claim(upper), await trial.claim({ ...upper, holder: on("beta") })];
    equal(ascending(rest), [4_194_302, 4_194_303], "the last two worker IDs");
  }),
];
