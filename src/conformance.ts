/*
 * The registry contract, the restart matrix and a nemesis of holders, as data. An author of a registry proves it with:
 *
 *     for (const check of conformance) {
 *       test(check.title, () => check.run({ namespace: newName(), open: () => myRegistry(), pause: sleep, now: Date.now }));
 *     }
 */
export type { ConformanceCheck } from "./conformance/check.ts";
export { conformance, runCheck, runConformance, type ConformanceResult } from "./conformance/run.ts";
export type { Capability, ConformanceSubject } from "./conformance/subject.ts";
export { type RestartCase, restarts } from "./proof/restarts.ts";
export { nemesis, type NemesisOptions, type NemesisReport } from "./proof/nemesis.ts";
export { runRestart } from "./proof/run-restarts.ts";
export type { ProofSubject } from "./proof/subject.ts";
