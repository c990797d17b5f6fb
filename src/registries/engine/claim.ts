import { eraMark, newNamespace } from "../../rule/new-namespace.ts";
import { claimFrom, claimReads } from "../../rule/pool.ts";
import { quarantineError } from "../../rule/quarantine.ts";
import { readReceipt } from "../../rule/receipt.ts";
import type { ClaimRequest, Grant, Lost, Refusal } from "../../rule/registry.ts";
import { admitClaim } from "../../rule/verdict.ts";
import { checkClaim } from "../../rule/window.ts";
import { endedRow } from "./history.ts";
import { type Operation, stateOf, type StoreRead } from "./port.ts";

/** `request`: as it stands now. `title` names the store in errors. */
export function* claim(request: ClaimRequest, title: string): Operation<Grant | Refusal | Lost> {
  const { layout, limits = {} } = request;
  const recall = readReceipt(request.recall);
  const recalled: readonly StoreRead[] = recall === undefined ? [] : [["byId", recall.workerId]];
  const view = yield [...claimReads(request), ...recalled];
  const { clock, standing } = view;
  const found = standing.made ?? newNamespace(layout, limits, clock, standing.noted);
  // In the quarantine of an era that is noted, nothing else would refuse it. What a claimer remembers counts whatever it asks.
  if (standing.made === undefined && recall === undefined) checkClaim(request, clock, found.info);
  const state = stateOf(found, clock);
  const { begins, refusal } = admitClaim(view, request, state, eraMark);
  const made = begins === undefined ? found : { ...found, era: begins };
  const becomes = made === standing.made ? undefined : { made };
  if (refusal !== undefined) {
    return { answer: quarantineError(title, refusal), changes: becomes && { standing, becomes, records: [] } };
  }
  const { answer, store: after, before } = yield* claimFrom(view, request, state);
  if (answer.outcome !== "granted" || after === undefined) return { answer };
  const ended = endedRow(before, before?.until ?? 0, clock, "taken-over");
  const records = [{ workerId: after.workerId, before, after, ended }];
  return { answer, changes: { standing, becomes, records } };
}
