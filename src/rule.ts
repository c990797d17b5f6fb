/*
 * The rule as functions, for whoever writes a registry: a stored record and a request go in, the record to store and the answer come
 * out. They read no clock and keep no state, so that they can run inside of any store's atomic step.
 */
export { decideClaim, type Decision, type PoolView } from "./core/pool.ts";
export { defaultLimits } from "./core/registry.ts";
export {
  checkClaim,
  checkLayout,
  checkLimits,
  checkOwner,
  checkPin,
  checkSkew,
  checkWindow,
  forced,
  forceRefusal,
  noNamespace,
  pinnedRecord,
  released,
  renewed,
  shownRecord,
  stateOf,
  type Stored,
  unpinnedRecord,
  unusedRecord,
} from "./core/window.ts";
