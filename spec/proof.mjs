// `npm run spec:proof`: proves the rule with z3 for any number of steps, and that each proof fails where a condition of the rule is
// missing. With names of parts, only those. See spec/README.md.

import { spawn, spawnSync } from "node:child_process";
import { availableParallelism } from "node:os";
import { text } from "node:stream/consumers";
import { ensurePackages, fail } from "../scripts/setup.mjs";
import { among, declare, inside, not, symbols } from "./proof/formulas.mjs";
import { beside } from "./proof/beside.mjs";
import { clocks } from "./proof/clocks.mjs";
import { order } from "./proof/order.mjs";
import { receipts } from "./proof/receipts.mjs";
import { turns } from "./proof/turns.mjs";
import { windows } from "./proof/windows.mjs";

/** Of a question, ms. Most take a few, on a busy machine perhaps a thousand. */
const timeout = 30_000;
/** A variant is refuted among the numbers from 0 to this. */
const size = 3;
const parts = [windows, receipts, beside, clocks, order, turns];

const asked = process.argv.slice(2);
const chosen = parts.filter(({ name }) => asked.length === 0 || asked.includes(name));
if (chosen.length === 0)
  fail(`No part is named ${asked.join(", ")}; there are ${parts.map(({ name }) => name).join(", ")}`, 2);

ensurePackages({ z3: "/usr/bin/z3" });
if (spawnSync("z3", ["--version"]).error) fail("`npm run spec:proof` needs z3; install it and try again");

const begin = performance.now();
let lines = 0;
let surprises = 0;
for (const part of chosen) {
  console.log(`\n${part.name}: ${part.about}`);
  await showProof(part);
  for (const [name, ...changes] of part.wrong) await showVariant(part, name, changes);
}
const seconds = Math.round((performance.now() - begin) / 1000);
console.log(`\n${lines - surprises} of ${lines} as they should be, ${seconds} s`);
process.exitCode = surprises > 0 ? 1 : 0;

/** One line for each sentence, which is shown for the begin and for each step. */
async function showProof(part) {
  const happens = await answered(part, stepsOf(part), { isSmall: true });
  const never = happens.filter(({ answer }) => answer !== "sat").map(({ step }) => step);
  show(never.length === 0, "each step can happen", never.length === 0 ? "shown" : `NOT SHOWN (${never.join(", ")})`);

  const claims = claimsOf(part);
  // In the small world, too: what is refuted there without a variant would say nothing about one.
  const answers = [...(await answered(part, claims)), ...(await answered(part, claims, { isSmall: true }))];
  for (const sentence of new Set(claims.map((claim) => claim.sentence))) {
    const open = answers.filter((claim) => claim.sentence === sentence && claim.answer !== "unsat");
    const where = open.map(({ step, answer }) => `${step}: ${answer}`).join(", ");
    show(open.length === 0, sentence, open.length === 0 ? "proven" : `NOT PROVEN (${where})`);
  }
}

async function showVariant(part, name, changes) {
  const touched = changes.map(([step]) => step);
  const claims = claimsOf({ ...part, actions: withChanges(part.actions, changes) });
  const small = await answered(
    part,
    claims.filter(({ step }) => touched.includes(step)),
    { isSmall: true },
  );
  const refuted = [...new Set(small.filter(({ answer }) => answer === "sat").map(({ sentence }) => sentence))];
  const more = refuted.length > 1 ? ` and ${refuted.length - 1} more` : "";
  show(refuted.length > 0, `wrong: ${name}`, refuted.length > 0 ? `refutes "${refuted[0]}"${more}` : "NOT FOUND OUT");
}

function withChanges(actions, changes) {
  const changed = { ...actions };
  for (const [step, clause, formula] of changes) {
    if (changed[step]?.[clause] === undefined) fail(`The step ${step} has no clause ${clause}`);
    changed[step] = { ...changed[step], [clause]: formula };
  }
  return changed;
}

/**
 * What has to be shown: an invariant holds at the begin, and after each step before which all invariants hold; `follows` is true
 * wherever they hold, and `steps` of the steps that they name.
 */
function claimsOf({ moving, axioms, given, invariants, actions, begin, follows, steps }) {
  const [now, next] = [symbols(moving), symbols(moving, "_")];
  const claims = (step, premises, goals) =>
    Object.entries(goals).map(([sentence, goal]) => ({ sentence, step, premises: [...axioms, ...premises], goal }));
  const holds = [...given(now), ...Object.values(invariants(now))];
  return [
    ...claims("begin", [...given(now), ...begin], invariants(now)),
    ...Object.entries(actions).flatMap(([step, clauses]) =>
      claims(step, [...holds, ...Object.values(clauses)], { ...invariants(next), ...steps[step] }),
    ),
    ...claims("always", holds, follows),
  ];
}

/** That a step never happens: to be refuted, since from a contradiction everything could be proven. */
function stepsOf(part) {
  const first = new Map(claimsOf(part).map((claim) => [claim.step, claim]));
  return [...first.values()].filter(({ step }) => step !== "always").map((claim) => ({ ...claim, goal: "false" }));
}

/** The claims with z3's answers: "unsat" where no state contradicts one, "sat" where one does. */
async function answered(part, claims, { isSmall = false } = {}) {
  const { fixed, moving } = part;
  const bounds = isSmall ? [...inside(size, fixed), ...inside(size, moving), ...inside(size, moving, "_")] : [];
  const assert = (formula) => `(assert ${isSmall ? among(size, formula) : formula})`;
  const begin = [declare(fixed), declare(moving), declare(moving, "_"), ...bounds.map(assert)];

  const left = [...new Set(claims.map(({ step }) => step))];
  const all = [];
  await Promise.all(Array.from({ length: availableParallelism() }, work));
  return all;

  async function work() {
    for (let step = left.shift(); step !== undefined; step = left.shift()) {
      const same = claims.filter((claim) => claim.step === step);
      const questions = same.flatMap(({ goal }) => ["(push)", assert(not(goal)), "(check-sat)", "(pop)"]);
      const answers = await ask([...begin, ...same[0].premises.map(assert), ...questions]);
      all.push(...same.map((claim, index) => ({ ...claim, answer: answers[index] })));
    }
  }
}

/** The answers of one z3. */
async function ask(commands) {
  const z3 = spawn("z3", ["-in", `-t:${timeout}`], { stdio: ["pipe", "pipe", "inherit"] });
  z3.stdin.end(commands.join("\n"));
  const answers = (await text(z3.stdout)).trim().split("\n");
  const strange = answers.find((answer) => !["sat", "unsat", "unknown", "timeout"].includes(answer));
  if (strange !== undefined) fail(`z3 refused a question: ${strange}`);
  return answers;
}

function show(isRight, title, found) {
  lines++;
  if (!isRight) surprises++;
  console.log(`${isRight ? "ok   " : "WRONG"} ${title}: ${found}`);
}
