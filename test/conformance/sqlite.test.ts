import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sqliteRegistry } from "../../src/registries/sqlite/registry.ts";
import { fakeClock } from "../../src/testing.ts";
import { patience } from "../support/patience.ts";
import { runConformance } from "../support/run-conformance.ts";

runConformance("sqlite", async () => {
  const folder = mkdtempSync(join(tmpdir(), "snowlease-"));
  const path = join(folder, "registry.db");
  const clock = fakeClock();
  return {
    namespace: "orders",
    open: () => sqliteRegistry({ path, operationTimeout: patience, clock }),
    pause: clock.advance,
    now: clock.now,
    close: async () => rmSync(folder, { recursive: true }),
  };
});
