import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { SnowleaseError } from "../../src/id/errors.ts";
import { layouts } from "../../src/id/layout.ts";
import { systemClock } from "../../src/clock.ts";
import type { ClaimRequest, Registry } from "../../src/rule/registry.ts";
import { startDaemon } from "../../src/daemon.ts";
import { createApp } from "../../src/http/app.ts";
import { claimRate } from "../../src/serving/claim-rate.ts";
import { drain, makeServer } from "../../src/http/server/server.ts";
import { listenOnSocket, listenOnTcp } from "../../src/serving/listen.ts";
import type { Tokens } from "../../src/serving/tokens.ts";
import { daemonRegistry } from "../../src/registries/daemon/registry.ts";
import { type FakeClock, fakeClock, memoryRegistry } from "../../src/testing.ts";
import { makeApi } from "../support/api.ts";

const headers = { "content-type": "application/json" };
/** The clock of servers and their clients. It stands still, whatever the machine does meanwhile. */
let clock: FakeClock;
beforeEach(() => void (clock = fakeClock()));

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
  const rate = claimRate(1, clock);
  expect(exhaust(rate, "a").passed).toBe(10);
  for (const step of [-3_600_000, 7_200_000]) {
    clock.step(step);
    expect(exhaust(rate, "a").passed).toBe(0);
  }
});

test("each client has its own, however many there are", async () => {
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
  const api = makeApi({ clock, claimRate: claimRate(1, clock) });
  const claim = (body: object): ReturnType<typeof api.call> => api.call("POST", "/v1/orders/leases", body);
  const { token, workerId } = (await claim({ now: clock.now() })).body;
  // The first in a namespace is a claim of the daemon's own lease.
  expect((await api.call("POST", "/v1/orders/ids")).status).toBe(200);
  for (let i = 0; i < 8; i++) expect((await claim({})).status).toBe(400);
  const { status, headers, body } = await claim({ now: clock.now() });
  expect([status, body.code, body.retryAfterMs, headers.get("retry-after")]).toEqual([429, "RATE_LIMITED", 1000, "1"]);
  const renewal = { token, now: clock.now() };
  expect((await api.call("PATCH", `/v1/orders/leases/${workerId}`, renewal)).status).toBe(200);
  expect((await api.call("POST", "/v1/orders/ids")).status).toBe(200);
  expect((await api.call("DELETE", `/v1/orders/leases/${workerId}`, { token })).status).toBe(204);
});

/** Serves an app that lets a client claim twice, and then every 5 s. */
async function start(tokens?: Tokens): Promise<{ url: string; socket: string; refused(): number }> {
  const folder = mkdtempSync(join(tmpdir(), "snowlease-rate-"));
  cleanups.push(() => rmSync(folder, { recursive: true }));
  const rate = claimRate(0.2, clock);
  let refused = 0;
  const count = (client: string): void => {
    refused++;
    rate.count(client);
    refused--;
  };
  const app = createApp({ registry: memoryRegistry({ clock }), clock, claimRate: { count }, tokens });
  const [tcp, local] = [makeServer(app), makeServer(app)];
  const socket = join(folder, "s");
  await listenOnSocket(local, socket, "socket");
  const url = await listenOnTcp(tcp, { host: "127.0.0.1", port: 0 }, "http");
  cleanups.push(() => Promise.all([tcp, local].map((server) => drain(server, 0, AbortSignal.abort()))));
  return { url, socket: `unix:${socket}`, refused: () => refused };
}

/** Its deadlines are those of the clock that stands still; before it asks again, it waits in real time. */
function connected(address: string, options: Parameters<typeof daemonRegistry>[1] = {}): Registry {
  const registry = daemonRegistry([address], { ...options, clock: { ...clock, sleep: systemClock.sleep } });
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
    clock: clock.now(),
    window: 60_000,
    layout: layouts.westid.fingerprint,
  };
  return registry.claim(request);
};

test("the daemon's client waits where that is within its deadline, and else not", async () => {
  const { url, refused } = await start();
  const hasty = connected(url, { operationTimeout: 4000 });
  for (let i = 0; i < 2; i++) await claim(hasty);
  await expect(claim(hasty)).rejects.toMatchObject({ code: "RATE_LIMITED", details: { retryAfterMs: 5000 } });
  await clock.advance(4900);
  const patient = connected(url, { operationTimeout: 20_000 });
  const waiting = claim(patient);
  await expect.poll(refused).toBeGreaterThan(1);
  await clock.advance(100);
  expect(await waiting).toMatchObject({ outcome: "granted" });
});

test("a client is a token, an address or a socket", async () => {
  const made = async (address: string, token?: string): Promise<number> => {
    const registry = connected(address, { token, operationTimeout: 4000 });
    for (let made = 0; ; made++) {
      try {
        await claim(registry);
      } catch (error) {
        expect(error).toMatchObject({ code: "RATE_LIMITED" });
        return made;
      }
    }
  };
  const open = await start();
  expect([await made(open.url), await made(open.socket)]).toEqual([2, 2]);
  expect([await made(open.url), await made(open.socket)]).toEqual([0, 0]);
  const closed = await start({ clientOf: (token) => token, may: () => true, knows: () => true });
  expect([await made(closed.url, "a"), await made(closed.url, "b")]).toEqual([2, 2]);
  expect([await made(closed.url, "a"), await made(closed.socket, "b")]).toEqual([0, 0]);
});

test.each([
  [1, 10],
  [2, 20],
  [0, 30],
])("a daemon that is told %s lets a client claim so often at once: %i", async (claimsPerSecond, most) => {
  const registry = memoryRegistry({ clock });
  const claim = (): ReturnType<Registry["claim"]> => Promise.reject(new SnowleaseError("POOL_EXHAUSTED", "None."));
  const log = { info() {}, warn() {}, error() {} };
  const listen = { host: "127.0.0.1", port: 0 };
  const daemon = await startDaemon({
    registry: { ...registry, claim },
    listen,
    log,
    claimsPerSecond,
    clock,
    limits: { headersTimeout: 600_000, requestTimeout: 600_000 },
  });
  cleanups.push(() => daemon.close("now"));
  const body = JSON.stringify({ now: clock.now(), layout: "westid", windowMs: 1000 });
  const statuses: number[] = [];
  for (let i = 0; i < 30; i++) {
    const response = await fetch(`${daemon.url}/v1/orders/leases`, { method: "POST", body, headers });
    statuses.push(response.status);
    await response.text();
  }
  expect(statuses.filter((status) => status === 503)).toHaveLength(most);
  expect(statuses.filter((status) => status === 429)).toHaveLength(statuses.length - most);
});
