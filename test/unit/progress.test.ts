import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Progress } from "../../src/cli/terminal/progress.ts";

const { stderr } = process;
const isTTY = stderr.isTTY;
let written: string[];
beforeEach(() => {
  vi.useFakeTimers();
  written = [];
  vi.spyOn(stderr, "write").mockImplementation((text) => written.push(String(text)) > 0);
});
afterEach(() => {
  stderr.isTTY = isTTY;
  vi.useRealTimers();
  vi.restoreAllMocks();
});

test("a log gets a line each 10 s, and none of a short work", () => {
  stderr.isTTY = false;
  const progress = new Progress();
  for (let second = 0; second < 25; second++) {
    progress.show("reading", `${second} IDs`, second / 25);
    vi.advanceTimersByTime(1000);
  }
  progress.end();
  expect(written).toEqual(["snowlease: reading 10 IDs (40 %)\n", "snowlease: reading 20 IDs (80 %)\n"]);
});

test("a terminal shows each phase at once, on one line that fits, and clears it once", () => {
  stderr.isTTY = true;
  vi.stubEnv("TERM", "xterm");
  stderr.columns = 60;
  const progress = new Progress();
  progress.show("reading", "5 IDs", 0.5);
  progress.show("reading", "6 IDs", 0.6);
  progress.show("comparing", "x".repeat(100), 0);
  progress.end();
  progress.end();
  expect(written.map((text) => text.replaceAll("\r\u001b[K", "<"))).toEqual([
    `<[${"=".repeat(15)}${" ".repeat(15)}] 50 % reading 5 IDs`,
    `<[${" ".repeat(30)}] 0 % comparing ${"x".repeat(12)}`,
    "<",
  ]);
  vi.unstubAllEnvs();
});
