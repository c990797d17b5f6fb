import { expect, test } from "vitest";
import { layouts } from "../../src/id/layout.ts";
import { changes } from "../../src/ops/pool/changes.ts";
import { type Picture, PoolWatch } from "../../src/ops/pool/pool-watch.ts";
import { drawTop, type Scene, type Surface } from "../../src/cli/terminal/top-view.ts";
import { fitted, lineOf } from "../../src/cli/terminal/columns.ts";
import { printable } from "../../src/id/printable.ts";
import { fakeClock, memoryRegistry } from "../../src/testing.ts";

let tokens = 0;

function make(layout: keyof typeof layouts = "westid") {
  const clock = fakeClock();
  const registry = memoryRegistry({ clock });
  const watch = new PoolWatch(registry, "orders", clock);
  const { pool, fingerprint } = layouts[layout];
  return {
    clock,
    registry,
    async claim(workerId: number, host: string = `h-${workerId}`, window: number = 60_000) {
      const holder = { host, ip: "192.0.2.1", pid: 1, instance: "" };
      const token = (++tokens).toString(16).padStart(32, "0");
      const request = {
        namespace: "orders",
        token,
        workerId,
        pool,
        holder,
        layout: fingerprint,
        window,
        clock: clock.now(),
      };
      const grant = await registry.claim(request);
      if (grant.outcome !== "granted") throw new Error(grant.outcome);
      return { ...grant, token, namespace: "orders" };
    },
    async picture(): Promise<Picture> {
      await clock.advance(1000);
      const { picture, problem } = await watch.look();
      if (picture === undefined) throw problem ?? new Error("There is no picture.");
      return picture;
    },
  };
}

const surface: Surface = { columns: 100, rows: 40, colored: false, unicode: true };
const sceneOf = (picture: Picture, more: Partial<Scene> = {}): Scene => {
  return { picture, changes: [], registry: "memory:", now: picture.clock, scroll: 0, ...more };
};

test("whatever the size, nothing is outside of it", async () => {
  const { claim, picture } = make();
  for (let i = 0; i < 60; i++) await claim(i, i % 2 === 0 ? "語".repeat(80) : "a".repeat(300));
  const found = await picture();
  const seen = found.holders.map(({ workerId, holder }) => ({
    workerId,
    holder,
    what: "claimed" as const,
    at: found.clock,
  }));
  for (let rows = 1; rows < 70; rows += 7) {
    for (const columns of [1, 7, 20, 41, 80, 173]) {
      const { lines } = drawTop(sceneOf(found, { changes: seen, scroll: rows }), { ...surface, rows, columns });
      expect(lines.length).toBe(rows);
      for (const line of lines) expect(fitted(line, columns).trimEnd()).toBe(line.trimEnd());
    }
  }
});

test("all holders can be scrolled to, the one whose window ends next first", async () => {
  const { claim, picture } = make();
  for (let i = 0; i < 50; i++) await claim(i, `host-${i}.`, 100_000 - i * 1000);
  const found = await picture();
  const seen = new Set<string>();
  const { mostScroll, lines } = drawTop(sceneOf(found), surface);
  expect(lines.find((line) => line.includes("host-"))).toContain("host-49.");
  for (let scroll = 0; scroll <= mostScroll; scroll++) {
    for (const line of drawTop(sceneOf(found, { scroll }), surface).lines) {
      const [host] = /host-\d+\./.exec(line) ?? [];
      if (host !== undefined) seen.add(host);
    }
  }
  expect(seen.size).toBe(50);
  expect(drawTop(sceneOf(found, { scroll: 1e9 }), surface).lines.join("\n")).toContain("host-0.");
});

test("the grid has a sign for every worker ID if there is room, and otherwise one for several", async () => {
  for (const layout of ["westid", "safe53", "uid"] as const) {
    const { claim, picture, registry } = make(layout);
    const { last } = layouts[layout].pool;
    await claim(0);
    await registry.pin("orders", last, "kept");
    const found = await picture();
    for (const rows of [Infinity, 60, 16]) {
      const { lines } = drawTop(sceneOf(found), { ...surface, rows });
      const grid = lines.filter((line) => /^ *\d+ {2}[■▨□·◆✕]+$/.test(line));
      expect(grid.length).toBeGreaterThan(0);
      expect(grid[0]).toMatch(/^ +0 {2}■/);
      expect(grid.at(-1)).toMatch(/◆$/);
      if (rows === Infinity) expect(grid.join("").replace(/[\d ]/g, "").length).toBe(found.cells.length);
    }
  }
});

test("changes from one picture to the next are reported", async () => {
  const { claim, picture, registry, clock } = make();
  const lease = await claim(1, "gives-back");
  await claim(2, "forced");
  await claim(3, "crashes", 3000);
  await claim(4, "stays");
  const before = await picture();
  await registry.release({ ...lease, clock: clock.now(), used: { until: lease.from } });
  await registry.forceRelease({ namespace: "orders", workerId: 2, force: true });
  await registry.pin("orders", 9, "kept");
  await claim(5, "new");
  await clock.advance(5000);
  const after = await picture();
  const told = changes(before, after).map(({ workerId, what, holder }) => [workerId, what, holder?.host]);
  expect(told).toEqual([
    [1, "given back", "gives-back"],
    [2, "ended", "forced"],
    [3, "expired", "crashes"],
    [5, "claimed", "new"],
    [9, "pinned", undefined],
  ]);
  await registry.unpin("orders", 9);
  await claim(3, "takes over");
  expect(changes(after, await picture())).toMatchObject([
    { workerId: 3, what: "claimed" },
    { workerId: 9, what: "unpinned" },
  ]);
  expect(changes(after, after)).toEqual([]);
});

test("of a pool of millions, arrivals and departures are reported while all live worker IDs are known", async () => {
  const { claim, picture, registry } = make("uid");
  await claim(7, "goes");
  const before = await picture();
  await registry.forceRelease({ namespace: "orders", workerId: 7, force: true });
  await claim(4_000_000, "comes");
  expect(changes(before, await picture())).toMatchObject([
    { workerId: 7, what: "gone", holder: { host: "goes" } },
    { workerId: 4_000_000, what: "claimed", holder: { host: "comes" } },
  ]);
});

test("names, also wide ones, are cut to their columns, and no terminal obeys them", () => {
  expect(fitted("abc", 5)).toBe("abc  ");
  expect(fitted("abcdef", 4)).toBe("abc…");
  expect(fitted("語語語", 5)).toBe("語語…");
  expect(fitted("語語語", 4)).toBe("語… ");
  expect(fitted("7", 3, "right")).toBe("  7");
  expect(printable("a\u001b[31m\u009b\u202eb\u2066\u2028")).toBe("a?[31m??b??");
  expect(lineOf([["ab", "31"], ["cd"]], 3, true)).toBe("\u001b[31mab\u001b[0m…");
  expect(lineOf([["ab", "31"], ["cd"]], 4, false)).toBe("abcd");
});
