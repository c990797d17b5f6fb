import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { describe, expect, onTestFinished, test } from "vitest";
import { clocksMissing, WallClock } from "../support/wall-clock.ts";

const day = 86_400;

describe.skipIf(clocksMissing !== undefined)(clocksMissing ?? "the wall clock of a program", () => {
  test.each([day, -day, 60 - Math.floor(Date.now() / 1000)])("is set by %d s, from its first moment", (offset) => {
    const { environment } = new WallClock(offset);
    const script = "console.log(Date.now())";
    const before = Date.now();
    const shown = Number(execFileSync(process.execPath, ["-e", script], { env: { ...process.env, ...environment } }));
    expect(shown).toBeGreaterThanOrEqual(before + offset * 1000);
    expect(shown).toBeLessThanOrEqual(Date.now() + offset * 1000);
  });

  test("is set, and runs fast and slow, while it runs; the monotonic clock stays", async () => {
    const clock = new WallClock();
    const script = `process.stdin.on("data", () => console.log(Date.now(), Number(process.hrtime.bigint()) / 1e6));`;
    const env = { ...process.env, ...clock.environment };
    const child = spawn(process.execPath, ["-e", script], { env, stdio: ["pipe", "pipe", "inherit"] });
    onTestFinished(() => void child.kill("SIGKILL"));
    const lines = createInterface({ input: child.stdout });
    /** The shown time, between the times of this process's clocks before and after, ms. */
    const read = async (): Promise<{ wall: number; mono: number; before: number; after: number }> => {
      const before = Date.now();
      const line = once(lines, "line");
      child.stdin.write("\n");
      const [text] = (await line) as [string];
      const [wall = 0, mono = 0] = text.split(" ").map(Number);
      return { wall, mono, before, after: Date.now() };
    };
    const first = await read();
    expect(first.wall).toBeGreaterThanOrEqual(first.before);
    expect(first.wall).toBeLessThanOrEqual(first.after);
    clock.set(-60);
    const behind = await read();
    expect(behind.wall).toBeGreaterThanOrEqual(behind.before - 60_000);
    expect(behind.wall).toBeLessThanOrEqual(behind.after - 60_000);
    for (const rate of [3, 0.3]) {
      const began = Date.now();
      clock.run(rate);
      const set = Date.now();
      await new Promise((resolve) => setTimeout(resolve, 100));
      const { wall, before, after } = await read();
      // A tolerance of a ms either way: the clocks are cut to whole ones.
      expect(wall).toBeGreaterThanOrEqual(began + rate * (before - set) - 2);
      expect(wall).toBeLessThanOrEqual(set + rate * (after - began) + 2);
    }
    const last = await read();
    expect(last.mono - first.mono).toBeGreaterThanOrEqual(last.before - first.after - 1);
    expect(last.mono - first.mono).toBeLessThanOrEqual(last.after - first.before + 1);
  });
});
