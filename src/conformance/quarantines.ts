import { assumedLimits, type EraInfo, type NamespaceLimits } from "../rule/limits.ts";
import type { Receipt } from "../rule/receipt.ts";
import type { ClaimRequest } from "../rule/registry.ts";
import { storedToken } from "../rule/token.ts";
import { between, ensure, equal, outcome, refuses } from "./assert.ts";
import { checkNew, type ConformanceCheck } from "./check.ts";
import { contentOf, edited, known, type KnownNamespace, noQuarantineSince, receiptOf } from "./receipts.ts";
import { hour, long, newToken, on, otherLayout, recentsFrom, short, type GrantedClaim, type Trial } from "./trial.ts";

/** Limits whose quarantine a check waits for, ms. */
const brief: NamespaceLimits = { maxWindow: 100, maxClockSkew: 700 };
/** Limits whose quarantine ends within a check only if an operator ends it, ms. */
const endless: NamespaceLimits = { maxWindow: assumedLimits.maxWindow, maxClockSkew: 800 };

type Body = (trial: Trial, held: GrantedClaim) => Promise<void>;

/** Makes a check in a namespace with these limits, where worker 7 is held. */
function within(limits: NamespaceLimits, title: string, body: Body): ConformanceCheck {
  const withHolder = async (trial: Trial): Promise<void> => {
    await trial.init({ ...limits, new: true });
    await body(trial, await trial.claim({ workerId: 7, window: short }));
  };
  return checkNew(title, withHolder, "plain-receipts");
}

/** Shows a receipt of worker 500, which has no record, and expects QUARANTINE. Returns what is known of the namespace after that. */
async function show(trial: Trial, held: GrantedClaim, changes: Partial<Receipt> = {}): Promise<KnownNamespace> {
  const { key } = held;
  const receipt = edited(receiptOf(held), { workerId: 500, ...changes });
  const lost = { ...held, key: { ...key, workerId: 500 } };
  await refuses("QUARANTINE", "a renewal of a claim without a record", trial.renew(lost, { receipt, window: short }));
  return known(trial);
}

/** Begins a quarantine. Returns its end, and what is known of the namespace. */
async function begin(trial: Trial, held: GrantedClaim): Promise<{ end: number; info: KnownNamespace }> {
  const info = await show(trial, held);
  const { quarantineEnd: end } = info;
  ensure(end !== undefined && info.quarantineUntil === end, "a quarantine", info);
  return { end, info };
}

/** An operator ends the present quarantine. */
async function endNow(trial: Trial, era: string): Promise<EraInfo> {
  const { registry, namespace } = trial;
  ensure(registry.endQuarantine !== undefined, "a registry with receipts to have `endQuarantine`", registry.kind);
  return registry.endQuarantine({ namespace, era });
}

