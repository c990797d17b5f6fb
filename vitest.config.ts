import { defineConfig } from "vitest/config";

const seconds = 1000;

/** What each kind of test may take; a slow test is a finding, so there are no retries. */
const timeouts = {
  unit: 20 * seconds,
  conformance: 60 * seconds,
  simulation: 120 * seconds,
  faults: 60 * seconds,
  e2e: 60 * seconds,
  prove: 300 * seconds,
};

export default defineConfig({
  test: {
    projects: Object.entries(timeouts).map(([name, timeout]) => ({
      test: {
        name,
        include: [`test/${name}/**/*.test.ts`],
        testTimeout: timeout,
        hookTimeout: timeout,
        // Most tests wait: for a server, the end of a window, a timeout.
        maxWorkers: 4,
        // Runs under fire, each of which is a dozen busy processes: so many at a time, and no other test beside them.
        maxConcurrency: 4,
        sequence: { groupOrder: name === "prove" ? 1 : 0 },
      },
    })),
  },
});
