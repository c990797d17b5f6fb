import { once } from "node:events";
import { connect } from "node:net";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Daemon, type DaemonOptions, startDaemon } from "../../src/daemon.ts";
import { systemClock } from "../../src/clock.ts";
import { layouts } from "../../src/id/layout.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { ownLeases } from "../../src/ops/ids.ts";
import { type FakeClock, fakeClock, memoryRegistry } from "../../src/testing.ts";
import { freePort } from "../support/servers.ts";

const open: Daemon[] = [];

/** The clock of daemons and registries. It stands still, whatever the machine does meanwhile. */
let clock: FakeClock;
let memory: Registry;

beforeEach(() => {
  clock = fakeClock();
  memory = memoryRegistry({ clock });
});

afterEach(async () => {
  for (const daemon of open.splice(0)) await daemon.close("now");
});

type Line = Record<string, unknown> & { level: string; message: string };

const long = 600_000;
/** No request is late. */
const limits = { headersTimeout: long, requestTimeout: long, keepAliveTimeout: long, idleTimeout: long };

async function start(options: Partial<DaemonOptions> = {}): Promise<{ daemon: Daemon; url: string; lines: Line[] }> {
  const lines: Line[] = [];
  const write =
    (level: string) =>
    (fields: object, message: string): void =>
      void lines.push({ level, message, ...fields });
  const log = { info: write("info"), warn: write("warn"), error: write("error") };
  const daemon = await startDaemon({
    registry: memory,
    listen: { host: "127.0.0.1", port: 0 },
    log,
    clock,
    limits,
    drainTimeout: long,
    ...options,
  });
  open.push(daemon);
  return { daemon, url: daemon.url ?? "", lines };
}

async function post(
  url: string,
  body: object = {},
): Promise<{ status: number; body: { ids: string[]; code: string } }> {
  const headers = { "content-type": "application/json" };
  const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
  return { status: response.status, body: (await response.json()) as { ids: string[]; code: string } };
}

/** A registry of which one operation waits until it is let go. */
function held(
  registry: Registry,
  name: "claim" | "release",
): { registry: Registry; entered: Promise<void>; letGo(): void } {
  let enter = (): void => {};
  let letGo = (): void => {};
  const entered = new Promise<void>((resolve) => (enter = resolve));
  const gate = new Promise<void>((resolve) => (letGo = resolve));
  const wait = async <Answer>(call: () => Promise<Answer>): Promise<Answer> => {
    enter();
    await gate;
    return call();
  };
  const slow: Registry =
    name === "claim"
      ? { ...registry, claim: (request) => wait(() => registry.claim(request)) }
      : { ...registry, release: (request) => wait(() => registry.release(request)) };
  return { registry: slow, entered, letGo };
}

async function refuses(url: string): Promise<boolean> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  try {
    await once(socket, "connect");
    return false;
  } catch {
    return true;
  } finally {
    socket.destroy();
  }
}

/** A daemon whose clock is the machine's: so many IDs take some ticks. */
function startInRealTime(): ReturnType<typeof start> {
  const namespaceLimits = { maxClockSkew: long };
  return start({ clock: systemClock, registry: memoryRegistry(), namespaceLimits, operationTimeout: long });
}

test("100,000 IDs at once are all different and in order", async () => {
  const { url } = await startInRealTime();
  const { status, body } = await post(`${url}/v1/orders/ids`, { count: 100_000 });
  expect(status).toBe(200);
  const ids = body.ids.map(BigInt);
  expect(ids.length).toBe(100_000);
  expect(ids.every((id, i) => i === 0 || id > (ids[i - 1] ?? 0n))).toBe(true);
});

test("callers at once share the daemon's worker ID, and never get the same ID", async () => {
  const { url } = await startInRealTime();
  const replies = await Promise.all(Array.from({ length: 50 }, () => post(`${url}/v1/orders/ids`, { count: 100 })));
  const ids = replies.flatMap(({ body }) => body.ids);
  expect(new Set(ids).size).toBe(5000);
  expect(new Set(ids.map((id) => layouts.westid.decompose(BigInt(id)).workerId))).toEqual(new Set([0]));
});

test("a drain finishes what is in flight, takes nothing new, gives its own worker IDs back and closes the registry", async () => {
  let closed = false;
  const { registry, entered, letGo } = held({ ...memory, close: async () => void (closed = true) }, "claim");
  const { daemon, url, lines } = await start({ registry });
  const asked = post(`${url}/v1/orders/ids`);
  await entered;

  const drained = daemon.close();
  await expect.poll(() => refuses(url)).toBe(true);
  expect(closed).toBe(false);
  letGo();
  expect((await asked).status).toBe(200);
  await drained;
  expect(closed).toBe(true);
  expect(await memory.worker("orders", 0)).toMatchObject({ state: "free", clean: true });
  expect(lines.map(({ event }) => event)).toEqual(["listening", "scope", "draining", "claimed", "released", "stopped"]);
});

test("once its worker IDs are given back, a daemon claims none for whoever still asks", async () => {
  const holder = { host: "here", ip: "127.0.0.1", pid: 1, instance: "daemon" };
  const source = ownLeases(
    { registry: memory, clock, makeToken: () => "0".repeat(32) },
    {
      layout: layouts.westid,
      window: 60_000,
      operationTimeout: 1000,
      claimTimeout: 0,
      maxWait: 500,
      reuse: "any",
      holder,
    },
  );
  expect(await source.take("orders", 1)).toHaveLength(1);
  await source.close();
  for (const namespace of ["orders", "bills"]) {
    await expect(source.take(namespace, 1)).rejects.toMatchObject({ code: "REGISTRY_UNAVAILABLE", retryable: true });
  }
  expect(await memory.worker("orders", 0)).toMatchObject({ state: "free", fence: 1 });
  expect(await memory.describe("bills")).toBeUndefined();
});

