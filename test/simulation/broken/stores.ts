import { readReceipt, type Receipt } from "../../../src/rule/receipt.ts";
import type { NamespaceState } from "../../../src/rule/era.ts";
import type { ReleaseRequest, RenewRequest } from "../../../src/rule/registry.ts";
import type { Stored } from "../../../src/rule/window.ts";
import type { Variant } from "../variant.ts";
import { rules, type Rules } from "../store.ts";
import type { Traits } from "../scenario.ts";
import { type Broken, overlap, twice } from "./distort.ts";

/*
 * Stores that forget, and break in one way each what the rule says of that.
 */

const unnoticed = /^The store forgot/;
const causeless = /^A store that forgot nothing/;

function forgetting(broken: Partial<Rules>, traits: Partial<Traits> = {}): Variant {
  return { traits: { forgets: true, lends: false, ...traits }, rules: { ...rules, ...broken } };
}

/** The same for a store that is put back, and has nothing but its holders to tell it. */
function putBack(broken: Partial<Rules>, traits: Partial<Traits> = {}): Variant {
  return forgetting(broken, { isSilent: true, ...traits });
}

type ReadAs = (receipt: Receipt, before: Stored | undefined, state: NamespaceState) => Receipt | undefined;

/** Reads receipts otherwise than they are. */
function reading(as: ReadAs): Partial<Rules> {
  const read = <Request extends RenewRequest | ReleaseRequest>(
    state: NamespaceState,
    before: Stored | undefined,
    request: Request,
  ): Request => {
    const receipt = readReceipt(request.receipt);
    const other = receipt && as(receipt, before, state);
    return { ...request, receipt: other && textOf(other) };
  };
  return {
    decideRenewal: (state, before, request, mark) =>
      rules.decideRenewal(state, before, read(state, before, request), mark),
    decideRelease: (state, before, request, mark) =>
      rules.decideRelease(state, before, read(state, before, request), mark),
  };
}

function textOf(receipt: Receipt): string {
  const { namespaceId, era, workerId, fence, token, renewals, until, maxWindow, maxClockSkew } = receipt;
  return ["1", namespaceId, era, workerId, fence, token, renewals, until, maxWindow, maxClockSkew].join(".");
}

const isOfClaim = (receipt: Receipt, before: Stored | undefined): before is Stored =>
  before?.fence === receipt.fence && (before.token ?? receipt.token) === receipt.token;

/** Begins no quarantine when another server takes its place, nor by what holders show. */
const goesOn = forgetting({ isSame: () => true, ...reading(() => undefined) });

/** Waits as long as most windows are, as if there were no longer ones, and no clocks that differ. */
const tooShort = forgetting(
  { nextEra: (era, clock, _, mark) => rules.nextEra(era, clock, { maxWindow: 5000, maxClockSkew: 0 }, mark) },
  { isSilent: false },
);

/** Lets holders go on where they were. */
const renewedAsBefore = forgetting({
  decideRenewal(state, before, request, mark) {
    const verdict = rules.decideRenewal(state, before, request, mark);
    const { answer, record } = verdict;
    if (answer.outcome !== "renewed" || record === undefined || before === undefined) return verdict;
    const { from, knownFrom } = before;
    return { ...verdict, answer: { ...answer, from }, record: { ...record, from, knownFrom } };
  },
});

const fencesAnew = forgetting({
  decideClaim: (view, request, state) => {
    const decision = rules.decideClaim(view, request, state);
    if (decision.store === undefined) return decision;
    const before = view.byId(decision.store.workerId);
    return { ...decision, store: { ...decision.store, fence: (before?.fence ?? 0) + 1 } };
  },
});

/** Begins a quarantine at each look. */
const forEver = forgetting({ isSame: () => false });

const evidenceIgnored = putBack(reading(() => undefined));

const renewalsIgnored = putBack(reading((receipt) => ({ ...receipt, renewals: 0 })));

/** Compares the ends of windows in place of the numbers of renewals: a late message raises the one that it forgot. */
const untilCompared = putBack(
  reading((receipt, before) => {
    if (!isOfClaim(receipt, before)) return receipt;
    return { ...receipt, renewals: (before.renewals ?? 0) + Number(before.until < receipt.until) };
  }),
);

