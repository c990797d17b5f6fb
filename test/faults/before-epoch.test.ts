import { describe, expect, test } from "vitest";
import { layouts } from "../../src/id/layout.ts";
import { Sandbox } from "../support/cli.ts";
import { HolderProcess } from "../support/holder.ts";
import { clocksMissing, WallClock } from "../support/wall-clock.ts";

const { epoch } = layouts.rollback;

describe.skipIf(clocksMissing !== undefined)("processes whose clock shows a time before the epoch", () => {
  /** A machine without a battery-backed clock starts at this time. */
  function longAgo(): WallClock {
    return new WallClock(60 - Math.floor(Date.now() / 1000));
  }

  test("make no ID, hold nothing, and begin when the clock is set", async () => {
    const clock = longAgo();
    const options = { registry: new Sandbox().registry, layout: "rollback", window: 10_000 };
    const processes = [new HolderProcess(options, clock), new HolderProcess(options, clock)];
    const starts = await Promise.allSettled(processes.map((each) => each.ask("start")));
    for (const each of processes) await each.ask("make", { count: 5 }).catch(() => undefined);
    expect(processes.flatMap((each) => each.ids())).toEqual([]);
    for (const start of starts) {
      expect(start).toMatchObject({ status: "rejected", reason: { code: "WINDOW_NOT_OPEN" } });
    }
    clock.set(0);
    for (const each of processes) {
      await each.ask("start");
      await each.ask("make", { count: 5 });
    }
    const ids = processes.flatMap((each) => each.ids());
    expect(new Set(ids).size).toBe(10);
    for (const id of ids) expect(layouts.rollback.decompose(id).timestamp).toBeGreaterThan(epoch);
    for (const each of processes) await each.kill();
  });

  test.each(["id", "assign", "exec"])("`%s` says so", async (command) => {
    const sandbox = new Sandbox();
    const rest = command === "exec" ? ["--", "true"] : [];
    const args = [command, "--registry", sandbox.registry, "--layout", "rollback", ...rest];
    const { code, stdout, stderr } = await sandbox.run(args, { env: longAgo().environment });
    expect({ code, stdout }).toEqual({ code: 4, stdout: "" });
    expect(stderr).toContain("snowlease: WINDOW_NOT_OPEN: The clock shows 1970-01-01T00:");
  });
});
