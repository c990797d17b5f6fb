import { SnowleaseError } from "../../id/errors.ts";
import { eraMark, type NewNamespace, newNamespace } from "../../rule/new-namespace.ts";
import { unusedRecord } from "../../rule/pin.ts";
import { claimFrom, claimReads, grantOf, type PoolView } from "../../rule/pool.ts";
import { forgottenNamespace, quarantineError } from "../../rule/quarantine.ts";
import { readReceipt } from "../../rule/receipt.ts";
import type { ClaimRequest, Grant, Lost, Refusal } from "../../rule/registry.ts";
import { eraToNote } from "../../rule/unknown-namespace.ts";
import { admitClaim } from "../../rule/verdict.ts";
import { checkClaim, isLive, type Stored } from "../../rule/window.ts";
import { endedRow } from "./history.ts";
import { isForgotten } from "./holder.ts";
import {
  type Operation,
  recordAsSeen,
  stateOf,
  type StoreRead,
  type StoreRest,
  type StoreView,
  unchanged,
} from "./port.ts";

/** `request`: with its clock as of now. */
export function* claim(
  request: ClaimRequest,
  { title, samples }: Pick<StoreRest, "title" | "samples">,
): Operation<Grant | Refusal | Lost> {
  const { layout, limits = {} } = request;
  const recall = readReceipt(request.recall);
  const recalled: readonly StoreRead[] = recall === undefined ? [] : [["byId", recall.workerId]];
  const view = yield [...claimReads(request), ...recalled];
  const { clock, standing } = view;
  const found = standing.made ?? newNamespace(layout, limits, clock, standing.noted);
  // A claim that must be refused makes no namespace, even if an era is noted. Its recall counts all the same.
  const impossible = standing.made === undefined ? impossibleClaim(view, request, found) : undefined;
  if (impossible !== undefined) {
    const noted = recall && eraToNote({ clock, noted: standing.noted }, recall, eraMark);
    const wasThere = recall !== undefined && view.refusal !== undefined;
    const answer = wasThere ? forgottenNamespace(title, request.namespace, recall, request.clock) : impossible;
    return { answer, changes: noted && { standing, becomes: { noted }, records: [] } };
  }
  view.checkClock?.(found.info);
  const state = stateOf(found, clock);
  const { begins, refusal } = admitClaim(view, request, state, eraMark);
  const made = begins === undefined ? found : { ...found, era: begins };
  const becomes = made === standing.made ? undefined : { made };
  if (refusal !== undefined) {
    // The era rests on the recalled record, or on its absence.
    const records = begins && recall ? [unchanged(recall.workerId, view.byId(recall.workerId))] : [];
    return { answer: quarantineError(title, refusal), changes: becomes && { standing, becomes, records } };
  }
  const { answer, store: record, before } = yield* claimFrom(besideOthers(view), request, state, samples);
  if (answer.outcome === "held" && before !== undefined) {
    return { answer: { ...answer, live: isLive(recordAsSeen(view, before), clock) } };
  }
  if (answer.outcome === "pinned") {
    const { workerId } = answer;
    const holder = view.others?.takenBy(workerId);
    if (holder !== undefined) return { answer: { outcome: "foreign", workerId, holder, clock } };
  }
  // If the claim was granted before, or the store forgot a part of it, the record and its namespace have to be unchanged together.
  const rests = answer.outcome === "granted" || isForgotten(answer) ? before : undefined;
  const same = rests && { ...unchanged(rests.workerId, rests), isEvidence: answer.outcome !== "granted" };
  const stands = same && { standing, becomes, records: [same] };
  if (answer.outcome !== "granted") return { answer, changes: stands };
  const { store, earliest } = view;
  if (record === undefined) return { answer: { ...answer, store }, changes: stands };
  const after = behindOthers(view, notBefore(earliest?.(layout) ?? 0, record), request, found);
  const ended = endedRow(before, before?.until ?? 0, clock, "taken-over");
  const records = [{ workerId: after.workerId, before, after, ended }];
  const grant = grantOf(state, after, answer.rollback);
  return { answer: { ...grant, store }, changes: { standing, becomes, records } };
}

/** The record of a claim, with a window that begins no earlier than `from`. */
function notBefore(from: number, record: Stored): Stored {
  return record.from >= from ? record : { ...record, from, knownFrom: record.recents?.from ?? from };
}

/** The pool as a claim sees it. The claim may not take a worker ID that another program has taken, whatever the record says. */
function besideOthers(view: StoreView): PoolView {
  const { others } = view;
  if (others === undefined) return view;
  const byId = (id: number): Stored | undefined =>
    others.takenBy(id) === undefined ? view.byId(id) : { ...unusedRecord(id), pinned: "foreign" };
  return { ...view, byId };
}

/**
 * The record of a claim beside other programs. Until it is stored, one of them may have had the worker ID, with a clock that is as far
 * ahead as the namespace allows.
 */
function behindOthers(
  { clock, others, lateness = 0 }: StoreView,
  record: Stored,
  { window }: ClaimRequest,
  { info }: NewNamespace,
): Stored {
  if (others === undefined || !others.seen || others.isMarked(record.workerId)) return record;
  const from = Math.max(record.from, clock + lateness + info.maxClockSkew);
  // A quarantine waits for no window that ends after this.
  const until = Math.min(from + window, clock + info.maxClockSkew + info.maxWindow);
  return { ...record, from, until: Math.max(record.until, until), recents: undefined, knownFrom: from };
}

/** The reason why a claim makes no namespace. Undefined if it makes one. */
function impossibleClaim(
  { clock, refusal }: StoreView,
  request: ClaimRequest,
  { info }: NewNamespace,
): SnowleaseError | undefined {
  if (refusal !== undefined) return refusal;
  try {
    checkClaim(request, clock, info);
    return undefined;
  } catch (error) {
    if (error instanceof SnowleaseError) return error;
    throw error;
  }
}
