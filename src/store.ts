/*
 * The engine of registries, for authors of one: a store says what it has, and takes what is to change; `inOneStep` makes a registry of it.
 * Every decision is made here.
 */
export { type AtomicStep, type AtomicStore, inOneStep } from "./registries/engine/in-one-step.ts";
export type { Part, Replacement, Standing, StoreChanges, StoreView } from "./registries/engine/port.ts";
export type { Stored } from "./rule/window.ts";
