import { defaultLimits, type NamespaceInfo, type NamespaceLimits } from "../rule/limits.ts";
import { readReceipt, type Receipt } from "../rule/receipt.ts";
import type { RenewRequest } from "../rule/registry.ts";
import { storedToken } from "../rule/token.ts";
import { between, ensure, equal, outcome, refuses } from "./assert.ts";
import { check, checkNew, type ConformanceCheck } from "./check.ts";
import { hour, long, newToken, on, recentsFrom, short, type GrantedClaim, type Trial } from "./trial.ts";

/** The fields of a receipt's text in their order, after its version. */
const order: readonly (keyof Receipt)[] = [
  "namespaceId",
  "era",
  "workerId",
  "fence",
  "token",
  "renewals",
  "until",
  "maxWindow",
  "maxClockSkew",
];

/** The receipt of a claim. */
export function receiptOf({ grant }: GrantedClaim): string {
  ensure(grant.receipt !== undefined, "a receipt in the grant", grant);
  return grant.receipt;
}

/** The content of a receipt's text. */
export function contentOf(text: string | undefined): Receipt {
  const receipt = readReceipt(text);
  ensure(receipt !== undefined, "a receipt as the rule writes it", text);
  return receipt;
}

/** The text of a receipt that a registry would have answered after more events. */
export function edited(text: string, changes: Partial<Record<keyof Receipt, string | number>>): string {
  const receipt = { ...contentOf(text), ...changes };
  return [text.split(".")[0], ...order.map((name) => receipt[name])].join(".");
}

/** A namespace in its present era. */
export type KnownNamespace = NamespaceInfo & { readonly era: string };

/** What is known of the namespace, which must exist. */
export async function known(trial: Trial): Promise<KnownNamespace> {
  const info = await trial.describe();
  ensure(info !== undefined, "the namespace to be known", info);
  const { era } = info;
  ensure(era !== undefined, "the era of the namespace", info);
  return { ...info, era };
}

/** Expects that no quarantine has begun since. */
export async function noQuarantineSince(trial: Trial, before: NamespaceInfo): Promise<void> {
  equal(await known(trial), before, "what is known of the namespace");
}

const numberOf = (era: string): number => Number.parseInt(era, 10);

/** A later claim of the same worker ID than the claim that the registry knows. */
function later(_: GrantedClaim, { fence }: Receipt): Partial<RenewRequest> & { changes: Partial<Receipt> } {
  const token = newToken();
  return { fence: fence + 1, token, changes: { fence: fence + 1, token: storedToken(token) } };
}

/** Requests that a registry can receive only if it forgot something, and their answers. */
const proofs: readonly {
  readonly what: string;
  /** Runs before the request. */
  readonly prepare?: (trial: Trial, held: GrantedClaim) => Promise<void>;
  readonly forgotten: (held: GrantedClaim, receipt: Receipt) => Partial<RenewRequest> & { changes: Partial<Receipt> };
  readonly answer: "quarantine" | "lost";
}[] = [
  {
    what: "of a namespace with another id",
    forgotten: (_, { namespaceId }) => ({
      changes: { namespaceId: namespaceId.replace(/./, (digit) => (digit === "0" ? "1" : "0")) },
    }),
    answer: "quarantine",
  },
  {
    what: "of a worker ID that has no record",
    forgotten: () => ({ workerId: 9, changes: { workerId: 9 } }),
    answer: "quarantine",
  },
  {
    what: "of more renewals than the record counts",
    forgotten: (_, { renewals }) => ({ changes: { renewals: renewals + 1 } }),
    answer: "quarantine",
  },
  {
    what: "of a later era than the present one",
    forgotten: (_, { era }) => ({ changes: { era: `${numberOf(era) + 1_000_000}-0` } }),
    answer: "quarantine",
  },
  {
    what: "of an era that began at the same time as the present one",
    forgotten: (_, { era }) => ({ changes: { era: `${numberOf(era)}-0` } }),
    answer: "quarantine",
  },
  {
    what: "of a higher fence than the record's",
    forgotten: later,
    answer: "lost",
  },
  {
    what: "of a higher fence than that of a claim which was given back",
    prepare: (trial, held) => trial.released(held, { until: held.grant.from }),
    forgotten: later,
    answer: "quarantine",
  },
  {
    what: "of another token under the record's fence",
    forgotten() {
      const token = newToken();
      return { token, changes: { token: storedToken(token) } };
    },
    answer: "lost",
  },
];

