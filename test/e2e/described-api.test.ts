import { spawn } from "node:child_process";
import { join } from "node:path";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { cpSync, writeFileSync } from "node:fs";
import { Sandbox } from "../support/cli.ts";
import { expectAudited } from "../support/examples.ts";
import { hasPython, pythonPackages } from "../support/python.ts";

const support = join(import.meta.dirname, "../support/described-api");
/** For pip, ms. */
const timeout = 300_000;

describe.skipIf(!hasPython(10))("the daemon's own description in /openapi.json", () => {
  let programs: string;
  beforeAll(() => {
    programs = pythonPackages("schemathesis==4.32.5", "openapi-spec-validator==0.9.0", "openapi-python-client==0.29.1");
  }, timeout);

  let sandbox: Sandbox;
  beforeEach(() => {
    sandbox = new Sandbox();
    cpSync(support, sandbox.work, { recursive: true });
  });

  /** A daemon, its description in openapi.json, and the token that may do everything: none, or one of its own. */
  async function serve(withTokens: boolean): Promise<{ readonly url: string; readonly token: string }> {
    const token = withTokens ? "all-powerful" : "";
    const flags = withTokens ? ["--tokens", sandbox.tokens(`${token} admin`)] : [];
    // With `--lend`, the description has each call.
    const { url } = await sandbox.serve("--lend", ...flags);
    writeFileSync(join(sandbox.work, "openapi.json"), await (await fetch(`${url}/openapi.json`)).text());
    return { url, token };
  }

  /** Runs a program that has to succeed; resolves with its output. */
  async function run(program: string, ...args: readonly string[]): Promise<string> {
    const { cwd, env } = sandbox.surroundings({ PATH: `${programs}:${process.env["PATH"] ?? ""}` });
    const child = sandbox.started(spawn(join(programs, program), args, { cwd, env }));
    const { code, stdout, stderr } = await child.ended;
    expect({ code, said: code === 0 ? "" : `${stdout}\n${stderr}` }).toEqual({ code: 0, said: "" });
    return stdout;
  }

  const cases = [
    ["without tokens", false],
    ["with tokens", true],
  ] as const;

  test.each(cases)("is valid, and schemathesis finds no other answers, %s", async (_, withTokens) => {
    const { url, token } = await serve(withTokens);
    await run("openapi-spec-validator", "openapi.json");
    // The stream of events does not end.
    const streams = ["--exclude-operation-id", "followEvents"];
    const random = ["--max-examples", "6", "--seed", "1", "--generation-database", "none"];
    // The coverage of each schema takes the most time, and does not depend on tokens.
    const login = ["--phases", "examples,fuzzing,stateful", "--header", `Authorization: Bearer ${token}`];
    const said = await run(
      "st",
      "run",
      "openapi.json",
      "--url",
      url,
      ...streams,
      ...random,
      ...(withTokens ? login : []),
    );
    expect(said).toMatch(/Operations: +(\d\d) selected/);
    expect(said).toMatch(/\d{3,} generated, \d{3,} passed/);
  });

  test.each(cases)("makes a client that claims, renews, makes IDs and gives back, %s", async (_, withTokens) => {
    const { url, token } = await serve(withTokens);
    const to = ["--meta", "none", "--output-path", "snowlease_api", "--fail-on-warning"];
    await run("openapi-python-client", "generate", "--path", "openapi.json", ...to);
    const ids = JSON.parse(await run("python3", "holder.py", url, token)) as string[];
    expect(ids).toHaveLength(8003);
    expect(new Set(ids).size).toBe(ids.length);
    await expectAudited(sandbox, sandbox.registry, ids);
  });
});
