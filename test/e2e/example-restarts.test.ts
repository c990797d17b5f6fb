import { execFile, spawn } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, describe, expect, test } from "vitest";
import { Sandbox } from "../support/cli.ts";
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
  expect(stdout).toMatch(/\n(?:.*: \d+(?: \+ \d+)* IDs, refused: \{.*\}\n){6}\d{3,} IDs, all different\n$/);
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
  let modules: string;

  /** What the runner loads, once for both tests. */
  beforeAll(async () => {
    const folder = mkdtempSync(join(tmpdir(), "snowlease-runners-"));
    modules = join(folder, "node_modules");
    if (install !== undefined) {
      const quiet = ["--prefer-offline", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"];
      await promisify(execFile)("npm", ["install", install, ...quiet], { cwd: folder });
    }
    mkdirSync(modules, { recursive: true });
    symlinkSync(root, join(modules, "snowlease"));
    if (install === undefined) symlinkSync(join(root, "node_modules/vitest"), join(modules, "vitest"));
    return () => rmSync(folder, { recursive: true });
  });

  async function run(text: string): Promise<{ readonly code: number; readonly output: string }> {
    const sandbox = new Sandbox();
    cpSync(example("restarts/ids.mjs"), join(sandbox.work, "ids.mjs"));
    // However busy the machine is.
    writeFileSync(join(sandbox.work, "ids.test.mjs"), text.replace("120_000", "280_000"));
    const jest = { transform: {}, testMatch: ["**/*.test.mjs"] };
    writeFileSync(join(sandbox.work, "package.json"), JSON.stringify({ type: "module", jest }));
    symlinkSync(modules, join(sandbox.work, "node_modules"));
    const running = sandbox.started(spawn(process.execPath, command, sandbox.surroundings(env)));
    const { code, stdout, stderr } = await running.ended;
    return { code, output: stdout + stderr };
  }

  const given = readFileSync(example("restarts/ids.test.mjs"), "utf8").replace(/^import \{ test \}.*$/m, imports);

  test("the test of the docs finds the bug of the generator there", { timeout: 5 * minutes }, async () => {
    const { code, output } = await run(given);
    expect(code).not.toBe(0);
    expect(output).toContain("5 of 6 cases of the restart matrix failed.");
    expect(output).toMatch(
      /killed with -9 while IDs are made, and started with the clock set back: \d+ of \d+ IDs were made more than once/,
    );
  });

  test("the same with leased IDs passes", { timeout: 5 * minutes }, async () => {
    const leased = given.replace('{ module: "./ids.mjs" }', '{ registry: "sqlite:./ids.db" }');
    expect(leased).not.toBe(given);
    const { code, output } = await run(leased);
    expect(code, output).toBe(0);
  });
});
