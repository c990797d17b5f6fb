// `npm run test:nodes`: the tests on other versions of Node, one after the other; `npm run test:nodes -- 22`: on that one. The
// programs come as npm packages, so that nothing but npm's registry is needed. Each makes a table's row, and a red one fails.

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { ensureBuild, ensureDependencies, fail } from "./setup.mjs";

/** The lines that are supported beside the oldest one, on which everything else runs. */
const lines = ["22", "24", "26"];
/** Fault tests look at servers and clocks, which are the same on every version. */
const projects = ["unit", "conformance", "e2e"];

const asked = process.argv.slice(2);
for (const line of asked)
  if (!/^\d+(\.\d+){0,2}$/.test(line)) fail(`Expected versions such as 22 or 24.1.0, got \`${line}\``, 2);

ensureDependencies();
ensureBuild();
const folder = mkdtempSync(join(tmpdir(), "snowlease-nodes-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

const rows = [];
for (const line of asked.length > 0 ? asked : lines) {
  const node = install(line);
  rows.push(node === undefined ? { line, said: "could not be had" } : { line, ...test(node) });
}
console.log("\nNode");
for (const { line, version = line, said } of rows) console.log(`${version.padEnd(12)}${said}`);
process.exitCode = rows.every(({ passed }) => passed) ? 0 : 1;

/** The program of a version, or nothing where there is none for this machine. */
function install(line) {
  const name = `node-${process.platform === "win32" ? "win" : process.platform}-${process.arch}`;
  const place = join(folder, line);
  const options = ["--prefix", place, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
  const { status } = spawnSync("npm", ["install", ...options, `${name}@${line}`], { stdio: ["ignore", 2, 2] });
  return status === 0 ? join(place, "node_modules", name, "bin", "node") : undefined;
}

function test(node) {
  const version = spawnSync(node, ["--version"], { encoding: "utf8" }).stdout?.trim();
  console.log(`\n${version}: ${projects.join(", ")}`);
  const env = { ...process.env, PATH: dirname(node) + delimiter + process.env.PATH };
  const args = projects.map((name) => `--project=${name}`);
  const { status } = spawnSync(node, ["scripts/test.mjs", ...args], { stdio: "inherit", env });
  return { version, passed: status === 0, said: status === 0 ? "green" : "RED" };
}
