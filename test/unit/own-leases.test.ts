import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { layouts } from "../../src/id/layout.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { claimRate } from "../../src/serving/claim-rate.ts";
import { tokenFile } from "../../src/serving/tokens.ts";
import { type IdMaker, type OwnLeaseOptions, ownLeases } from "../../src/ops/ids.ts";
import { fakeClock, memoryRegistry } from "../../src/testing.ts";
import { makeApi } from "../support/api.ts";
import { recordWindows } from "../support/recorded-windows.ts";

const window = 60_000;
const idle = 5 * window;
const holder = { host: "here", ip: "127.0.0.1", pid: 1, instance: "daemon" };

function makeSource(registry: Registry, clock = systemClock, options: Partial<OwnLeaseOptions> = {}): IdMaker {
  const makeToken = (): string => crypto.randomUUID().replaceAll("-", "");
  const terms = { layout: layouts.westid, window, operationTimeout: 1000, claimTimeout: 0, maxWait: 500 };
  return ownLeases({ registry, clock, makeToken }, { ...terms, reuse: "any", holder, ...options });
}

async function live(registry: Registry, ...namespaces: readonly string[]): Promise<readonly string[]> {
  const states = namespaces.map(async (namespace) => (await registry.worker(namespace, 0))?.state);
  const found = await Promise.all(states);
  return namespaces.filter((_, i) => found[i] === "live");
}

test("a worker ID goes back when no ID was asked for during five windows, and the next request claims it again", async () => {
  const clock = fakeClock();
  const registry = memoryRegistry({ clock });
  const source = makeSource(registry, clock);
  await source.take("orders", 1);
  await clock.advance(idle - 1000);
  await source.take("orders", 1);
  await clock.advance(idle - 1000);
  expect(await live(registry, "orders")).toEqual(["orders"]);
  expect(source.holds("orders")).toBe(true);
  await clock.advance(1000);
  expect(await registry.worker("orders", 0)).toMatchObject({ state: "free", clean: true, fence: 1 });
  expect(source.holds("orders")).toBe(false);
  await source.take("orders", 1);
  expect(await registry.worker("orders", 0)).toMatchObject({ state: "live", fence: 2 });
});

test("a worker ID that a request waits on does not go back", async () => {
  const clock = fakeClock();
  const registry = memoryRegistry({ clock });
  const source = makeSource(registry, clock);
  const [perTick] = [layouts.westid.maxSequence + 1];
  await source.take("orders", perTick);
  // The clock stands still: the tick stays full.
  const asked = source.take("orders", 1);
  await source.releaseIdle();
  expect(await live(registry, "orders")).toEqual(["orders"]);
  await clock.advance(1);
  expect(await asked).toHaveLength(1);
  await source.releaseIdle();
  expect(await live(registry, "orders")).toEqual([]);
});

test("for one namespace too many, the one that was used the longest ago goes back", async () => {
  const clock = fakeClock();
  const registry = memoryRegistry({ clock });
  const source = makeSource(registry, clock, { most: 2 });
  for (const namespace of ["a", "b", "a", "c"]) {
    await source.take(namespace, 1);
    await clock.advance(1);
  }
  expect(await live(registry, "a", "b", "c")).toEqual(["a", "c"]);
  expect(await registry.worker("b", 0)).toMatchObject({ state: "free", clean: true });
});

test("where requests use each namespace, one more is refused, and served when one of them is over", async () => {
  const clock = fakeClock();
  const registry = memoryRegistry({ clock });
  const source = makeSource(registry, clock, { most: 2 });
  const more = layouts.westid.maxSequence + 2;
  const asked = ["a", "b"].map((namespace) => source.take(namespace, more));
  await expect(source.take("c", 1)).rejects.toMatchObject({
    code: "RATE_LIMITED",
    message: expect.stringMatching(/in 2 namespaces already.*`maxOwnLeases`/),
    details: { retryAfterMs: 1000 },
  });
  expect(await registry.describe("c")).toBeUndefined();
  await clock.advance(1);
  await clock.advance(1);
  await Promise.all(asked);
  expect(await source.take("c", 1)).toHaveLength(1);
  expect((await live(registry, "a", "b", "c")).length).toBe(2);
});

test("a claim waits until the only worker ID of the pool is back", async () => {
  const clock = fakeClock();
  const memory = memoryRegistry({ clock });
  let letGo = (): void => {};
  const gate = new Promise<void>((resolve) => (letGo = resolve));
  const registry: Registry = { ...memory, release: (request) => gate.then(() => memory.release(request)) };
  const source = makeSource(registry, clock, { pool: { first: 0, last: 0 } });
  await source.take("orders", 1);
  const released = source.releaseIdle();
  const asked = source.take("orders", 1);
  await clock.advance(1);
  expect((await memory.worker("orders", 0))?.fence).toBe(1);
  letGo();
  await released;
  expect(await asked).toHaveLength(1);
  expect((await memory.worker("orders", 0))?.fence).toBe(2);
});

