import { once } from "node:events";
import { readFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { connect, type Socket } from "node:net";
import { json } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { startDaemonProcess, type DaemonProcess } from "../support/daemon-process.ts";

/** What a client without a token may cost besides its connection. */
const MiB = 1024 * 1024;
/** The heap grows by this much before garbage is collected. */
const garbage = 64 * MiB;

let daemon: DaemonProcess;
let sockets: Socket[];

beforeEach(async () => {
  sockets = [];
  daemon = await start();
});

/** A daemon with as little heap as a small container leaves it, 192 MiB. Its young garbage is collected early: it would hide what is kept. */
function start(...flags: string[]): Promise<DaemonProcess> {
  const NODE_OPTIONS = "--max-old-space-size=192 --max-semi-space-size=4";
  return startDaemonProcess("memory:", 0, flags, { NODE_OPTIONS });
}

afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  await daemon.end("SIGKILL");
});

/** The most memory that the daemon has ever had, bytes. */
function peak(): number {
  const [, kB] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${daemon.pid}/status`, "utf8")) ?? [];
  return Number(kB) * 1024;
}

/** A connection that sends the same request over and over and never reads an answer. */
async function deaf(request: string, times: number): Promise<Socket> {
  const socket = connect(daemon.port, "127.0.0.1");
  sockets.push(socket);
  socket.on("error", () => undefined);
  socket.pause();
  await once(socket, "connect");
  socket.write(request.repeat(times));
  return socket;
}

async function expectAlive(): Promise<void> {
  for (let i = 0; i < 5; i++) {
    const { status } = await fetch(`${daemon.url}/healthz`, { signal: AbortSignal.timeout(10_000) });
    expect(status).toBe(200);
    await sleep(200);
  }
}

test("a claim whose client has hung up is granted to no client", async () => {
  daemon.signal("SIGSTOP");
  const body = JSON.stringify({ now: Date.now() });
  const head = `POST /v1/orders/leases HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}`;
  await Promise.all(
    Array.from({ length: 300 }, async () => {
      const socket = await deaf(`${head}\r\n\r\n${body}`, 1);
      await new Promise<void>((sent) => socket.end(sent));
      socket.destroy();
    }),
  );
  daemon.signal("SIGCONT");
  const claimed = await fetch(`${daemon.url}/v1/orders/leases`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ now: Date.now() }),
  });
  expect(claimed.status).toBe(201);
  await expectAlive();
  const workers = await fetch(`${daemon.url}/v1/orders/workers`);
  expect(((await workers.json()) as { workers: unknown[] }).workers).toHaveLength(1);
});

/** Posts a body to many paths, some at a time, from one address. Returns how many answers there were of each status. */
async function postAll(
  paths: Iterable<string>,
  body: () => object,
  localAddress = "127.0.0.1",
): Promise<Record<number, number>> {
  const agent = new Agent({ keepAlive: true, maxSockets: 20, localAddress });
  const headers = { "content-type": "application/json" };
  const statuses: Record<number, number> = {};
  const left = paths[Symbol.iterator]();
  const client = async (): Promise<void> => {
    for (let next = left.next(); next.done !== true; next = left.next()) {
      const status = await new Promise<number>((resolve, reject) => {
        const asked = request(`${daemon.url}${next.value}`, { method: "POST", headers, agent }, (answer) => {
          json(answer).then(() => resolve(answer.statusCode ?? 0), reject);
        });
        asked.on("error", reject).end(JSON.stringify(body()));
      });
      statuses[status] = (statuses[status] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: 20 }, client));
  agent.destroy();
  return statuses;
}

test("a client that asks for IDs in more and more namespaces without end makes claims, and the daemon keeps at most a hundred leases", async () => {
  await daemon.end("SIGKILL");
  daemon = await start("--claims-per-second", "30");
  await expectAlive();
  const before = peak();
  const paths = Array.from({ length: 1500 }, (_, i) => `/v1/n${i}/ids`);
  const statuses = await postAll(paths, () => ({}));
  // 300 at once, and 30 a second from then on.
  expect(statuses[200]).toBeGreaterThanOrEqual(300);
  expect(statuses[429]).toBeGreaterThan(0);
  expect((statuses[200] ?? 0) + (statuses[429] ?? 0)).toBe(1500);
  expect(peak() - before).toBeLessThan(100 * 0.4 * MiB + garbage);
  await postAll(["/v1/n0/ids"], () => ({}));
  const stateOf = async (namespace: string): Promise<unknown> => {
    const answer = await fetch(`${daemon.url}/v1/${namespace}/workers/0`);
    return ((await answer.json()) as { state: unknown }).state;
  };
  const states = await Promise.all(Array.from({ length: 300 }, (_, i) => stateOf(`n${i}`)));
  expect(states.filter((state) => state === "live").length).toBeLessThanOrEqual(100);
  expect(states.filter((state) => state === "free").length).toBeGreaterThanOrEqual(200);
  expect(await daemon.end("SIGTERM")).toBe(0);
  expect(daemon.log.match(/"event":"released"/g)).toHaveLength(daemon.log.match(/"event":"claimed"/g)?.length ?? 0);
});

test("with a quota, a client that claims for 5 s leaves the pool to others", async () => {
  await daemon.end("SIGKILL");
  daemon = await start("--client-quota", "25");
  const end = performance.now() + 5000;
  function* claims(): Generator<string> {
    for (let sent = 0; sent < 600 || performance.now() < end; sent++) yield "/v1/orders/leases";
  }
  const greedy = await postAll(claims(), () => ({ now: Date.now() }));
  expect(greedy[201]).toBe(256);
  expect(greedy[429]).toBeGreaterThan(256);
  const honest = await postAll(
    Array.from({ length: 200 }).fill("/v1/orders/leases") as string[],
    () => ({ now: Date.now() }),
    "127.0.0.2",
  );
  expect(honest).toEqual({ 201: 200 });
});

describe("a daemon whose answers are never read", () => {
  test.each([12, 130])("goes on: %i connections ask 1500 times for the description", async (connections) => {
    await expectAlive();
    const before = peak();
    const request = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
    await Promise.all(Array.from({ length: connections }, () => deaf(request, 1500)));
    await expectAlive();
    expect(peak() - before).toBeLessThan(connections * MiB + garbage);
  });

  test("goes on: 130 connections ask 100 times for the description, which the limit allows", async () => {
    await expectAlive();
    const before = peak();
    const request = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
    await Promise.all(Array.from({ length: 130 }, () => deaf(request, 100)));
    await expectAlive();
    expect(sockets.filter(({ destroyed }) => destroyed)).toHaveLength(0);
    expect(peak() - before).toBeLessThan(130 * MiB + garbage);
  });

  test("goes on: 12 connections ask 100 times for 100,000 IDs", async () => {
    await expectAlive();
    const before = peak();
    const body = JSON.stringify({ count: 100_000 });
    const head = `POST /v1/orders/ids HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}`;
    await Promise.all(Array.from({ length: 12 }, () => deaf(`${head}\r\n\r\n${body}`, 100)));
    await expectAlive();
    expect(peak() - before).toBeLessThan(96 * MiB + garbage);
  });
});

test("IDs are not made for clients that have hung up; other clients get theirs", async () => {
  await expectAlive();
  const before = peak();
  const body = JSON.stringify({ count: 100_000 });
  const head = `POST /v1/orders/ids HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}`;
  for (let i = 0; i < 60; i++) {
    const batch = await Promise.all(Array.from({ length: 20 }, () => deaf(`${head}\r\n\r\n${body}`, 1)));
    await sleep(20);
    for (const socket of batch) socket.resetAndDestroy();
  }
  expect(await postAll(["/v1/orders/ids"], () => ({ count: 100_000 }))).toEqual({ 200: 1 });
  expect(peak() - before).toBeLessThan(64 * MiB + garbage);
});
