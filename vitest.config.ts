import { defineConfig } from "vitest/config";

const seconds = 1000;

/** What each kind of test may take on a busy machine; a slow test is a finding, so there are no retries. */
const timeouts = {
  unit: 60 * seconds,
  conformance: 120 * seconds,
  simulation: 300 * seconds,
  faults: 300 * seconds,
  e2e: 300 * seconds,
  crowds: 600 * seconds,
};

export default defineConfig({
  test: {
    projects: Object.entries(timeouts).map(([name, timeout]) => {
      // Dozens of processes that are busy at once: one such file at a time, and nothing beside it.
      const isAlone = name === "crowds";
      return {
        test: {
          name,
          include: [`test/${name}/**/*.test.ts`],
          testTimeout: timeout,
          hookTimeout: timeout,
          // Most tests wait: for a server, the end of a window, a timeout.
          maxWorkers: isAlone ? 1 : 4,
          maxConcurrency: 4,
          sequence: { groupOrder: isAlone ? 1 : 0 },
          // Units leave nothing behind: one process runs many files, and loads what they share once.
          isolate: name !== "unit",
        },
      };
    }),
  },
});
