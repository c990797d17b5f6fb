// `npm run bench`, or `npm run bench -- generator|shared|peers|claims|sql|redis|zookeeper|daemon`: what things cost, beside their yardsticks.
// No figure here passes or fails. The columns that matter are ratios within one interleaved run on one machine.

import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, statSync } from "node:fs";
import { cpus, release } from "node:os";
import { fileURLToPath } from "node:url";

const sections = ["generator", "shared", "peers", "claims", "sql", "redis", "zookeeper", "daemon"];
const asked = process.argv.slice(2);
const unknown = asked.find((name) => !sections.includes(name));
if (unknown !== undefined) {
  console.error(`Expected a section of the bench (${sections.join(", ")}), got \`${unknown}\`.`);
  process.exit(2);
}

const folder = fileURLToPath(new URL("peers/", import.meta.url));
installPeers();
const { dependencies: peers } = JSON.parse(readFileSync(`${folder}package.json`, "utf8"));

const [cpu, ...others] = cpus();
console.log(`${cpu?.model.trim()}, ${others.length + 1} cores; ${process.platform} ${release()} ${process.arch}`);
console.log(`node ${process.versions.node}, v8 ${process.versions.v8}`);
const named = Object.entries(peers).map(([name, version]) => `${name} ${version}`);
console.log(named.join(", "));

for (const name of asked.length > 0 ? asked : sections) {
  const { run } = await import(`./${name}.mjs`);
  await run();
}

/** What the bench compares with is installed by the bench alone, when it is not there or not as its lock file says. */
function installPeers() {
  const [wanted, present] = [`${folder}package-lock.json`, `${folder}node_modules/.package-lock.json`];
  if (existsSync(present) && statSync(present).mtimeMs >= statSync(wanted).mtimeMs) return;
  console.error("snowlease: installing what the bench compares with (npm ci in bench/peers)");
  const { status } = spawnSync("npm", ["ci", "--ignore-scripts"], { cwd: folder, stdio: ["ignore", 2, 2] });
  if (status !== 0) process.exit(status ?? 1);
}
