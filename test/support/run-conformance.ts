import { describe, test } from "vitest";
import { conformance, runCheck, type ConformanceSubject } from "../../src/conformance.ts";

/** Runs the whole registry contract as tests, each on a subject of its own. */
export function runConformance(name: string, makeSubject: () => Promise<ConformanceSubject>): void {
  describe(`${name} keeps the registry contract`, () => {
    for (const check of conformance) {
      test(check.title, async ({ skip }) => {
        const result = await runCheck(check, makeSubject);
        if (result.outcome === "skipped") skip(result.reason);
        if (result.outcome === "failed") throw result.error;
      });
    }
  });
}
