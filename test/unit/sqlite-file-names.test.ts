import { linkSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { contents, claimRequest, namespace, newFolder, openSqlite } from "../support/sqlite.ts";

test("a file that has two names would have two logs, and is refused", async () => {
  const folder = newFolder();
  const [path, second] = [join(folder, "registry.db"), join(folder, "second.db")];
  // Empty: a registry that was open in this process would still have files beside it.
  writeFileSync(path, "");
  linkSync(path, second);
  const before = contents(folder);
  for (const name of [path, second]) {
    await expect(openSqlite(name)).rejects.toMatchObject({
      code: "CONFIG_INVALID",
      message: expect.stringMatching(/has 2 names.*remove all but one/) as string,
    });
  }
  expect(contents(folder)).toEqual(before);
  rmSync(second);
  const registry = await openSqlite(path);
  expect(await registry.claim(claimRequest())).toMatchObject({ outcome: "granted" });
  expect(await registry.workers(namespace)).toHaveLength(1);
});
