import { checkpointIn, type Era, type EraMark, type NamespaceState, nextEra, renewalIn, usageIn } from "./era.ts";
import { checkLimits, checkSkew, checkWindow } from "./limits.ts";
import type { PoolView } from "./pool.ts";
import { isForgotten, isUncovered, readReceipt, receiptOf, type Receipt } from "./receipt.ts";
import type { ClaimKey, ClaimRequest, Lost, Released, ReleaseRequest, Renewal, RenewRequest } from "./registry.ts";
import { checkTurns, isRepeat, isTurnOf } from "./turn.ts";
import { checkClaim, forced, isHolders, released, renewed, type Stored } from "./window.ts";

/*
 * A holder's renewal or release, and a claimer's recall, decided in one atomic step: first by the receipt, which can prove that the
 * registry forgot something, then by quarantine, fence, token and turn.
 */

/** The decision about a request of a holder. */
export interface Verdict<Answer> {
  /**
   * The era to store if the receipt proves that the registry forgot something. The caller stores it only if everything that it read is
   * still the same. The answer and the record are those of this era.
   */
  readonly begins?: Era | undefined;
  readonly answer: Answer | InQuarantine;
  /** The record to store; absent if nothing changes. */
  readonly record?: Stored | undefined;
  /** How the claim ends with this record; absent if the claim goes on. */
  readonly end?: "released" | "forced" | undefined;
}

/** The answer to a request that has to wait for the end of a quarantine: `quarantineError`. */
export interface InQuarantine extends Pick<NamespaceState, "clock" | "era" | "opensAt"> {
  readonly outcome: "quarantine";
  /** Of the namespace, or the assumed one: `NamespaceLimits`. */
  readonly maxClockSkew: number;
  readonly namespace: string;
  /** Whether the store has no such namespace. */
  readonly isUnknown?: boolean;
}

export function isInQuarantine(answer: { readonly outcome: string }): answer is InQuarantine {
  return answer.outcome === "quarantine";
}

/**
 * Decides a renewal. `stored`: the record of the worker ID.
 * @throws SnowleaseError CLOCK_SKEW; CONFIG_INVALID for a `nextTurn` that equals `turn`, an impossible window or checkpoint.
 */
export function decideRenewal(
  state: NamespaceState,
  stored: Stored | undefined,
  request: RenewRequest,
  mark: EraMark,
): Verdict<Renewal | Lost> {
  checkTurns(request);
  const proof = proofOf(state, stored, request, mark);
  const { begins } = proof;
  if (begins === undefined) return judgeRenewal(state, stored, request, proof);
  return { begins, ...judgeRenewal({ ...state, ...begins }, stored, request, proof) };
}

/** Decides a renewal after the receipt was checked. */
function judgeRenewal(
  state: NamespaceState,
  stored: Stored | undefined,
  request: RenewRequest,
  { receipt, isEvidence }: Proof,
): Verdict<Renewal | Lost> {
  const { clock, info, era, opensAt } = state;
  const { namespace } = request;
  const before = withEndOf(receipt, stored, request);
  const holds = isHolders(before, request);
  // If the request has a receipt, report at once that the claim is over. Otherwise the holder would go on beside the next holder while a
  // quarantine lasts.
  if (!holds && receipt !== undefined) {
    if (!isEvidence) return lostBeside(receipt, before, request, receipt.until, clock);
    if (isDoubled(before, state, request)) return { answer: forgottenTo(receipt, before, state, request) };
  }
  if (clock < opensAt)
    return { answer: { outcome: "quarantine", namespace, era, clock, opensAt, maxClockSkew: info.maxClockSkew } };
  checkWindow(request.window, info);
  checkSkew(request.clock, clock, info);
  if (!holds) {
    return { answer: receipt && isEvidence ? forgottenTo(receipt, before, state, request) : lostTo(before, request) };
  }

  const isOlder = before.era !== era;
  if (!isOlder && !isTurnOf(before, request)) return { answer: { outcome: "lost", reason: "cloned" } };
  // Store it again: the first answer may be missing because the write did not reach the replicas that it has to reach.
  if (!isOlder && isRepeat(before, request, clock)) return { answer: renewalOf(state, before), record: before };
  const checkpoint = checkpointIn(state, request.checkpoint, before);
  const after = renewalIn(state, renewed(before, { ...request, checkpoint }, clock));
  const record = { ...after, renewals: Math.max(before.renewals ?? 0, receipt?.renewals ?? 0) + 1 };
  return { answer: renewalOf(state, record), record };
}

