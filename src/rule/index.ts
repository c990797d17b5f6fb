/*
 * The rule as functions, for authors of registries: a stored record and a request go in, the record to store and the answer come
 * out. They read no clock and keep no state, so they can run inside the atomic step of any store.
 */
export { decideClaim, type Decision, type PoolView } from "./pool.ts";
export { checkNew } from "./namespace.ts";
export { checkPin, pinnedRecord, unpinnedRecord, unusedRecord } from "./pin.ts";
export {
  checkClaim,
  forced,
  forceRefusal,
  noNamespace,
  released,
  renewed,
  shownRecord,
  stateOf,
  type Stored,
} from "./window.ts";
export { checkLayout, checkLimits, checkSkew, checkWindow, defaultLimits } from "./limits.ts";
