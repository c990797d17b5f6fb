// Holds the registry against the contract: `npx tsx examples/own-registry/prove.ts`.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type ConformanceSubject, runConformance } from "snowlease/conformance";
import { documentRegistry } from "./document-registry.ts";
import { fileDocument } from "./file-document.ts";

/** A store of its own for each check; `open` gives another client of the same one. */
async function subject(): Promise<ConformanceSubject> {
  const folder = await mkdtemp(join(tmpdir(), "own-registry-"));
  return {
    namespace: "orders",
    open: async () => documentRegistry(fileDocument(folder)),
    pause: sleep,
    now: Date.now,
    // A version comes again in an older copy of the document: stop all holders before one is put back.
    lacks: { "late-writes": "the versions of the document are counted" },
    // A check that failed may have writes under way.
    close: () => rm(folder, { recursive: true, maxRetries: 10 }),
  };
}

const count = { passed: 0, skipped: 0, failed: 0 };
for await (const result of runConformance(subject)) {
  count[result.outcome] += 1;
  if (result.outcome === "skipped") console.log(`skipped: ${result.title}: ${result.reason}`);
  if (result.outcome === "failed") console.log(`FAILED: ${result.title}: ${String(result.error)}`);
}
console.log(count);
process.exitCode = count.failed === 0 ? 0 : 1;
