import { Layout } from "../../id/layout.ts";
import { isSealed, openedEra, removedEra } from "../../rule/era.ts";
import type { NamespaceInfo } from "../../rule/limits.ts";
import { eraMark, type NewNamespace, separated } from "../../rule/new-namespace.ts";
import { checkPin, pinnedRecord, unpinnedRecord, unusedRecord } from "../../rule/pin.ts";
import { checkEndable, checkEra, checkUnsealed, infoOf } from "../../rule/quarantine.ts";
import type {
  EndQuarantineRequest,
  ForceReleased,
  ForceReleaseRequest,
  Pin,
  RemoveRequest,
  SeparateRequest,
} from "../../rule/registry.ts";
import { checkSealed, rememberedEra, sealedEra } from "../../rule/removal.ts";
import { forced, forceRefusal, noNamespace } from "../../rule/window.ts";
import { endedRow } from "./history.ts";
import { type Operation, recordAsSeen, type Replacement, type Standing, stateOf, type StoreChanges } from "./port.ts";

/* The requests of an operator. `title` names the store in errors. */

export function* forceRelease(request: ForceReleaseRequest): Operation<ForceReleased> {
  const { workerId, resetWindow = false } = request;
  const view = yield [["byId", workerId]];
  const { clock, standing } = view;
  const before = standing.made && view.byId(workerId);
  const refusal = forceRefusal(before && recordAsSeen(view, before), request, clock);
  if (refusal !== undefined || before === undefined) return { answer: refusal ?? { outcome: "absent" } };
  const after = forced(before, clock, resetWindow);
  const ended = endedRow(before, after.until, clock, resetWindow ? "reset" : "forced");
  const answer = { outcome: "released", until: after.until } as const;
  return { answer, changes: { standing, records: [{ workerId, before, after, ended }] } };
}

/** Pins all of these, or none. */
export function* pinAll(namespace: string, pins: readonly Pin[], title: string): Operation<void> {
  const view = yield pins.map(({ workerId }) => ["byId", workerId] as const);
  const { clock, standing } = view;
  const made = existing(standing, namespace);
  checkUnsealed(stateOf(made, clock), namespace, title);
  const highest = Layout.parse(made.info.layout).pool.last;
  const records = pins.map((pin): Replacement => {
    const { workerId, reason, owner } = pin;
    checkPin(pin, highest, clock, made.info);
    const before = view.byId(workerId);
    return { workerId, before, after: pinnedRecord(before ?? unusedRecord(workerId), reason, owner) };
  });
  return { answer: undefined, changes: { standing, records } };
}

/** Returns the worker IDs that were pinned. */
export function* unpinAll(workerIds: readonly number[]): Operation<readonly number[]> {
  const view = yield workerIds.map((id) => ["byId", id] as const);
  const { standing } = view;
  const records = workerIds.flatMap((workerId): Replacement[] => {
    const before = standing.made && view.byId(workerId);
    if (before?.pinned === undefined) return [];
    return [{ workerId, before, after: before.fence === 0 ? undefined : unpinnedRecord(before) }];
  });
  const answer = records.map(({ workerId }) => workerId);
  return { answer, changes: records.length > 0 ? { standing, records } : undefined };
}

export function* endQuarantine(request: EndQuarantineRequest): Operation<NamespaceInfo> {
  const { clock, standing } = yield [];
  const made = existing(standing, request.namespace);
  const state = stateOf(made, clock);
  checkEra(request, state.era);
  if (clock >= state.opensAt) return { answer: infoOf(state) };
  checkEndable(request.namespace, state);
  const opened = { ...made, era: openedEra(state) };
  return { answer: infoOf(stateOf(opened, clock)), changes: { standing, becomes: { made: opened }, records: [] } };
}

export function* separate(
  request: SeparateRequest,
  { title, sent }: { readonly title: string; readonly sent: readonly StoreChanges[] },
): Operation<NamespaceInfo> {
  const { clock, standing } = yield [];
  const found = existing(standing, request.namespace);
  const state = stateOf(found, clock);
  if (isMadeBy(sent, found)) return { answer: infoOf(state) };
  checkEra(request, state.era);
  checkUnsealed(state, request.namespace, title);
  const made = separated(state);
  return { answer: infoOf(stateOf(made, clock)), changes: { standing, becomes: { made }, records: [] } };
}

/** Begins a removal. From then on, nothing is granted. Returns the id of the removed namespace. */
export function* seal({ namespace, era }: RemoveRequest, sent: readonly StoreChanges[]): Operation<string | undefined> {
  const { clock, standing } = yield [];
  const made = existing(standing, namespace);
  const state = stateOf(made, clock);
  if (!isSealed(state) || !isMadeBy(sent, made)) checkEra({ namespace, era }, state.era);
  const sealed = { made: { ...made, era: sealedEra(state, eraMark) } };
  const changes = isSealed(state) ? undefined : { standing, becomes: sealed, records: [] };
  return { answer: made.info.id, changes };
}

/**
 * Ends a removal. `id`, `last`: the id and the last use of the sealed namespace. Returns whether the namespace is gone. If not, it is
 * called again, because a store may delete one part after the other.
 */
export function* erase(
  { namespace, forget = false }: RemoveRequest,
  { id, last }: { readonly id: string | undefined; readonly last: number },
): Operation<boolean> {
  const { standing } = yield [];
  const { made } = standing;
  // Another operator removed the namespace meanwhile. A later one of the same name is another namespace.
  if (made === undefined || made.info.id !== id) return { answer: true };
  checkSealed(namespace, made.era);
  const remembered = rememberedEra(made.era, last);
  if (remembered !== undefined) {
    return { answer: false, changes: { standing, becomes: { made: { ...made, era: remembered } }, records: [] } };
  }
  const noted = forget ? undefined : removedEra(made.era, eraMark);
  return { answer: false, changes: { standing, becomes: { noted }, records: [] } };
}

/** Whether one of these changes made this namespace. Its id shows it. */
function isMadeBy(sent: readonly StoreChanges[], { info }: NewNamespace): boolean {
  return sent.some(({ becomes }) => becomes?.made?.info.id === info.id);
}

/** @throws SnowleaseError NOT_FOUND */
function existing({ made }: Standing, namespace: string): NewNamespace {
  if (made === undefined) throw noNamespace(namespace);
  return made;
}
