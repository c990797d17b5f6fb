export { memoryRegistry } from "./registries/memory/registry.ts";
export { expectNoDuplicates, type MadeId } from "./testing/duplicates.ts";
export { type FakeClock, fakeClock } from "./testing/fake-clock.ts";
export { type Holder, type HolderOptions, type IdSource, type LifeReport, startHolder } from "./testing/holder.ts";
export { type Losses, lossyRegistry, type RegistryCall } from "./testing/lossy-registry.ts";
export {
  type CaseReport,
  restartMatrix,
  type RestartMatrixOptions,
  type RestartReport,
} from "./testing/restart-matrix.ts";
