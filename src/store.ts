/*
 * The engine of registries, for authors of a store. A store returns what it has, and writes what has to change. `inOneStep` makes a
 * registry of it. The engine makes every decision.
 */
export { type AtomicStep, type AtomicStore, inOneStep } from "./registries/engine/in-one-step.ts";
export type { Part, Replacement, Standing, StoreChanges, StoreView } from "./registries/engine/port.ts";
export type { Stored } from "./rule/window.ts";