/**
 * Decides a release. The record is absent if the worker ID was released before.
 * @throws SnowleaseError CONFIG_INVALID for an impossible usage.
 */
export function decideRelease(
  state: NamespaceState,
  stored: Stored | undefined,
  request: ReleaseRequest,
  mark: EraMark,
): Verdict<Released | Lost> {
  const proof = proofOf(state, stored, request, mark);
  const { begins } = proof;
  if (begins === undefined) return judgeRelease(state, stored, request, proof);
  return { begins, ...judgeRelease({ ...state, ...begins }, stored, request, proof) };
}

/** Decides a release after the receipt was checked. */
function judgeRelease(
  state: NamespaceState,
  stored: Stored | undefined,
  request: ReleaseRequest,
  { receipt, isEvidence }: Proof,
): Verdict<Released | Lost> {
  const { clock, era } = state;
  const before = withEndOf(receipt, stored, request);

  const wasEnded = before !== undefined && before.token === undefined && before.fence === request.fence;
  const isDone = wasEnded && (before.clean || request.used === undefined);
  if (!isHolders(before, request)) {
    if (receipt !== undefined && isEvidence && !wasEnded)
      return { answer: forgottenTo(receipt, before, state, request) };
    const end = Math.min(receipt?.until ?? 0, request.used?.until ?? Infinity);
    const verdict = lostBeside(isEvidence ? undefined : receipt, before, request, end, clock);
    // If the holder did not give it back before, an operator ended the claim in between: the holder's usage comes too late.
    const isSilent = request.used === undefined || verdict.answer.doubt === undefined;
    return isDone && isSilent ? { ...verdict, answer: { outcome: "released" } } : verdict;
  }
  if (!isEvidence && before.era === era && !isTurnOf(before, request)) {
    return { answer: { outcome: "lost", reason: "cloned" } };
  }
  // If the registry forgot a renewal, it cannot know how far the window reached.
  const used = isEvidence ? undefined : usageIn(state, request.used, before);
  return { answer: { outcome: "released" }, record: released(before, { ...request, used }, clock), end: "released" };
}

/**
 * The era that begins if a claimer remembers something that the registry forgot: `ClaimRequest.recall`. `record`: of the receipt's worker
 * ID.
 */
export function recalledEra(
  state: NamespaceState,
  record: Stored | undefined,
  recall: Receipt,
  mark: EraMark,
): Era | undefined {
  const { clock, info } = state;
  if (!isForgotten(recall, state, record) || !isUncovered(recall, state)) return undefined;
  return nextEra(state, clock, info, mark, recall);
}

/** What a claim finds before it looks for a worker ID. */
export interface ClaimAdmission {
  /** As in a verdict. */
  readonly begins?: Era | undefined;
  /** Present if the claim has to wait. */
  readonly refusal?: InQuarantine | undefined;
}

/**
 * Whether a claim may look for a worker ID. `view`: has the record of the worker ID that the claim recalls.
 * @throws SnowleaseError CLOCK_SKEW, LAYOUT_MISMATCH; CONFIG_INVALID for a claim that this namespace cannot serve.
 */
export function admitClaim(
  view: Pick<PoolView, "byId">,
  request: ClaimRequest,
  state: NamespaceState,
  mark: EraMark,
): ClaimAdmission {
  const { clock, info } = state;
  const recall = readReceipt(request.recall);
  const begins = recall && recalledEra(state, view.byId(recall.workerId), recall, mark);
  const { namespace } = request;
  const { era, opensAt } = begins ?? state;
  const { maxClockSkew } = info;
  if (clock < opensAt) {
    return { begins, refusal: { outcome: "quarantine", namespace, era, clock, opensAt, maxClockSkew } };
  }
  checkLimits(namespace, request.limits ?? {}, info);
  checkClaim(request, clock, info);
  return {};
}

/** What a request's receipt shows. */
interface Proof {
  readonly receipt: Receipt | undefined;
  /** The registry forgot what the receipt proves. */
  readonly isEvidence: boolean;
  /** The era that begins for that reason. */
  readonly begins: Era | undefined;
}

function proofOf(
  state: NamespaceState,
  record: Stored | undefined,
  request: ClaimKey & { readonly receipt?: string | undefined },
  mark: EraMark,
): Proof {
  // Most requests carry the receipt of the present record, which shows nothing new.
  const isPresent = record !== undefined && request.receipt === receiptOf(state, record);
  const receipt = isPresent ? undefined : receiptIn(request);
  if (receipt === undefined || !isForgotten(receipt, state, record))
    return { receipt, isEvidence: false, begins: undefined };
  const begins = isUncovered(receipt, state) ? nextEra(state, state.clock, state.info, mark, receipt) : undefined;
  return { receipt, isEvidence: true, begins };
}

