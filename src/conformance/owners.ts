import type { ClaimRequest, HolderLabel } from "../rule/registry.ts";
import { defaultLimits } from "../rule/limits.ts";
import { between, ensure, equal, outcome, refuses, textOf } from "./assert.ts";
import { check, type ConformanceCheck } from "./check.ts";
import { long, on, recentsFrom, type GrantedClaim, type Trial } from "./trial.ts";

const ip = "192.0.2.7";
const owner: HolderLabel = { ...on("owner"), ip };

const { maxClockSkew, maxWindow } = defaultLimits;

/** Pins a worker ID for the owner. */
function keep(trial: Trial, workerId: number, usedUntil?: number): Promise<void> {
  return trial.pin(workerId, "kept", { ip, usedUntil });
}

/** Claims for the owner; the claim must be granted. */
function take(trial: Trial, options: Partial<ClaimRequest> = {}): Promise<GrantedClaim> {
  return trial.claim({ holder: owner, ...options });
}

/** Worker IDs that are pinned for a host that uses them without a lease. */
export const owners: readonly ConformanceCheck[] = [
  check("a worker ID that is pinned for an address is granted only to the host at that address", async (trial) => {
    const pool = { first: 0, last: 2 };
    await trial.usedOnce(1, 100, "alpha");
    await keep(trial, 1);
    const refusal = outcome(await trial.ask({ workerId: 1 }), "pinned", "a claim of it by another");
    equal([refusal.workerId, refusal.reason], [1, "kept"], "worker ID and reason");
    const others = [await trial.claim({ pool, preferred: [1] }), await trial.claim({ pool })];
    const granted = others.map(({ grant }) => grant.workerId).toSorted((a, b) => a - b);
    equal(granted, [0, 2], "what others get");
    outcome(await trial.ask({ pool }), "exhausted", "a claim by another where all else is taken");
    await trial.passed((await trial.record(1)).until);
    equal((await take(trial, { pool })).grant.workerId, 1, "what its host gets");
    outcome(await trial.ask({ holder: owner, pool }), "exhausted", "a second claim by its host");
  }),

  check(
    "a host gets the worker ID pinned for it first, unless it requests a worker ID or an unused one",
    async (trial) => {
      await keep(trial, 9);
      equal((await take(trial, { workerId: 4 })).grant.workerId, 4, "what it gets that wants another");
      equal((await take(trial, { reuse: "never" })).grant.workerId !== 9, true, "that it gets a new one");
      const pool = { first: 0, last: 8 };
      ensure((await take(trial, { pool })).grant.workerId !== 9, "one of its pool", 9);
      // The owner also gets it after it has used many other worker IDs.
      for (let workerId = 100; workerId < 120; workerId++) await take(trial, { workerId });
      const held = await take(trial, { preferred: [5] });
      equal(held.grant.workerId, 9, "what it gets");
      equal((await take(trial)).grant.workerId !== 9, true, "that a second one gets another");
      await trial.renewed(held);
      await trial.released(held, { until: held.grant.from });
      const { grant } = await take(trial, { workerId: 9 });
      ensure(grant.from >= held.grant.from, "a window after the unused one", grant);
    },
  ),

  check("each window of an owner begins maxClockSkew after the registry's clock, without recents", async (trial) => {
    const used = await trial.claim({ workerId: 7 });
    const { from } = used.grant;
    await trial.released(used, { until: from + 50, recents: recentsFrom(from, 10) });
    await keep(trial, 7);
    for (let time = 1; time <= 2; time++) {
      const held = await take(trial);
      const { grant } = held;
      equal(grant.workerId, 7, "the worker ID");
      between(grant.from, grant.clock + maxClockSkew, grant.until - long, `\`from\`, time ${time}`);
      equal(grant.recents, undefined, "what it may continue");
      const repeated = outcome(await trial.registry.claim(held.request), "granted", "the same claim again");
      equal([repeated.fence, repeated.from, repeated.until], [grant.fence, grant.from, grant.until], "its grant");
      // No ID was made, so an operator ends the window early.
      await trial.force(7, { fence: grant.fence, resetWindow: true });
      await trial.passed((await trial.record(7)).until);
    }
  }),

  check("no window of an owner begins before its `usedUntil`", async (trial) => {
    const { clock } = await trial.registry.ping();
    const usedUntil = clock + 5 * maxClockSkew;
    await keep(trial, 0, usedUntil);
    equal((await trial.record(0)).until, usedUntil, "`until` of an unused worker ID");
    const { grant } = await take(trial);
    equal([grant.workerId, grant.from], [0, usedUntil], "worker ID and `from`");
    ensure(grant.until >= usedUntil, "`until` behind `from`", grant.until);

    await trial.usedOnce(1, 100, "alpha");
    await keep(trial, 1, usedUntil);
    const { until, clean } = await trial.record(1);
    equal([until, clean], [usedUntil, false], "`until` and `clean` of a used worker ID");
    equal((await trial.ask({ holder: owner, workerId: 1 })).outcome, "held", "a claim before that");
  }),

  check("the pin of an owner outlives its claims, and is listed", async (trial) => {
    await keep(trial, 7);
    const shown = { state: "pinned", pinned: "kept", owner: ip };
    const seen = async (): Promise<object> => {
      const { state, pinned, owner } = await trial.record(7);
      return { state, pinned, owner };
    };
    equal(await seen(), shown, "the record");
    const held = await take(trial);
    equal(await seen(), { ...shown, state: "live" }, "the record while its host has it");
    await trial.renewed(held);
    await trial.released(held, { until: held.grant.from });
    equal(await seen(), shown, "the record after a release");
    equal((await trial.ask({ workerId: 7 })).outcome, "pinned", "a claim by another");
    const listed = await trial.records({ state: "pinned" });
    equal([listed.length, listed[0]?.workerId, listed[0]?.owner], [1, 7, ip], "the list");
  }),

  check("a second pin replaces the owner, and `unpin` ends its rights", async (trial) => {
    const other: HolderLabel = { ...on("other"), ip: "2001:db8::7" };
    const pool = { first: 7, last: 7 };
    await keep(trial, 7);
    await trial.pin(7, "kept", { ip: other.ip });
    outcome(await trial.ask({ holder: owner, pool }), "exhausted", "a claim by the owner before");
    const held = await trial.claim({ holder: other, pool });
    await trial.released(held, { until: held.grant.from, recents: recentsFrom(held.grant.from) });
    await trial.pin(7, "retired");
    equal((await trial.record(7)).owner, undefined, "the owner of a pin without an owner");
    outcome(await trial.ask({ holder: other, workerId: 7 }), "pinned", "a claim by the owner before");
    await trial.pin(7, "kept", { ip: other.ip });
    equal(await trial.unpin(7), true, "the answer to `unpin`");
    const { pinned, owner: after, clean, recents } = await trial.record(7);
    equal([pinned, after, clean, recents], [undefined, undefined, false, undefined], "what is left");
    await keep(trial, 8);
    await trial.unpin(8);
    equal(await trial.registry.worker(trial.namespace, 8), undefined, "the record of an unused worker ID");
    const { grant } = await take(trial, { workerId: 8 });
    ensure(grant.from < grant.clock, "a window that is open", grant);
  }),

  check("an owner with a wrong address or an impossible `usedUntil` is refused, and nothing changes", async (trial) => {
    const { grant } = await trial.claim({ workerId: 7 });
    const before = await trial.records();
    for (const address of ["", "host", "10.0.0.1/8", "x".repeat(60), "10.0.0.1 "]) {
      const pinned = trial.pin(7, "kept", { ip: address });
      await refuses("CONFIG_INVALID", `an owner at ${textOf(address)}`, pinned);
    }
    const { clock } = await trial.registry.ping();
    for (const usedUntil of [-1, 0.5, clock + maxWindow + 60_000]) {
      const pinned = keep(trial, 7, usedUntil);
      await refuses("CONFIG_INVALID", `an owner with usage up to ${usedUntil}`, pinned);
    }
    const pinned = keep(trial, 7, grant.from + 1);
    await refuses("WORKER_ID_HELD", "times inside a live holder's window", pinned);
    equal(await trial.records(), before, "the records");
  }),
];
