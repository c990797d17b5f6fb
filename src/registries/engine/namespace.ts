import { checkLayout, checkLimits, type NamespaceInfo } from "../../rule/limits.ts";
import { checkUnnoted } from "../../rule/namespace.ts";
import { newNamespace } from "../../rule/new-namespace.ts";
import { checkUnsealed, infoOf } from "../../rule/quarantine.ts";
import type { InitRequest } from "../../rule/registry.ts";
import { type Operation, stateOf, type StoreRead, type StoreView } from "./port.ts";

/* The operations that make a namespace, and those that only read. `title` names the store in errors. */

export function* init(request: InitRequest, title: string): Operation<NamespaceInfo> {
  const { namespace, layout } = request;
  const { clock, standing } = yield [];
  const { made, noted } = standing;
  if (request.new === true && made === undefined) checkUnnoted(namespace, noted?.quarantineEnd);
  const found = made ?? newNamespace(layout, request, clock, noted);
  checkLayout(namespace, layout, found.info);
  checkLimits(namespace, request, found.info);
  const state = stateOf(found, clock);
  checkUnsealed(state, namespace, title);
  const changes = made === undefined ? { standing, becomes: { made: found }, records: [] } : undefined;
  return { answer: infoOf(state), changes };
}

export function* describe(): Operation<NamespaceInfo | undefined> {
  const { clock, standing } = yield [];
  return { answer: standing.made && infoOf(stateOf(standing.made, clock)) };
}

export function* receiptKey(): Operation<string | undefined> {
  const { standing } = yield [];
  return { answer: standing.made?.receiptKey };
}

/** Reads in one round trip. `found` makes the answer from it. */
export function* look<Answer>(reads: readonly StoreRead[], found: (view: StoreView) => Answer): Operation<Answer> {
  return { answer: found(yield reads) };
}
