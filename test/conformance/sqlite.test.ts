import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { sqliteRegistry } from "../../src/registries/sqlite/registry.ts";
import { runConformance } from "../support/run-conformance.ts";

runConformance("sqlite", async () => {
  const folder = mkdtempSync(join(tmpdir(), "snowlease-"));
  const path = join(folder, "registry.db");
  return {
    namespace: "orders",
    open: () => sqliteRegistry({ path, operationTimeout: 5000 }),
    pause: sleep,
    now: Date.now,
    close: async () => rmSync(folder, { recursive: true }),
  };
});
