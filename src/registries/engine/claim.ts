import { SnowleaseError } from "../../id/errors.ts";
import { eraMark, type NewNamespace, newNamespace } from "../../rule/new-namespace.ts";
import { claimFrom, claimReads, grantOf } from "../../rule/pool.ts";
import { quarantineError } from "../../rule/quarantine.ts";
import { readReceipt } from "../../rule/receipt.ts";
import type { ClaimRequest, Grant, Lost, Refusal } from "../../rule/registry.ts";
import { eraToNote } from "../../rule/unknown-namespace.ts";
import { admitClaim } from "../../rule/verdict.ts";
import { checkClaim, isLive, type Stored } from "../../rule/window.ts";
import { endedRow } from "./history.ts";
import { type Operation, recordAsSeen, stateOf, type StoreRead, type StoreRest, unchanged } from "./port.ts";

/** `request`: as it stands now. */
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
  // A claim that cannot be served makes no namespace, whatever is noted. What it remembers counts all the same.
  const impossible = standing.made === undefined ? impossibleClaim(request, clock, found) : undefined;
  if (impossible !== undefined) {
    const noted = recall && eraToNote({ clock, noted: standing.noted }, recall, eraMark);
    return { answer: impossible, changes: noted && { standing, becomes: { noted }, records: [] } };
  }
  view.checkClock?.(found.info);
  const state = stateOf(found, clock);
  const { begins, refusal } = admitClaim(view, request, state, eraMark);
  const made = begins === undefined ? found : { ...found, era: begins };
  const becomes = made === standing.made ? undefined : { made };
  if (refusal !== undefined) {
    // The era rests on what the recalled record says, or on its absence.
    const records = begins && recall ? [unchanged(recall.workerId, view.byId(recall.workerId))] : [];
    return { answer: quarantineError(title, refusal), changes: becomes && { standing, becomes, records } };
  }
  const { answer, store: record, before } = yield* claimFrom(view, request, state, samples);
  if (answer.outcome === "held" && before !== undefined) {
    return { answer: { ...answer, live: isLive(recordAsSeen(view, before), clock) } };
  }
  if (answer.outcome !== "granted") return { answer };
  const { store, earliest } = view;
  if (record === undefined) {
    // It was granted before: the namespace in which that holds has to stand beside its record.
    const records = before && [unchanged(before.workerId, before)];
    return { answer: { ...answer, store }, changes: records && { standing, becomes, records } };
  }
  const after = notBefore(earliest?.(layout) ?? 0, record);
  const ended = endedRow(before, before?.until ?? 0, clock, "taken-over");
  const records = [{ workerId: after.workerId, before, after, ended }];
  const grant = grantOf(state, after, answer.rollback);
  return { answer: { ...grant, store }, changes: { standing, becomes, records } };
}

/** The record of a claim, with a window that begins at `from` or later. */
function notBefore(from: number, record: Stored): Stored {
  return record.from >= from ? record : { ...record, from, knownFrom: record.recents?.from ?? from };
}

/** Why no namespace with these limits can serve it. */
function impossibleClaim(request: ClaimRequest, clock: number, { info }: NewNamespace): SnowleaseError | undefined {
  try {
    checkClaim(request, clock, info);
    return undefined;
  } catch (error) {
    if (error instanceof SnowleaseError) return error;
    throw error;
  }
}