/** The receipt of the claim that the request names; any other one is ignored. */
export function receiptIn(request: ClaimKey & { readonly receipt?: string | undefined }): Receipt | undefined {
  const receipt = readReceipt(request.receipt);
  if (receipt === undefined) return undefined;
  const { workerId, fence, token } = request;
  return receipt.workerId === workerId && receipt.fence === fence && receipt.token === token ? receipt : undefined;
}

/**
 * The record, with its window up to the end that the holder knows. A request that was repeated after the store was put back can have stored
 * an earlier end.
 */
function withEndOf(receipt: Receipt | undefined, record: Stored | undefined, request: ClaimKey): Stored | undefined {
  if (receipt === undefined || !isHolders(record, request) || record.until >= receipt.until) return record;
  return { ...record, until: receipt.until };
}

/**
 * Whether other claims may use the same times as the holder of the receipt from now on. If the windows of those claims have passed, also by
 * the holder's clock, a quarantine protects the holder: it uses no time before its clock any more. The record's `from` says nothing about
 * claims before the last one.
 */
function isDoubled(
  record: Stored | undefined,
  { clock, info }: NamespaceState,
  { clock: holderClock }: Pick<RenewRequest, "clock">,
): record is Stored {
  return record !== undefined && record.until > Math.min(clock - info.maxClockSkew, holderClock);
}

/** The answer to a holder whose claim the registry has forgotten. */
function forgottenTo(
  receipt: Receipt,
  record: Stored | undefined,
  state: NamespaceState,
  request: Pick<RenewRequest, "clock">,
): Lost {
  const doubt = isDoubled(record, state, request) ? spanOf(receipt, record) : overlapOf(receipt, record);
  return { outcome: "lost", reason: "forgotten", doubt };
}

/**
 * The answer to a holder whose claim is over, if no receipt proves a loss. If other claims may have used times that the holder used, and
 * the worker ID has no holder now, the window closes up to `end`, the end of these times. Otherwise the next claim would begin among these
 * times, if its clock is behind, or if the holder was in lead mode. A present claim goes on: the request may only be late.
 */
function lostBeside(
  receipt: Receipt | undefined,
  record: Stored | undefined,
  request: ClaimKey,
  end: number,
  clock: number,
): Verdict<Lost> & { readonly answer: Lost } {
  const answer = lostTo(record, request);
  const doubt = receipt && overlapOf(receipt, record, end);
  if (record === undefined || doubt === undefined) return { answer };
  const isClosed = record.token !== undefined || (!record.clean && record.until >= end);
  if (isClosed) return { answer: { ...answer, doubt } };
  const ended = forced(record, clock, false);
  return { answer: { ...answer, doubt }, record: { ...ended, until: Math.max(ended.until, end) }, end: "forced" };
}

/**
 * The times in doubt, if the record alone shows them: a later claim begins before the end of what the holder may have used, or the record
 * ends before it. Then the store granted the worker ID twice, a copy of the holder gave it back, or an operator reset the window.
 */
function overlapOf(receipt: Receipt, record: Stored | undefined, end = receipt.until): Lost["doubt"] {
  if (record === undefined || record.fence < receipt.fence) return undefined;
  const isOther = record.fence > receipt.fence || record.token !== undefined;
  return (isOther ? record.from : record.until) < end ? spanOf(receipt, record, end) : undefined;
}

/**
 * The times that other claims may have used beside the holder of the receipt. They begin with the last answer that the registry forgot, or
 * with the record's window if all of that lies before that answer.
 */
function spanOf(receipt: Receipt, record: Stored, end = receipt.until): NonNullable<Lost["doubt"]> {
  const from = receipt.until - receipt.maxWindow - receipt.maxClockSkew;
  const until = Math.min(record.until, end);
  return { from: from < until ? from : Math.min(record.from, until), until };
}

/** How a claim ended, as far as its record shows it. */
function lostTo(record: Stored | undefined, { fence }: ClaimKey): Lost {
  const wasEnded = record !== undefined && record.fence === fence && record.token === undefined;
  return { outcome: "lost", reason: wasEnded ? "released" : "taken" };
}

function renewalOf(state: NamespaceState, record: Stored): Renewal {
  const { from, until, turn } = record;
  return { outcome: "renewed", from, until, clock: state.clock, turn, receipt: receiptOf(state, record) };
}
