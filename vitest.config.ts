import { defineConfig } from "vitest/config";

const seconds = 1000;

/** What each kind of test may take; a slow test is a finding, so there are no retries. */
const timeouts = {
  unit: 20 * seconds,
  conformance: 60 * seconds,
  simulation: 120 * seconds,
  faults: 60 * seconds,
  e2e: 60 * seconds,
};

export default defineConfig({
  test: {
    projects: Object.entries(timeouts).map(([name, timeout]) => ({
      test: {
        name,
        include: [`test/${name}/**/*.test.ts`],
        testTimeout: timeout,
        hookTimeout: timeout,
        // Real servers and windows of a second want the machine for themselves.
        maxWorkers: name === "faults" ? 1 : 2,
        sequence: { groupOrder: name === "faults" ? 1 : 0 },
      },
    })),
  },
});
