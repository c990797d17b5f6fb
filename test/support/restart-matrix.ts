import { describe, test } from "vitest";
import { restarts, runRestart } from "../../src/conformance.ts";
import { namespace as ownNamespace, type Subject } from "./subject.ts";

/** The whole restart matrix as tests, each on a subject of its own. */
export function restartMatrix(name: string, start: () => Promise<Subject>): void {
  describe(`restarts on ${name}`, () => {
    for (const each of restarts) {
      test(each.title, async ({ skip }) => {
        const result = await runRestart(each, async () => {
          const { namespace = ownNamespace, stop, ...subject } = await start();
          return { ...subject, namespace, usesHostClock: subject.url.startsWith("sqlite:"), close: stop };
        });
        if (result.outcome === "skipped") skip(result.reason);
        if (result.outcome === "failed") throw result.error;
      });
    }
  });
}
