import { describe, expect, test } from "vitest";
import { layouts } from "../../src/id/layout.ts";
import { makeDashboard } from "../support/dashboard.ts";

const part = (text: string, name: string): string =>
  new RegExp(`<div class="${name}">.*?</div>`, "s").exec(text)?.[0] ?? "";
const plain = (text: string): string[] =>
  Array.from(text.matchAll(/<li>(.*?)<\/li>/gs), ([, item = ""]) => item.replace(/<[^>]*>/g, "").trim());

describe("an ID is drawn as its bits", () => {
  test("each field in proportion, with the bits that are set, its name and its value", async () => {
    const { send, claim, clock } = makeDashboard();
    await claim("orders", {}, { layout: "rollback" });
    const id = layouts.rollback.compose({ timestamp: clock.now(), workerId: 0b101_00011, sequence: 9, rollback: 2 });
    const bits = part((await send("GET", `/?namespace=orders&id=${id}`)).text, "bits");
    expect(bits).toContain(
      'aria-label="63 bits: timestamp 41 bits, machine 3 bits, process 5 bits, rollback 2 bits, sequence 12 bits"',
    );
    const bars = Array.from(bits.matchAll(/<rect class="([\w-]+)" x="(\d+)" y="0" width="(\d+)"/g), (found) =>
      found.slice(1),
    );
    expect(bars).toEqual([
      ["field-timestamp", "0", "41"],
      ["field-0", "41", "3"],
      ["field-1", "44", "5"],
      ["field-rollback", "49", "2"],
      ["field-sequence", "51", "12"],
    ]);
    // One bar for each bit that is set.
    const set = Array.from(bits.matchAll(/ d="([^"]*)"/g), ([, path = ""]) => path.match(/M/g)?.length ?? 0);
    expect(set.reduce((sum, count) => sum + count, 0)).toBe(id.toString(2).replaceAll("0", "").length);
    expect(set.slice(1)).toEqual([2, 2, 1, 2]);
    expect(plain(bits).slice(1)).toEqual([
      "machine, 3 bits: 5",
      "process, 5 bits: 3",
      "rollback, 2 bits: 2",
      "sequence, 12 bits: 9",
    ]);
  });
});

describe("the history of a worker ID is drawn along the time", () => {
  test("each window in its place, as it ended, and the present", async () => {
    const { send, claim, clock, registry } = makeDashboard();
    const first = await claim("orders", { host: "one" }, { workerId: 0, window: 100_000 });
    await clock.advance(50_000);
    const used = { until: clock.now() };
    await registry.release({
      namespace: "orders",
      workerId: 0,
      fence: 1,
      token: first.token,
      clock: clock.now(),
      used,
    });
    await claim("orders", { host: "two" }, { workerId: 0, window: 50_000 });
    await registry.forceRelease({ namespace: "orders", workerId: 0, force: true });
    await clock.advance(100_000);
    await claim("orders", { host: "three" }, { workerId: 0, window: 50_000 });
    await clock.advance(100_000);
    await claim("orders", { host: "four" }, { workerId: 0, window: 100_000 });
    await clock.advance(1000);
    const line = part((await send("GET", "/?namespace=orders&worker=0")).text, "timeline");
    const windows = Array.from(
      line.matchAll(/<rect class="window-(\w+)" x="([\d.]+)" y="\d+" width="([\d.]+)" height="(\d+)"><title>([^<]*)/g),
      ([, look, x, width, height, title]) => ({ look, x: Number(x), end: Number(x) + Number(width), height, title }),
    );
    expect(windows.map(({ look, title }) => [look, title])).toEqual([
      ["released", "Fence 1: released"],
      ["ended", "Fence 2: ended by an operator"],
      ["lost", "Fence 3: never released"],
      ["live", "Fence 4: live"],
    ]);
    // In their order, without overlap, and each kind with a height of its own.
    for (const [i, { x }] of windows.entries()) expect(x).toBeGreaterThanOrEqual((windows[i - 1]?.end ?? 0) - 0.2);
    expect(windows.at(-1)?.end).toBeCloseTo(600, 0);
    expect(new Set(windows.map(({ height }) => height)).size).toBe(4);
    const now = Number(/class="now" d="M([\d.]+) /.exec(line)?.[1]);
    expect(now).toBeGreaterThan(windows[3]?.x ?? Infinity);
    expect(now).toBeLessThan(windows[3]?.end ?? 0);
    expect(line).toContain('aria-label="4 windows along the time, as in the table"');
    expect(plain(line)).toEqual(["released", "ended by an operator", "never released", "live", "now"]);
  });

  test("is left out of a number that was never claimed", async () => {
    const { send, claim, registry } = makeDashboard();
    await claim("orders");
    await registry.pin("orders", 5, "kept");
    expect(part((await send("GET", "/?namespace=orders&worker=5")).text, "timeline")).toBe("");
  });
});
