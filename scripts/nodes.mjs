// `npm run test:nodes`: what depends on Node, tested on its other versions, one after the other; `npm run test:nodes -- 22`: on that
// one. The programs come as npm packages, so that nothing but npm's registry is needed. The last line adds up what the tests said.

import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { ensureBuild, ensureDependencies, fail } from "./setup.mjs";

/** The lines that are supported beside the oldest one, on which everything else runs. */
const lines = ["22", "24", "26"];
/** All units, the SQLite of that Node, its HTTP, its processes and signals. What a server or a browser does is the same for each. */
const tests = [
  "test/unit/",
  "test/conformance/daemon",
  "test/conformance/memory",
  "test/conformance/sqlite",
  "test/e2e/cli-ids",
  "test/e2e/exec.test",
];

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
  rows.push({ line, ...(node === undefined ? { passed: 0, failed: 1, why: "could not be had" } : await test(node)) });
}

console.log("\nNode");
for (const { line, version = line, why, passed, failed } of rows)
  console.log(`${version.padEnd(12)}${why ?? (failed === 0 ? `green, ${passed} tests` : `RED, ${failed} failed`)}`);
const sum = (name) => rows.reduce((total, row) => total + row[name], 0);
console.log(`\n${sum("passed")} passed, ${sum("failed")} failed`);
process.exitCode = sum("failed") === 0 ? 0 : 1;

/** The program of a version, or nothing where there is none for this machine. */
function install(line) {
  const name = `node-${process.platform === "win32" ? "win" : process.platform}-${process.arch}`;
  const place = join(folder, line);
  const options = ["--prefix", place, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
  const { status } = spawnSync("npm", ["install", ...options, `${name}@${line}`], { stdio: ["ignore", 2, 2] });
  return status === 0 ? join(place, "node_modules", name, "bin", "node") : undefined;
}

/** Runs the tests on it, and reads their last line. */
async function test(node) {
  const version = spawnSync(node, ["--version"], { encoding: "utf8" }).stdout?.trim();
  console.log(`\n${version}`);
  const env = { ...process.env, PATH: dirname(node) + delimiter + process.env.PATH };
  const child = spawn(node, ["scripts/test.mjs", ...tests], { stdio: ["ignore", "pipe", "inherit"], env });
  let end = "";
  child.stdout.on("data", (chunk) => {
    process.stdout.write(chunk);
    end = (end + chunk).slice(-200);
  });
  const status = await new Promise((resolve) => child.once("close", resolve));
  const [, passed = 0, failed = 1] = /(\d+) passed, (\d+) failed\n$/.exec(end) ?? [];
  return { version, passed: Number(passed), failed: status === 0 ? Number(failed) : Math.max(1, failed) };
}
