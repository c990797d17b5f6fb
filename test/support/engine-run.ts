import { execFile } from "node:child_process";
import { chmodSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { composeFolder } from "./compose.ts";
import type { DockerEngine } from "./docker.ts";
import { patience } from "./patience.ts";

/** The output of a program, and how it ended. */
interface Ended {
  readonly code: number;
  readonly output: string;
}

/** Runs a program of this machine in the network of an engine. The program finds the engine as a developer's programs do. */
export async function runBeside(
  engine: DockerEngine,
  command: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Ended> {
  const own = Object.entries(process.env).filter(([name]) => !/^VITEST|^CI$|_URL$|^SNOWLEASE_/.test(name));
  const TMPDIR = mkdtempSync(join(tmpdir(), "b-"));
  // Servers that refuse to run as root run as another user.
  chmodSync(TMPDIR, 0o711);
  // The image that ends forgotten containers cannot be fetched here. The end of the engine ends them.
  const given = { TMPDIR, DOCKER_HOST: engine.host, TESTCONTAINERS_RYUK_DISABLED: "true", ...env };
  const [program, ...args] = [...engine.inside, ...command] as const;
  const all = { ...Object.fromEntries(own), ...given };
  const options = { cwd: composeFolder, env: all, maxBuffer: 1 << 26, timeout: patience };
  try {
    return await new Promise((resolve) => {
      execFile(program, args, options, (error, stdout, stderr) => {
        resolve({ code: error === null ? 0 : Number(error.code ?? -1), output: stdout + stderr });
      });
    });
  } finally {
    rmSync(TMPDIR, { recursive: true });
  }
}

/** A test that vitest ran. */
export interface TestResult {
  /** The titles of the suites around it, and its own title. */
  readonly titles: readonly string[];
  readonly status: "passed" | "failed" | "skipped" | "pending" | "todo";
}

/** The report of vitest about a file. */
interface FileReport {
  readonly message: string;
  readonly assertionResults: readonly {
    readonly ancestorTitles: readonly string[];
    readonly title: string;
    readonly status: TestResult["status"];
  }[];
}

/** Runs test files beside an engine. Rejects if vitest reports a failure. @returns the result of each test. */
export async function runTestsBeside(
  engine: DockerEngine,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<readonly TestResult[]> {
  const folder = mkdtempSync(join(tmpdir(), "snowlease-results-"));
  const file = join(folder, "results.json");
  try {
    const reporters = ["--reporter=default", "--reporter=json", `--outputFile=${file}`];
    const vitest = [process.execPath, "node_modules/vitest/vitest.mjs", "run", ...reporters];
    const { code, output } = await runBeside(engine, [...vitest, ...args], env);
    // vitest also fails if only a hook failed.
    if (code !== 0) throw new Error(output.slice(-20_000));
    const { testResults } = JSON.parse(readFileSync(file, "utf8")) as { readonly testResults: readonly FileReport[] };
    return testResults.flatMap(({ assertionResults }) =>
      assertionResults.map(({ ancestorTitles, title, status }) => ({ titles: [...ancestorTitles, title], status })),
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The containers and volumes that an engine has. */
export async function leftIn(engine: DockerEngine): Promise<string> {
  return (await engine.run("ps", "--all", "--quiet")) + (await engine.run("volume", "ls", "--quiet"));
}
