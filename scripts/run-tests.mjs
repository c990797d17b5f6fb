// Runs tests, and reports their results.

import { spawn, spawnSync } from "node:child_process";
import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { RunFolder } from "./left-behind.mjs";

/** The seconds that each file took when it last ran here. From these, a run estimates how long the rest will take. */
const secondsFile = "node_modules/.cache/snowlease/test-seconds.json";

/** Longest time of a run in a copy, ms. The broken code there may run in an endless loop. */
const hanging = 900_000;

/**
 * Runs vitest to its end.
 * @param args files, and other arguments of vitest.
 * @param options `shows`: one line a file, in place of the output of vitest. `environment`: more of it for the tests. `resultsFile`: gets
 * a line of JSON as soon as a file is done; default: a file that is removed. `copy`: the folder of another tree whose tests to run. Then
 * the output of vitest is dropped, the seconds are not kept, and a run that hangs is ended.
 * @returns the result of each file, and of failures outside of the files.
 */
export async function runTests(args, { shows = true, environment = {}, resultsFile, copy } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "snowlease-test-"));
  const temporary = new RunFolder();
  const file = resultsFile ?? join(folder, "results");
  const before = readResults(file).length;
  const secondsBefore = readSeconds();
  const reporters = [...(shows ? [] : ["--reporter=default"]), "--reporter=./scripts/reporter.mjs"];
  const { status } = spawnSync(process.execPath, ["node_modules/vitest/vitest.mjs", "run", ...reporters, ...args], {
    ...(copy === undefined
      ? { stdio: "inherit" }
      : { cwd: copy, stdio: "ignore", timeout: hanging, killSignal: "SIGKILL" }),
    env: {
      ...process.env,
      ...environment,
      TMPDIR: temporary.path,
      VITEST_REPORT: JSON.stringify({ resultsFile: file, shows, secondsBefore }),
    },
  });
  // After a crash, or if a file does not load, no test has failed, but the run has.
  const hasFailed = readResults(file).some(({ failed }, i) => i >= before && failed > 0);
  if (status !== 0 && !hasFailed) appendResult(file, failure("vitest ended without a result: see above"));
  for (const text of await temporary.clear()) appendResult(file, failure(text));
  const results = readResults(file).slice(before);
  rmSync(folder, { recursive: true });
  if (copy !== undefined) return results;

  const seconds = Object.fromEntries(
    results.flatMap(({ file, seconds }) => (file === undefined ? [] : [[file, seconds]])),
  );
  mkdirSync(dirname(secondsFile), { recursive: true });
  writeFileSync(secondsFile, JSON.stringify({ ...secondsBefore, ...seconds }));
  return results;
}

/**
 * Runs a program that runs tests. Its last line says how many passed and failed. Otherwise, its exit status counts.
 * @returns the result of the whole program.
 */
export async function runProgram(name, command, args, environment = process.env) {
  const begin = performance.now();
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"], env: environment });
  let output = "";
  child.stdout.on("data", (chunk) => {
    process.stdout.write(chunk);
    output += chunk;
  });
  const status = await new Promise((resolve) => {
    child.once("close", resolve);
    child.once("error", () => resolve(1));
  });
  const counts = [...output.matchAll(/^(\d+) passed, (\d+) failed$/gm)].at(-1);
  const [, passed, failed] = counts ?? [undefined, status === 0 ? 1 : 0, 0];
  const failures = [...output.matchAll(/^FAILED (.+)$/gm)].map(([, text]) => `${name}: ${text}`);
  if (status !== 0 && failures.length === 0) failures.push(`${name}: see above`);
  return {
    file: name,
    seconds: (performance.now() - begin) / 1000,
    passed: Number(passed),
    failed: Math.max(Number(failed), status === 0 ? 0 : 1),
    skips: [],
    failures,
  };
}

/** A failure of a file that is not in a test, or a failure without a file, as a result. */
export function failure(text, file) {
  const failures = [file === undefined ? text : `${file}: ${text}`];
  return { file, seconds: 0, passed: 0, failed: 1, skips: [], failures };
}

/** Adds a result to a file, as a line of JSON. */
export function appendResult(file, result) {
  appendFileSync(file, `${JSON.stringify(result)}\n`);
}

/** The results in a file; empty if the file does not exist. */
export function readResults(file) {
  const lines = readIfThere(file)?.split("\n").filter(Boolean) ?? [];
  return lines.map((line) => JSON.parse(line));
}

function readSeconds() {
  return JSON.parse(readIfThere(secondsFile) ?? "{}");
}

/** The text of a file; undefined if the file does not exist. */
export function readIfThere(file) {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    if (error.code === "ENOENT") return undefined;
    throw error;
  }
}
