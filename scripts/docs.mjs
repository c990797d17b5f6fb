// Writes the tables of docs/ from what they tell of: the schema of the options, the layouts. With --check it writes nothing, and fails
// when a page says something else.

import { readFileSync, writeFileSync } from "node:fs";
import { ensureBuild, ensureDependencies, fail } from "./setup.mjs";

const check = process.argv.includes("--check");

ensureDependencies();
ensureBuild();
const { optionTable } = await import("../dist/config.js");
const { layouts } = await import("../dist/core/layout.js");

/** What is written, and from what. */
const parts = [
  { page: "docs/options.md", name: "options", source: "src/options.ts", text: () => table(optionRows()) },
  { page: "docs/layouts.md", name: "layouts", source: "src/core/notation.ts", text: () => table(layoutRows()) },
];

for (const part of parts) update(part);

function update({ page, name, source, text }) {
  const now = readFileSync(page, "utf8");
  const [begin, end] = [`<!-- ${name}:begin -->`, `<!-- ${name}:end -->`];
  const [before, rest = "", ...more] = now.split(begin);
  const [, after] = rest.split(end);
  if (after === undefined || more.length > 0) fail(`${page} needs one ${begin} and, behind it, one ${end}`);
  const written = `${before}${begin}\n${text()}\n${end}${after}`;
  if (written === now) return;
  if (check) fail(`what ${page} says is not what ${source} says; run: node scripts/docs.mjs`);
  writeFileSync(page, written);
}

function table([header, ...others]) {
  return [header, header.map(() => "---"), ...others]
    .map((cells) => `| ${cells.map((cell) => String(cell).replaceAll("|", "\\|")).join(" | ")} |`)
    .join("\n");
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