test("a connection that idles does not hold up a drain", async () => {
  const { daemon, url } = await start();
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.on("error", () => {});
  const over = new Promise((resolve) => socket.once("close", resolve));
  socket.write("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
  await once(socket, "data");
  await daemon.close();
  await over;
});

test("a request that does not end is given up after the drain's time", async () => {
  const { registry, entered } = held(memory, "claim");
  const { daemon, url } = await start({ registry, drainTimeout: 50 });
  const asked = post(`${url}/v1/orders/leases`, { now: clock.now() });
  asked.catch(() => {});
  await entered;
  await daemon.close();
  await expect(asked).rejects.toThrow();
});

test("closing `now` ends a drain that waits", async () => {
  const { registry, entered } = held(memory, "claim");
  const { daemon, url } = await start({ registry, drainTimeout: 1_000_000 });
  const asked = post(`${url}/v1/orders/leases`, { now: clock.now() });
  asked.catch(() => {});
  await entered;
  const drained = daemon.close();
  await daemon.close("now");
  await drained;
  await expect(asked).rejects.toThrow();
});

test("closing `now` does not wait for worker IDs to be given back", async () => {
  const { registry, entered } = held(memory, "release");
  const { daemon, url } = await start({ registry });
  await post(`${url}/v1/orders/ids`);
  const drained = daemon.close();
  await entered;
  await daemon.close("now");
  await drained;
});

test("a registry that fails on the way out is logged, and the daemon stops all the same", async () => {
  const gone = (): Promise<never> => Promise.reject(new Error("gone"));
  const { daemon, url, lines } = await start({ registry: { ...memory, release: gone, close: gone } });
  await post(`${url}/v1/orders/ids`);
  await daemon.close();
  expect(lines.map(({ message }) => message)).toEqual([
    "listening",
    expect.stringMatching(/^Worker IDs are unique among all who use this daemon, and the generators of this process\./),
    "claimed",
    "draining",
    "could not give every worker ID back",
    "could not close the registry",
    "stopped",
  ]);
});

test("the life of the daemon's own lease is in the log, and no token", async () => {
  const tokens: string[] = [];
  const claim: Registry["claim"] = (request) => {
    tokens.push(request.token);
    return memory.claim(request);
  };
  const { url, lines } = await start({ registry: { ...memory, claim }, window: 150 });
  await post(`${url}/v1/orders/ids`);
  await memory.forceRelease({ namespace: "orders", workerId: 0, force: true });
  // Past the next renewal, and not past the window: nobody can have worker 0 yet.
  await clock.advance(100);
  await expect
    .poll(() => lines.map(({ event }) => event))
    .toEqual(["listening", "scope", "claimed", "lost", "switched"]);
  expect(lines[2]).toMatchObject({ own: true, namespace: "orders", workerId: 0, fence: 1 });
  expect(lines[4]).toMatchObject({ own: true, namespace: "orders", workerId: 1, previousWorkerId: 0 });
  expect(tokens.length).toBe(2);
  for (const token of tokens) expect(JSON.stringify(lines)).not.toContain(token);
});

test("its own lease keeps to what its namespace needs and allows, and makes one as it is set to", async () => {
  const shared = { ...memory, close: async () => {} };
  await memory.init({ namespace: "short", layout: layouts.westid.fingerprint, maxWindow: 5000 });
  await memory.init({ namespace: "slow", layout: "timestamp:31,worker:10,sequence:12@1463673600000/1000" });
  const usual = await start({ registry: shared, namespaceLimits: { maxWindow: 90_000 } });
  const brief = await start({ registry: shared, window: 100 });
  const asked = [`${usual.url}/v1/short/ids`, `${usual.url}/v1/fresh/ids`, `${brief.url}/v1/slow/ids`];
  for (const url of asked) expect((await post(url)).status).toBe(200);
  const windowOf = async (namespace: string): Promise<number> => {
    const [record] = await memory.workers(namespace);
    return (record?.until ?? 0) - (record?.seenClock ?? 0);
  };
  expect(await windowOf("short")).toBe(5000);
  expect(await windowOf("slow")).toBe(4000);
  expect(await memory.describe("fresh")).toMatchObject({ maxWindow: 90_000 });
});

test("a window that new namespaces will not allow is refused, not cut", async () => {
  await expect(start({ window: 660_000 })).rejects.toThrow(
    "Expected `window` to be at most 120000 ms (the maxWindow of new namespaces), got `660000` (number)",
  );
  const { url } = await start({ window: 660_000, namespaceLimits: { maxWindow: 660_000 } });
  expect((await post(`${url}/v1/orders/ids`)).status).toBe(200);
});

test("a request that comes before a deferred registry is open waits for it", async () => {
  const port = await freePort();
  let letGo = (): void => {};
  const gate = new Promise<void>((resolve) => (letGo = resolve));
  const open = (): Promise<void> => gate;
  const describe: Registry["describe"] = (namespace) => gate.then(() => memory.describe(namespace));
  const starting = start({ registry: { ...memory, describe, open }, listen: { host: "127.0.0.1", port } });
  const url = `http://127.0.0.1:${port}`;
  await expect.poll(() => refuses(url)).toBe(false);
  const asked = post(`${url}/v1/orders/ids`);
  const first = await Promise.race([starting.then(() => "started"), asked.then(() => "answered"), soon()]);
  expect(first).toBe("neither");
  letGo();
  expect((await asked).status).toBe(200);
  await starting;
});

/** Some turns of the event loop, in which whatever is ready would happen. */
async function soon(): Promise<string> {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  return "neither";
}
