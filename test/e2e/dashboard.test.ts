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

  /** A page, and what went wrong on it: errors, refused content, requests to others. */
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
    // Its own text is evaluated: the page's policy lets in no script that is not of the daemon.
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

  /** A pool of 32 that is full, and a claim there that is refused. */
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

  test("begins with what is wrong, with and without a script, wide or narrow", async () => {
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

  test("says what went wrong while it is looked at", async () => {
    const { page } = await open("/?namespace=orders");
    expect(await page.locator("#alarms").count()).toBe(0);
    const body = JSON.stringify({ host: "late-comer", now: Date.now(), workerId: 0 });
    const headers = { "content-type": "application/json" };
    await fetch(`${daemon.url}/v1/orders/leases`, { method: "POST", headers, body });
    await page.getByRole("group", { name: "What needs attention" }).getByText("1 claim refused").waitFor();
    await expect.poll(() => page.getByRole("status").textContent(), patiently).toContain("refused");
  });

  const id = (): bigint => layouts.westid.compose({ timestamp: Date.now(), workerId: 0, sequence: 1 });

  // A thousand cells, looked at in every way: on a busy machine that takes its time.
  test("has nothing that axe objects to, wide or 360 px narrow, light or dark", async () => {
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

  test("is, with 300 holders on a phone, a page of 2,000 px: holders before what is counted, each in one line", async () => {
    for (let i = 4; i < 300; i++) await claim(i % 9 === 0 ? `${longName}${i}` : `web-${i}`);
    const { page, wrong } = await open("/?namespace=orders", { viewport: { width: 390, height: 844 } });
    expect(await page.evaluate("document.documentElement.scrollHeight")).toBeLessThanOrEqual(2000);
    expect(await sidewaysScroll(page)).toBe(0);
    const top = async (selector: string): Promise<number> => (await page.locator(selector).boundingBox())?.y ?? 0;
    expect(await top("#holders")).toBeLessThan(await top("#counts"));
    const heights = "Array.from(document.querySelectorAll('#holders tbody tr'), (row) => Math.round(row.offsetHeight))";
    expect(new Set(await page.evaluate<number[]>(heights)).size).toBe(1);
    expect(await violations(page)).toEqual([]);
    await page.getByRole("link", { name: "Next 20" }).click();
    await page.getByText(/^21 to 40 of \d+$/).waitFor();
    await page.getByLabel("Host, address or worker ID").fill("web-299");
    await page.getByRole("button", { name: "List" }).click();
    await page.getByText("1 to 1 of 1").waitFor();
    expect(await page.locator("#holders .host").allInnerTexts()).toEqual(["web-299"]);
    await page.getByText("Outlook").click();
    await page.getByText("No forecast").waitFor();
    expect(wrong).toEqual([]);
  });

  test("is read without a script: links and forms lead everywhere", async () => {
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

  test("is moved in with the keyboard: Tab to the grid, arrows in it, Enter to open", async () => {
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
    // One stop for Tab, however many cells: the next one is behind the grid.
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
    expect(await press("ArrowDown")).toMatch(/^32, /);
  });

  test("follows what happens, and leaves focus, typed text and layout as they are", async () => {
    const { page, wrong } = await open("/?namespace=orders");
    await page.getByLabel("Who made an ID").fill("12");
    await page.getByRole("link", { name: "Worker 2", exact: true }).focus();
    const place = (): Promise<unknown> =>
      page.evaluate("JSON.stringify(document.querySelector('#holders').getBoundingClientRect())");
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

  test("stands still when it is told to pause, and says so when the daemon is gone", async () => {
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

  test("takes a token once, for pages and events, and forgets it when asked to", async () => {
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
