import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { Sandbox } from "../support/cli.ts";

const processes = 120;
/** One in this many is killed, somewhere on its way. */
const unlucky = 12;

/** All whole printed IDs. */
function idsOf({ stdout }: { readonly stdout: string }): string[] {
  return stdout.split("\n").slice(0, -1);
}

test(
  `${processes} commands at once on one file, some of them killed: each of the others gets its IDs, and no ID comes twice`,
  { timeout: 120_000 },
  async () => {
    const sandbox = new Sandbox();
    const args = ["id", "--registry", sandbox.registry];
    // Made before, so that the storm does not meet its first moments.
    await sandbox.read(args);
    const all = Array.from({ length: processes }, () => sandbox.start(args));
    const killed = all.filter((_, i) => i % unlucky === 0);
    for (const [i, process] of killed.entries()) {
      // Between those that have just ended, some wait and some start.
      while (all.filter(({ isOver }) => isOver).length < (i + 1) * (unlucky / 2)) await sleep(5);
      await process.kill();
    }
    const results = await Promise.all(all.map(({ ended }) => ended));
    const others = results.filter((_, i) => i % unlucky !== 0);
    expect(others.filter(({ code, stderr }) => code !== 0 || stderr !== "")).toEqual([]);
    expect(others.flatMap(idsOf)).toHaveLength(others.length * 10);
    const ids = results.flatMap(idsOf);
    expect(new Set(ids).size).toBe(ids.length);
    // The killed ones had not all ended before.
    expect(results.some(({ code }) => code === 137)).toBe(true);
    // The rest of the killed ones blocks no other process, and goes away.
    await sandbox.read(args);
    expect(sandbox.files().filter((name) => name.includes("-queue"))).toEqual([]);
  },
);
