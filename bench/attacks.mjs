// What clients without a token cost a daemon, and what honest clients notice: each attack on a daemon of its own with a few honest clients beside it, who
// renew a lease one after the other.

import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { layouts } from "snowlease";
import { openRegistry } from "../dist/registries/index.js";
import { DaemonProcess } from "./daemon-process.mjs";
import { freePort } from "./ports.mjs";
import { figure, printTable } from "./table.mjs";

const honest = 8;
/** Between two renewals of an honest client, ms. */
const pace = 20;
/** How long each is looked at, ms. */
const span = 8000;
const namespace = "bench";

const describe = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
const body = JSON.stringify({ count: 100_000 });
const ids = `POST /v1/other/ids HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;

/** Connections, and what each sends at once and never reads an answer to. */
const attacks = [
  ["no attack", 0, ""],
  ["12 connections ask 1,500 times for the description", 12, describe.repeat(1500)],
  ["130 connections ask 1,500 times for the description", 130, describe.repeat(1500)],
  ["130 connections ask 100 times for the description", 130, describe.repeat(100)],
  ["12 connections ask 100 times for 100,000 IDs", 12, ids.repeat(100)],
  ["9,900 connections that say nothing", 9900, ""],
  ["2,000 connections that stop in the middle of a request", 2000, describe.slice(0, -4)],
];

async function open(port, text, sockets) {
  const socket = connect(port, "127.0.0.1");
  sockets.push(socket);
  socket.on("error", () => undefined);
  socket.pause();
  await Promise.race([once(socket, "connect"), once(socket, "close")]);
  if (text !== "") socket.write(text);
}

/** Claims a lease, and renews it again and again until told to stop; answers how long each renewal took, ms. */
async function honestClient(port, stop) {
  const registry = await openRegistry({ kind: "http", urls: [`http://127.0.0.1:${port}`] }, { operationTimeout: 5000 });
  const token = randomBytes(16).toString("hex");
  const times = [];
  let failed = 0;
  try {
    const layout = layouts.westid;
    const holder = { host: "honest", ip: "10.0.0.1", pid: 1, instance: "" };
    const asked = {
      namespace,
      token,
      pool: layout.pool,
      holder,
      clock: Date.now(),
      window: 60_000,
      layout: layout.fingerprint,
    };
    const { workerId, fence } = await registry.claim(asked);
    while (!stop.aborted) {
      const begin = performance.now();
      try {
        await registry.renew({ namespace, workerId, fence, token, clock: Date.now(), window: 60_000 });
        times.push(performance.now() - begin);
      } catch {
        failed++;
      }
      await sleep(pace);
    }
  } finally {
    await registry.close();
  }
  return { times, failed };
}

async function look([name, connections, text]) {
  const port = await freePort();
  const daemon = await DaemonProcess.start(["--registry", "memory:", "--listen", `127.0.0.1:${port}`]);
  const sockets = [];
  try {
    const stop = new AbortController();
    const clients = Array.from({ length: honest }, () => honestClient(port, stop.signal));
    await sleep(1000);
    const before = daemon.usage();
    const begin = performance.now();
    await Promise.all(Array.from({ length: connections }, () => open(port, text, sockets)));
    await sleep(span - Math.min(span, performance.now() - begin));
    const after = daemon.usage();
    stop.abort();
    const all = await Promise.all(clients);
    const times = all.flatMap(({ times }) => times).toSorted((a, b) => a - b);
    const at = (share) => figure(times[Math.floor(times.length * share)]);
    const failed = all.reduce((sum, one) => sum + one.failed, 0);
    const sent = (connections * text.length) / 2 ** 20;
    return [name, figure(sent), figure(after.peak - before.rss), at(0.5), at(0.99), figure(times.at(-1)), failed];
  } finally {
    for (const socket of sockets) socket.destroy();
    await daemon.end("SIGKILL");
  }
}

export async function run() {
  const rows = [];
  for (const attack of attacks) rows.push(await look(attack));
  const head = [
    "",
    "MiB sent",
    "MiB that the daemon grew by",
    "p50 ms",
    "p99 ms",
    "slowest ms",
    "renewals that failed",
  ];
  printTable(
    `Renewals of ${honest} honest clients beside clients without a token that never read an answer`,
    head,
    rows,
  );
}
