import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { request as askSocket } from "node:http";
import { request as askTls } from "node:https";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { connect as connectTls } from "node:tls";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Certificates, makeCertificates } from "../support/certificates.ts";
import { type DaemonProcess, startDaemonProcess } from "../support/daemon-process.ts";

/** Pieces of garbage, over TLS and over the socket together. */
const pieces = 600;
const atOnce = 16;
/** Status -> a lower bound on how many answers must have it. */
const least = [
  ["200", 50],
  ["400", 50],
  ["431", 10],
] as const;
/** How long a piece may wait for an answer before its client goes away, ms. */
const patience = 150;
const MiB = 1024 * 1024;

let folder: string;
let certificates: Certificates;
let daemon: DaemonProcess;
/** The first message of a TLS client. */
let hello: Buffer;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "snowlease-garbage-"));
  certificates = makeCertificates(folder);
  const { certificate, key } = certificates;
  const flags = ["--socket", join(folder, "s"), "--tls-cert", certificate, "--tls-key", key];
  daemon = await startDaemonProcess("memory:", 0, flags);
  hello = await firstWords();
});

afterAll(async () => {
  await daemon.end("SIGKILL");
  rmSync(folder, { recursive: true });
});

async function firstWords(): Promise<Buffer> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  const client = connectTls({ port, host: "127.0.0.1", rejectUnauthorized: false }).on("error", () => undefined);
  const [peer] = (await once(server, "connection")) as [Socket];
  const [bytes] = (await once(peer, "data")) as [Buffer];
  client.destroy();
  peer.destroy();
  server.close();
  return bytes;
}

const ids = `POST /v1/orders/ids HTTP/1.1\r\nHost: localhost\r\n`;
const alive = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
const bytes = fc.uint8Array({ maxLength: 3000 }).map((array) => Buffer.from(array));

/** Requests with broken framing, and bytes that are not a request. */
const brokenRequests: fc.Arbitrary<Buffer> = fc.oneof(
  bytes,
  fc
    .constantFrom(
      `${ids}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}`,
      `${ids}Content-Length: 2, 2\r\n\r\n{}`,
      `${ids}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
      `${ids}Content-Length: -2\r\n\r\n{}`,
      `${ids}Content-Length: 0x2\r\n\r\n{}`,
      `${ids}Content-Length: 184467440737095516160\r\n\r\n{}`,
      `${ids}Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}`,
      `${ids}Transfer-Encoding: chunked\r\n\r\n-1\r\n{}\r\n0\r\n\r\n`,
      `${ids}Transfer-Encoding: chunked\r\n\r\n2;${"x".repeat(20_000)}\r\n{}\r\n0\r\n\r\n`,
      `${ids}Transfer-Encoding: chunked\r\n\r\n2\r\n{}0\r\n\r\n`,
      `${ids}Transfer-Encoding: chunked\r\n\r\n0\r\n${"X-Trailer: y\r\n".repeat(3000)}\r\n`,
      `${ids}Transfer-Encoding: chunked, identity\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
      `${ids}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n`,
      `${ids}X-Long: ${"x".repeat(20_000)}\r\n\r\n`,
      `${ids}X-Longer: ${"x".repeat(MiB)}\r\n\r\n`,
      `${ids}${"X: y\r\n".repeat(5000)}\r\n`,
      `GET /${"x".repeat(100_000)} HTTP/1.1\r\nHost: localhost\r\n\r\n`,
      `${"G".repeat(100_000)} / HTTP/1.1\r\n\r\n`,
      "GET / HTTP/9.9\r\n\r\n",
      "GET /\r\n",
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      alive.replaceAll("\r\n", "\n"),
      alive.replaceAll("\r\n", "\r"),
      `${alive.slice(0, -2)}X: \0\r\n\r\n`,
    )
    .map((request) => Buffer.from(request)),
);

/** The same before, between and after correct or truncated requests. */
const pipelined = fc
  .tuple(
    fc.array(fc.oneof(fc.constant(Buffer.from(alive)), brokenRequests), { minLength: 1, maxLength: 5 }),
    fc.nat(99),
  )
  .map(([parts, percent]) => {
    const whole = Buffer.concat(parts);
    return percent < 80 ? whole : whole.subarray(0, (whole.length * percent) / 100);
  });

/** Ways to send garbage over TLS: instead of the handshake, inside it, instead of a record, or correctly encrypted. */
const overTls = fc.record({
  way: fc.constantFrom(
    "instead",
    "half",
    "flipped",
    "behind the hello",
    "record",
    "second hello",
    "encrypted",
    "encrypted",
  ),
  at: fc.nat(10_000),
  garbage: pipelined,
});

type OverTls = typeof overTls extends fc.Arbitrary<infer Value> ? Value : never;

/** Sends bytes, and hangs up after a while if the daemon does not. Returns the answer. */
async function exchange(socket: Socket, garbage: Uint8Array): Promise<string> {
  let answer = "";
  socket.on("error", () => undefined);
  socket.on("data", (chunk: Buffer) => (answer += chunk.toString("latin1")));
  socket.write(garbage);
  await Promise.race([once(socket, "close").catch(() => undefined), sleep(patience)]);
  socket.destroy();
  return answer;
}

