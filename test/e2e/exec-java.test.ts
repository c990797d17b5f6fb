import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { type CliResult, Sandbox } from "../support/cli.ts";

const java = "/usr/bin/java";
/** Prints every system property, to stderr. */
const show = ["-XshowSettings:properties", "-version"];

let sandbox: Sandbox;
beforeEach(() => {
  sandbox = new Sandbox();
});

function run(
  flags: readonly string[],
  program: readonly string[],
  env: Record<string, string> = {},
): Promise<CliResult> {
  const args = ["exec", "--registry", sandbox.registry, "--worker-id", "7", ...flags, "--", ...program];
  return sandbox.run(args, { env });
}

/** The worker IDs that the JVM reports. */
function numbers({ stderr }: CliResult): string[] {
  return [...stderr.matchAll(/^\s*westid\.workerId = (.*)$/gm)].map(([, number = ""]) => number);
}

const shell = `exec ${java} -Dwestid.workerId=55 ${show.join(" ")}`;

describe.skipIf(!existsSync(java))("the worker ID of a JVM under `exec --java`", () => {
  test.each<[string, readonly string[], Record<string, string>]>([
    ["nothing names another", [java, ...show], {}],
    ["its command line does, inside of a script", ["sh", "-c", shell], {}],
    ["JAVA_TOOL_OPTIONS does", [java, ...show], { JAVA_TOOL_OPTIONS: "-Dwestid.workerId=55" }],
    ["JDK_JAVA_OPTIONS does", [java, ...show], { JDK_JAVA_OPTIONS: "-Dwestid.workerId=55 -Dx=y" }],
    ["_JAVA_OPTIONS does", [java, ...show], { _JAVA_OPTIONS: "-Dwestid.workerId=55" }],
    ["a file of arguments does", [java, "@args", ...show], {}],
    ["its own command line names the same", [java, "-Dwestid.workerId=7", ...show], {}],
  ])("is the leased one where %s", async (_, program, env) => {
    writeFileSync(join(sandbox.work, "args"), "-Dwestid.workerId=55\n");
    const result = await run(["--java"], program, env);
    expect(numbers(result)).toEqual(["7"]);
    expect(result.code).toBe(0);
  });
});

describe("a program that names Java another worker ID is not run, and the lease is given back,", () => {
  test.each<[string, readonly string[], readonly string[], Record<string, string>]>([
    ["on its command line", ["--java"], ["touch", "-Dwestid.workerId=55", "ran"], {}],
    ["on its command line without --java", [], ["touch", "-Dwestid.workerId=55", "ran"], {}],
    ["on its command line with nothing", [], ["touch", "-Dwestid.workerId=", "ran"], {}],
    ["in a variable without --java", [], ["touch", "ran"], { JAVA_TOOL_OPTIONS: "-Xmx1g -Dwestid.workerId=55" }],
  ])("%s", async (_, flags, program, env) => {
    const { code, stdout, stderr } = await run(flags, program, env);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(/^snowlease: CONFIG_INVALID: .*worker 7.*`-Dwestid\.workerId=(?:55)?`.*\n$/);
    expect(existsSync(join(sandbox.work, "ran"))).toBe(false);
    const [row] = JSON.parse(await sandbox.read(["workers", "--registry", sandbox.registry, "--json"])) as object[];
    expect(row).toMatchObject({ workerId: 7, state: "free", clean: true });
  });

  test("but a program that inherits the worker ID of an outer `exec` runs", async () => {
    const env = { JAVA_TOOL_OPTIONS: "-Dwestid.workerId=7", _JAVA_OPTIONS: "-Dwestid.workerId=7" };
    expect(await run([], ["true"], env)).toMatchObject({ code: 0, stderr: "" });
  });
});
