import { writeFileSync } from "node:fs";
import { relative } from "node:path";
import { stripVTControlCharacters } from "node:util";

/** Most of an error in one line, characters. */
const longestTold = 600;

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
        return errors.map((error) => `${name}: ${inOneLine(error)}`);
      }),
    );
    // Its process ended by itself.
    const unfinished = modules.filter((module) => ["queued", "pending"].includes(module.state()));
    failures.push(...unfinished.map(({ moduleId }) => `${relative(process.cwd(), moduleId)}: did not come to its end`));
    failures.push(...unhandled.map((error) => `outside of the tests: ${inOneLine(error)}`));
    const results = { passed: count("passed"), failed: count("failed"), failures };
    writeFileSync(process.env.VITEST_RESULTS_FILE, JSON.stringify(results));
  }
}

/** Of an error: its first line and, where it compares two values, the lines in which they differ. */
function inOneLine({ name = "Error", message = "", diff = "" }) {
  const [line] = stripVTControlCharacters(message).split("\n", 1);
  const differing = stripVTControlCharacters(diff)
    .split("\n")
    .filter((each) => /^[+-] (?!Expected|Received)/.test(each));
  return `${name}: ${line} ${differing.map((each) => each.replace(/ +/g, " ")).join(" ")}`
    .trimEnd()
    .slice(0, longestTold);
}