async function sendOverTls({ way, at, garbage }: OverTls): Promise<string> {
  const socket = connect(daemon.port, "127.0.0.1").on("error", () => undefined);
  const place = at % hello.length;
  if (way === "instead") return exchange(socket, garbage);
  if (way === "half") return exchange(socket, hello.subarray(0, place));
  if (way === "behind the hello") return exchange(socket, Buffer.concat([hello, garbage]));
  if (way === "flipped") {
    const flipped = Buffer.from(hello);
    flipped[place] = (flipped[place] ?? 0) ^ (1 + (at % 255));
    return exchange(socket, flipped);
  }
  const secure = connectTls({ socket, rejectUnauthorized: false }).on("error", () => undefined);
  await Promise.race([once(secure, "secureConnect"), once(secure, "close")]).catch(() => undefined);
  if (way === "encrypted") return exchange(secure, garbage);
  // A record that says application data, or a new handshake in the clear, in the middle of a session.
  const record = Buffer.concat([Buffer.from([0x17, 3, 3, at >> 8, at & 255]), garbage]);
  await exchange(socket, way === "record" ? record : hello);
  secure.destroy();
  return "";
}

function peak(): number {
  const [, kB] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${daemon.pid}/status`, "utf8")) ?? [];
  return Number(kB) * 1024;
}

/** The answers to an honest client, over TLS or the socket. */
async function ask(way: "tls" | "socket", method: string, path: string): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const ca = readFileSync(certificates.authority);
    const where = way === "tls" ? { port: daemon.port, host: "127.0.0.1", ca } : { socketPath: join(folder, "s") };
    const asked = (way === "tls" ? askTls : askSocket)({ ...where, method, path, agent: false }, (answer) => {
      text(answer).then((body) => resolve({ status: answer.statusCode ?? 0, body }), reject);
    });
    asked.on("error", reject).end();
  });
}

test("garbage over TLS and HTTP breaks nothing: honest clients are served meanwhile, and all that it took is given back", async () => {
  const seed = Number(process.env["SNOWLEASE_SEED"] ?? Date.now() % 2 ** 31);
  for (const way of ["tls", "socket"] as const) expect((await ask(way, "POST", "/v1/orders/ids")).status).toBe(200);
  const before = peak();

  const answers = new Map<string, number>();
  let isOver = false;
  const client = async (left: Iterable<() => Promise<string>>): Promise<void> => {
    for (const send of left) {
      for (const [, status = ""] of (await send()).matchAll(/HTTP\/1\.1 (\d{3}) /g)) {
        answers.set(status, (answers.get(status) ?? 0) + 1);
      }
    }
  };
  const made: string[] = [];
  const honest = async (way: "tls" | "socket"): Promise<void> => {
    while (!isOver) {
      const { status, body } = await ask(way, "POST", "/v1/orders/ids");
      expect(status).toBe(200);
      made.push(...(JSON.parse(body) as { ids: string[] }).ids);
      await sleep(20);
    }
  };
  const served = Promise.all([honest("tls"), honest("socket")]);
  // A busy daemon gives fewer answers before the clients hang up.
  const isEnough = (): boolean => least.every(([status, count]) => (answers.get(status) ?? 0) > count);
  for (let round = 0; round === 0 || !isEnough(); round++) {
    const sample = { seed: seed + round, numRuns: pieces / 2 };
    const tls = fc.sample(overTls, sample).map((piece) => () => sendOverTls(piece));
    const plain = fc.sample(pipelined, sample).map((piece) => () => exchange(connect(join(folder, "s")), piece));
    const left = tls.flatMap((send, i) => [send, plain[i] ?? send]).values();
    await Promise.all(Array.from({ length: atOnce }, () => client(left)));
  }
  isOver = true;
  await served;

  const reproduce = `to see it again: SNOWLEASE_SEED=${seed}`;
  expect(made.length, reproduce).toBeGreaterThan(20);
  expect(new Set(made).size, reproduce).toBe(made.length);
  // The daemon reads as far as it can, and refuses what it cannot read.
  expect(
    [...answers.keys()].filter((status) => !/^[24]/.test(status)),
    reproduce,
  ).toEqual([]);
  expect(isEnough(), reproduce).toBe(true);
  expect(peak() - before, reproduce).toBeLessThan(64 * MiB + atOnce * MiB);
  const open = async (): Promise<number> => {
    const { body } = await ask("socket", "GET", "/metrics");
    return Number(/^snowlease_connections (\d+)$/m.exec(body)?.[1]);
  };
  await expect.poll(open).toBe(1);
  expect(
    daemon.log.split("\n").filter((line) => /"level":"(?:error|fatal)"/.test(line)),
    reproduce,
  ).toEqual([]);
  expect(await daemon.end("SIGTERM"), reproduce).toBe(0);
});
