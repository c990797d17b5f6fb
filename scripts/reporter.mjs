import { relative } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { appendResult, failure } from "./run-tests.mjs";
import { inMinutes } from "./verdict.mjs";

/** The longest error that is printed in one line, characters. */
const longestError = 600;

/** From run-tests.mjs: where to write results, whether to show them, and the seconds that each file took before. */
const { resultsFile, shows, secondsBefore } = JSON.parse(process.env.VITEST_REPORT);
/** The seconds that a file will take. The default is for a file that never ran here. Most units start no server. */
const expectedSeconds = (file) => Math.max(secondsBefore[file] ?? (file.startsWith("test/unit/") ? 1 : 20), 0.1);

/**
 * Writes the result of each test file as a line of JSON, as soon as it is known. With `shows`, it also prints the finished files, the
 * failures, and how long the rest will take. Without `shows`, another reporter prints.
 */
export default class Reporter {
  #vitest;
  #begin = performance.now();
  /** File -> the seconds that it is expected to take. */
  #left = new Map();
  #files = 0;
  #secondsDone = 0;

  onInit(vitest) {
    this.#vitest = vitest;
  }

  onTestRunStart(specifications) {
    for (const { moduleId } of specifications) {
      const file = nameOf(moduleId);
      this.#left.set(file, expectedSeconds(file));
    }
    this.#files = this.#left.size;
  }

  onTestModuleEnd(module) {
    const result = resultOf(module);
    appendResult(resultsFile, result);
    if (shows) this.#show(module, result);
  }

  onTestRunEnd(modules, unhandled) {
    // The process of such a file ended by itself, without a result.
    const unfinished = modules.filter((module) => ["queued", "pending"].includes(module.state()));
    for (const { moduleId } of unfinished)
      appendResult(resultsFile, failure("did not come to its end", nameOf(moduleId)));
    for (const error of unhandled) {
      // vitest reports such a process a second time.
      if (unfinished.length > 0 && error.message.startsWith("[vitest-pool]")) continue;
      if (shows) this.#vitest.logger.printError(error);
      appendResult(resultsFile, failure(`outside of the tests: ${inOneLine(error)}`));
    }
  }

  #show(module, { file, seconds, passed, failed }) {
    this.#secondsDone += this.#left.get(file);
    this.#left.delete(file);
    const done = `${this.#files - this.#left.size}/${this.#files}`.padStart(9);
    const counts = `${passed} passed${failed > 0 ? `, ${failed} FAILED` : ""}`;
    console.log(`${done}  ${this.#timeLeft().padEnd(18)}${file}: ${counts}, ${seconds.toFixed(1)} s`);
    for (const { name, error } of errorsOf(module)) {
      console.log(`\nRED ${name}`);
      this.#vitest.logger.printError(error, { project: module.project });
    }
  }

  #timeLeft() {
    const seconds = [...this.#left.values()].reduce((sum, each) => sum + each, 0);
    const elapsed = (performance.now() - this.#begin) / 1000;
    return `${inMinutes((elapsed * seconds) / this.#secondsDone)} left`;
  }
}

function resultOf(module) {
  const tests = [...module.children.allTests()].map((test) => ({ test, result: test.result() }));
  const count = (state) => tests.filter(({ result }) => result.state === state).length;
  const failures = errorsOf(module).map(({ name, error }) => `${name}: ${inOneLine(error)}`);
  return {
    file: nameOf(module.moduleId),
    seconds: module.diagnostic().duration / 1000,
    passed: count("passed"),
    // An error of a hook fails all tests of its suite, but no test of them has it.
    failed: Math.max(count("failed"), failures.length > 0 ? 1 : 0),
    skips: tests.filter(({ result }) => result.state === "skipped").map(({ test, result }) => reasonOf(test, result)),
    failures,
  };
}

/** Each error of a file, its suites and its tests, with the name of what it failed. */
function errorsOf(module) {
  const file = nameOf(module.moduleId);
  return [module, ...module.children.allSuites(), ...module.children.allTests("failed")].flatMap((task) => {
    const errors = task.type === "test" ? (task.result().errors ?? []) : task.errors();
    const name = task === module ? file : `${file}, ${task.fullName}`;
    return errors.map((error) => ({ name, error }));
  });
}

/** Why a test was skipped: its note, otherwise the first title above it that says what is missing, otherwise its full name. */
function reasonOf(test, { note }) {
  const titles = [];
  for (let task = test; task.type !== "module"; task = task.parent) titles.unshift(task.name);
  return note ?? titles.find((title) => /\b(?:not|no|none|cannot|needs)\b/.test(title)) ?? test.fullName;
}

function nameOf(moduleId) {
  return relative(process.cwd(), moduleId);
}

/** The first line of an error. If the error compares two values, also the lines in which they differ. */
function inOneLine({ name = "Error", message = "", diff = "" }) {
  const [line] = stripVTControlCharacters(message).split("\n", 1);
  const differing = stripVTControlCharacters(diff)
    .split("\n")
    .filter((each) => /^[+-] (?!Expected|Received)/.test(each));
  return `${name}: ${line} ${differing.map((each) => each.replace(/ +/g, " ")).join(" ")}`
    .trimEnd()
    .slice(0, longestError);
}
