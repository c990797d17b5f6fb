// `npm run spec`: checks the models in spec/ with spin, and that spin finds the failure of every broken variant. With names of models or
// variants, it takes only these, and shows how the variants fail. `--long`: larger models, with up to 8 GB of memory each, two at a time.

import { execFile, spawnSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs, promisify } from "node:util";
import { ensurePackages, fail, root } from "./setup.mjs";

/**
 * Each model with its macros, and with the macros of a longer search. For blocks, the next larger one is too large. The longest one is
 * first.
 */
const models = [
  { name: "blocks", macros: [], long: [] },
  { name: "lease", macros: [], long: ["TICKS=4"] },
  {
    name: "receipts",
    macros: ["RESTORE", "TURNS=4"],
    long: ["RESTORE", "TURNS=0", "CLAIMS=3", "HOLDERS=3", "RENEWALS=1"],
  },
  {
    name: "receipts",
    macros: ["RESTORE", "TURNS=0", "CLAIMS=3", "RENEWALS=1", "TIME=3"],
    long: ["RESTORE", "TURNS=0", "CLAIMS=3", "RENEWALS=1"],
  },
  { name: "receipts", macros: ["RESTORE", "TURNS=0"], long: ["RESTORE", "END", "TURNS=0", "CLAIMS=3"] },
  {
    name: "receipts",
    macros: ["RESTORE", "END", "LATE", "TURNS=0", "RENEWALS=1"],
    long: ["RESTORE", "END", "LATE", "TURNS=0"],
  },
  {
    name: "receipts",
    macros: ["RESTORE", "RECALL", "STEPS", "TURNS=0"],
    long: ["RESTORE", "RECALL", "TURNS=0", "CLAIMS=3"],
  },
  {
    name: "receipts",
    macros: ["RESTORE", "END", "SKEW=1", "WINDOW=1", "TURNS=0", "RENEWALS=1"],
    long: ["RESTORE", "END", "SKEW=1", "TURNS=0", "RENEWALS=1"],
  },
  {
    name: "receipts",
    macros: ["RESTORE", "ENDED", "FAILOVER", "TURNS=0", "RENEWALS=1"],
    long: ["RESTORE", "ENDED", "FAILOVER", "END", "TURNS=0"],
  },
  { name: "receipts", macros: ["TWO", "TURNS=0", "RENEWALS=1"], long: ["TWO", "TURNS=0"] },
  { name: "receipts", macros: ["COPIES"], long: ["COPIES", "TURNS=4"] },
  { name: "receipts", macros: ["SNAPSHOT"], long: ["SNAPSHOT", "TURNS=4"] },
  { name: "receipts", macros: ["LAGGING", "FORCED", "TURNS=0"], long: ["LAGGING", "FORCED", "TURNS=0"] },
  { name: "receipts", macros: ["JUMPS", "LATE", "TURNS=4"], long: ["JUMPS", "LATE", "TURNS=4"] },
  { name: "quarantine", macros: ["CLAIMS=3", "IDS=3"], long: ["CLAIMS=3", "IDS=4"] },
  { name: "quarantine", macros: [], long: ["TIME=5"] },
  { name: "quarantine", macros: ["CLOCKS"], long: ["CLOCKS", "CLAIMS=3"] },
  { name: "versions", macros: [], long: ["CLIENTS=4"] },
  { name: "versions", macros: ["VALUE"], long: ["VALUE", "CLIENTS=4"] },
  { name: "versions", macros: ["CONNECTION"], long: ["CONNECTION", "CLIENTS=4"] },
];

const { values, positionals: asked } = parseArgs({ allowPositionals: true, options: { long: { type: "boolean" } } });

ensurePackages({ gcc: "/usr/bin/gcc", "libc6-dev": "/usr/include/stdio.h", spin: "/usr/bin/spin" });
for (const tool of ["spin", "gcc"]) {
  if (spawnSync(tool, ["--help"]).error) fail(`\`npm run spec\` needs ${tool}; install it and try again`);
}

