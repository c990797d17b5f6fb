/*
 * The rule as functions, for authors of registries: what is stored and a request go in, what to store and the answer come out. They
 * read no clock and keep no state, so they can run inside the atomic step of any store.
 */
export { checkLayout, checkLimits } from "./limits.ts";
export { type Era, type NamespaceState, openedEra } from "./era.ts";
export { checkNew, checkUnnoted } from "./namespace.ts";
export { eraMark, newNamespace, type NewNamespace, separated } from "./new-namespace.ts";
export { storedToken } from "./token.ts";
export { removedInOneStep } from "./removal.ts";
export { admitClaim, decideRelease, decideRenewal, type Verdict } from "./verdict.ts";
export { decideClaim, type PoolView } from "./pool.ts";
export { decideUnknownRelease, decideUnknownRenewal, type UnknownNamespace } from "./unknown-namespace.ts";
export { answerOrError, checkEra, infoOf } from "./quarantine.ts";
export { checkPin, pinnedRecord, unpinnedRecord, unusedRecord } from "./pin.ts";
export { forced, forceRefusal, noNamespace, shownRecord, stateOf, type Stored } from "./window.ts";
