import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { layouts } from "../../src/id/layout.ts";
import { Sandbox } from "../support/cli.ts";
import { fillPool } from "../support/large-pool.ts";

/** SNOWLEASE_ROWS=1000000 takes longer, and tests the same. */
const rows = Number(process.env["SNOWLEASE_ROWS"] ?? 200_000);
const few = 10_000;
/** The allowed growth of memory from a short list to a long one, bytes: to keep all rows would take some 1.5 KB each. */
const mostMore = 60 * 1024 * 1024;

test("workers lists a large pool in the memory of a small one", async () => {
  const sandbox = new Sandbox();
  const report = join(sandbox.work, "report.mjs");
  writeFileSync(
    report,
    `import { writeFileSync } from "node:fs";
     process.on("exit", () => writeFileSync(process.env.REPORT, String(process.resourceUsage().maxRSS * 1024)));`,
  );
  const found: Record<string, number> = {};
  for (const count of [few, rows]) {
    const path = join(sandbox.work, `${count}.db`);
    await fillPool(path, { namespace: "default", layout: layouts.uid, rows: count });
    for (const json of [[], ["--json"]]) {
      const file = join(sandbox.work, "rss");
      const env = { NODE_OPTIONS: `--import=${report}`, REPORT: file };
      const text = await sandbox.read(["workers", "--registry", `sqlite:${path}`, ...json], { env });
      // A heading, or the bracket after the last row.
      expect(text.split("\n").length).toBe(count + (json.length === 0 ? 2 : 1));
      expect(text.includes(`host-${(count - 1) % 5000}`)).toBe(true);
      found[`${count}${json.join("")}`] = Number(readFileSync(file, "utf8"));
    }
  }
  if (process.env["SNOWLEASE_ROWS"] !== undefined) console.table(found);
  for (const json of ["", "--json"]) {
    expect((found[`${rows}${json}`] ?? Infinity) - (found[`${few}${json}`] ?? 0)).toBeLessThan(mostMore);
  }
}, 300_000);
