// `npm run mutants`: shows that the gate can fail. In a copy of the tree it brings one fixed bug back at a time (test/mutants.mjs), and
// runs the gate until the first red test. With names, it takes only these mutants. The models are not run, since they do not read the
// code.

import { parseArgs } from "node:util";
import { mutants } from "../test/mutants.mjs";
import { gate } from "./gate.mjs";
import { gatePackages } from "./packages.mjs";
import { runTests } from "./run-tests.mjs";
import { ensureDependencies, ensurePackages, fail } from "./setup.mjs";
import { TreeCopy } from "./tree-copy.mjs";

/** The share of mutants that the gate must find. */
const leastShare = 0.9;
/** The part of the gate that needs no servers. It finds most mutants. */
const isQuick = /^test\/(?:unit\/|simulation\/|conformance\/(?:memory|sqlite)\.)/;
/** This test would be red for each mutant, since it looks for the text that a mutant replaces. */
const ownTest = "test/unit/mutants.test.ts";
/** A test that waited in vain says nothing about the bug, since the machine may have been slow. */
const waitedInVain = /timed out|did not succeed in time|did not come to its end/i;

const { positionals: names } = parseArgs({ allowPositionals: true });
const unknown = names.find((name) => !mutants.some((mutant) => mutant.name === name));
if (unknown !== undefined) fail(`there is no mutant \`${unknown}\` in test/mutants.mjs`, 2);
const chosen = mutants.filter(({ name }) => names.length === 0 || names.includes(name));

ensureDependencies();
ensurePackages(gatePackages);
const copy = new TreeCopy();
copy.remove(ownTest);
const files = gate.filter((file) => file !== ownTest);
const quick = files.filter((file) => isQuick.test(file));
const slow = files.filter((file) => !quick.includes(file));
const record = copy.read("test/bugs.md");

const moved = chosen.filter(({ file, from }) => copy.read(file).split(from).length !== 2);
for (const { name, file } of moved)
  console.error(`${name}: its text does not occur once in ${file}: mend test/mutants.mjs`);
if (moved.length > 0) fail("the source has moved on", 2);
if (names.length === 0) await checkGreen();

let found = 0;
for (const mutant of chosen) if (await isFound(mutant)) found++;
console.log(`\n${found} of ${chosen.length} mutants found by the gate`);
process.exitCode = found < leastShare * chosen.length ? 1 : 0;

/** Checks that the gate is green without a mutant. A red gate would find every mutant. */
async function checkGreen() {
  const broken = copy.build() ?? (await firstRed([quick, slow]));
  if (broken !== undefined) fail(`without a mutant, the gate has to be green first: ${broken}`);
}

/** Runs the gate on one mutant, and prints the result. */
async function isFound({ name, row, file, from, to }) {
  const text = copy.read(file);
  copy.write(
    file,
    text.replace(from, () => to),
  );
  try {
    const broken = copy.build();
    if (broken !== undefined) fail(`the mutant ${name} does not compile: mend test/mutants.mjs\n${broken}`, 2);
    const begin = performance.now();
    const red = await firstRed(partsFor(file));
    const seconds = `${((performance.now() - begin) / 1000).toFixed(0)} s`;
    if (red !== undefined) console.log(`${name}: found by ${red} in ${seconds}`);
    else console.log(`${name}: NOT FOUND in ${seconds}; ${await elsewhere(row)}`);
    return red !== undefined;
  } finally {
    copy.write(file, text);
  }
}

/** The gate in three parts: the tests of the broken file or its folder, then the tests without servers, then the others. */
function partsFor(broken) {
  const folders = broken.replace(/^sql\//, "").split("/");
  const isSql = folders.some((name) => ["sql", "common", "mysql", "postgres", "oracle"].includes(name));
  // The memory store stands for all stores, and PostgreSQL for the stores with SQL.
  const subjects = [...folders, "memory", ...(isSql ? ["sql", "postgres"] : [])];
  const isNear = (file) => subjects.includes(/(\w+)[^/]*$/.exec(file)[1]) || copy.read(file).includes(`/${broken}"`);
  const near = files.filter(isNear);
  return [near, quick.filter((file) => !near.includes(file)), slow.filter((file) => !near.includes(file))];
}

/** The first test that fails, with its error; undefined if no test fails. */
async function firstRed(parts, args = ["--bail=1"]) {
  for (const part of parts) {
    const results = await runTests([...part, ...args], { copy: copy.path, environment: { PROPERTY_SEED: "1" } });
    const failures = results.flatMap(({ file, failures }) => (file === undefined ? [] : failures));
    const red = failures.find((text) => !waitedInVain.test(text));
    if (red !== undefined) return red;
    for (const { failures } of results) for (const text of failures) console.log(`  not counted: ${text}`);
  }
}

/** Whether the tests that the row of bugs.md names find the bug. `npm run test:all` runs them. */
async function elsewhere(row) {
  const line = record.split("\n").find((each) => each.startsWith(`| ${row}`));
  const [, project, files, title] = /`npm test -- --project=(\w+) ([^`"]*?)(?: -t "([^"]*)")?`/.exec(line) ?? [];
  if (project === undefined) return "bugs.md names no test";
  const args = [`--project=${project}`, ...files.split(" "), ...(title ? ["-t", title.replaceAll("\\|", "|")] : [])];
  const red = await firstRed([args], []);
  return red === undefined ? "neither do the tests that bugs.md names" : `only \`npm run test:all\` finds it: ${red}`;
}
