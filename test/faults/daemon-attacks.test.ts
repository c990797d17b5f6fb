import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { startDaemonProcess, type DaemonProcess } from "../support/daemon-process.ts";

/** What a client without a token may cost besides its connection. */
const MiB = 1024 * 1024;
/** By as much the heap grows by itself before garbage is collected. */
const garbage = 64 * MiB;

let daemon: DaemonProcess;
let sockets: Socket[];

beforeEach(async () => {
  sockets = [];
  daemon = await startDaemonProcess("memory:", 0, [], { NODE_OPTIONS: "--max-old-space-size=192" });
});

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

test("a claim whose client has hung up is granted to no one", async () => {
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

describe("a daemon whose answers are never read", () => {
  test.each([
    [12, 1500],
    [130, 1500],
  ])("goes on: %i connections ask %i times for the description", async (connections, times) => {
    await expectAlive();
    const before = peak();
    const request = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
    await Promise.all(Array.from({ length: connections }, () => deaf(request, times)));
    await expectAlive();
    expect(peak() - before).toBeLessThan(connections * MiB + garbage);
  });

  test("goes on: 130 connections ask 200 times for the description, which is no more than they may", async () => {
    await expectAlive();
    const before = peak();
    const request = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
    await Promise.all(Array.from({ length: 130 }, () => deaf(request, 200)));
    await expectAlive();
    expect(sockets.filter(({ destroyed }) => destroyed)).toHaveLength(0);
    expect(peak() - before).toBeLessThan(130 * MiB + garbage);
  });

  test("goes on: 12 connections ask 200 times for 100,000 IDs", async () => {
    await expectAlive();
    const before = peak();
    const body = JSON.stringify({ count: 100_000 });
    const head = `POST /v1/orders/ids HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}`;
    await Promise.all(Array.from({ length: 12 }, () => deaf(`${head}\r\n\r\n${body}`, 200)));
    await expectAlive();
    expect(peak() - before).toBeLessThan(96 * MiB + garbage);
  });
});