test("a worker ID that cannot be given back is told of, and its namespace is served by another", async () => {
  const clock = fakeClock();
  const memory = memoryRegistry({ clock });
  const told: unknown[] = [];
  const release = (): Promise<never> => Promise.reject(new Error("gone"));
  const onNotReleased = (error: unknown, namespace: string): void => void told.push([String(error), namespace]);
  const source = makeSource({ ...memory, release }, clock, { most: 1, onNotReleased });
  await source.take("a", 1);
  await source.take("b", 1);
  expect(told).toEqual([["Error: gone", "a"]]);
  const [id = 0n] = await source.take("a", 1);
  expect(layouts.westid.decompose(id).workerId).toBe(1);
  await expect(source.close()).rejects.toThrow("gone");
});

test("many worker IDs are given back side by side, when it drains and when it ends", async () => {
  const memory = memoryRegistry();
  let [under, most] = [0, 0];
  const release: Registry["release"] = async (request) => {
    most = Math.max(most, ++under);
    await new Promise((resolve) => setImmediate(resolve));
    under--;
    return memory.release(request);
  };
  const namespaces = Array.from({ length: 50 }, (_, i) => `n${i}`);
  for (const end of ["releaseIdle", "close"] as const) {
    const source = makeSource({ ...memory, release });
    await Promise.all(namespaces.map((namespace) => source.take(namespace, 1)));
    most = 0;
    await source[end]();
    expect(most).toBe(50);
    expect(await live(memory, ...namespaces)).toEqual([]);
  }
});

test("worker IDs that come and go under requests make no ID twice, and none outside of a window", async () => {
  const windows = recordWindows(memoryRegistry());
  const { registry } = windows;
  const source = makeSource(registry, systemClock, { most: 2, window: 1000 });
  const namespaces = ["a", "b", "c", "d"];
  const made = new Map<string, bigint[]>(namespaces.map((namespace) => [namespace, []]));
  let claims = 0;
  const end = performance.now() + 1000;
  const client = async (seed: number): Promise<void> => {
    // For a second, and on a slow machine until there were claims enough.
    for (let i = seed; claims <= 50 || performance.now() < end; i++) {
      const namespace = namespaces[(i * 7 + seed) % namespaces.length] ?? "a";
      if (!source.holds(namespace)) claims++;
      if (i % 5 === 0) void source.releaseIdle();
      try {
        made.get(namespace)?.push(...(await source.take(namespace, (i * 13) % 5000)));
      } catch (error) {
        expect(error).toMatchObject({ code: "RATE_LIMITED" });
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
  };
  await Promise.all(Array.from({ length: 6 }, (_, seed) => client(seed)));
  await source.close();
  expect(claims).toBeGreaterThan(50);
  for (const [namespace, ids] of made) {
    expect(ids.length).toBeGreaterThan(1000);
    expect(new Set(ids).size).toBe(ids.length);
    const rows = await registry.history(namespace, 0, { limit: 10_000 });
    const used = new Set(ids.map((id) => layouts.westid.decompose(id)).map((id) => `${id.workerId} ${id.timestamp}`));
    const outside = [...used].filter((text) => {
      const [workerId, timestamp = 0] = text.split(" ").map(Number);
      return workerId !== 0 || !rows.some(({ from, until }) => timestamp >= from && timestamp < until);
    });
    expect(outside).toEqual([]);
  }
  windows.check();
});

describe("over HTTP", () => {
  const folder = mkdtempSync(join(tmpdir(), "snowlease-own-"));
  afterAll(() => rmSync(folder, { recursive: true }));
  const bearer = (token: string): Record<string, string> => ({ authorization: `Bearer ${token}` });
  const silent = { info() {}, warn() {}, error() {} };
  const tokens = (): ReturnType<typeof tokenFile> => {
    const lines = ["w worker", "v worker", "a admin"].map((line) =>
      line.replace(/^\S+/, (token) => createHash("sha256").update(token).digest("hex")),
    );
    writeFileSync(join(folder, "tokens"), lines.join("\n"), { mode: 0o600 });
    return tokenFile(join(folder, "tokens"), silent);
  };

  test("the first request in a namespace counts as a claim of its client, a later one does not", async () => {
    const clock = fakeClock();
    const api = makeApi({ clock, tokens: tokens(), claimRate: claimRate(1, clock) });
    const ask = (i: number, token: string): ReturnType<typeof api.call> =>
      api.call("POST", `/v1/n${i}/ids`, {}, bearer(token));
    for (let i = 0; i < 10; i++) expect((await ask(i, "w")).status).toBe(200);
    const { status, body } = await ask(10, "w");
    expect([status, body.code, body.retryAfterMs]).toEqual([429, "RATE_LIMITED", 1000]);
    expect(await api.registry.describe("n10")).toBeUndefined();
    for (let i = 0; i < 10; i++) expect((await ask(i, "w")).status).toBe(200);
    expect((await ask(10, "v")).status).toBe(200);
  });
});
