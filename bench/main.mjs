// `npm run bench`, or `node bench/main.mjs generator|claims|redis|zookeeper|daemon` on a build: what things cost, beside their yardsticks.
// No figure here passes or fails. The columns that matter are ratios within one interleaved run on one machine.

import { readFileSync } from "node:fs";
import { cpus, release } from "node:os";

const sections = ["generator", "claims", "redis", "zookeeper", "daemon"];
const asked = process.argv.slice(2);
const unknown = asked.find((name) => !sections.includes(name));
if (unknown !== undefined) {
  console.error(`Expected a section of the bench (${sections.join(", ")}), got \`${unknown}\`.`);
  process.exit(2);
}

const [cpu, ...others] = cpus();
const peers = ["@sapphire/snowflake", "nodejs-snowflake", "flake-idgen", "uuid"];
console.log(`${cpu?.model.trim()}, ${others.length + 1} cores; ${process.platform} ${release()} ${process.arch}`);
console.log(`node ${process.versions.node}, v8 ${process.versions.v8}`);
console.log(peers.map((name) => `${name} ${versionOf(name)}`).join(", "));

for (const name of asked.length > 0 ? asked : sections) {
  const { run } = await import(`./${name}.mjs`);
  await run();
}

function versionOf(name) {
  return JSON.parse(readFileSync(new URL(`../node_modules/${name}/package.json`, import.meta.url), "utf8")).version;
}
