import type { HistoryRange, WorkersPage } from "../rule/registry.ts";
import { between, equal, outcome, refuses, textOf } from "./assert.ts";
import { check, type ConformanceCheck } from "./check.ts";
import { hour, long, newToken, on, otherLayout, recentsFrom, short, type GrantedClaim, type Trial } from "./trial.ts";

async function idsOf(trial: Trial, page?: WorkersPage): Promise<number[]> {
  return (await trial.records(page)).map(({ workerId }) => workerId);
}

async function fencesOf(trial: Trial, range?: HistoryRange): Promise<number[]> {
  return (await trial.history(7, range)).map(({ fence }) => fence);
}

/** Three claims of worker 7. Two were given back, one second after the begin of their windows. The third is live. */
async function threeClaims(trial: Trial): Promise<[GrantedClaim, GrantedClaim, GrantedClaim]> {
  const first = await trial.usedOnce(7, 1000, "alpha");
  const second = await trial.usedOnce(7, 1000, "beta");
  return [first, second, await trial.claim({ workerId: 7 })];
}

/** What can be read about worker IDs. */
export const listings: readonly ConformanceCheck[] = [
  check("the record of a claimed worker ID has everything from the claim", async (trial) => {
    const { grant, request } = await trial.claim({ workerId: 7 });
    const { claimedAt, ...record } = await trial.record(7);
    const { fence, from, until } = grant;
    const about = { workerId: 7, state: "live", fence, from, until, seenClock: request.clock, clean: false };
    equal(record, { ...about, holder: request.holder }, "the record");
    between(claimedAt, grant.clock - 1000, grant.clock + 1000, "`claimedAt`");
    equal(await trial.records(), [{ ...record, claimedAt }], "the list");
  }),

  check("labels of holders are returned unchanged", async (trial) => {
    const labels = [
      { host: "knoten-äöü-節點-🐧", ip: "", pid: 0, instance: "" },
      { host: "a'b\"c\\d`e%f;--", ip: "2001:db8::1", pid: 4_194_304, instance: "x".repeat(255) },
      { host: "", ip: "203.0.113.7", pid: 1, instance: "{}[]|x1x" },
    ];
    for (const [workerId, holder] of labels.entries()) {
      await trial.claim({ workerId, holder });
      equal((await trial.record(workerId)).holder, holder, "the holder in the record");
      equal((await trial.history(workerId))[0]?.holder, holder, "the holder in the history");
      const refusal = outcome(await trial.ask({ workerId, holder: on("gamma") }), "held", "a claim by another");
      equal(refusal.holder, holder, "the holder in a refusal");
    }
  }),

  check("worker IDs are listed in ascending order, page by page", async (trial) => {
    equal(await idsOf(trial), [], "a list before the first claim");
    for (const workerId of [3, 900, 17, 100]) await trial.claim({ workerId });
    equal(await idsOf(trial), [3, 17, 100, 900], "the list");
    equal(await idsOf(trial, { limit: 2 }), [3, 17], "the first page");
    equal(await idsOf(trial, { limit: 2, after: 17 }), [100, 900], "the second page");
    equal(await idsOf(trial, { limit: 2, after: 900 }), [], "the page behind the last");
    equal(await idsOf(trial, { after: 18 }), [100, 900], "the list above a number that was never used");
  }),

  check("worker IDs are listed by state", async (trial) => {
    await trial.claim({ workerId: 1 });
    await trial.released(await trial.claim({ workerId: 2 }));
    await trial.usedOnce(3, 100, "alpha");
    await trial.pin(4);
    await trial.claim({ workerId: 5 });
    await trial.pin(5, "kept after its holder");
    const crashed = await trial.claim({ workerId: 6, window: short });
    await trial.passed(crashed.grant.until);
    const expected = { live: [1, 5], resting: [2], free: [3, 6], pinned: [4], foreign: [] };
    for (const state of ["live", "resting", "free", "pinned", "foreign"] as const)
      equal(await idsOf(trial, { state }), expected[state], `the worker IDs that are ${state}`);
    equal(await idsOf(trial, { state: "free", limit: 1 }), [3], "the first page of those that are free");
    equal(await idsOf(trial, { state: "free", limit: 1, after: 3 }), [6], "the second page of those that are free");
  }),

  check("an unused worker ID has no record and no history", async (trial) => {
    await trial.claim({ workerId: 7 });
    equal(await trial.registry.worker(trial.namespace, 8), undefined, "the record");
    equal(await trial.history(8), [], "the history");
  }),

  check("no answer and no error contains a token", async (trial) => {
    const tokens: string[] = [];
    const token = (): string => (tokens.push(newToken()), tokens.at(-1) ?? "");
    const held = await trial.claim({ workerId: 7, token: token() });
    const { from, until } = held.grant;
    const answers: unknown[] = [
      held.grant,
      await trial.ask({ workerId: 7, token: token() }),
      await trial.renew(held),
      await trial.renew(held, { token: token() }),
      await trial.force(7, { force: false }),
      await trial.records(),
      await refuses("CLOCK_SKEW", "a clock an hour ahead", trial.ask({ token: token(), clock: trial.now() + hour })),
      await refuses("LAYOUT_MISMATCH", "another layout", trial.ask({ token: token(), layout: otherLayout })),
      await refuses("CONFIG_INVALID", "a window of 0", trial.renew(held, { window: 0 })),
      await refuses("CONFIG_INVALID", "`until` outside", trial.release(held, { until: until + long })),
      await trial.release(held, { until: from, recents: recentsFrom(from) }),
      await trial.record(7),
      await trial.history(7),
      await trial.describe(),
      await trial.registry.ping(),
    ];
    const text = answers.map(textOf).join("\n");
    equal(tokens.filter((token) => text.includes(token)).length, 0, "the number of tokens in all answers");
  }),

  check("the history has a row for each claim, oldest first, with the final window", async (trial) => {
    const crashed = await trial.claim({ workerId: 7, window: short, holder: on("alpha") });
    const { until } = await trial.renewed(crashed, { window: short + 40 });
    await trial.passed(until);
    const second = await trial.claim({ workerId: 7, holder: on("beta") });
    const closed = second.grant.from + 1000;
    await trial.released(second, { until: closed });
    const third = await trial.claim({ workerId: 7, holder: on("gamma"), clock: closed });
    const live = await trial.renewed(third);
    const rows = await trial.history(7);
    const ends = [
      { held: crashed, until, end: "taken-over" },
      { held: second, until: closed, end: "released" },
      { held: third, until: live.until, end: undefined },
    ];
    const expected = ends.map(({ held, until, end }) => {
      const { fence, from } = held.grant;
      return { workerId: 7, fence, from, until, holder: held.request.holder, end };
    });
    const seen = rows.map(({ claimedAt: _, endedAt: __, ...row }) => row);
    equal(seen, expected, "the rows");
    for (const [i, { claimedAt, endedAt, end }] of rows.entries()) {
      const begun = ends[i]?.held.grant.clock ?? 0;
      between(claimedAt, begun - 1000, begun + 1000, "`claimedAt`");
      if (end === undefined) equal(endedAt, undefined, "`endedAt` of the present claim");
      else between(endedAt, claimedAt, (await trial.registry.ping()).clock, "`endedAt`");
    }
  }),

  check("the history says how an operator ended a claim", async (trial) => {
    const forced = await trial.claim({ workerId: 7 });
    await trial.force(7);
    const { fence } = (await trial.claim({ workerId: 8 })).grant;
    const reset = outcome(await trial.force(8, { fence, resetWindow: true }), "released", "a forced release");
    const given = await trial.claim({ workerId: 9 });
    await trial.released(given);
    const rows = [...(await trial.history(7)), ...(await trial.history(8)), ...(await trial.history(9))];
    const ends = rows.map(({ end, until }) => ({ end, until }));
    const expected = [
      { end: "forced", until: forced.grant.until },
      { end: "reset", until: reset.until },
      { end: "released", until: given.grant.until },
    ];
    equal(ends, expected, "how the claims ended, and where");
    await trial.passed(reset.until);
    await trial.claim({ workerId: 8 });
    equal((await trial.history(8))[0]?.end, "reset", "how the first claim ended, after the second began");
  }),

  check("the history of a span has the claims that could use a time in it", async (trial) => {
    const [{ grant: a }, { grant: b }, third] = await threeClaims(trial);
    const { grant: c } = third;
    equal(await fencesOf(trial), [a.fence, b.fence, c.fence], "all claims");
    equal(await fencesOf(trial, { from: b.from, until: b.from + 1000 }), [b.fence], "those in the second window");
    const lastMs = { from: a.from + 999, until: a.from + 1000 };
    equal(await fencesOf(trial, lastMs), [a.fence], "those in the first one's last ms");
    equal(await fencesOf(trial, { until: a.from }), [], "those before the first");
    equal(await fencesOf(trial, { until: a.from + 1 }), [a.fence], "those at the first one's first ms");
    equal(await fencesOf(trial, { from: c.from }), [c.fence], "those after the second");
    equal(await fencesOf(trial, { from: c.until }), [], "those after the last");
    const renewal = await trial.renewed(third, { clock: trial.now() + 3000 });
    equal(await fencesOf(trial, { from: renewal.until - 1 }), [c.fence], "those at the end of the renewed window");
  }),

  check("a limited history has the newest rows, oldest first", async (trial) => {
    const [, second, third] = await threeClaims(trial);
    equal(await fencesOf(trial, { limit: 2 }), [second.grant.fence, third.grant.fence], "the last two");
    const earlier = { limit: 1, until: third.grant.from };
    equal(await fencesOf(trial, earlier), [second.grant.fence], "the last before the third");
  }),

  check(
    "prune deletes rows whose window ended before a time, and keeps the last row of each worker ID",
    async (trial) => {
      const prune = (before: number): Promise<number> => trial.registry.prune(trial.namespace, before);
      const [, second, third] = await threeClaims(trial);
      await trial.usedOnce(8, 100, "alpha");
      const before = await trial.records();
      equal(await prune(second.grant.from + 1000), 1, "the number of rows that went");
      equal(await fencesOf(trial), [second.grant.fence, third.grant.fence], "the rows left");
      equal(await prune(third.grant.until + long), 1, "the number of rows that went later");
      equal(await fencesOf(trial), [third.grant.fence], "the row left");
      equal((await trial.history(8)).length, 1, "the rows of another worker ID");
      equal(await prune(third.grant.until + long), 0, "the number of rows that went at last");
      equal(await trial.records(), before, "the records");
      await trial.renewed(third);
    },
  ),
];
