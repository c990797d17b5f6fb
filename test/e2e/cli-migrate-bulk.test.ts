import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { sqliteRegistry } from "../../src/registries/sqlite/registry.ts";
import { Sandbox } from "../support/cli.ts";

test("a killed apply of thousands of pins goes on where it was", { timeout: 180_000 }, async () => {
  const sandbox = new Sandbox();
  writeFileSync(join(sandbox.work, "hosts.txt"), "10.1.0.0/19\n");
  const hosts = 2 ** 13 - 2;
  const at = ["--registry", sandbox.registry, "--namespace", "fleet"];
  await sandbox.read(["init", ...at, "--layout", "uid"]);
  await sandbox.read(["migrate", "plan", "--from", "ip", "--hosts", "hosts.txt", ...at]);

  const path = join(sandbox.work, "registry.db");
  const registry = await sqliteRegistry({ path, operationTimeout: 20_000 });
  const pinned = async (): Promise<number> => {
    let count = 0;
    for (let after = -1; ;) {
      const found = await registry.workers("fleet", { state: "pinned", after, limit: 10_000 });
      count += found.length;
      if (found.length < 10_000) return count;
      after = found.at(-1)?.workerId ?? 0;
    }
  };
  try {
    const killed = sandbox.start(["migrate", "apply", ...at]);
    while ((await registry.workers("fleet", { state: "pinned", limit: 1 })).length === 0) await sleep(2);
    await killed.kill();
    const before = await pinned();
    expect(before).toBeGreaterThan(0);
    expect(before).toBeLessThan(hosts);
    const again = JSON.parse(await sandbox.read(["migrate", "apply", ...at, "--json"])) as object;
    expect(again).toEqual({ pinned: hosts - before, unchanged: before, others: [], left: [] });
    expect(await pinned()).toBe(hosts);
    const back = JSON.parse(await sandbox.read(["migrate", "apply", "--revert", ...at, "--json"])) as object;
    expect(back).toEqual({ unpinned: hosts, live: 0 });
    expect(await registry.workers("fleet")).toEqual([]);
  } finally {
    await registry.close();
  }
});
