import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type DaemonProcess, startDaemonProcess } from "../support/daemon-process.ts";
import { idsIn, RawClient, request } from "../support/resp.ts";

const MiB = 1024 * 1024;
/** The heap grows by this much before garbage is collected. */
const garbage = 64 * MiB;

let folder: string;
let daemon: DaemonProcess;
let sockets: Socket[];
/** An honest client, and all IDs that it got. */
let honest: RawClient;
let ids: bigint[];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "snowlease-resp-attacks-"));
  sockets = [];
  ids = [];
  daemon = await start();
  honest = await RawClient.open(daemon.resp);
});

afterEach(async () => {
  honest.socket.destroy();
  for (const socket of sockets) socket.destroy();
  await daemon.end("SIGKILL");
  rmSync(folder, { recursive: true });
  expect(new Set(ids).size).toBe(ids.length);
});

/** A daemon with as little heap as a small container leaves it. */
function start(...flags: string[]): Promise<DaemonProcess> {
  const NODE_OPTIONS = "--max-old-space-size=192 --max-semi-space-size=4";
  return startDaemonProcess("memory:", 0, ["--resp", "127.0.0.1:0", ...flags], { NODE_OPTIONS });
}

/** The most memory that the daemon has ever had, bytes. */
function peak(): number {
  const [, kB] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${daemon.pid}/status`, "utf8")) ?? [];
  return Number(kB) * 1024;
}

/** A connection that sends a text and reads nothing. */
async function deaf(text: string): Promise<Socket> {
  const socket = connect(Number(new URL(daemon.resp).port), "127.0.0.1");
  sockets.push(socket);
  socket.on("error", () => undefined);
  socket.pause();
  await Promise.race([once(socket, "connect"), once(socket, "close")]);
  socket.write(text, "latin1");
  return socket;
}

/** The honest client gets its IDs all the time. */
async function expectServed(): Promise<void> {
  for (let i = 0; i < 5; i++) {
    honest.received = "";
    honest.send(request("GET", "orders").repeat(20));
    await honest.until(() => idsIn(honest.received).length >= 20);
    expect(honest.closed).toBe(false);
    ids.push(...idsIn(honest.received));
    await sleep(100);
  }
  expect(ids).toHaveLength(100);
}

describe("a daemon goes on, and takes no more memory than allowed, while clients", () => {
  test.each([
    ["never read the answers to 100,000 IDs", 12, request("SNOWLEASE.IDS", "orders", 100_000).repeat(100), 96],
    ["never read the answers to a million requests", 40, request("GET", "orders").repeat(100_000), 40],
    ["never read the table of commands", 40, request("COMMAND").repeat(50_000), 40],
    ["never read errors", 40, request("NOPE").repeat(50_000), 40],
    ["never read their echoes", 40, request("ECHO", "x".repeat(4096)).repeat(1000), 40],
    ["announce an array without end", 40, "*99999999999\r\n$3\r\nGET\r\n".repeat(10_000), 40],
    ["announce a string without end", 40, `*2\r\n$3\r\nGET\r\n$999999999\r\n${"x".repeat(MiB)}`, 40],
    [
      "send the longest allowed request without its end",
      200,
      `*1024\r\n${`$60\r\n${"x".repeat(60)}\r\n`.repeat(1023)}`,
      200,
    ],
    ["nest arrays", 40, "*1\r\n".repeat(MiB / 4), 40],
    ["send nothing but line ends", 40, "\r\n".repeat(MiB / 2), 40],
    [
      "speak HTTP",
      40,
      `POST /v1/orders/ids HTTP/1.1\r\nHost: localhost\r\n\r\n${request("GET", "orders").repeat(1000)}`,
      40,
    ],
    ["send noise", 40, "\0\x01\xff*$:+-".repeat(MiB / 8), 40],
  ])("%s", async (_, connections, text, most) => {
    await honest.ask(["GET", "orders"], 2);
    const before = peak();
    await Promise.all(Array.from({ length: connections }, () => deaf(text)));
    await expectServed();
    expect(peak() - before).toBeLessThan(most * MiB + garbage);
    expect(daemon.log).not.toMatch(/"level":"error"/);
  });
});

test("the daemon reads requests whose bytes come one by one, over hundreds of connections", async () => {
  const clients = await Promise.all(Array.from({ length: 200 }, () => RawClient.open(daemon.resp)));
  for (const { socket } of clients) sockets.push(socket.setNoDelay());
  for (const byte of request("MGET", "orders", "orders")) {
    for (const client of clients) client.send(byte);
    await sleep(5);
  }
  for (const client of clients) await client.lines(5);
  ids.push(...clients.flatMap(({ received }) => idsIn(received)));
  expect(ids).toHaveLength(400);
});

test("the daemon's own limit ends a request that never ends", { timeout: 60_000 }, async () => {
  const slow = await RawClient.open(daemon.resp);
  sockets.push(slow.socket);
  const drip = setInterval(() => slow.send("x"), 100);
  slow.send("*2\r\n$3\r\nGET\r\n$4096\r\n");
  await slow.end();
  clearInterval(drip);
  await expectServed();
});

test(
  "the daemon ends thousands of connections without a token to make room, and keeps one with a token",
  { timeout: 60_000 },
  async () => {
    const tokens = join(folder, "tokens");
    writeFileSync(tokens, `${createHash("sha256").update("good").digest("hex")} worker\n`, { mode: 0o600 });
    honest.socket.destroy();
    await daemon.end("SIGKILL");
    daemon = await start("--tokens", tokens, "--max-connections", "400");
    honest = await RawClient.open(daemon.resp);
    expect(await honest.ask(["AUTH", "good"])).toBe("+OK\r\n");
    const before = peak();
    for (let i = 0; i < 30; i++)
      await Promise.all(Array.from({ length: 100 }, () => deaf(i % 2 === 0 ? "" : "*1\r\n$3\r\nGE")));
    await expectServed();
    expect(peak() - before).toBeLessThan(100 * MiB + garbage);
  },
);

test("clients that hang up get no IDs of other clients, and those get theirs", async () => {
  const ask = request("GET", "orders").repeat(50) + request("SNOWLEASE.IDS", "orders", 20_000);
  for (let i = 0; i < 30; i++) {
    const batch = await Promise.all(Array.from({ length: 10 }, () => deaf(ask)));
    await sleep(10);
    for (const socket of batch) socket.resetAndDestroy();
  }
  await expectServed();
});
