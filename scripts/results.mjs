import { writeFileSync } from "node:fs";
import { relative } from "node:path";
import { stripVTControlCharacters } from "node:util";

/** A reporter that writes how many tests passed and failed, and each failure in one line, to the file that the environment names. */
export default class Results {
  onTestRunEnd(modules, unhandled) {
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    const count = (state) => tests.filter((test) => test.result().state === state).length;
    // What a hook throws fails all tests of its suite, and is said of none of them.
    const failures = modules.flatMap((module) =>
      [module, ...module.children.allSuites(), ...module.children.allTests("failed")].flatMap((task) => {
        const errors = task.type === "test" ? (task.result().errors ?? []) : task.errors();
        const name = relative(process.cwd(), module.moduleId) + (task === module ? "" : `, ${task.fullName}`);
        return errors.map((error) => `${name}: ${firstLine(error)}`);
      }),
    );
    failures.push(...unhandled.map((error) => `outside of the tests: ${firstLine(error)}`));
    const results = { passed: count("passed"), failed: count("failed"), failures };
    writeFileSync(process.env.VITEST_RESULTS_FILE, JSON.stringify(results));
  }
}

function firstLine({ name = "Error", message = "" }) {
  return `${name}: ${stripVTControlCharacters(message).split("\n", 1)[0]}`;
}
