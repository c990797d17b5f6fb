import { defaultLimits } from "../rule/limits.ts";
import { between, ensure, equal, outcome, textOf } from "./assert.ts";
import { check, type ConformanceCheck } from "./check.ts";
import { long, on, recentsFrom, short } from "./trial.ts";

const { maxClockSkew, maxWindow } = defaultLimits;

/** What a grant contains, where a window begins and ends, and that a token gets one grant. */
export const grants: readonly ConformanceCheck[] = [
  check("a grant names a worker ID of the pool, a fence, a window and the registry's clock", async (trial) => {
    const pool = { first: 5, last: 9 };
    const { grant, request } = await trial.claim({ pool });
    between(grant.workerId, pool.first, pool.last, "the worker ID");
    between(grant.fence, 1, Number.MAX_SAFE_INTEGER, "the fence");
    between(grant.clock, request.clock - maxClockSkew, request.clock + maxClockSkew, "the registry's clock");
    ensure(grant.from < grant.until, "the window to be open", grant);
    equal(grant.recents, undefined, "the recents of an unused worker ID");
    equal(grant.rollback, undefined, "the rollback of a host that was never seen");
  }),

  check(
    "a first window begins maxClockSkew before the registry's clock, and its length counts from the later clock",
    async (trial) => {
      for (const ahead of [0, 3000, -3000]) {
        const sent = trial.now();
        const { grant, request } = await trial.claim({ clock: sent + ahead });
        equal(grant.from, grant.clock - maxClockSkew, "`from`");
        // A store that waited or tried again counts from the claimer's clock at its last attempt.
        const latest = request.clock + trial.now() - sent;
        const [least, most] = [request.clock, latest].map((clock) => Math.max(clock, grant.clock) + long);
        between(grant.until, least ?? 0, most ?? 0, `\`until\` with a clock ${ahead} ms ahead`);
      }
    },
  ),

  check("no window ends after the registry's clock + maxWindow + maxClockSkew", async (trial) => {
    const held = await trial.claim({ clock: trial.now() + maxClockSkew - 1000, window: maxWindow });
    const cap = held.grant.clock + maxWindow + maxClockSkew;
    between(held.grant.until, held.grant.clock + maxWindow, cap, "`until` of the longest claim");
    const renewal = await trial.renewed(held, { clock: trial.now() + maxClockSkew - 1000, window: maxWindow });
    const { clock } = await trial.registry.ping();
    between(renewal.until, held.grant.until, clock + maxWindow + maxClockSkew, "`until` of the longest renewal");
  }),

  check("a grant is stored before it is answered", async (trial) => {
    const second = await trial.another();
    const { grant, request } = await trial.claim();
    const answered = trial.now();
    const { workerId, fence, from, until, seenClock } = await trial.record(grant.workerId, second);
    equal({ ...grant, workerId, fence, from, until }, grant, "the grant, with the record's members");
    between(seenClock, request.clock, answered, "`seenClock`, the holder's clock");
  }),

  check("the window after a crash begins at the end of the crashed holder's window, or later", async (trial) => {
    const crashed = await trial.crashed({ workerId: 7, clock: trial.now() + 50 });
    const { grant } = await trial.claim({ workerId: 7, holder: on("beta") });
    equal(grant.from, Math.max(crashed.grant.until, grant.clock - maxClockSkew), "`from`");
  }),

  check("the window after a give-back begins at the end of the closed window, or later", async (trial) => {
    const first = await trial.claim({ workerId: 7 });
    const closed = first.request.clock + 500;
    await trial.released(first, { until: closed });
    const { grant } = await trial.claim({ workerId: 7, holder: on("beta"), clock: closed });
    equal(grant.from, Math.max(closed, grant.clock - maxClockSkew), "`from`");
  }),

  check("a claim never lowers `until`", async (trial) => {
    const first = await trial.claim({ workerId: 7 });
    const { from, until } = first.grant;
    await trial.released(first, { until, recents: recentsFrom(from) });
    // After the recents this worker ID is usable now, although its window ends in a minute.
    const next = await trial.claim({ workerId: 7, window: short });
    equal({ from: next.grant.from, until: next.grant.until }, { from: until, until }, "the window after it");
    equal((await trial.record(7)).until, until, "`until` in the record");
  }),

  check("the fence of a worker ID rises with every claim", async (trial) => {
    let fence = 0;
    for (const end of ["release", "release without usage", "force", "expiry"]) {
      const held = await trial.claim({ workerId: 7, window: short });
      const { from, until } = held.grant;
      ensure(held.grant.fence > fence, `the fence to rise above ${fence}`, held.grant.fence);
      ({ fence } = held.grant);
      if (end === "release") await trial.released(held, { until: from });
      if (end === "release without usage") await trial.released(held);
      if (end === "force") await trial.force(7);
      await trial.passed(until);
    }
    const last = await trial.claim({ workerId: 7 });
    ensure(last.grant.fence > fence, `the fence to rise above ${fence}`, last.grant.fence);
  }),

  check("a claim repeated with its token gets the same grant, fence and window", async (trial) => {
    const second = await trial.another();
    const { grant, request } = await trial.claim({ window: 5000 });
    await trial.pause(5);
    for (const registry of [trial.registry, second]) {
      const again = await registry.claim({ ...request, clock: trial.now() + 100, window: long });
      outcome(again, "granted", "a repeated claim");
      equal({ ...again, clock: 0 }, { ...grant, clock: 0 }, "a repeated grant");
    }
    equal((await trial.records()).length, 1, "the number of worker IDs in use");
    equal((await trial.history(grant.workerId)).length, 1, "the number of claims in the history");
  }),

  check(
    "concurrent claims with one token from two clients get one grant",
    async (trial) => {
      const request = trial.request();
      const answers = await trial.concurrently(8, (registry) => registry.claim(request));
      equal(
        new Set(answers.map((answer) => textOf({ ...answer, clock: 0 }))).size,
        1,
        "the number of different answers",
      );
      equal((await trial.records()).length, 1, "the number of worker IDs in use");
    },
    "one-grant-a-token",
  ),

  check("a claim repeated with its token after a renewal gets the renewed window", async (trial) => {
    const held = await trial.claim({ window: 5000 });
    const { until } = await trial.renewed(held);
    const again = outcome(await trial.registry.claim(held.request), "granted", "a repeated claim");
    equal([again.fence, again.from, again.until], [held.grant.fence, held.grant.from, until], "fence and window");
  }),

  check("a claim belongs to its token, not to the client that made it", async (trial) => {
    const first = await trial.another();
    const held = await trial.claim({ workerId: 7 }, first);
    await first.close();
    await trial.renewed(held);
    await trial.released(held, { until: held.grant.from });
  }),

  check("50 concurrent claims from two clients get 50 worker IDs", async (trial) => {
    const held = await trial.concurrently(50, (registry, i) => trial.claim({ holder: on(`host-${i % 7}`) }, registry));
    equal(new Set(held.map(({ grant }) => grant.workerId)).size, 50, "the number of different worker IDs");
    for (const claim of held) await trial.renewed(claim);
  }),

  check("of 20 concurrent claims for one worker ID exactly one is granted", async (trial) => {
    const claims = await trial.concurrently(20, (registry) => trial.tryClaim({ workerId: 7 }, registry));
    const granted = claims.filter((claim) => claim !== undefined);
    equal(granted.length, 1, "the number of grants");
    for (const claim of granted) await trial.renewed(claim);
  }),
];
