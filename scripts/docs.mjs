// Writes into docs/ what is told elsewhere already: options, layouts, commands, calls, errors, exports. With --check it writes
// nothing, and fails when a page says something else.

import { readFileSync, writeFileSync } from "node:fs";
import { ensureBuild, ensureDependencies, fail } from "./setup.mjs";

const check = process.argv.includes("--check");

ensureDependencies();
ensureBuild();
const { commandPages, commandTable } = await import("./docs/cli.mjs");
const { errors } = await import("./docs/errors.mjs");
const { exportsOf } = await import("./docs/exports.mjs");
const { calls } = await import("./docs/http.mjs");
const { layoutTable } = await import("./docs/layouts.mjs");
const { options } = await import("./docs/options.mjs");

await write("docs/options.md", "options", options);
await write("docs/layouts.md", "layouts", layoutTable);
await write("docs/errors.md", "errors", errors);
await write("docs/cli.md", "commands", commandTable);
await write("docs/cli.md", "help", commandPages);
await write("docs/http.md", "calls", calls);
await write("docs/exports.md", "exports", () => exportsOf("src/index.ts"));
await write("docs/exports.md", "testing", () => exportsOf("src/testing.ts"));
await write("docs/exports.md", "rule", () => exportsOf("src/rule/index.ts"));
await write("docs/exports.md", "conformance", () => exportsOf("src/conformance.ts"));

/**
 * Writes what stands between `<!-- name:begin -->` and `<!-- name:end -->` of a page.
 * @param make gets what stands there now.
 */
async function write(page, name, make) {
  const now = readFileSync(page, "utf8");
  const [begin, end] = [`<!-- ${name}:begin -->\n`, `\n<!-- ${name}:end -->`];
  const [before, rest = "", ...more] = now.split(begin);
  const [inside, after] = rest.split(end);
  if (after === undefined || more.length > 0)
    fail(`${page} needs one ${begin.trim()} and, behind it, one ${end.trim()}`);
  const written = `${before}${begin}${await make(inside)}${end}${after}`;
  if (written === now) return;
  if (check) fail(`what ${page} says under ${begin.trim()} is not what the code says; run: node scripts/docs.mjs`);
  writeFileSync(page, written);
}