/** Receipts: what a holder knows of the registry, and what an older copy of the store contradicts. */
export const receipts: readonly ConformanceCheck[] = [
  check(
    "a grant and each renewal answer a receipt that the registry takes",
    async (trial) => {
      const before = await known(trial);
      const held = await trial.claim({ workerId: 7 });
      const texts = [receiptOf(held)];
      for (let i = 0; i < 3; i++) {
        const { receipt } = await trial.renewed(held, { receipt: texts.at(-1) });
        ensure(receipt !== undefined, "a receipt in the renewal", receipt);
        texts.push(receipt);
      }
      equal(new Set(texts).size, 4, "the number of different receipts");
      await noQuarantineSince(trial, before);
      await trial.released(held, { until: held.grant.from }, { receipt: texts.at(-1) });
      equal((await trial.record(7)).clean, true, "whether the give-back is clean");
      await noQuarantineSince(trial, before);
    },
    "receipts",
  ),

  check(
    "a receipt says what the registry stored, and counts the renewals",
    async (trial) => {
      const { id, era } = await known(trial);
      ensure(id !== undefined && /^[\da-f]{32}$/.test(id), "an id of 32 hex digits", id);
      const held = await trial.claim({ workerId: 7 });
      const { fence, token } = held.key;
      const fixed = { namespaceId: id, era, workerId: 7, fence, token: storedToken(token), ...defaultLimits };
      equal(contentOf(receiptOf(held)), { ...fixed, renewals: 0, until: held.grant.until }, "the receipt of the grant");
      let turn: string | undefined;
      for (let renewals = 1; renewals < 4; renewals++) {
        const nextTurn = newToken();
        const { until, receipt } = await trial.renewed(held, { turn, nextTurn });
        equal(contentOf(receipt), { ...fixed, renewals, until }, "the receipt of the renewal");
        turn = nextTurn;
      }
    },
    "plain-receipts",
  ),

  check(
    "a renewal that opens a window again counts, in its receipt, too",
    async (trial) => {
      const held = await trial.claim({ workerId: 7, window: short });
      const sent = { nextTurn: newToken(), window: short };
      for (let renewals = 1; renewals < 4; renewals++) {
        const { until, receipt } = await trial.renewed(held, sent);
        const { renewals: counted, until: end } = contentOf(receipt);
        equal([counted, end], [renewals, until], "what the receipt of the renewal counts, and its `until`");
        await trial.passed(until);
      }
    },
    "plain-receipts",
  ),

  check(
    "a renewal reaches the end that its receipt names",
    async (trial) => {
      const held = await trial.claim({ workerId: 7, window: 20_000 });
      const before = await known(trial);
      const until = held.grant.until + 100_000;
      const receipt = edited(receiptOf(held), { until });
      const renewal = await trial.renewed(held, { receipt, window: 20_000 });
      equal(renewal.until, until, "`until`");
      equal((await trial.record(7)).until, until, "`until` of the record");
      await noQuarantineSince(trial, before);
    },
    "plain-receipts",
  ),

  check(
    "a receipt that the registry may contradict begins no quarantine",
    async (trial) => {
      const before = await known(trial);
      const [taken, ended, reset, held, given] = [
        await trial.claim({ workerId: 6, window: short }),
        await trial.claim({ workerId: 7 }),
        await trial.claim({ workerId: 8 }),
        await trial.claim({ workerId: 9 }),
        await trial.claim({ workerId: 10 }),
      ];
      await trial.released(given, { until: given.grant.from }, { receipt: receiptOf(given) });
      await trial.released(given, { until: given.grant.from }, { receipt: receiptOf(given) });
      await trial.passed(taken.grant.until);
      const next = await trial.claim({ workerId: 6, holder: on("beta") });
      await trial.force(7);
      await trial.force(8, { fence: reset.grant.fence, resetWindow: true });
      for (const [claim, reason] of [
        [taken, "taken"],
        [ended, "released"],
        [reset, "released"],
        [given, "released"],
      ] as const) {
        const lost = outcome(await trial.renew(claim, { receipt: receiptOf(claim) }), "lost", "a late renewal");
        equal(lost.reason, reason, "the reason");
        await trial.release(claim, undefined, { receipt: receiptOf(claim) });
        await trial.claim({ recall: receiptOf(claim), holder: on("gamma") });
      }
      // More renewals than the receipt counts, a receipt of another claim, and no receipt at all.
      await trial.renewed(held, { receipt: receiptOf(held) });
      for (const receipt of [receiptOf(held), receiptOf(taken), receiptOf(next), "", "1.2.3", "x".repeat(500)]) {
        await trial.renewed(held, { receipt });
        await trial.claim({ recall: receipt, holder: on("gamma") });
      }
      await noQuarantineSince(trial, before);
    },
    "receipts",
  ),

  check(
    "a receipt of another claim than the request's is ignored",
    async (trial) => {
      const before = await known(trial);
      const [held, other] = [await trial.claim({ workerId: 7 }), await trial.claim({ workerId: 8 })];
      for (const receipt of [
        edited(receiptOf(other), { renewals: 99 }),
        edited(receiptOf(held), { workerId: 9, renewals: 99 }),
        edited(receiptOf(held), { fence: held.grant.fence + 1 }),
        edited(receiptOf(held), { token: storedToken(newToken()) }),
        `${edited(receiptOf(held), { renewals: 99 })}.`,
      ]) {
        await trial.renewed(held, { receipt });
      }
      await noQuarantineSince(trial, before);
      await trial.released(held, undefined, { receipt: edited(receiptOf(other), { renewals: 99 }) });
      await noQuarantineSince(trial, before);
    },
    "plain-receipts",
  ),

  check(
    "a text that no registry can have written is no receipt",
    async (trial) => {
      const before = await known(trial);
      const held = await trial.claim({ workerId: 7 });
      const text = receiptOf(held);
      const { namespaceId, era } = contentOf(text);
      const number = numberOf(era);
      for (const changes of [
        { namespaceId: "0".repeat(65) },
        { namespaceId: `${namespaceId}A` },
        { era: `8640000000000001-${"0".repeat(16)}` },
        { era: `${number + 1}-${"0".repeat(65)}` },
        { era: `${number + 1}-A` },
        { era: String(number + 1) },
        { renewals: 2 ** 53 },
        { renewals: `${"0".repeat(16)}9` },
        { renewals: "9e3" },
        { renewals: 9, until: 8.64e15 + 1 },
        { renewals: 9, maxWindow: 1e12 + 1 },
        { renewals: 9, maxClockSkew: 1e12 + 1 },
        { renewals: 9, maxClockSkew: -1 },
        { renewals: 9, until: "" },
      ]) {
        const receipt = edited(text, changes);
        await trial.renewed(held, { receipt });
        await trial.claim({ recall: receipt, holder: on("gamma") });
      }
      await noQuarantineSince(trial, before);
      await trial.released(held, undefined, { receipt: edited(text, { renewals: 2 ** 53 }) });
      await noQuarantineSince(trial, before);
    },
    "plain-receipts",
  ),

  check(
    "a renewal after another claim of the same times is lost with the times in doubt, and begins no quarantine",
    async (trial) => {
      const before = await known(trial);
      const held = await trial.claim({ workerId: 7, window: short });
      await trial.passed(held.grant.until);
      const { grant: next } = await trial.claim({ workerId: 7, holder: on("beta") });
      // As after an older copy was put back, where two holders claimed the worker ID one after the other.
      const { maxWindow, maxClockSkew } = contentOf(receiptOf(held));
      const longest = maxWindow + maxClockSkew;
      for (const [until, span] of [
        [next.from, undefined],
        [next.from + 5, { from: next.from + 5 - longest, until: next.from + 5 }],
        [next.until + 5, { from: next.until + 5 - longest, until: next.until }],
        // The whole other window lies before the last answer that the holder may have had.
        [next.until + longest, { from: next.from, until: next.until }],
      ] as const) {
        const receipt = edited(receiptOf(held), { until });
        const { reason, doubt } = outcome(await trial.renew(held, { receipt }), "lost", "a late renewal");
        equal([reason, doubt], ["taken", span], "the reason, and the times in doubt");
      }
      await noQuarantineSince(trial, before);
    },
    "plain-receipts",
  ),

  check(
    "where another claim of the same times was given back, a renewal closes the window up to its own end",
    async (trial) => {
      const held = await trial.claim({ workerId: 7, window: short });
      await trial.passed(held.grant.until);
      const next = await trial.claim({ workerId: 7, holder: on("beta") });
      const { from, until, fence } = next.grant;
      const end = from + long;
      const receipt = edited(receiptOf(held), { until: end });
      const before = await trial.record(7);
      outcome(await trial.renew(held, { receipt }), "lost", "the older holder's renewal beside a claim that stands");
      equal(await trial.record(7), before, "the record of the claim that stands");
      await trial.renewed(next, { receipt: receiptOf(next) });
      await trial.released(next, { until: from + 5, recents: recentsFrom(from) });
      outcome(await trial.renew(held, { receipt }), "lost", "the same after that claim");
      const { until: stands, clean, recents, state } = await trial.record(7);
      equal({ stands, clean, recents, state }, { stands: end, clean: false, state: "resting" }, "the record");
      await trial.refusedUntil(end, { workerId: 7 }, "a claim of its window");
      const history = await trial.history(7);
      equal([history.length, history.at(-1)?.fence], [2, fence], "the history");
      ensure(until > from, "a window", next.grant);
    },
    "plain-receipts",
  ),

  check(
    "a renewal after a copy's give-back closes the window up to its end",
    async (trial) => {
      const held = await trial.claim({ workerId: 7 });
      const { from, until } = held.grant;
      const receipt = receiptOf(held);
      await trial.released(held, { until: from + 10, recents: recentsFrom(from) }, { receipt });
      const { reason, doubt } = outcome(await trial.renew(held, { receipt }), "lost", "the other copy's renewal");
      equal([reason, doubt?.until], ["released", from + 10], "the reason, and the end of the times in doubt");
      const { until: stands, clean, recents } = await trial.record(7);
      equal({ stands, clean, recents }, { stands: until, clean: false }, "the record");
      await trial.refusedUntil(until, { workerId: 7 }, "a claim of its window");
      const again = outcome(await trial.renew(held, { receipt }), "lost", "the same renewal");
      equal(again.doubt, undefined, "the times in doubt of a window that is closed");

      const other = await trial.claim({ workerId: 8 });
      await trial.released(other, { until: other.grant.from }, { receipt: receiptOf(other) });
      await trial.released(other, undefined, { receipt: receiptOf(other) });
      const { state, until: end } = await trial.record(8);
      equal([state, end], ["resting", other.grant.until], "the record after a copy's give-back without usage");
    },
    "receipts",
  ),

  check(
    "where another claim of the same times was given back, a release closes the window up to what its holder used",
    async (trial) => {
      const held = await trial.claim({ workerId: 7 });
      const { from } = held.grant;
      const receipt = receiptOf(held);
      await trial.released(held, { until: from + 20, recents: recentsFrom(from) }, { receipt });
      const next = await trial.claim({ workerId: 7, holder: on("beta") });
      const begin = next.grant.from;
      const late = async (until: number): Promise<readonly unknown[]> => {
        outcome(await trial.release(held, { until }, { receipt }), "lost", "a late release");
        const record = await trial.record(7);
        return [record.state, record.until];
      };
      equal(await late(begin + 50), ["live", next.grant.until], "the claim that stands");
      await trial.released(next, { until: begin + 10 });
      equal((await late(begin))[1], begin + 10, "the end behind a release up to where the other window begins");
      equal((await late(begin + 50))[1], begin + 50, "the end behind a release up to later times");
    },
    "receipts",
  ),

  ...proofs.map(({ what, prepare, forgotten, answer }) =>
    check(
      `a renewal with a receipt ${what} begins a quarantine`,
      async (trial) => {
        const held = await trial.claim({ workerId: 7 });
        await prepare?.(trial, held);
        const text = receiptOf(held);
        const before = await known(trial);
        const records = await trial.records();
        const { changes, ...asked } = forgotten(held, contentOf(text));
        const receipt = edited(text, changes);
        const renewal = trial.renew(held, { ...asked, receipt });
        if (answer === "quarantine") {
          const { details } = await refuses("QUARANTINE", "the renewal", renewal);
          between(details.retryAfterMs, 1, defaultLimits.maxWindow + 2 * defaultLimits.maxClockSkew, "`retryAfterMs`");
        } else {
          const { reason, doubt } = outcome(await renewal, "lost", "a renewal beside another holder");
          const { until, maxWindow, maxClockSkew } = contentOf(text);
          // The registry cannot know when it was put back. It was after the last answer that it forgot.
          const from = until - maxWindow - maxClockSkew;
          equal([reason, doubt], ["forgotten", { from, until }], "the reason, and the times in doubt");
        }
        const { clock } = await trial.registry.ping();
        const { era, quarantineUntil, quarantineEnd, ...fixed } = await known(trial);
        const { era: eraBefore, ...fixedBefore } = before;
        equal(fixed, fixedBefore, "what is fixed for the namespace");
        const least = Math.max(numberOf(eraBefore), numberOf(contentOf(receipt).era)) + 1;
        between(numberOf(era), least, Infinity, "the number of the era");
        const length = defaultLimits.maxWindow + 2 * defaultLimits.maxClockSkew;
        between(quarantineUntil, clock + length - long, clock + length + long, "the end of the quarantine");
        equal(quarantineEnd, quarantineUntil, "the end as the store set it");
        equal(await trial.records(), records, "the records");
        await refuses("QUARANTINE", "a claim", trial.ask({ holder: on("beta") }));
      },
      "plain-receipts",
    ),
  ),

  check(
    "a quarantine is as long as the largest limits that the registry and a receipt know, and ends after each receipt's window",
    async (trial) => {
      const held = await trial.claim({ workerId: 7 });
      const maxWindow = 2 * defaultLimits.maxWindow;
      const maxClockSkew = 3 * defaultLimits.maxClockSkew;
      const shows = async (changes: Partial<Receipt>): Promise<NamespaceInfo> => {
        const receipt = edited(receiptOf(held), { renewals: 1, era: (await known(trial)).era, ...changes });
        await refuses("QUARANTINE", "a renewal with a receipt that counts", trial.renew(held, { receipt }));
        return known(trial);
      };
      const { clock } = await trial.registry.ping();
      const first = await shows({ maxWindow, maxClockSkew });
      between(first.quarantineEnd, clock + maxWindow + 2 * maxClockSkew, Infinity, "the end of the quarantine");
      const until = (first.quarantineEnd ?? 0) + long;
      const second = await shows({ until });
      between(second.quarantineEnd, until, until + long, "the end of the quarantine");
      const third = await shows({ maxWindow: 1, maxClockSkew: 1 });
      equal(third.quarantineEnd, second.quarantineEnd, "the end of a quarantine, which never sinks");
      equal(third.quarantineUntil, second.quarantineUntil, "when grants go on");
      equal(new Set([first.era, second.era, third.era]).size, 3, "the number of eras");
    },
    "plain-receipts",
  ),

  check(
    "a give-back with a receipt that the registry contradicts begins a quarantine, and is not clean",
    async (trial) => {
      const held = await trial.claim({ workerId: 7 });
      const before = await trial.record(7);
      const { from, until } = held.grant;
      const receipt = edited(receiptOf(held), { renewals: 1 });
      await trial.released(held, { until: from, recents: recentsFrom(from) }, { receipt });
      const after = await trial.record(7);
      equal([after.state, after.clean, after.until, after.recents], ["resting", false, until, undefined], "the record");
      equal(after.fence, before.fence, "its fence");
      ensure((await known(trial)).quarantineUntil !== undefined, "a quarantine", await known(trial));
    },
    "plain-receipts",
  ),

  check(
    "a claim that recalls what the registry contradicts begins a quarantine, and is not granted",
    async (trial) => {
      const held = await trial.claim({ workerId: 7 });
      const before = await trial.records();
      const recall = edited(receiptOf(held), { renewals: 1 });
      await refuses("QUARANTINE", "the claim", trial.ask({ recall, holder: on("beta") }));
      equal(await trial.records(), before, "the records");
      ensure((await known(trial)).quarantineUntil !== undefined, "a quarantine", await known(trial));
    },
    "plain-receipts",
  ),

  check(
    "holders that show the same loss at the same time begin one quarantine",
    async (trial) => {
      const held = await trial.claim({ workerId: 7 });
      const receipt = edited(receiptOf(held), { renewals: 1 });
      const ends = await trial.concurrently(10, async (registry) => {
        await refuses("QUARANTINE", "a renewal", trial.renew(held, { receipt, registry }));
        return known(trial);
      });
      equal(new Set(ends.map(({ era }) => era)).size, 1, "the number of eras");
      equal(new Set(ends.map(({ quarantineEnd }) => quarantineEnd)).size, 1, "the number of ends");
    },
    "plain-receipts",
  ),

  checkNew(
    "a claim that recalls a lease is not granted in a namespace that does not exist",
    async (trial) => {
      const namespace = await trial.otherNamespace();
      const recall = receiptOf(await trial.claim({ namespace, workerId: 7 }));
      await refuses("QUARANTINE", "the claim", trial.ask({ recall }));
      equal(await trial.records(), [], "the worker IDs in use");
    },
    "plain-receipts",
  ),

  checkNew(
    "a receipt in a namespace that does not exist is answered QUARANTINE, and makes no namespace",
    async (trial) => {
      const namespace = await trial.otherNamespace();
      const held = await trial.claim({ namespace, workerId: 7 });
      const lost = { ...held, key: { ...held.key, namespace: trial.namespace } };
      const receipt = receiptOf(held);
      await refuses("QUARANTINE", "a renewal", trial.renew(lost, { receipt }));
      // A process that ends does not wait for a namespace that may never come back.
      equal(
        outcome(await trial.release(lost, undefined, { receipt }), "lost", "a give-back").reason,
        "forgotten",
        "its reason",
      );
      outcome(await trial.renew(lost), "lost", "a renewal without a receipt");
      equal(await trial.describe(), undefined, "what is known of the namespace");
    },
    "plain-receipts",
    // A registry without this capability treats a missing namespace as forgotten, with or without a receipt.
    "creates-namespaces",
  ),

  checkNew(
    "a namespace that a renewal proved is made in quarantine, by a claim or by `init`",
    async (trial) => {
      const [lost, receipt] = await ofMissing(trial, defaultLimits);
      await refuses("QUARANTINE", "a renewal", trial.renew(lost, { receipt }));
      await refuses("CONFIG_INVALID", "`new`", trial.init({ new: true }));
      equal(await trial.describe(), undefined, "what is known of the namespace after it");
      const longer = edited(receipt, { until: lost.grant.until + hour });
      await refuses("QUARANTINE", "a renewal of a later window", trial.renew(lost, { receipt: longer }));
      await refuses("QUARANTINE", "a claim", trial.ask({ holder: on("beta") }));
      const info = await known(trial);
      ensure(info.quarantineUntil === info.quarantineEnd, "a quarantine", info);
      between(info.quarantineEnd, lost.grant.until + hour, lost.grant.until + hour, "its end");
      equal(await trial.init({}), info, "the answer to `init`");
      await refuses("QUARANTINE", "a renewal after it", trial.renew(lost, { receipt }));
      equal(await known(trial), info, "what is known of the namespace after the same evidence");
    },
    "plain-receipts",
    "creates-namespaces",
  ),

  checkNew(
    "a namespace that a give-back proved is made in quarantine",
    async (trial) => {
      const [lost, receipt] = await ofMissing(trial, defaultLimits);
      outcome(await trial.release(lost, undefined, { receipt }), "lost", "a give-back");
      const { quarantineUntil } = await trial.init({});
      const { clock } = lost.grant;
      const length = defaultLimits.maxWindow + 2 * defaultLimits.maxClockSkew;
      between(quarantineUntil, clock + length, clock + length + long, "the end of the quarantine");
      await refuses("QUARANTINE", "a claim", trial.ask());
    },
    "plain-receipts",
    "creates-namespaces",
  ),

  checkNew(
    "a holder of a namespace that does not exist is lost once every forgotten window has passed",
    async (trial) => {
      const [lost, receipt] = await ofMissing(trial, { maxWindow: 100, maxClockSkew: 700 });
      const ask = () => trial.renew(lost, { receipt, window: short });
      await refuses("QUARANTINE", "a renewal", ask());
      const { clock } = await trial.registry.ping();
      await refuses("QUARANTINE", "the same renewal", ask());
      const end = clock + 100 + 2 * 700;
      await trial.passed(end);
      equal(outcome(await ask(), "lost", "a renewal after it").reason, "forgotten", "its reason");
      const { grant } = await trial.claim({ workerId: 7, window: short });
      // After all forgotten windows and fences.
      between(grant.fence, lost.grant.clock + 100 + 2 * 700, end + 1, "the fence");
      equal(outcome(await ask(), "lost", "a renewal after a claim").reason, "forgotten", "its reason");
      ensure((await known(trial)).quarantineUntil === undefined, "no quarantine", await known(trial));
    },
    "plain-receipts",
    "creates-namespaces",
  ),
];

/**
 * A claim of a namespace with these limits that does not exist any more, and its receipt. The claim is made in another namespace, which
 * stands for it.
 */
async function ofMissing(trial: Trial, limits: NamespaceLimits): Promise<readonly [GrantedClaim, string]> {
  const namespace = `${trial.namespace}_b`;
  await trial.init({ namespace, ...limits, new: true });
  const held = await trial.claim({ namespace, window: short });
  return [{ ...held, key: { ...held.key, namespace: trial.namespace } }, receiptOf(held)];
}
