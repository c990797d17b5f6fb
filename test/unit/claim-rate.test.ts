import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { layouts } from "../../src/core/layout.ts";
import type { ClaimRequest, Registry } from "../../src/core/registry.ts";
import { type DaemonOptions, startDaemon } from "../../src/daemon.ts";
import { claimRate } from "../../src/http/claim-rate.ts";
import { daemonRegistry } from "../../src/registries/daemon/registry.ts";
import { fakeClock, memoryRegistry } from "../../src/testing.ts";
import { makeApi } from "../support/api.ts";

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

/** Counts claims of a client until one is too many. Returns how many there were, and what the last one was told to wait. */
function exhaust(rate: ReturnType<typeof claimRate>, client: string): { passed: number; retryAfterMs: number } {
  for (let passed = 0; ; passed++) {
    try {
      rate.count(client);
    } catch (error) {
      expect(error).toMatchObject({ code: "RATE_LIMITED", retryable: true });
      return { passed, retryAfterMs: (error as { details: { retryAfterMs: number } }).details.retryAfterMs };
    }
  }
}

test("a client may make ten seconds' worth of claims at once, and then so many a second", async () => {
  const clock = fakeClock();
  const rate = claimRate(100, clock);
  expect(exhaust(rate, "a")).toEqual({ passed: 1000, retryAfterMs: 10 });
  await clock.advance(9);
  expect(exhaust(rate, "a")).toEqual({ passed: 0, retryAfterMs: 1 });
  await clock.advance(1);
  expect(exhaust(rate, "a")).toEqual({ passed: 1, retryAfterMs: 10 });
  await clock.advance(5000);
  expect(exhaust(rate, "a").passed).toBe(500);
  await clock.advance(60_000);
  expect(exhaust(rate, "a").passed).toBe(1000);
});

test("a clock that is set back or ahead gives nobody more", () => {
  const clock = fakeClock();
  const rate = claimRate(1, clock);
  expect(exhaust(rate, "a").passed).toBe(10);
  for (const step of [-3_600_000, 7_200_000]) {
    clock.step(step);
    expect(exhaust(rate, "a").passed).toBe(0);
  }
});

test("each client has its own, however many there are", async () => {
  const clock = fakeClock();
  const rate = claimRate(1, clock);
  expect(exhaust(rate, "a").passed).toBe(10);
  for (let i = 0; i < 9999; i++) rate.count(`b${i}`);
  expect(exhaust(rate, "a").passed).toBe(0);
  // One more than are remembered, when those who made one claim have their whole number again.
  await clock.advance(1000);
  rate.count("c");
  expect(exhaust(rate, "a").passed).toBe(1);
});

test("only claims count, whatever becomes of them", async () => {
  const clock = fakeClock();
  const api = makeApi({ clock, claimRate: claimRate(1, clock) });
  const claim = (body: object): ReturnType<typeof api.call> => api.call("POST", "/v1/orders/leases", body);
  const { token, workerId } = (await claim({ now: clock.now() })).body;
  for (let i = 0; i < 9; i++) expect((await claim({})).status).toBe(400);
  const { status, headers, body } = await claim({ now: clock.now() });
  expect([status, body.code, body.retryAfterMs, headers.get("retry-after")]).toEqual([429, "RATE_LIMITED", 1000, "1"]);
  const renewal = { token, now: clock.now() };
  expect((await api.call("PATCH", `/v1/orders/leases/${workerId}`, renewal)).status).toBe(200);
  expect((await api.call("POST", "/v1/orders/ids")).status).toBe(200);
  expect((await api.call("DELETE", `/v1/orders/leases/${workerId}`, { token })).status).toBe(204);
});

async function start(options: Partial<DaemonOptions>): Promise<string> {
  const log = { info() {}, warn() {}, error() {} };
  const listen = { host: "127.0.0.1", port: 0 };
  const daemon = await startDaemon({ registry: memoryRegistry(), listen, log, claimsPerSecond: 2, ...options });
  cleanups.push(() => daemon.close("now"));
  return daemon.url ?? "";
}

function connected(address: string, options: Parameters<typeof daemonRegistry>[1] = {}): Registry {
  const registry = daemonRegistry([address], options);
  cleanups.push(() => registry.close());
  return registry;
}

let claims = 0;
const claim = (registry: Registry): ReturnType<Registry["claim"]> => {
  const request: ClaimRequest = {
    namespace: "orders",
    token: String(claims++).padStart(32, "0"),
    pool: layouts.westid.pool,
    holder: { host: "a", ip: "192.0.2.7", pid: 12, instance: "" },
    clock: Date.now(),
    window: 60_000,
    layout: layouts.westid.fingerprint,
  };
  return registry.claim(request);
};

test("the daemon's client waits within its deadline, and no longer", async () => {
  const url = await start({});
  const patient = connected(url);
  for (let i = 0; i < 20; i++) await claim(patient);
  const hasty = connected(url, { operationTimeout: 50 });
  await expect(claim(hasty)).rejects.toMatchObject({
    code: "RATE_LIMITED",
    details: { retryAfterMs: expect.any(Number) },
  });
  expect(await claim(patient)).toMatchObject({ outcome: "granted" });
});

test("a client is a token, an address or a socket", async () => {
  const folder = mkdtempSync(join(tmpdir(), "snowlease-rate-"));
  cleanups.push(() => rmSync(folder, { recursive: true }));
  const tokens = join(folder, "tokens");
  const line = (token: string): string => `${createHash("sha256").update(token).digest("hex")} worker\n`;
  writeFileSync(tokens, line("a") + line("b"), { mode: 0o600 });
  const [socket, other] = [join(folder, "s"), join(folder, "o")];
  const open = await start({ socket });
  const closed = await start({ tokens, socket: other });
  const made = async (address: string, token?: string): Promise<number> => {
    const registry = connected(address, { token, operationTimeout: 60 });
    for (let made = 0; ; made++) {
      try {
        await claim(registry);
      } catch (error) {
        expect(error).toMatchObject({ code: "RATE_LIMITED" });
        return made;
      }
    }
  };
  const atLeast = async (address: string, token?: string): Promise<boolean> => (await made(address, token)) >= 20;
  expect([await atLeast(open), await atLeast(`unix:${socket}`)]).toEqual([true, true]);
  expect([await atLeast(open), await atLeast(`unix:${socket}`)]).toEqual([false, false]);
  expect([await atLeast(closed, "a"), await atLeast(closed, "b")]).toEqual([true, true]);
  expect([await atLeast(closed, "a"), await atLeast(`unix:${other}`, "b")]).toEqual([false, false]);
});

test("0 is any number", async () => {
  const registry = connected(await start({ claimsPerSecond: 0 }), { operationTimeout: 5000 });
  for (let i = 0; i < 50; i++) expect(await claim(registry)).toMatchObject({ outcome: "granted" });
});
