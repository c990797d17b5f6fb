import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test } from "vitest";
import { hasJdk } from "../support/java/java.ts";

const client = fileURLToPath(new URL("../../clients/java/snowlease", import.meta.url));
const sources = join(client, "src/main/java/io/snowlease");

describe.skipIf(!hasJdk(11))("the Java client", () => {
  function run(program: string, ...args: readonly string[]): string {
    const { status, stdout, stderr } = spawnSync(program, args, { cwd: client, encoding: "utf8" });
    expect({ status, said: status === 0 ? "" : `${stdout}${stderr}` }).toEqual({ status: 0, said: "" });
    return stdout;
  }

  test("makes IDs as the vectors say", () => {
    const classes = mkdtempSync(join(tmpdir(), "snowlease-java-"));
    onTestFinished(() => rmSync(classes, { recursive: true }));
    const files = readdirSync(sources).map((name) => join(sources, name));
    run(
      "javac",
      "-encoding",
      "UTF-8",
      "--release",
      "11",
      "-d",
      classes,
      ...files,
      "src/test/java/io/snowlease/Vectors.java",
    );
    expect(run("java", "-cp", classes, "io.snowlease.Vectors", "../../vectors")).toMatch(/^[1-9]\d* vectors hold\n$/);
  });
});
