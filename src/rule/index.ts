/*
 * The rule as functions, for whoever writes a registry: a stored record and a request go in, the record to store and the answer come
 * out. They read no clock and keep no state, so that they can run inside of any store's atomic step.
 */
export { decideClaim, type Decision, type PoolView } from "./pool.ts";
export { checkNew } from "./namespace.ts";
export { checkPin, pinnedRecord, unpinnedRecord, unusedRecord } from "./pin.ts";
export { defaultLimits } from "./registry.ts";
export {
  checkClaim,
  checkLayout,
  checkLimits,
  checkSkew,
  checkWindow,
  forced,
  forceRefusal,
  noNamespace,
  released,
  renewed,
  shownRecord,
  stateOf,
  type Stored,
} from "./window.ts";
