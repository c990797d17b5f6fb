import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { hasPython } from "../support/python.ts";

const client = fileURLToPath(new URL("../../clients/python", import.meta.url));

describe.skipIf(!hasPython(9, []))("the Python client", () => {
  test("makes IDs as the vectors say", () => {
    const args = ["-m", "unittest", "discover", "-s", "tests", "-p", "test_vectors.py"];
    const env = { ...process.env, PYTHONPATH: "src", PYTHONDONTWRITEBYTECODE: "1" };
    const { status, stderr } = spawnSync("python3", args, { cwd: client, env, encoding: "utf8" });
    expect({ status, said: status === 0 ? "" : stderr }).toEqual({ status: 0, said: "" });
    expect(stderr).toMatch(/^Ran [1-9][0-9]* tests/m);
  });
});
