import { execFile } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { Sandbox, withoutNotices } from "../support/cli.ts";
import { example, startExample } from "../support/examples.ts";
import { root } from "../support/markdown.ts";

const minutes = 60_000;

test("restarts/find.ts finds the bug, and none in leased IDs", { timeout: 5 * minutes }, async () => {
  const sandbox = new Sandbox();
  const running = startExample(sandbox, "restarts/find.ts", [], { SNOWLEASE_REGISTRY: sandbox.registry });
  const { code, stdout, stderr } = await running.ended;
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout).toMatch(
    /^5 of 6 cases of the restart matrix failed\.\n(?:- .*: \d+ of \d+ IDs were made more than once; .*\n){5}/,
  );
  expect(stdout).toMatch(/\n(?:.*: \d+ IDs, refused: \{.*\}\n){6}\d{4,} IDs, all different\n$/);
});

/** Test runners: how each starts, and what `ids.test.mjs` imports `test` from. */
const runners: readonly {
  readonly name: string;
  readonly imports: string;
  readonly command: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly install?: string;
}[] = [
  { name: "vitest", imports: 'import { test } from "vitest";', command: ["node_modules/vitest/vitest.mjs", "run"] },
  { name: "node:test", imports: 'import { test } from "node:test";', command: ["--test"] },
  {
    name: "Jest",
    imports: "",
    command: ["node_modules/jest/bin/jest.js"],
    env: { NODE_OPTIONS: "--experimental-vm-modules --no-warnings" },
    install: "jest@30.5.2",
  },
];

describe.each(runners)("under $name", ({ imports, command, env = {}, install }) => {
  async function run(text: string): Promise<{ readonly code: number; readonly output: string }> {
    const sandbox = new Sandbox();
    cpSync(example("restarts/ids.mjs"), join(sandbox.work, "ids.mjs"));
    writeFileSync(join(sandbox.work, "ids.test.mjs"), text);
    const jest = { transform: {}, testMatch: ["**/*.test.mjs"] };
    writeFileSync(join(sandbox.work, "package.json"), JSON.stringify({ type: "module", jest }));
    if (install !== undefined) {
      const quiet = ["--prefer-offline", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"];
      await promisify(execFile)("npm", ["install", install, ...quiet], { cwd: sandbox.work });
    }
    mkdirSync(join(sandbox.work, "node_modules"), { recursive: true });
    symlinkSync(root, join(sandbox.work, "node_modules/snowlease"));
    if (install === undefined)
      symlinkSync(join(root, "node_modules/vitest"), join(sandbox.work, "node_modules/vitest"));
    const surroundings = sandbox.surroundings(env);
    return new Promise((resolve) => {
      execFile(process.execPath, command, surroundings, (error, stdout, stderr) => {
        resolve({ code: Number(error?.code ?? 0), output: withoutNotices(stdout + stderr) });
      });
    });
  }

  const given = readFileSync(example("restarts/ids.test.mjs"), "utf8").replace(/^import \{ test \}.*$/m, imports);

  test("the test of the docs finds the bug of the generator there", { timeout: 5 * minutes }, async () => {
    const { code, output } = await run(given);
    expect(code).not.toBe(0);
    expect(output).toContain("5 of 6 cases of the restart matrix failed.");
    expect(output).toMatch(
      /killed with -9, and started with the clock set back: \d+ of \d+ IDs were made more than once/,
    );
  });

  test("the same with leased IDs passes", { timeout: 5 * minutes }, async () => {
    const leased = given.replace(
      '{ module: "./ids.mjs" }',
      '{ registry: "sqlite:./ids.db", options: { window: "2s" } }',
    );
    expect(leased).not.toBe(given);
    const { code, output } = await run(leased);
    expect(code, output).toBe(0);
  });
});