const variants = [...new Set(models.map(({ name }) => name))].flatMap((name) =>
  variantsOf(name).map((variant) => ({ name, variant, macros: [variant] })),
);
const whole = models.map(({ name, macros, long }) => ({ name, macros: values.long ? long : macros }));
const runs = [...whole, ...variants].filter(
  ({ name, variant }) =>
    asked.length === 0 || asked.includes(variant) || (variant === undefined && asked.includes(name)),
);
if (runs.length === 0) fail(`No model or variant is named ${asked.join(", ")}; see spec/README.md`, 2);

const folder = mkdtempSync(join(tmpdir(), "snowlease-spec-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
const left = [...runs];
let wrong = 0;
await Promise.all(Array.from({ length: Math.min(availableParallelism(), 2) }, work));
console.log(`\n${runs.length - wrong} of ${runs.length} as they should be`);
process.exitCode = wrong > 0 ? 1 : 0;

async function work() {
  for (let run = left.shift(); run !== undefined; run = left.shift()) show(run, await check(run));
}

/** The macros that a model's first comment lists: three blanks, the name, and what the macro breaks. */
function variantsOf(name) {
  const [header] = readFileSync(fileOf(name), "utf8").split("*/", 1);
  return [...header.matchAll(/^ \* {3}([A-Z][A-Z_]+) {2}/gm)].map(([, variant]) => variant);
}

function fileOf(name) {
  return join(root, "spec", `${name}.pml`);
}

/** Runs one model to its end, or a variant breadth first, so that the first failure is the shortest one. */
async function check({ name, variant, macros }) {
  const cwd = mkdtempSync(join(folder, "run-"));
  const defines = macros.map((macro) => `-D${macro}`);
  // For the search of a failure, optimizing takes longer than the search.
  const search = variant === undefined ? ["-O2", "-DCOLLAPSE"] : ["-O0", "-DBFS"];
  const memory = values.long && variant === undefined ? 8000 : 3000;
  const file = `${name}.pml`;
  // spin looks for a trail beside the model.
  copyFileSync(fileOf(name), join(cwd, file));
  await run("spin", ["-a", ...defines, file], cwd);
  await run("gcc", ["-w", "-DSAFETY", ...search, `-DMEMLIM=${memory}`, "-o", "pan", "pan.c"], cwd);
  const begin = performance.now();
  const output = await run(join(cwd, "pan"), ["-m20000", "-w24"], cwd);
  const seconds = (performance.now() - begin) / 1000;
  const [, errors] = /errors: (\d+)/.exec(output) ?? fail(`The check of ${name} broke off: ${output}`);
  // The form of numbers above a hundred million: 1.0731e+08.
  const [, states] = /([\d.e+]+) states, stored/.exec(output) ?? [];
  const [, depth] = /\(at depth (\d+)\)/.exec(output) ?? [];
  const story = depth === undefined ? [] : storyOf(await run("spin", ["-t", ...defines, file], cwd));
  rmSync(cwd, { recursive: true });
  const isWhole = errors === "0" && !/Search not completed/.test(output);
  return { failed: /assertion violated/.test(output), isWhole, states: Number(states), seconds, story };
}

function storyOf(text) {
  const lines = text.split("\n").map((line) => line.trim());
  const end = lines.findIndex((line) => /assertion violated/.test(line));
  return lines.slice(0, end).filter((line) => line !== "" && !line.startsWith("spin:"));
}

function show({ name, variant, macros }, { failed, isWhole, states, seconds, story }) {
  const found = failed ? `fails in ${story.length} steps` : isWhole ? "holds" : "not searched to its end";
  const isRight = variant === undefined ? found === "holds" : failed;
  if (!isRight) wrong++;
  const title = `${name} ${macros.join(" ")}`.padEnd(56);
  const figures = `${states.toLocaleString("en")} states`.padStart(20) + `${seconds.toFixed(1)} s`.padStart(9);
  console.log(`${isRight ? "ok    " : "WRONG "} ${title} ${figures}   ${found}`);
  if ((variant === undefined && failed) || asked.includes(variant))
    console.log(story.map((line) => `         ${line}`).join("\n"));
}

async function run(command, args, cwd) {
  try {
    const { stdout } = await promisify(execFile)(command, args, { cwd, maxBuffer: 2 ** 26 });
    return stdout;
  } catch (error) {
    // If spin and its checkers find a failure, their exit status is not 0 either.
    if (error.stdout && /State-vector/.test(error.stdout)) return error.stdout;
    throw error;
  }
}
