// `npm run test:all`: the gate, then every other test file, the platforms, all models and a long simulation. A failed test runs a second
// time, alone. Only tests that fail twice are red. A run that was interrupted continues, unless a file has changed since. `-- --again`
// starts from the beginning. `-- --share 2/8` takes the second of eight parts of the tests outside the gate. With `--minutes 5` it starts
// nothing after five minutes.

import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { filesIn, hashOf } from "./files.mjs";
import { gate, rest } from "./gate.mjs";
import { prepareKubernetesApi } from "./kubernetes-api.mjs";
import { allPackages } from "./packages.mjs";
import { platforms } from "./platforms.mjs";
import { appendResult, readIfThere, readResults, runProgram, runTests } from "./run-tests.mjs";
import { ensureBuild, ensureDependencies, ensurePackages, fail } from "./setup.mjs";
import { printVerdict } from "./verdict.mjs";

/** Programs besides the test files, by name: arguments of Node, and additions to the environment. */
const programs = new Map([
  ...Object.keys(platforms).map((name) => [`platform ${name}`, { args: ["scripts/platforms.mjs", name] }]),
  ["models", { args: ["scripts/spec.mjs"] }],
  ["proof of the rule", { args: ["spec/proof.mjs"] }],
  [
    "long simulation",
    { args: ["scripts/test.mjs", "test/simulation/simulation.test.ts"], environment: { SNOWLEASE_HISTORIES: "20000" } },
  ],
]);
/** With fewer minutes than `enoughMinutes`, `filesAtOnce` files start at a time: each time, the last one runs alone. */
const [enoughMinutes, filesAtOnce] = [6, 6];
/** The most minutes that the next group of files takes. */
const groupMinutes = 4;
/** How many minutes longer than a test file a program takes, at most: all units on another version of Node. */
const programMinutes = 3;
/** The folders on which the results depend, besides the files of the root. */
const sources = ["bench", "deploy", "docs", "examples", "prove", "scripts", "spec", "sql", "src", "test", "web"];

const values = readArguments();
const minutes = minutesOf(values.minutes);
const pieces = shareOf([...rest, ...programs.keys()], values.share);
const begin = performance.now();
ensureDependencies();
ensureBuild();
ensurePackages(allPackages);
prepareKubernetesApi({ build: values.share === undefined });

const folder = join("node_modules/.cache/snowlease/test-all", values.share?.replace("/", "-of-") ?? "all");
const resultsFile = join(folder, "results");
const stamp = join(folder, "sources");
resume();
if (values.share === undefined) await runFiles("The gate", gate);
await runFiles(
  "The other tests",
  pieces.filter((name) => !programs.has(name)),
);
for (const name of pieces) {
  if (programs.has(name) && resultOf(name) === undefined && isTime(programMinutes)) await run(name);
}
for (const name of [...gate, ...pieces].filter(isRed)) await run(name);
process.exitCode = report() ? 0 : 1;

function readArguments() {
  try {
    const options = {
      share: { type: "string" },
      minutes: { type: "string" },
      again: { type: "boolean", default: false },
    };
    return parseArgs({ options }).values;
  } catch (error) {
    return fail(error.message, 2);
  }
}

/** After this many minutes, nothing starts. */
function minutesOf(text = "Infinity") {
  if (!/^(?:\d{1,4}|Infinity)$/.test(text)) fail(`Expected --minutes to be a whole number, got \`${text}\``, 2);
  return Number(text);
}

/** Takes each n-th piece. Neighbours test one store, so that spreads them over all parts. */
function shareOf(all, share = "1/1") {
  const [, part, parts] = /^([1-9]\d*)\/([1-9]\d*)$/.exec(share)?.map(Number) ?? [];
  if (part === undefined || part > parts) fail(`Expected --share to be as 2/8, got \`${share}\``, 2);
  return all.filter((_, i) => i % parts === part - 1);
}

/** Keeps the results of an interrupted run, if they belong to exactly these files. */
function resume() {
  const here = readdirSync(".", { withFileTypes: true }).filter((entry) => entry.isFile());
  const hash = hashOf([...here.map(({ name }) => name), ...sources.flatMap(filesIn)]);
  if (values.again || readIfThere(stamp) !== hash) rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  writeFileSync(stamp, hash);
}

/** Runs the files that have no result yet, some at a time. */
async function runFiles(title, files) {
  const left = files.filter((file) => resultOf(file) === undefined);
  console.log(`\n${title}: ${left.length} files, ${files.length - left.length} done before`);
  const size = minutes < enoughMinutes ? filesAtOnce : left.length;
  for (let longer = 0; left.length > 0 && isTime(longer); longer = groupMinutes) {
    await runTests(left.splice(0, size), { resultsFile });
  }
}

/** Whether there is time to start something that takes so many minutes longer than a piece that may always start. */
function isTime(longer = 0) {
  return performance.now() - begin < (minutes - longer) * 60_000;
}

/** Runs a file or a program by itself. */
async function run(name) {
  console.log(`\n${name}, alone`);
  if (!programs.has(name)) return runTests([name], { resultsFile });
  const { args, environment } = programs.get(name);
  appendResult(resultsFile, await runProgram(name, process.execPath, args, { ...process.env, ...environment }));
}

function resultOf(name) {
  return readResults(resultsFile).findLast(({ file }) => file === name);
}

function isRed(name) {
  return (resultOf(name)?.failed ?? 0) > 0;
}

/** Prints the whole result, and writes how long each piece took. The next run starts from the beginning. */
function report() {
  const all = readResults(resultsFile);
  const last = all.filter(({ file }, i) => file === undefined || all.findLastIndex((each) => each.file === file) === i);
  const flaky = all.filter(({ file, failed }) => file !== undefined && failed > 0 && !isRed(file));
  const slowest = last.toSorted((a, b) => b.seconds - a.seconds);
  const lines = slowest.map(({ file, seconds, passed, failed, skips }) => {
    const counts = `${passed} passed, ${failed} failed, ${skips.length} skipped`;
    return `${seconds.toFixed(1).padStart(9)} s  ${file}: ${counts}`;
  });
  writeFileSync(join(folder, "report"), `${lines.join("\n")}\n`);
  rmSync(stamp);
  console.log(`\nThe slowest of all in ${join(folder, "report")}\n${lines.slice(0, 10).join("\n")}`);
  for (const text of flaky.flatMap(({ failures }) => failures)) console.log(`FLAKY ${text}`);
  const late = pieces.filter((name) => resultOf(name) === undefined);
  if (late.length > 0) console.log(`\nNot begun within ${minutes} minutes: ${late.join(", ")}`);
  return printVerdict(
    values.share === undefined ? "All" : `Part ${values.share}`,
    last,
    (performance.now() - begin) / 1000,
  );
}