/** What the present quarantine began with begins another one. */
const coveredCounts = putBack(reading((receipt, _, { era }) => ({ ...receipt, era })));

/** Takes a claim that an operator ended for one that it forgot. */
const forcedCounts = forgetting(
  reading((receipt, before) =>
    before?.fence === receipt.fence && before.token === undefined
      ? { ...receipt, renewals: (before.renewals ?? 0) + 1 }
      : receipt,
  ),
  { unsteady: true, lends: false },
);

/** A quarantine that ends before the window of the holder that showed its cause. */
const untilNotAdded = putBack(
  {
    decideRenewal(state, before, request, mark) {
      const verdict = rules.decideRenewal(state, before, request, mark);
      if (verdict.begins === undefined) return verdict;
      const { opensAt } = rules.nextEra(state, state.clock, state.info, mark);
      return { ...verdict, begins: { ...verdict.begins, quarantineEnd: opensAt, opensAt } };
    },
  },
  { isSetBack: true, ends: false },
);

/** A holder whose worker ID another one was granted, too, goes on through the quarantine. */
const doubledGoesOn = putBack({
  decideRenewal(state, before, request, mark) {
    const verdict = rules.decideRenewal(state, before, request, mark);
    const { clock } = state;
    const { namespace } = request;
    const { answer, begins: { era, opensAt } = state } = verdict;
    if (answer.outcome !== "lost" || answer.doubt === undefined || clock >= opensAt) return verdict;
    return {
      ...verdict,
      answer: { outcome: "quarantine", namespace, era, clock, opensAt, maxClockSkew: state.info.maxClockSkew },
    };
  },
});

/** Leaves the window of a worker ID that was granted twice as it is. */
const doubledStaysOpen = putBack({
  decideRenewal(state, before, request, mark) {
    const verdict = rules.decideRenewal(state, before, request, mark);
    return verdict.answer.outcome === "lost" ? { ...verdict, record: undefined } : verdict;
  },
});

/** Acts on what a lagging read seems to show. */
const actsOnLag = forgetting(
  { stands: (isUnchanged, isEvidence) => isUnchanged || isEvidence },
  { lags: true, lends: false },
);

const endLowered = putBack(
  {
    openedEra(state) {
      const opened = rules.openedEra(state);
      return { ...opened, quarantineEnd: opened.opensAt };
    },
  },
  { ends: true },
);

const recallIgnored = putBack({ recalledEra: () => undefined }, { remembers: true });

export const brokenStores: readonly Broken[] = [
  { name: "forgets, and goes on", variant: () => goesOn, found: [unnoticed] },
  { name: "a quarantine that is too short", variant: () => tooShort, found: [twice, overlap] },
  { name: "renewed after a quarantine as if nothing had been", variant: () => renewedAsBefore, found: [overlap] },
  { name: "fences that begin anew", variant: () => fencesAnew, found: [/^Fence/] },
  { name: "a quarantine without end", variant: () => forEver, found: [causeless, /cannot be had/] },
  { name: "evidence ignored", variant: () => evidenceIgnored, found: [unnoticed] },
  { name: "the number of renewals ignored", variant: () => renewalsIgnored, found: [unnoticed] },
  { name: "ends of windows in place of numbers of renewals", variant: () => untilCompared, found: [unnoticed] },
  { name: "covered evidence counts again", variant: () => coveredCounts, found: [/^A quarantine began for what/] },
  { name: "an ended claim counts as a forgotten one", variant: () => forcedCounts, found: [causeless] },
  {
    name: "a quarantine without the window that showed its cause",
    variant: () => untilNotAdded,
    found: [/^A quarantine ends/],
  },
  { name: "a doubled holder goes on through the quarantine", variant: () => doubledGoesOn, found: [twice] },
  {
    name: "a doubled worker ID whose window stays open",
    variant: () => doubledStaysOpen,
    found: [/^Worker \d+ is granted from/],
  },
  { name: "evidence of a lagging read is acted on", variant: () => actsOnLag, found: [causeless] },
  {
    name: "an operator's end makes the quarantine shorter",
    variant: () => endLowered,
    found: [/^The end of a quarantine sank/],
  },
  { name: "a recall ignored", variant: () => recallIgnored, found: [/^The store forgot .* grants to a claimer/] },
];
