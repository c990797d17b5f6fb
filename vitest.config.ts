import { defineConfig } from "vitest/config";

/** For a test that hangs, ms. Else what a test waits for decides how long it takes. */
const timeout = 300_000;

/**
 * Nearly every test makes a registry file, and many have short windows: nobody would find anything among these warnings. Programs that tests
 * start keep them. Bun and Deno do not know the flag.
 */
const isNode = process.versions["bun"] === undefined && process.versions["deno"] === undefined;

export default defineConfig({
  test: {
    projects: ["unit", "conformance", "simulation", "faults", "e2e", "crowds"].map((name) => {
      // Dozens of processes that are busy at once: one such file at a time, and nothing beside it.
      const isAlone = name === "crowds";
      return {
        test: {
          name,
          include: [`test/${name}/**/*.test.ts`],
          testTimeout: timeout,
          hookTimeout: timeout,
          execArgv: isNode ? ["NEW_REGISTRY", "SHORT_WINDOW"].map((code) => `--disable-warning=SNOWLEASE_${code}`) : [],
          expect: { poll: { timeout: timeout - 30_000 } },
          // Most tests wait: for a server, the end of a window, a timeout.
          maxWorkers: isAlone ? 1 : 4,
          maxConcurrency: 4,
          sequence: { groupOrder: isAlone ? 1 : 0 },
        },
      };
    }),
  },
});
