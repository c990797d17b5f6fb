// `npm test`: the gate, with the packages and the build that it needs. With arguments, the tests that they name to vitest: `npm test --
// --project=unit layout`.

import { gate } from "./gate.mjs";
import { prepareKubernetesApi } from "./kubernetes-api.mjs";
import { allPackages, gatePackages } from "./packages.mjs";
import { runProgram, runTests } from "./run-tests.mjs";
import { ensureBuild, ensureDependencies, ensurePackages } from "./setup.mjs";
import { printVerdict } from "./verdict.mjs";

const args = process.argv.slice(2);
const begin = performance.now();
ensureDependencies();
ensureBuild();

const results = await (args.length === 0 ? runGate() : runAsked());
const isGreen = printVerdict(args.length === 0 ? "The gate" : "This", results, (performance.now() - begin) / 1000);
process.exitCode = isGreen ? 0 : 1;

async function runGate() {
  ensurePackages(gatePackages);
  console.log(`\n1 of 2: ${gate.length} test files`);
  const tests = await runTests(gate, { environment: { PROPERTY_SEED: "1" } });
  console.log("\n2 of 2: the rule as a model, in every order of its steps");
  return [...tests, await runProgram("the rule as a model", process.execPath, ["scripts/spec.mjs", "lease"])];
}

function runAsked() {
  if (!args.includes("--project=unit")) {
    ensurePackages(allPackages);
    // For a run of whole kinds, build the API server before the tests begin. Otherwise, the first test that needs it builds it.
    if (args.every((arg) => arg.startsWith("-"))) prepareKubernetesApi();
  }
  return runTests(args, { shows: false });
}
