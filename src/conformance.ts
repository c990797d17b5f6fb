/*
 * The registry contract as data. An author of a registry proves it with:
 *
 *     for (const check of conformance) {
 *       test(check.title, () => check.run({ namespace: newName(), open: () => myRegistry(), pause: sleep, now: Date.now }));
 *     }
 */
export type { ConformanceCheck } from "./conformance/check.ts";
export { conformance, runCheck, runConformance, type ConformanceResult } from "./conformance/run.ts";
export type { Capability, ConformanceSubject, LateStore, LossyStore } from "./conformance/subject.ts";
