// Writes what the README says about options, from the one table that also makes validation and --help. With --check it
// writes nothing, and fails when the README says something else.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { ensureBuild, ensureDependencies, fail } from "./setup.mjs";

const [begin, end] = ["<!-- options:begin -->", "<!-- options:end -->"];
const readme = "README.md";
const check = process.argv.includes("--check");

ensureDependencies();
ensureBuild();
const { optionTable } = await import("../dist/config.js");

if (existsSync(readme)) update(readFileSync(readme, "utf8"));
else if (!check) fail(`there is no ${readme} to write the options table into; write one with ${begin} and ${end}`);

function update(text) {
  const [before, rest = "", ...more] = text.split(begin);
  const [present, after] = rest.split(end);
  if (after === undefined || more.length > 0) fail(`${readme} needs one ${begin} and, behind it, one ${end}`);
  const table = `\n${markdown()}\n`;
  if (present === table) return;
  if (check) fail(`the options table of ${readme} is not that of src/options.ts; run: node scripts/docs.mjs`);
  writeFileSync(readme, `${before}${begin}${table}${end}${after}`);
}

function markdown() {
  const rows = optionTable.map(({ name, flag, env, scopes, default: byDefault, description }) => [
    `\`${name}\``,
    flag === undefined ? "" : `\`${flag}\` \`${env}\``,
    scopes.includes("url") ? "yes" : "",
    byDefault,
    description,
  ]);
  const header = ["option", "flag, environment", "in a URL", "default", "meaning"];
  return [header, header.map(() => "---"), ...rows]
    .map((cells) => `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`)
    .join("\n");
}
