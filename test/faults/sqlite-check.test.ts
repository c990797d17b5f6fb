import { execFileSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { claimRequest, namespace, newFolder, openSqlite } from "../support/sqlite.ts";

function version(): string | undefined {
  try {
    return execFileSync("sqlite3", ["--version"], { encoding: "utf8" }).split(" ")[0];
  } catch {
    return undefined;
  }
}

const found = version();
const missing = "sqlite3 is not installed: as root, apt-get install --no-install-recommends sqlite3";

describe.skipIf(found === undefined)(found === undefined ? missing : `SQLite's own tool, ${found}`, () => {
  test.each(["integrity_check", "quick_check"])("finds a registry in order: %s", async (check) => {
    const path = `${newFolder()}/registry.db`;
    const registry = await openSqlite(path);
    const wanted = claimRequest({ workerId: 7 });
    const grant = await registry.claim(wanted);
    await registry.claim(claimRequest());
    await registry.pin(namespace, 5, "reserved");
    if (grant.outcome !== "granted") throw new Error("not granted");
    const { workerId, fence, from } = grant;
    const used = { until: from, recents: { from, bytes: new Uint8Array([1, 0]) } };
    await registry.release({ namespace, workerId, fence, token: wanted.token, clock: wanted.clock, used });
    expect(execFileSync("sqlite3", [path, `PRAGMA ${check}`], { encoding: "utf8" })).toBe("ok\n");
  });
});
