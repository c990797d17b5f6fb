// Writes into docs/ what the code declares: options, parameters, addresses, layouts, commands and their JSON, calls, errors, exports. It
// also writes the comments of SnowleaseOptions. With --check it writes nothing, and fails if a file differs.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { ensureBuild, ensureDependencies, fail } from "./setup.mjs";

const check = process.argv.includes("--check");

ensureDependencies();
ensureBuild();
const { addressTable, aliasSentence } = await import("./docs/addresses.mjs");
const { commandPages, commandTable } = await import("./docs/cli.mjs");
const { shapesOf } = await import("./docs/cli-json.mjs");
const { errors } = await import("./docs/errors.mjs");
const { exportsOf } = await import("./docs/exports.mjs");
const { calls, description } = await import("./docs/http.mjs");
const { layoutTable } = await import("./docs/layouts.mjs");
const { docstrings } = await import("./docs/docstrings.mjs");
const { options } = await import("./docs/options.mjs");
const { parameterPages } = await import("./docs/parameters.mjs");

await write("src/snowlease.ts", "", docstrings, ["export interface SnowleaseOptions {\n", "\n}\n"]);
await write("docs/options.md", "options", options);
for (const { page, parameters } of parameterPages) await write(page, "parameters", parameters);
await write("docs/registries.md", "addresses", addressTable);
await write("docs/registries.md", "aliases", aliasSentence);
await write("docs/layouts.md", "layouts", layoutTable);
await write("docs/errors.md", "errors", errors);
await write("docs/cli.md", "commands", commandTable);
await write("docs/cli.md", "help", commandPages);
await write("docs/cli-json.md", "shapes", async () => shapesOf(await description()));
await write("docs/http.md", "calls", calls);
await write("docs/exports.md", "exports", () => exportsOf("src/index.ts"));
await write("docs/exports.md", "testing", () => exportsOf("src/testing.ts"));
await write("docs/exports.md", "store", () => exportsOf("src/store.ts"));
await write("docs/exports.md", "conformance", () => exportsOf("src/conformance.ts"));
writeWhole("docs/openapi.json", `${JSON.stringify(await description(), null, 2)}\n`);

/**
 * Writes the part of a file between two markers. In a page, these are `<!-- name:begin -->` and `<!-- name:end -->`.
 * @param make gets the present part.
 */
async function write(file, name, make, [begin, end] = [`<!-- ${name}:begin -->\n`, `\n<!-- ${name}:end -->`]) {
  if (!existsSync(file)) fail(`${file} is missing: write the page, with ${begin.trim()} and ${end.trim()}`);
  const now = readFileSync(file, "utf8");
  const [before, rest = "", ...more] = now.split(begin);
  const [inside] = rest.split(end, 1);
  if (rest.length === inside.length || more.length > 0)
    fail(`${file} needs one ${begin.trim()} and, behind it, one ${end.trim()}`);
  const written = `${before}${begin}${await make(inside)}${rest.slice(inside.length)}`;
  if (written === now) return;
  if (check) fail(`${file} differs from the code under ${begin.trim()}; run: node scripts/docs.mjs`);
  writeFileSync(file, written);
}

function writeWhole(file, text) {
  if (existsSync(file) && readFileSync(file, "utf8") === text) return;
  if (check) fail(`${file} differs from the code; run: node scripts/docs.mjs`);
  writeFileSync(file, text);
}
