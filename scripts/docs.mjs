// Writes what the README says about options and layouts, from the tables that also make validation, --help and the presets. With
// --check it writes nothing, and fails when the README says something else.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { ensureBuild, ensureDependencies, fail } from "./setup.mjs";

const readme = "README.md";
const check = process.argv.includes("--check");

ensureDependencies();
ensureBuild();
const { optionTable } = await import("../dist/config.js");
const { layouts } = await import("../dist/core/layout.js");

if (existsSync(readme)) update(readFileSync(readme, "utf8"));
else if (!check) fail(`there is no ${readme} to write tables into`);

function update(text) {
  const written = insert(insert(text, "options", optionRows()), "layouts", layoutRows());
  if (written === text) return;
  if (check)
    fail(`a table of ${readme} is not that of src/options.ts or src/core/notation.ts; run: node scripts/docs.mjs`);
  writeFileSync(readme, written);
}

/** The text with this table between `<!-- name:begin -->` and `<!-- name:end -->`. */
function insert(text, name, rows) {
  const [begin, end] = [`<!-- ${name}:begin -->`, `<!-- ${name}:end -->`];
  const [before, rest = "", ...more] = text.split(begin);
  const [, after] = rest.split(end);
  if (after === undefined || more.length > 0) fail(`${readme} needs one ${begin} and, behind it, one ${end}`);
  const [header, ...others] = rows;
  const table = [header, header.map(() => "---"), ...others]
    .map((cells) => `| ${cells.map((cell) => String(cell).replaceAll("|", "\\|")).join(" | ")} |`)
    .join("\n");
  return `${before}${begin}\n${table}\n${end}${after}`;
}

function optionRows() {
  const rows = optionTable.map(({ name, flag, env, scopes, default: byDefault, description }) => [
    `\`${name}\``,
    flag === undefined ? "" : `\`${flag}\` \`${env}\``,
    scopes.includes("url") ? "yes" : "",
    byDefault,
    description,
  ]);
  return [["option", "flag, environment", "in a URL", "default", "meaning"], ...rows];
}

function layoutRows() {
  const rows = Object.entries(layouts).map(([name, { fields, tick, epoch, pool, maxSequence, wrap, endOfLife }]) => [
    `\`${name}\``,
    fields.map((field) => `${field.bits} ${field.name}`).join(", "),
    tick < 1000 ? `${tick} ms` : `${tick / 1000} s`,
    pool.last + 1,
    maxSequence + 1,
    new Date(epoch).toISOString().replace(".000Z", "Z"),
    wrap === undefined
      ? new Date(endOfLife).toISOString().slice(0, 10)
      : `starts again every ${(wrap / 60_000).toFixed(2)} min`,
  ]);
  return [["layout", "bits from the top", "tick", "worker IDs", "IDs a tick", "epoch", "ends"], ...rows];
}
