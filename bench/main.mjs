// `npm run bench`, or only sections of it: `npm run bench -- generator peers`. What things cost, beside their yardsticks; with
// `--page FILE` as a page of Markdown, too. No figure here passes or fails. The columns that matter are ratios within one interleaved
// run on one machine.

import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { cpus, loadavg, release, totalmem } from "node:os";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { printedPage, printHeading, printLine } from "./table.mjs";

const sections = [
  "generator",
  "sustained",
  "shared",
  "peers",
  "repeats",
  "claims",
  "sql",
  "redis",
  "zookeeper",
  "etcd",
  "kubernetes",
  "daemon",
  "resp",
  "clients",
  "boot",
  "attacks",
  "fleet",
];
const { values, positionals: asked } = parseArgs({ options: { page: { type: "string" } }, allowPositionals: true });
const unknown = asked.find((name) => !sections.includes(name));
if (unknown !== undefined) {
  console.error(`Expected a section of the bench (${sections.join(", ")}), got \`${unknown}\`.`);
  process.exit(2);
}

const folder = fileURLToPath(new URL("peers/", import.meta.url));
installPeers();
const { dependencies: peers } = JSON.parse(readFileSync(`${folder}package.json`, "utf8"));

const [cpu, ...others] = cpus();
const cores = `${others.length + 1} cores, ${Math.round(totalmem() / 2 ** 30)} GiB`;
printLine(
  `${new Date().toISOString().slice(0, 10)}; ${cpu?.model.trim()}, ${cores}; ${process.platform} ${release()} ${process.arch}`,
);
printLine(`node ${process.versions.node}, v8 ${process.versions.v8}`);
printLine(
  Object.entries(peers)
    .map(([name, version]) => `${name} ${version}`)
    .join(", "),
);
for (const name of asked.length > 0 ? asked : sections) {
  const { run } = await import(`./${name}.mjs`);
  printHeading(name, `load of the machine before it: ${loadavg()[0].toFixed(1)}`);
  await run();
  // After each, so that a run which is broken off leaves what it had.
  if (values.page !== undefined) writeFileSync(values.page, `${heading()}\n\n${printedPage()}`);
}

function heading() {
  const command = ["npm run bench --", ...asked, "--page", values.page].join(" ");
  return `# Figures

For evaluators: what things cost on one machine, beside their yardsticks. \`${command}\` wrote this page. Each ratio is the median of the ratios
in the rounds of an interleaved run. The times depend on the machine. [Performance](performance.md) explains the figures.`;
}

/** What the bench compares with is installed by the bench alone, when it is not there or not as its lock file says. */
function installPeers() {
  const [wanted, present] = [`${folder}package-lock.json`, `${folder}node_modules/.package-lock.json`];
  if (existsSync(present) && statSync(present).mtimeMs >= statSync(wanted).mtimeMs) return;
  console.error("snowlease: installing what the bench compares with (npm ci in bench/peers)");
  const { status } = spawnSync("npm", ["ci", "--ignore-scripts"], { cwd: folder, stdio: ["ignore", 2, 2] });
  if (status !== 0) process.exit(status ?? 1);
}
