import type { Registry } from "../../src/rule/registry.ts";
import { type FakeClock, memoryRegistry } from "../../src/testing.ts";
import { claimFaults } from "./broken/claims.ts";
import type { Fault } from "./broken/fault.ts";
import { holderFaults } from "./broken/holders.ts";
import { lateFaults } from "./broken/late-writes.ts";
import { lostAnswerFaults } from "./broken/lost-answers.ts";
import { operatorFaults } from "./broken/operators.ts";
import { receiptFaults } from "./broken/receipts.ts";
import { removalFaults } from "./broken/removals.ts";
import { namespaceFaults, viewFaults } from "./broken/views.ts";

export { closing } from "./broken/views.ts";

/** Registries with one mistake each. The contract must reject them. */
export const faults: readonly Fault[] = [
  ...claimFaults,
  ...holderFaults,
  ...operatorFaults,
  ...receiptFaults,
  ...viewFaults,
  ...namespaceFaults,
  ...removalFaults,
  ...lateFaults,
  ...lostAnswerFaults,
];

/** A memory registry with this mistake. */
export function brokenRegistry({ wrap }: Fault, clock: FakeClock): Registry {
  const registry = memoryRegistry({ clock });
  return { ...registry, ...wrap(registry, clock) };
}