/** The time after evidence in which a registry grants nothing, and the era that begins with it. */
export const quarantines: readonly ConformanceCheck[] = [
  within(endless, "in a quarantine nothing is granted or renewed, and give-backs are answered", async (trial, held) => {
    const namespace = await trial.otherNamespace();
    const other = await trial.claim({ workerId: 8, window: short });
    await trial.renewed(other, { nextTurn: newToken(), window: short });
    // The state of a worker ID changes by itself. So does how programs without windows see the worker ID.
    const stored = async () => (await trial.records()).map(({ state: _, marked: __, ...record }) => record);
    const before = await stored();
    await begin(trial, held);
    for (let i = 0; i < 2; i++) {
      await refuses("QUARANTINE", "a claim", trial.ask({ window: short, holder: on("beta") }));
      await refuses("QUARANTINE", "a claim of one worker ID", trial.ask({ workerId: 9, window: short }));
      await refuses("QUARANTINE", "a repeated claim", trial.registry.claim(held.request));
      await refuses("QUARANTINE", "a renewal", trial.renew(held, { window: short }));
      const receipt = receiptOf(held);
      await refuses("QUARANTINE", "a renewal with a receipt", trial.renew(held, { window: short, receipt }));
    }
    equal(await stored(), before, "the records");
    // Any copy may release, since the turn of an older era decides nothing.
    await trial.released(other, { until: other.grant.from }, { receipt: receiptOf(other) });
    await trial.released(other);
    equal((await trial.record(8)).clean, false, "whether the give-back is clean");
    outcome(await trial.renew(other, { window: short, receipt: receiptOf(other) }), "lost", "a renewal after it");
    await trial.claim({ namespace });
  }),

  within(
    endless,
    "in a quarantine a claim is refused with QUARANTINE, whatever else is wrong with it",
    async (trial, held) => {
      const { end } = await begin(trial, held);
      const mistakes: readonly Partial<ClaimRequest>[] = [
        { layout: otherLayout },
        { window: endless.maxWindow + 1 },
        { clock: trial.now() + hour },
        { clock: trial.now() - hour },
        { limits: { maxWindow: endless.maxWindow - 1 } },
        { workerId: 9, pool: { first: 10, last: 20 } },
      ];
      for (const mistake of mistakes) {
        const claim = trial.ask({ window: short, holder: on("beta"), ...mistake });
        await refuses("QUARANTINE", `a claim with ${Object.keys(mistake).join()} that does not fit`, claim);
      }
      equal((await known(trial)).quarantineUntil, end, "the end of the quarantine");
    },
  ),

  within(brief, "evidence from before a quarantine that covers it begins no second one", async (trial, held) => {
    const { end, info } = await begin(trial, held);
    equal(await show(trial, held), info, "what is known after the same evidence");
    equal(await show(trial, held, { until: end }), info, "what is known after a window that ended with the quarantine");
    await trial.passed(end);
    const receipt = edited(receiptOf(held), { workerId: 500 });
    const lost = { ...held, key: { ...held.key, workerId: 500 } };
    const { reason } = outcome(
      await trial.renew(lost, { receipt, window: short }),
      "lost",
      "the renewal after the end",
    );
    equal(reason, "forgotten", "its reason");
    const recall = edited(receiptOf(held), { workerId: 501 });
    await trial.claim({ recall, window: short, holder: on("beta") });
    await trial.released(held, undefined, { receipt: edited(receiptOf(held), { renewals: 3 }) });
    const { quarantineUntil: _, ...after } = info;
    await noQuarantineSince(trial, after);
  }),

  within(brief, "the history has the times that a holder used before a quarantine", async (trial, held) => {
    const { from } = held.grant;
    const usedAt = async () => (await trial.history(7, { from, until: from + 1 })).map(({ fence }) => fence);
    const { end } = await begin(trial, held);
    await trial.passed(end);
    const { from: since } = await trial.renewed(held, { window: short, receipt: receiptOf(held) });
    ensure(since >= end, `a window from ${end} on`, since);
    equal(await usedAt(), [held.grant.fence], "the claims that could use the first ms of the window");
    await trial.released(held);
    equal(await usedAt(), [held.grant.fence], "these claims after the end of the last one");
  }),

  within(endless, "evidence of a window that ends after the quarantine begins another one", async (trial, held) => {
    const first = await begin(trial, held);
    const until = first.end + 1;
    const second = await show(trial, held, { until });
    ensure(second.era !== first.info.era, "another era", second);
    between(second.quarantineEnd, until, until + long, "the end of the quarantine");
    const third = await show(trial, held, { era: second.era });
    ensure(third.era !== second.era, "another era after evidence of the present one", third);
    equal(await show(trial, held, { era: second.era }), third, "what is known after the same evidence");
  }),

  within(
    brief,
    "after a quarantine a holder's window begins at its end, and its renewals count on",
    async (trial, held) => {
      const turn = newToken();
      const { receipt: text = "" } = await trial.renewed(held, { nextTurn: turn, window: short });
      const plain = await trial.claim({ workerId: 8, window: short });
      const unheard = await trial.claim({ workerId: 9, window: short });
      const unheardTurn = newToken();
      await trial.renewed(unheard, { nextTurn: unheardTurn, window: short });
      const { end, info } = await begin(trial, held);
      await trial.passed(end);
      // The registry forgot 5 renewals of this holder, and its last turn.
      const receipt = edited(text, { renewals: 6 });
      const sent = { turn: newToken(), nextTurn: newToken(), receipt, window: short };
      const renewal = await trial.renewed(held, sent);
      equal([renewal.from, renewal.turn], [end, sent.nextTurn], "`from` and turn of the renewal");
      equal(
        contentOf(renewal.receipt),
        { ...contentOf(text), era: info.era, renewals: 7, until: renewal.until },
        "its receipt",
      );
      equal((await trial.record(7)).from, end, "`from` of the record");
      const again = await trial.renewed(held, sent);
      equal([again.from, again.turn], [end, sent.nextTurn], "`from` and turn of the repeated renewal");
      // On a slow machine the window has passed by now, and is opened again.
      const isOpen = Math.max(again.clock, trial.now()) < renewal.until;
      if (isOpen) equal({ ...again, clock: 0 }, { ...renewal, clock: 0 }, "the repeated renewal");
      const copy = { turn, nextTurn: newToken(), window: short };
      equal(outcome(await trial.renew(held, copy), "lost", "a renewal of a copy").reason, "cloned", "its reason");
      // The answer to this renewal was lost before the quarantine.
      equal(
        (await trial.renewed(unheard, { nextTurn: unheardTurn, window: short })).from,
        end,
        "`from` of a repeated one",
      );
      // This holder forgot nothing and sends no receipt.
      const checkpoint = { timestamp: end - 1, sequence: 0 };
      equal((await trial.renewed(plain, { window: short, checkpoint })).from, end, "`from` of another holder");
      equal((await trial.record(8)).checkpoint, undefined, "a checkpoint from before the end");
      await trial.renewed(plain, { window: short, checkpoint: { ...checkpoint, timestamp: end } });
      equal((await trial.record(8)).checkpoint, { ...checkpoint, timestamp: end }, "a checkpoint at the end");
      // The registry may have forgotten what another copy of the holder knows of the times before the quarantine.
      const copied = edited(text, { renewals: 20 });
      await trial.released(held, { until: again.until }, { receipt: copied, turn: newToken() });
      const { clean, until } = await trial.record(7);
      equal([clean, until], [false, again.until], "whether its give-back is clean, and `until`");
    },
  ),

  within(
    brief,
    "after a quarantine fences and windows are above its end, and no holder continues",
    async (trial, held) => {
      const given = await trial.claim({ workerId: 8, window: short });
      await trial.released(given, { until: given.grant.from, recents: recentsFrom(given.grant.from) });
      const { end } = await begin(trial, held);
      await trial.passed(end);
      const repeated = await trial.registry.claim({ ...held.request, clock: trial.now() });
      equal(outcome(repeated, "lost", "a repeated claim").reason, "forgotten", "its reason");
      for (const workerId of [8, 9]) {
        const { grant } = await trial.claim({ workerId, window: short, holder: on("beta") });
        equal(grant.recents, undefined, "the recents");
        between(grant.fence, end + 1, end + 1, "the fence");
        between(grant.from, end, end + long, "`from`");
      }
    },
  ),

  within(
    endless,
    "a holder beside another claim is lost at once, until no clock shows a time in that claim's window",
    async (trial, held) => {
      const { until } = held.grant;
      const token = newToken();
      const other = { ...held, key: { ...held.key, token } };
      const ask = (end: number, clock = trial.now()): ReturnType<Trial["renew"]> => {
        const receipt = edited(receiptOf(held), { token: storedToken(token), until: end });
        return trial.renew(other, { receipt, window: short, clock });
      };
      await trial.passed(until);
      for (const [end, last] of [
        [until + 5, until],
        [until - 5, until - 5],
      ] as const) {
        const { reason, doubt } = outcome(await ask(end), "lost", "a renewal beside another claim");
        const from = end - endless.maxWindow - endless.maxClockSkew;
        equal([reason, doubt], ["forgotten", { from, until: last }], "the reason, and the times in doubt");
      }
      await trial.passed(until + endless.maxClockSkew);
      await refuses("QUARANTINE", "a renewal after that claim", ask(until));
      outcome(await ask(until, until - 1), "lost", "a renewal by a clock that shows a time of that claim");
    },
  ),

  within(brief, "an operator's word makes no quarantine longer", async (trial, held) => {
    const { end, info } = await begin(trial, held);
    await trial.pause(brief.maxWindow + 50);
    const { quarantineUntil = end } = await endNow(trial, info.era);
    equal(quarantineUntil, end, "when grants go on");
    await trial.passed(end);
    await trial.claim({ workerId: 9, window: short });
  }),

  within(endless, "an operator ends a quarantine by its era, and `quarantineEnd` stays", async (trial, held) => {
    const before = await known(trial);
    equal(await endNow(trial, before.era), before, "the answer where no quarantine lasts");
    const { end, info } = await begin(trial, held);
    for (const wrong of [before.era, "", `${info.era}0`]) {
      await refuses("CONFIG_INVALID", "the end of another era's quarantine", endNow(trial, wrong));
    }
    equal(await known(trial), info, "what is known of the namespace");
    const { clock } = await trial.registry.ping();
    const ended = await endNow(trial, info.era);
    equal([ended.era, ended.quarantineEnd], [info.era, end], "the era, and the end as the store set it");
    between(ended.quarantineUntil, clock, clock + endless.maxClockSkew + long, "when grants go on");
    const opensAt = ended.quarantineUntil ?? 0;
    await trial.passed(opensAt);
    const { quarantineUntil: _, ...open } = ended;
    equal(await known(trial), open, "what is known after the end");
    const { grant } = await trial.claim({ workerId: 9, window: short });
    between(grant.from, opensAt, opensAt + long, "`from` of a claim");
    equal(grant.fence, opensAt + 1, "its fence");
    const checkpoint = { timestamp: opensAt, sequence: 0 };
    equal((await trial.renewed(held, { window: short })).from, opensAt, "`from` of an older holder");
    await trial.renewed(held, { window: short, checkpoint });
    equal((await trial.record(7)).checkpoint, checkpoint, "its checkpoint");
    // The times that the quarantine would have covered are still covered.
    const receipt = edited(receiptOf(held), { workerId: 500, until: end });
    const lost = { ...held, key: { ...held.key, workerId: 500 } };
    outcome(await trial.renew(lost, { receipt, window: short }), "lost", "a renewal with evidence from before");
    equal(await endNow(trial, info.era), open, "the answer to a second end");
  }),

  checkNew(
    "the end of a quarantine in an unknown namespace is NOT_FOUND",
    async (trial) => {
      await refuses("NOT_FOUND", "the end", endNow(trial, "1-a"));
    },
    "plain-receipts",
  ),

  within(endless, "`init` with `new` is refused where a quarantine is recorded", async (trial, held) => {
    const { info } = await begin(trial, held);
    await refuses("CONFIG_INVALID", "`new`", trial.init({ ...endless, new: true }));
    equal(await trial.init(endless), info, "the answer without it");
  }),
];
