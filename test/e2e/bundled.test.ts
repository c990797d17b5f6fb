import { spawn } from "node:child_process";
import { mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import { describe, expect, test } from "vitest";
import { type CliResult, Sandbox } from "../support/cli.ts";
import { root } from "../support/markdown.ts";

const program = `
import { snowlease } from "snowlease";
async function main() {
  const ids = await snowlease({ registry: process.argv[2], operationTimeout: "1s" });
  console.log(String(ids.next()));
  await ids.close();
}
main().catch((error) => {
  console.error(error.code + ": " + error.message);
  process.exitCode = 1;
});`;

const fileOf = (format: "cjs" | "esm"): string => (format === "cjs" ? "program.cjs" : "program.mjs");

/** A sandbox with a program in one file, which can import this package. */
async function bundled(format: "cjs" | "esm", external: readonly string[]): Promise<Sandbox> {
  const sandbox = new Sandbox();
  mkdirSync(join(sandbox.work, "node_modules"));
  symlinkSync(root, join(sandbox.work, "node_modules/snowlease"));
  const built = await build({
    stdin: { contents: program, resolveDir: sandbox.work },
    outfile: join(sandbox.work, fileOf(format)),
    bundle: true,
    platform: "node",
    format,
    external: [...external],
    logLevel: "silent",
  });
  // The program finds missing drivers when it runs, not when it is bundled.
  expect(built.errors).toEqual([]);
  return sandbox;
}

async function run(sandbox: Sandbox, format: "cjs" | "esm", registry: string): Promise<CliResult> {
  const started = sandbox.started(spawn(process.execPath, [fileOf(format), registry], sandbox.surroundings()));
  started.closeStdin();
  return started.ended;
}

describe.each(["cjs", "esm"] as const)("a program that was bundled as %s", (format) => {
  test("makes IDs if this package is outside the bundle", async () => {
    const sandbox = await bundled(format, ["snowlease"]);
    expect(await run(sandbox, format, sandbox.registry)).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^\d+\n$/) as string,
    });
  });

  test("with this package in it makes IDs if it reads no files, and otherwise says what to do", async () => {
    const sandbox = await bundled(format, []);
    const { url } = await sandbox.serve();
    for (const registry of ["memory:", url]) {
      expect(await run(sandbox, format, registry)).toMatchObject({
        code: 0,
        stdout: expect.stringMatching(/^\d+\n$/) as string,
      });
    }
    const servers = ["postgres:", "mysql:"].map((scheme) => `${scheme}//user:secret@127.0.0.1:1/0`);
    for (const registry of [sandbox.registry, ...servers]) {
      expect(await run(sandbox, format, registry), registry).toMatchObject({
        code: 1,
        stdout: "",
        stderr:
          "CONFIG_INVALID: This program was bundled, and the files that Snowlease reads are not beside it; leave `snowlease` out of the bundle (`external`), and install it where the program runs.\n",
      });
    }
  });
});
