import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AxeResults } from "axe-core";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { type Daemon, type DaemonOptions, startDaemon } from "../../src/daemon.ts";
import { layouts } from "../../src/id/layout.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { memoryRegistry } from "../../src/testing.ts";
import { chromiumMissing, startChromium } from "../support/chromium.ts";
import { beginQuarantine } from "../support/quarantine.ts";

const silent = { info() {}, warn() {}, error() {} };
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
interface Look {
  readonly width: number;
  readonly colorScheme: "light" | "dark";
}

const patiently = { timeout: 30_000 };
const longName = "a-name-that-is-longer-than-any-line-".repeat(6);

describe.skipIf(chromiumMissing !== undefined)(chromiumMissing ?? "the dashboard in Chromium", () => {
  let browser: Browser;
  let registry: Registry;
  let daemon: Daemon;
  beforeAll(async () => {
    browser = await startChromium();
  });
  afterAll(() => browser.close());

  const limits = { maxWindow: 600_000 };
  let claims = 0;
  const claim = async (host: string, workerId?: number): Promise<number> => {
    const { pool, fingerprint } = layouts.westid;
    const holder = { host, ip: "192.0.2.1", pid: ++claims, instance: "" };
    const token = claims.toString(16).padStart(32, "0");
    const request = { namespace: "orders", token, workerId, pool, layout: fingerprint, window: 600_000, limits };
    const grant = await registry.claim({ ...request, clock: Date.now(), holder });
    if (grant.outcome !== "granted") throw new Error(`The claim was refused: ${grant.outcome}`);
    return grant.workerId;
  };

  async function serve(options: Partial<DaemonOptions> = {}): Promise<Daemon> {
    const listen = { host: "127.0.0.1", port: 0 };
    const started = await startDaemon({ registry, listen, log: silent, ...options });
    onTestFinished(() => started.close("now"));
    return started;
  }

  /** A page, and what went wrong on it: errors, refused content, requests to other hosts. */
  async function open(path: string, options: BrowserContextOptions = {}): Promise<{ page: Page; wrong: string[] }> {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
    onTestFinished(() => context.close());
    const page = await context.newPage();
    page.setDefaultTimeout(30_000);
    const wrong: string[] = [];
    page.on("pageerror", (error) => wrong.push(error.message));
    page.on("console", (message) => message.type() === "error" && wrong.push(message.text()));
    page.on("request", (request) => request.url().startsWith(`${daemon.url}/`) || wrong.push(request.url()));
    await page.goto(daemon.url + path, { waitUntil: "load" });
    return { page, wrong };
  }

  async function violations(page: Page): Promise<string[]> {
    // The test evaluates axe's text: the page's policy allows only scripts of the daemon.
    await page.evaluate(axe);
    const { violations } = await page.evaluate<AxeResults>("axe.run(document, { resultTypes: ['violations'] })");
    return violations.flatMap(({ id, nodes }) =>
      nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary}`),
    );
  }

  const sidewaysScroll = (page: Page): Promise<number> =>
    page.evaluate("document.documentElement.scrollWidth - window.innerWidth");

  beforeEach(async () => {
    registry = memoryRegistry();
    for (const host of ["web-1", "خادم-١", longName, "<script>alert(1)</script>"]) await claim(host);
    await registry.pin("orders", 1023, "kept");
    const { workerId } = { workerId: await claim("crashed") };
    await registry.forceRelease({ namespace: "orders", workerId, force: true });
    daemon = await serve();
  });

  /** A full pool of 32, and a refused claim there. */
  async function fillPool(): Promise<void> {
    const { pool, fingerprint: layout } = layouts.safe53;
    for (let i = 0; i <= pool.last; i++) {
      const holder = { host: `web-${i}`, ip: "192.0.2.1", pid: i, instance: "" };
      const request = { namespace: "full", token: (1000 + i).toString(16).padStart(32, "0"), pool, layout, holder };
      await registry.claim({ ...request, clock: Date.now(), window: 600_000, limits });
    }
    const body = JSON.stringify({ host: "late-comer", now: Date.now() });
    const headers = { "content-type": "application/json" };
    const { status } = await fetch(`${daemon.url}/v1/full/leases`, { method: "POST", headers, body });
    expect(status).toBe(503);
  }

  test("begins with the alarms, with and without a script, wide or narrow", async () => {
    await fillPool();
    for (const javaScriptEnabled of [true, false]) {
      const { page, wrong } = await open("/?namespace=full", { javaScriptEnabled, colorScheme: "dark" });
      for (const width of [1280, 360]) {
        await page.setViewportSize({ width, height: 800 });
        const alarms = await page.getByRole("group", { name: "What needs attention" }).innerText();
        expect(alarms).toMatch(
          /The pool is full All 32 worker IDs are taken.*\n*1 claim refused Since .* POOL_EXHAUSTED/s,
        );
        const top =
          "document.querySelector('#alarms').getBoundingClientRect().top < document.querySelector('#counts').getBoundingClientRect().top";
        expect(await page.evaluate(top)).toBe(true);
        expect(await sidewaysScroll(page)).toBe(0);
        if (javaScriptEnabled) expect(await violations(page)).toEqual([]);
        const folder = process.env["SNOWLEASE_SCREENSHOTS"];
        if (folder !== undefined)
          await page.screenshot({ path: join(folder, `full-${width}-${javaScriptEnabled}.png`) });
      }
      expect(wrong).toEqual([]);
      await page.context().close();
    }
  }, 120_000);

  test("shows a quarantine, and why a lease was lost", async () => {
    const headers = { "content-type": "application/json" };
    const send = (method: string, path: string, body: object): Promise<Response> =>
      fetch(daemon.url + path, { method, headers, body: JSON.stringify({ ...body, now: Date.now() }) });
    const first = await send("POST", "/v1/orders/leases", { host: "late", workerId: 77, windowMs: 100 });
    const { token, fence } = (await first.json()) as { token: string; fence: number };
    const next = { host: "next", workerId: 77, windowMs: 100 };
    await expect.poll(async () => (await send("POST", "/v1/orders/leases", next)).status, patiently).toBe(201);
    expect((await send("PATCH", "/v1/orders/leases/77", { token, fence })).status).toBe(410);
    await beginQuarantine(registry, "orders");
    const { quarantineEnd = 0, era = "" } = (await registry.describe("orders")) ?? {};
    for (const width of [1280, 360]) {
      const { page, wrong } = await open("/?namespace=orders", { colorScheme: width === 360 ? "dark" : "light" });
      await page.setViewportSize({ width, height: 900 });
      const alarms = await page.getByRole("group", { name: "What needs attention" }).innerText();
      expect(alarms).toContain("QUARANTINE The registry may have forgotten windows that it granted");
      expect(alarms).toContain(
        `It grants again at ${new Date(quarantineEnd).toISOString().slice(0, 19).replace("T", " ")}Z.`,
      );
      expect(await page.locator("#events").innerText()).toMatch(/77 lost\s+Another holder has the worker ID\./);
      expect(await sidewaysScroll(page)).toBe(0);
      expect(await violations(page)).toEqual([]);
      const folder = process.env["SNOWLEASE_SCREENSHOTS"];
      if (folder !== undefined)
        await page.screenshot({ path: join(folder, `quarantine-${width}.png`), fullPage: true });
      expect(wrong).toEqual([]);
      await page.context().close();
    }
    await registry.endQuarantine?.({ namespace: "orders", era });
    const { page } = await open("/?namespace=orders");
    await page.getByText("An operator ended the quarantine.").waitFor();
  }, 120_000);

  test("shows what went wrong while a reader looks at it", async () => {
    const { page } = await open("/?namespace=orders");
    expect(await page.locator("#alarms").count()).toBe(0);
    const body = JSON.stringify({ host: "late-comer", now: Date.now(), workerId: 0 });
    const headers = { "content-type": "application/json" };
    await fetch(`${daemon.url}/v1/orders/leases`, { method: "POST", headers, body });
    await page.getByRole("group", { name: "What needs attention" }).getByText("1 claim refused").waitFor();
    await expect.poll(() => page.getByRole("status").textContent(), patiently).toContain("refused");
  });

  const id = (): bigint => layouts.westid.compose({ timestamp: Date.now(), workerId: 0, sequence: 1 });

  // A thousand cells, in every view: on a busy machine that takes its time.
  test("passes axe, wide or 360 px narrow, light or dark", async () => {
    const looks: readonly Look[] = [
      { width: 1280, colorScheme: "light" },
      { width: 360, colorScheme: "dark" },
    ];
    const paths: Record<string, readonly Look[]> = {
      "/?namespace=orders&worker=0": looks,
      [`/?namespace=orders&id=${id()}`]: [{ width: 360, colorScheme: "light" }],
      "/?namespace=empty": looks,
      "/?namespace=NO": looks,
    };
    for (const [path, ways] of Object.entries(paths)) {
      const { page, wrong } = await open(path);
      await page.evaluate(axe);
      for (const { width, colorScheme } of ways) {
        await page.setViewportSize({ width, height: 800 });
        await page.emulateMedia({ colorScheme });
        const where = { path, width, colorScheme };
        expect({ ...where, violations: await violations(page), sideways: await sidewaysScroll(page) }).toEqual({
          ...where,
          violations: [],
          sideways: 0,
        });
      }
      expect(wrong.filter((what) => !/status of 400/.test(what))).toEqual([]);
      await page.context().close();
    }
  }, 180_000);

  test("works without a script: links and forms lead everywhere", async () => {
    const { page } = await open("/?namespace=orders", { javaScriptEnabled: false });
    await page.getByRole("link", { name: "Worker 0", exact: true }).click();
    await page.getByRole("heading", { name: "Worker 0" }).waitFor();
    await page.getByLabel("Who made an ID").fill(String(id()));
    await page.getByRole("button", { name: "Explain" }).click();
    expect(await page.locator("#explained").textContent()).toContain("web-1");
    await page.locator("#grid a").nth(1023).click();
    expect(await page.locator("#detail").textContent()).toContain("kept");
    expect(await page.getByRole("button", { name: "Pause" }).isVisible()).toBe(false);
  });

  test("works with a finger on a page 360 px wide: large targets, whole words, no endless page", async () => {
    for (let i = 0; i < 1024; i++) await claim(`web-${i}.eu-west-1.compute.internal`, i).catch(() => undefined);
    const small = `[...document.querySelectorAll("a, button, input:not([type=hidden]), select")].filter((element) => {
      const { width, height } = element.getBoundingClientRect();
      return width > 0 && (width < 24 || height < 24);
    }).map((element) => element.outerHTML)`;
    // A word is broken if the box of its letters has more than one line.
    const broken = `(() => {
      const found = [];
      const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      while (walker.nextNode()) {
        const { data, parentElement } = walker.currentNode;
        if (parentElement.closest("code, option, .unseen") !== null) continue;
        for (const { 0: word, index } of data.matchAll(/\\d{4}-\\d\\d-\\d\\d|[\\p{L}\\p{N}:.]{2,30}/gu)) {
          const range = document.createRange();
          range.setStart(walker.currentNode, index);
          range.setEnd(walker.currentNode, index + word.length);
          const tops = new Set(Array.from(range.getClientRects(), ({ top }) => Math.round(top)));
          if (tops.size > 1) found.push(word);
        }
      }
      return found;
    })()`;
    const name = longName.slice(0, 4);
    for (const path of ["/?namespace=orders", "/?namespace=orders&worker=0", `/?namespace=orders&id=${id()}`]) {
      const { page, wrong } = await open(path, { viewport: { width: 360, height: 800 } });
      expect(await page.evaluate(small)).toEqual([]);
      expect(await page.evaluate(broken)).toEqual([]);
      expect(await sidewaysScroll(page)).toBe(0);
      expect(await page.evaluate("document.documentElement.scrollHeight")).toBeLessThan(12_000);
      expect(await page.locator("#list tbody tr").count()).toBeGreaterThan(10);
      expect(await page.locator("#list").innerText()).toContain(name);
      expect(wrong).toEqual([]);
      await page.context().close();
    }
  }, 120_000);

  test("can be searched, filtered and sorted: while the user types, and by a button without a script", async () => {
    const ids = (page: Page): Promise<string[]> => page.locator("#list tbody th").allInnerTexts();
    const { page, wrong } = await open("/?namespace=orders");
    const marker = "document.documentElement.dataset.same";
    await page.evaluate(`${marker} = "yes"`);
    const box = page.getByLabel("Search");
    await box.pressSequentially("web");
    await expect.poll(() => ids(page), patiently).toEqual(["0"]);
    expect(await page.evaluate("document.activeElement.id")).toBe("q");
    expect(new URL(page.url()).searchParams.get("q")).toBe("web");
    await box.fill("");
    await page.getByLabel("State").selectOption("resting");
    await expect.poll(() => ids(page), patiently).toEqual(["4"]);
    await page.getByLabel("State").selectOption("taken");
    await expect.poll(async () => (await ids(page)).length, patiently).toBe(6);
    await page.locator("#list").getByRole("link", { name: "ID", exact: true }).click();
    await expect.poll(async () => (await ids(page))[0], patiently).toBe("1023");
    // A click on a cell of the grid leaves the list as it is.
    await page.locator("#grid a").first().click();
    await page.getByRole("heading", { name: "Worker 0" }).waitFor();
    expect((await ids(page))[0]).toBe("1023");
    expect(await page.evaluate(marker)).toBe("yes");
    expect(wrong).toEqual([]);

    const { page: bare } = await open("/?namespace=orders", { javaScriptEnabled: false });
    await bare.getByLabel("Search").fill("kept");
    await bare.getByRole("button", { name: "Find" }).click();
    await bare.getByText("1 to 1 of 1").waitFor();
    expect(await ids(bare)).toEqual(["1023"]);
    await bare.getByLabel("Search").fill("");
    await bare.getByLabel("State").selectOption("live");
    await bare.getByRole("button", { name: "Find" }).click();
    await bare.getByText("1 to 4 of 4").waitFor();
    await bare.locator("#list").getByRole("link", { name: "Window left" }).click();
    await bare.locator("th[aria-sort=ascending]").getByRole("link", { name: "Window left" }).waitFor();
    expect((await ids(bare)).length).toBe(4);
  }, 120_000);

  test("copies the commands of a worker ID with scripts, and shows them without", async () => {
    const { page, wrong } = await open("/?namespace=orders&worker=0", {
      permissions: ["clipboard-read", "clipboard-write"],
    });
    await page.getByRole("button", { name: "Copy" }).first().click();
    await page.getByRole("status").getByText("Copied: snowlease release 0 --force").waitFor();
    const copied = await page.evaluate("navigator.clipboard.readText()");
    expect(copied).toBe(`snowlease release 0 --force --fence 1 --namespace orders --registry ${daemon.url}`);
    await page.evaluate("navigator.clipboard.writeText = () => Promise.reject(new Error())");
    await page.getByRole("button", { name: "Copy" }).nth(1).click();
    await expect.poll(() => page.evaluate("String(getSelection())"), patiently).toMatch(/^snowlease pin 0 --reason/);
    expect(wrong).toEqual([]);
    const { page: bare } = await open("/?namespace=orders&worker=0", { javaScriptEnabled: false });
    await bare.getByText("snowlease pin 0 --reason").waitFor();
    expect(await bare.getByRole("button", { name: "Copy" }).count()).toBe(0);
  }, 120_000);

  test("works with the keyboard: Tab to the grid, arrows in it, Enter to open", async () => {
    const { page, wrong } = await open("/?namespace=orders");
    const focused = (): Promise<string> =>
      page.evaluate("document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent");
    const press = async (...keys: string[]): Promise<string> => {
      for (const key of keys) await page.keyboard.press(key);
      return focused();
    };
    expect(await page.getByRole("grid").count()).toBe(1);
    expect(await page.getByRole("gridcell").count()).toBe(1024);
    let tabs = 0;
    while (!(await press("Tab")).startsWith("0, ")) expect(++tabs).toBeLessThan(20);
    expect(await press("ArrowRight")).toMatch(/^1, /);
    expect(await press("ArrowDown")).toMatch(/^65, /);
    expect(await press("End")).toMatch(/^127, /);
    expect(await press("Home", "ArrowUp", "ArrowUp")).toMatch(/^0, /);
    expect(await press("Control+End", "ArrowRight", "ArrowDown")).toMatch(/^1023, pinned/);
    // One stop for Tab, however many cells there are: the next one is after the grid.
    expect(await page.locator("#grid a[tabindex='0']").count()).toBe(1);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Worker 1023" }).waitFor();
    await expect.poll(focused, patiently).toBe("Worker 1023");
    expect(new URL(page.url()).searchParams.get("worker")).toBe("1023");
    await page.goBack();
    await page.locator("#detail").waitFor({ state: "detached" });
    expect(wrong).toEqual([]);

    await page.setViewportSize({ width: 360, height: 800 });
    await page.locator("#grid a").first().focus();
    const columns = await page.evaluate<number>(
      "[...document.querySelectorAll('#grid td')].filter((cell, _, [first]) => cell.offsetTop === first.offsetTop).length",
    );
    expect(columns).toBeLessThan(32);
    expect(await press("ArrowDown")).toMatch(new RegExp(`^${columns}, `));
  });

  test("follows events, and leaves focus, typed text and layout unchanged", async () => {
    const { page, wrong } = await open("/?namespace=orders");
    await page.getByLabel("Who made an ID").fill("12");
    await page.getByRole("link", { name: "Worker 2", exact: true }).focus();
    const place = (): Promise<unknown> =>
      page.evaluate("JSON.stringify(document.querySelector('#list').getBoundingClientRect())");
    const before = await place();
    const lease = (await (
      await fetch(`${daemon.url}/v1/orders/leases`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ host: "newcomer", now: Date.now(), workerId: 500 }),
      })
    ).json()) as { readonly token: string };
    await page.getByRole("link", { name: /^500, live, .newcomer/ }).waitFor();
    expect(await page.locator("#events").textContent()).toContain("newcomer");
    await expect.poll(() => page.getByRole("status").textContent(), patiently).toMatch(/500 claimed\s+newcomer/);
    expect(await page.evaluate("document.activeElement.textContent")).toBe("2");
    expect(await page.getByLabel("Who made an ID").inputValue()).toBe("12");
    expect(JSON.parse(String(await place()))).toMatchObject({
      top: JSON.parse(String(before)).top,
      width: JSON.parse(String(before)).width,
    });

    await fetch(`${daemon.url}/v1/orders/leases/500`, {
      method: "DELETE",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ token: lease.token, now: Date.now() }),
    });
    await page.getByRole("link", { name: /^500, resting/ }).waitFor();
    const left = page.locator("[data-until]").first();
    const first = await left.textContent();
    await expect.poll(() => left.textContent(), patiently).not.toBe(first);
    expect(wrong).toEqual([]);
  });

  test("stands still on pause, and reports when the daemon is gone", async () => {
    const { page } = await open("/?namespace=orders");
    const pause = page.getByRole("button", { name: "Pause" });
    await pause.click();
    const next = await claim("late");
    await fetch(`${daemon.url}/v1/orders/workers/900/pin`, {
      method: "PUT",
      headers: { "content-type": "application/json" },
      body: '{"reason":"x"}',
    });
    const cell = page.getByRole("link", { name: new RegExp(`^${next}, live`) });
    expect(await cell.count()).toBe(0);
    await page.getByRole("button", { name: "Go on" }).click();
    await cell.waitFor();
    await daemon.close("now");
    await page.getByText("The daemon does not answer").waitFor();
    expect(await cell.count()).toBe(1);
  });

  test("takes a token once, for pages and events, and forgets it on request", async () => {
    const folder = mkdtempSync(join(tmpdir(), "snowlease-dashboard-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const tokens = join(folder, "tokens");
    writeFileSync(tokens, `${createHash("sha256").update("r3ader").digest("hex")} read\n`, { mode: 0o600 });
    daemon = await serve({ tokens });
    for (const javaScriptEnabled of [true, false]) {
      const { page } = await open("/?namespace=orders&worker=0", {
        javaScriptEnabled,
        viewport: { width: 360, height: 800 },
      });
      if (javaScriptEnabled) expect(await violations(page)).toEqual([]);
      const enter = async (token: string): Promise<void> => {
        await page.getByLabel("Token").fill(token);
        await page.getByRole("button", { name: "Sign in" }).click();
      };
      await enter("nobody");
      expect(await page.getByRole("alert").textContent()).toContain("no token which this daemon knows");
      await enter("r3ader");
      await page.getByRole("heading", { name: "Worker 0" }).waitFor();
      if (javaScriptEnabled) {
        expect(await page.evaluate("document.cookie")).toBe("");
        const opened =
          "new Promise((done) => { const s = new EventSource('/v1/orders/events'); s.onopen = () => done('open'); s.onerror = () => done('error'); })";
        expect(await page.evaluate(opened)).toBe("open");
        expect(await page.evaluate("fetch('/v1/orders/workers').then(({ status }) => status)")).toBe(401);
      }
      await page.getByRole("button", { name: "Sign out" }).click();
      await page.getByRole("heading", { name: "Sign in" }).waitFor();
    }
  });
});
