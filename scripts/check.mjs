// Runs all `check:*` scripts of package.json at the same time, and shows the output of those that fail.

import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { ensureBuild, ensureDependencies, root } from "./setup.mjs";

ensureDependencies();
// Lint reads the declarations of the package, through the examples. A build must not write them while lint runs.
ensureBuild();

const { scripts } = JSON.parse(readFileSync("package.json", "utf8"));
const later = new Set(["check:package", ...(existsSync("scripts/docs.mjs") ? [] : ["check:docs"])]);
const checks = Object.keys(scripts).filter((name) => name.startsWith("check:") && !later.has(name));
// Without npm, which would take longer to start than most of the checks take to run.
const env = { ...process.env, PATH: join(root, "node_modules/.bin") + delimiter + process.env.PATH };

function run(name) {
  return new Promise((resolve) => {
    const child = spawn(scripts[name], { shell: true, env, stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
    child.on("close", (status) => {
      console.log(`${status === 0 ? "ok    " : "FAILED"} ${name}`);
      resolve({ name, status, output });
    });
  });
}

const failed = (await Promise.all(checks.map(run))).filter(({ status }) => status !== 0);
for (const { name, output } of failed) console.error(`\n${name}\n\n${output.trim()}`);
process.exitCode = failed.length > 0 ? 1 : 0;
