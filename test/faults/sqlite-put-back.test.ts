import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "vitest";
import { openRegistry, parseAddress } from "../../src/registries/index.ts";
import { expectFoundOut, expectRemembered } from "../support/put-back.ts";
import { backUp, restore } from "../support/sqlite-copy.ts";

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "snowlease-put-back-"));
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

test("the next renewal finds an older copy that was written into the open file", async () => {
  const [path, copy] = [join(folder, "registry.db"), join(folder, "copy.db")];
  await expectFoundOut({
    url: `sqlite:${path}`,
    copy: () => backUp(path, copy),
    putBack: () => restore(path, copy),
  });
});

test("the next renewal finds an empty registry that was written into the open file, and every claim waits", async () => {
  const [path, empty] = [join(folder, "registry.db"), join(folder, "empty.db")];
  const other = await openRegistry(parseAddress(`sqlite:${empty}`), { operationTimeout: 5000 });
  await other.ping();
  await other.close();
  await expectRemembered({
    url: `sqlite:${path}`,
    empty: () => restore(path, empty),
  });
});
