import { eraMark, type NewNamespace } from "../../rule/new-namespace.ts";
import { answerOrError } from "../../rule/quarantine.ts";
import type { Lost, Released, ReleaseRequest, Renewal, RenewRequest } from "../../rule/registry.ts";
import { decideUnknownRelease, decideUnknownRenewal } from "../../rule/unknown-namespace.ts";
import { decideRelease, decideRenewal, type InQuarantine, type Verdict } from "../../rule/verdict.ts";
import { endedRow } from "./history.ts";
import { type Operation, type Outcome, stateOf, type StoreView, unchanged } from "./port.ts";

/* The requests of a holder. `request`: with its clock as of now. `title` names the store in errors. */

export function* renew(request: RenewRequest, title: string): Operation<Renewal | Lost> {
  const { workerId } = request;
  const view = yield [["byId", workerId]];
  const { clock, standing } = view;
  const { made, noted } = standing;
  if (made === undefined) return unknown(view, title, decideUnknownRenewal({ clock, noted }, request, eraMark));
  view.checkClock?.(made.info);
  const verdict = decideRenewal(stateOf(made, clock), view.byId(workerId), request, eraMark);
  // Another program has the worker ID, or may get it at any moment.
  const isTaken = verdict.answer.outcome === "renewed" && view.others?.isMarked(workerId) === false;
  if (isTaken) return { answer: { outcome: "lost" } };
  return decided(view, title, { made, workerId, verdict });
}

export function* release(request: ReleaseRequest, title: string): Operation<Released | Lost> {
  const { workerId } = request;
  const view = yield [["byId", workerId]];
  const { clock, standing } = view;
  const { made, noted } = standing;
  if (made === undefined) return unknown(view, title, decideUnknownRelease({ clock, noted }, request, eraMark));
  const verdict = decideRelease(stateOf(made, clock), view.byId(workerId), request, eraMark);
  return decided(view, title, { made, workerId, verdict });
}

/** Stores a verdict: an era that begins, the record, the end of its claim. */
function decided<Answer extends { readonly outcome: string }>(
  view: StoreView,
  title: string,
  { made, workerId, verdict }: { made: NewNamespace; workerId: number; verdict: Verdict<Answer> },
): Outcome<Exclude<Answer, InQuarantine>> {
  const { begins, answer, record: after, end } = verdict;
  const { clock, standing } = view;
  const before = view.byId(workerId);
  const becomes = begins && { made: { ...made, era: begins } };
  const ended = end && after && endedRow(before, after.until, clock, end);
  // A read may lag. What shows that the store forgot something has to be unchanged at the commit.
  const isNothing = becomes === undefined && after === undefined && !isForgotten(answer);
  const records = after === undefined ? [unchanged(workerId, before)] : [{ workerId, before, after, ended }];
  return { answer: answerOrError(title, answer), changes: isNothing ? undefined : { standing, becomes, records } };
}

/**
 * Notes that a namespace was forgotten, if a holder proves it. If that was noted before, the commit checks that there is still no
 * namespace.
 */
function unknown({ standing }: StoreView, title: string, { begins, answer }: Verdict<Lost>): Outcome<Lost> {
  const becomes = begins && { noted: begins };
  const isProven = answer.outcome === "quarantine" || isForgotten(answer);
  return { answer: answerOrError(title, answer), changes: isProven ? { standing, becomes, records: [] } : undefined };
}

export function isForgotten(answer: { readonly outcome: string; readonly reason?: unknown }): boolean {
  return answer.outcome === "lost" && answer.reason === "forgotten";
}
