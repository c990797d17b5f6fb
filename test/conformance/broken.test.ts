import { describe, expect, test } from "vitest";
import { conformance, type ConformanceSubject, runConformance } from "../../src/conformance.ts";
import { fakeClock } from "../../src/testing.ts";
import { brokenRegistry, closing, faults } from "../support/broken-registries.ts";

const titles = conformance.map(({ title }) => title);

describe("the registry contract", () => {
  test("has a title for each check", () => {
    expect(new Set(titles).size).toBe(titles.length);
  });

  test("has no check that nothing fails", () => {
    const named = new Set(faults.flatMap(({ rejectedBy }) => rejectedBy));
    expect(titles.filter((title) => !named.has(title))).toEqual([]);
  });

  for (const fault of faults) {
    test(`rejects a registry that ${fault.fault}`, async () => {
      const makeSubject = async (): Promise<ConformanceSubject> => {
        const clock = fakeClock();
        const registry = brokenRegistry(fault, clock);
        const lacks = fault === closing ? undefined : { connections: "All clients are one object." };
        const { late, lossy } = fault;
        return {
          namespace: "orders",
          open: async () => registry,
          pause: clock.advance,
          now: clock.now,
          lacks,
          ...(late && { late: async () => late(registry) }),
          ...(lossy && { lossy: async () => lossy(registry) }),
        };
      };
      const failed: string[] = [];
      for await (const { title, outcome } of runConformance(makeSubject)) if (outcome === "failed") failed.push(title);
      expect(failed).toEqual(expect.arrayContaining([...fault.rejectedBy]));
      // A registry with one mistake passes most checks: if all failed together, they would not show which mistake it is.
      expect(failed.length).toBeLessThan((titles.length * 2) / 3);
    });
  }
});
