// Kills, stops and restarts processes that lease from the registry, sets their clocks back, and compares all IDs that they make:
// `npx tsx examples/own-registry/prove-restarts.ts`.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { layouts } from "snowlease";
import {
  nemesis,
  type NemesisOptions,
  type NemesisReport,
  type ProofSubject,
  type RestartCase,
  restarts,
  runRestart,
} from "snowlease/conformance";
import { documentRegistry } from "./document-registry.ts";
import { fileDocument } from "./file-document.ts";

/** A namespace in a store of its own, and how a process finds it. */
async function subject(): Promise<ProofSubject> {
  const folder = await mkdtemp(join(tmpdir(), "own-registry-"));
  const registry = documentRegistry(fileDocument(folder));
  await registry.init({ namespace: "orders", layout: layouts.westid.fingerprint, maxWindow: 5000 });
  return {
    url: new URL("file-registry.ts", import.meta.url).href,
    namespace: "orders",
    registry,
    environment: { DOCUMENT_FOLDER: folder, NODE_OPTIONS: `--import ${import.meta.resolve("tsx")}` },
    // A folder has no clock of its own, so nothing tells it that a process's clock is ahead.
    usesHostClock: true,
    noticesClock: false,
    // Nor has it a server, which `restart` would end and start again.
    close: () => rm(folder, { recursive: true, maxRetries: 10 }),
  };
}

/** In a test runner: for (const each of restarts) test(each.title, () => proved(each)). */
async function proved(each: RestartCase): Promise<boolean> {
  const result = await runRestart(each, subject);
  const why = result.outcome === "failed" ? String(result.error) : result.outcome === "skipped" ? result.reason : "";
  console.log(`${result.outcome}: ${each.title}${why && `: ${why}`}`);
  return result.outcome !== "failed";
}

/** At random, and again with the same seed. */
async function struck(options: NemesisOptions): Promise<boolean> {
  const made = await subject();
  const report: NemesisReport = await nemesis(made, options);
  await made.close?.();
  console.log(report);
  return report.flaws.length === 0;
}

const outcomes: boolean[] = [];
for (const each of restarts) outcomes.push(await proved(each));
outcomes.push(await struck({ minutes: 0.2, seed: 1 }));
process.exitCode = outcomes.includes(false) ? 1 : 0;
