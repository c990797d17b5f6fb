// `npm run prove`: runs real processes on real servers under a seeded nemesis, and checks every ID that they made. See README.md here.

import { keepWorkplace, workplace } from "./workplace.ts";
import { parseArgs } from "node:util";
import { clocksMissing } from "../test/support/holder.ts";
import { makeClientPrograms } from "./clients.ts";
import { ProgressLine } from "./progress.ts";
import { findOut, isFoundOut, naiveMakers } from "./naive.ts";
import { commandOf, isFlawed, type Outcome, prove, type RunOptions } from "./prove.ts";
import { type Stage, stages } from "./scenes.ts";
import { tableOf } from "./table.ts";

/** After so many strikes, a naive holder counts as not found out. */
const mostStrikes = 50;

const help = `Usage: npm run prove -- [options]

Puts real processes on real servers under a seeded nemesis, and checks that no ID was made twice. See prove/README.md.

  --registry NAMES  comma-separated; default: all. Known: ${stages.map(({ name }) => name).join(", ")}
  --minutes N       how long each runs (1)
  --seed N          the same faults again; default: a random one
  --holders N       how many processes lease (8)
  --rate N          faults of holders and networks a second (5)
  --restores        puts the store back to older copies of itself: IDs may come twice until the holder in question is told, and no longer
  --copies          copies holders with all that they have: the same, until one of the two is told
  --clients         holders in Python, Java and Go beside those of Node, on the registries that have a daemon: default: both
  --naive           runs makers that are wrong in one thing: each has to be found out
  --help            shows this`;

const values = argumentsOrUsage();
if (values.help) {
  console.log(help);
  process.exit(0);
}
const known = stages.filter(({ hasDaemon }) => hasDaemon === true || !values.clients);
const asked = values.registry?.flatMap((names) => names.split(",")) ?? known.map(({ name }) => name);
if (values.clients && (values.restores || values.copies || values.naive))
  usage("Expected --clients without --restores, --copies and --naive: they need holders of Node");
const options = {
  minutes: number("minutes", values.minutes, 0.1, 10_000),
  seed: number("seed", values.seed, 0, 2 ** 32 - 1),
  holders: number("holders", values.holders, 2, 100),
  rate: number("rate", values.rate, 0.1, 100),
  restores: values.restores,
  copies: values.copies,
  clients: values.clients ? makeClientPrograms(workplace, skipped) : undefined,
};

const chosen = asked.map((name) => {
  return (
    known.find((stage) => stage.name === name) ??
    usage(`Expected --registry to be of ${known.map((stage) => stage.name).join(", ")}, got ${name}`)
  );
});
if (clocksMissing !== undefined) skipped(`steps of clocks. ${clocksMissing}`);
const here = chosen.filter(({ name, missing }) => {
  if (missing !== undefined) skipped(`${name}. ${missing}`);
  return missing === undefined;
});
const isGood = values.naive ? await proveThatItCanFail(here) : await proveAll(here);
// A driver may keep a connection open that is not needed any more.
process.exit(isGood && here.length > 0 ? 0 : 1);

async function proveAll(stages: readonly Stage[]): Promise<boolean> {
  const outcomes = new Map<string, Outcome>();
  for (const stage of stages) {
    const outcome = await run(stage, options);
    outcomes.set(stage.name, outcome);
    if (isFlawed(outcome)) tellFlaws(stage.name, outcome);
  }
  console.log(
    `\n${tableOf(outcomes)}\n\nseed ${options.seed}, ${options.minutes} min and ${options.holders} holders each`,
  );
  return ![...outcomes.values()].some(isFlawed);
}

async function proveThatItCanFail(stages: readonly Stage[]): Promise<boolean> {
  let isGood = true;
  for (const stage of stages.filter(({ hasNetwork }) => hasNetwork)) {
    for (const maker of naiveMakers.filter(({ on = stage.name }) => on === stage.name)) {
      const verdict = await findOut(stage, maker, mostStrikes);
      const found = isFoundOut(maker, verdict);
      isGood &&= found;
      const counts = maker.flaws.map((flaw) => `${verdict.flaws[flaw].toLocaleString("en")} ${flaw}`).join(", ");
      const among = `${verdict.ids.toLocaleString("en")} IDs`;
      console.log(
        `${found ? "found out" : "NOT FOUND OUT"}: ${maker.module} on ${stage.name}, ${counts} among ${among}`,
      );
    }
  }
  return isGood;
}

async function run(stage: Stage, options: RunOptions): Promise<Outcome> {
  const line = new ProgressLine(stage.name, options.minutes);
  try {
    return await prove(stage, { ...options, onProgress: (progress) => line.tell(progress) });
  } finally {
    line.end();
  }
}

function tellFlaws(name: string, { findings, stuck, crashes, folder }: Outcome): void {
  keepWorkplace();
  console.log(`\nFLAWED: ${name}`);
  for (const words of findings) console.log(`  ${words}`);
  for (const words of stuck) console.log(`  stuck: worker ${words}`);
  for (const words of crashes.slice(0, 5)) console.log(`  ${words}`);
  console.log(`  logs: ${folder}`);
  console.log(`  again: ${commandOf(name, options)}`);
}

function skipped(what: string): void {
  console.error(`SKIPPED: ${what}`);
}

function number(name: string, text: string, least: number, most: number): number {
  const value = Number(text);
  return value >= least && value <= most
    ? value
    : usage(`Expected --${name} to be from ${least} to ${most}, got ${text}`);
}

function argumentsOrUsage() {
  try {
    const { values } = parseArgs({
      options: {
        registry: { type: "string", multiple: true },
        minutes: { type: "string", default: "1" },
        seed: { type: "string", default: String(Math.floor(Math.random() * 2 ** 32)) },
        holders: { type: "string", default: "8" },
        rate: { type: "string", default: "5" },
        restores: { type: "boolean", default: false },
        copies: { type: "boolean", default: false },
        clients: { type: "boolean", default: false },
        naive: { type: "boolean", default: false },
        help: { type: "boolean", default: false },
      },
    });
    return values;
  } catch (error) {
    return usage(error instanceof Error ? error.message : String(error));
  }
}

function usage(message: string): never {
  console.error(`snowlease: ${message}; see prove/README.md`);
  process.exit(2);
}
