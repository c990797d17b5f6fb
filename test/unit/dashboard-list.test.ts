import { describe, expect, test } from "vitest";
import { SnowleaseError } from "../../src/id/errors.ts";
import { layouts } from "../../src/id/layout.ts";
import { type DashboardBench, makeDashboard } from "../support/dashboard.ts";

const plain = (text: string): string =>
  text
    .replace(/<[^>]*>/g, " ")
    .replace(/\s+/g, " ")
    .replace(/ ,/g, ",")
    .trim();
/** The rows of the list: worker ID -> text. */
const rowsOf = (page: string): [number, string][] =>
  Array.from(page.matchAll(/<tr id="w(\d+)">(.*?)<\/tr>/gs), ([, id, row = ""]) => [Number(id), plain(row)]);
const idsOf = (page: string): number[] => rowsOf(page).map(([id]) => id);
const listOf = (page: string): string => /<section[^>]* id="list".*?<\/section>/s.exec(page)?.[0] ?? "";
/** The addresses of links of the list, by their text. */
const linkOf = (page: string, text: string): string | undefined =>
  Array.from(listOf(page).matchAll(/<a\s+href="([^"#]*)[^>]*>([^<]*)<\/a>/g))
    .find(([, , found = ""]) => found.startsWith(text))?.[1]
    ?.replaceAll("&amp;", "&");

/** Worker IDs of each kind. */
async function mixed(): Promise<DashboardBench> {
  const bench = makeDashboard();
  const { claim, registry, clock } = bench;
  await claim("orders", { host: "web-10", ip: "192.0.2.9" }, { window: 120_000 });
  await claim("orders", { host: "web-2", ip: "192.0.2.10" }, { window: 60_000 });
  await claim("orders", { host: "crashed", ip: "192.0.2.3", instance: "blue" }, { window: 100_000 });
  await registry.forceRelease({ namespace: "orders", workerId: 2, force: true });
  await claim("orders", { host: "gone" }, { window: 100 });
  await registry.pin("orders", 900, "kept for Java");
  await clock.advance(45_000);
  return bench;
}

describe("the list of worker IDs", () => {
  test("has the taken worker IDs: held, resting and pinned, with the known state of their renewal", async () => {
    const { send } = await mixed();
    const { text } = await send("GET", "/?namespace=orders");
    expect(rowsOf(text)).toEqual([
      [0, "0 live web-10 192.0.2.9 · pid 4001 45 s 45 s ago 1:15 1"],
      [1, "1 live, overdue 25 s web-2 192.0.2.10 · pid 4002 45 s 45 s ago 0:15 1"],
      [2, "2 resting crashed 192.0.2.3 · pid 4003 · blue 0:55 1"],
      [900, "900 pinned pinned: kept for Java 0"],
    ]);
    // The exact times are in the titles.
    expect(text).toContain('title="A renewal was expected at 2023-11-14 22:13:40Z"');
    expect(text).toMatch(/<time datetime="2023-11-14T22:13:20.000Z" title="2023-11-14 22:13:20Z">45 s ago<\/time>/);
    expect(text).toMatch(/class="live late" [^>]*aria-label="1, live, renewal overdue, /);
    expect(text).not.toMatch(/class="live late" [^>]*aria-label="0, /);
    expect((await send("GET", "/?namespace=orders&worker=1")).text).toContain("overdue 25 s");
  });

  test("shows a layout by its name, and another by its notation", async () => {
    const { send, claim, registry } = makeDashboard();
    await claim("orders");
    expect(plain((await send("GET", "/?namespace=orders")).text)).toContain("The timestamp bits of westid last until");
    await registry.init({ namespace: "own", layout: "timestamp:41,rack:3,sequence:12@1490346283706/1" });
    expect(plain((await send("GET", "/?namespace=own")).text)).toContain("The timestamp bits of timestamp:41,rack:3,");
  });

  test("is filtered by state", async () => {
    const { send } = await mixed();
    const expected = {
      taken: [0, 1, 2, 900],
      overdue: [1],
      live: [0, 1],
      resting: [2],
      pinned: [900],
      foreign: [],
      free: [3],
      used: [0, 1, 2, 3, 900],
    };
    for (const [state, ids] of Object.entries(expected)) {
      const { text } = await send("GET", `/?namespace=orders&state=${state}`);
      expect({ state, ids: idsOf(text) }).toEqual({ state, ids });
      expect(text).toMatch(new RegExp(`<option value="${state}" selected>[^<]*\\(${ids.length}\\)`));
    }
    const { status, text } = await send("GET", "/?namespace=orders&state=dead");
    expect(status).toBe(400);
    expect(text).toContain("to be one of taken, overdue, live, ");
    expect((await send("GET", "/?namespace=orders")).text).toContain(
      'href="/?namespace=orders&amp;state=overdue#list"',
    );
  });

  test("is searched by worker ID, host, address, instance and pin", async () => {
    const { send } = await mixed();
    const expected = { "WEB-": [0, 1], "192.0.2.10": [1], blue: [2], java: [900], 900: [900], "4": [], é: [] };
    for (const [q, ids] of Object.entries(expected)) {
      const { text } = await send("GET", `/?namespace=orders&q=${encodeURIComponent(q)}`);
      expect({ q, ids: idsOf(text) }).toEqual({ q, ids });
    }
  });

  test("is sorted by each of its columns, both ways, and the other links keep that", async () => {
    const { send } = await mixed();
    const expected = {
      id: [0, 1, 2, 900],
      state: [1, 0, 2, 900],
      host: [900, 2, 1, 0],
      address: [900, 2, 0, 1],
      end: [900, 1, 2, 0],
    };
    for (const [sort, ids] of Object.entries(expected)) {
      const ascending = await send("GET", `/?namespace=orders&sort=${sort}`);
      expect({ sort, ids: idsOf(ascending.text) }).toEqual({ sort, ids });
      const descending = await send("GET", `/?namespace=orders&sort=${sort}&order=desc`);
      expect({ sort, ids: idsOf(descending.text) }).toEqual({ sort, ids: ids.toReversed() });
    }
    const { text } = await send("GET", "/?namespace=orders&q=web&sort=host&order=desc");
    expect(linkOf(text, "0")).toBe("/?namespace=orders&q=web&sort=host&order=desc&worker=0");
    expect(linkOf(text, "Host")).toBe("/?namespace=orders&q=web&sort=host&order=asc");
    expect(linkOf(text, "ID")).toBe("/?namespace=orders&q=web&sort=id&order=asc");
    expect(listOf(text)).toMatch(/<th scope="col" aria-sort="descending"><a [^>]*>Host/);
  });

  test("leads through all 1,024 worker IDs, 50 at a time, in any order", async () => {
    const { send, claim } = makeDashboard();
    for (let i = 0; i < 1024; i++) await claim("orders", { host: `web-${1023 - i}` });
    const seen: number[] = [];
    let path: string | undefined = "/?namespace=orders&sort=host";
    while (path !== undefined) {
      const { text } = await send("GET", path);
      const ids = idsOf(text);
      expect(ids.length).toBeLessThanOrEqual(50);
      expect(Buffer.byteLength(text)).toBeLessThan(200_000);
      seen.push(...ids);
      path = linkOf(text, "Next");
    }
    expect(seen).toEqual(Array.from({ length: 1024 }, (_, i) => 1023 - i));
    expect((await send("GET", "/?namespace=orders&skip=5000")).text).toContain("No more worker IDs match.");
  });

  test("of a large pool is searched a part at a time, to its end", async () => {
    let pages = 0;
    const { send, claim } = makeDashboard({
      change: (registry) => ({
        ...registry,
        // More full pages than that would need millions of claims.
        async workers(namespace, { after = -1, limit = 1000, ...page } = {}) {
          pages++;
          const next = { ...page, limit: 10, after: Math.max(after, -1) };
          const found = await registry.workers(namespace, next);
          const [record] = found;
          if (record === undefined || found.length < 10) return found;
          // Many records that do not match lie between those that match.
          const fill = Array.from({ length: limit - 10 }, () => ({ ...record, holder: undefined }));
          return [...fill, ...found];
        },
      }),
    });
    for (let i = 0; i < 700; i++)
      await claim("big", { host: i % 100 === 7 ? `needle-${i}` : `h-${i}` }, { layout: "uid" });
    const seen: number[] = [];
    let path: string | undefined = "/?namespace=big&q=needle";
    let parts = 0;
    while (path !== undefined) {
      await send("GET", "/?namespace=big");
      pages = 0;
      const { text } = await send("GET", path);
      // Opening the page reads none: the last look was just before.
      expect(pages).toBeLessThanOrEqual(32);
      seen.push(...idsOf(text));
      path = linkOf(text, "Search on");
      parts++;
    }
    expect(seen).toEqual([7, 107, 207, 307, 407, 507, 607]);
    expect(parts).toBeGreaterThan(1);
    expect(layouts.uid.pool.last).toBe(4_194_303);
  });

  test("of a large pool does not call a holder late that renewed since it was read", async () => {
    let isSlow = false;
    const { send, claim, clock } = makeDashboard({
      change: (registry) => ({
        ...registry,
        // Slow enough that one look cannot finish.
        async workers(...args) {
          if (isSlow) await clock.advance(300);
          return registry.workers(...args);
        },
      }),
    });
    for (let i = 0; i <= 1000; i++) await claim("big", { host: `h-${i}` }, { layout: "uid" });
    await clock.advance(15_000);
    await send("GET", "/?namespace=big");
    isSlow = true;
    await clock.advance(30_000);
    const [[, row] = []] = rowsOf((await send("GET", "/?namespace=big")).text);
    expect(row).toMatch(/^0 live h-0 .* 45 s ago 0:1\d 1$/);
    await clock.advance(1000);
    expect(rowsOf((await send("GET", "/?namespace=big")).text)[0]?.[1]).toMatch(/^0 live, overdue \d+ s h-0 /);
  });

  test("of a partly read pool shows the read part, and counts nothing", async () => {
    const { send, claim, clock } = makeDashboard({
      change: (registry) => ({
        ...registry,
        // Slow enough that one look cannot finish.
        async workers(...args) {
          await clock.advance(300);
          return registry.workers(...args);
        },
      }),
    });
    for (let i = 0; i <= 1000; i++) await claim("big", { host: `h-${i}` }, { layout: "uid" });
    for (const state of ["taken", "used"]) {
      const { text } = await send("GET", `/?namespace=big&state=${state}`);
      expect(plain(listOf(text))).toContain("Worker IDs 1 to 50 of 500 ");
      expect(listOf(text)).not.toMatch(/<option[^>]*>[^<]*\d/);
      expect(listOf((await send("GET", `/?namespace=big&state=${state}&skip=450`)).text)).not.toContain("more; search");
    }
  });

  test("searches the last known state while the registry does not answer", async () => {
    let broken = false;
    const { send, claim, clock } = makeDashboard({
      change: (registry) => ({
        ...registry,
        async ping() {
          if (broken) throw new SnowleaseError("REGISTRY_UNAVAILABLE", "It is gone.");
          return registry.ping();
        },
        async workers(...args) {
          if (broken) throw new SnowleaseError("REGISTRY_UNAVAILABLE", "It is gone.");
          return registry.workers(...args);
        },
      }),
    });
    for (const layout of ["westid", "uid"] as const) {
      for (const host of ["web-1", "job-1"]) await claim(layout, { host }, { layout });
      await send("GET", `/?namespace=${layout}`);
      broken = true;
      await clock.advance(1000);
      expect(idsOf((await send("GET", `/?namespace=${layout}&q=job`)).text)).toEqual([1]);
      broken = false;
      await clock.advance(1000);
    }
  });
});
