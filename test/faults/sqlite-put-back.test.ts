import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, test } from "vitest";
import { expectFoundOut } from "../support/put-back.ts";

const run = promisify(execFile);
let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "snowlease-put-back-"));
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

test("an older copy that is written into the open file is found out by the next renewal", async () => {
  const [path, copy] = [join(folder, "registry.db"), join(folder, "copy.db")];
  await expectFoundOut({
    url: `sqlite:${path}`,
    copy: async () => void (await run("sqlite3", [path, `.backup ${copy}`])),
    putBack: async () => void (await run("sqlite3", ["-cmd", ".timeout 5000", path, `.restore ${copy}`])),
  });
});
