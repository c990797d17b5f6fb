// The server process of a case: `bare` answers every request with the same text, `json` does what no server of this API can leave out (it
// reads the body as JSON and writes its answer as JSON), `daemon` serves an embedded registry. It tells where it listens, and how much
// CPU and memory it has used whenever it is asked.

import { createServer } from "node:http";
import { join } from "node:path";
import { startDaemon } from "../dist/daemon.js";
import { openRegistry } from "../dist/registries/index.js";

const [kind, folder] = process.argv.slice(2);
const socket = join(folder, `${kind}.sock`);

const id = "1278549019894743040";
const type = "application/json";
const answer = JSON.stringify({ ids: [id] });
const headers = { "content-type": type, "content-length": answer.length };
const handlers = {
  bare(request, response) {
    request.resume().on("end", () => response.writeHead(200, headers).end(answer));
  },
  json(request, response) {
    const chunks = [];
    request.on("data", (chunk) => chunks.push(chunk));
    request.on("end", () => {
      const { count } = JSON.parse(Buffer.concat(chunks).toString());
      const answer = JSON.stringify({ ids: Array.from({ length: count }, () => id) });
      const headers = {
        "content-type": type,
        "cache-control": "no-store",
        "content-length": Buffer.byteLength(answer),
      };
      response.writeHead(200, headers).end(answer);
    });
  },
};

async function serveBare() {
  const [tcp, unix] = [createServer(handlers[kind]), createServer(handlers[kind])];
  await new Promise((resolve) => tcp.listen(0, "127.0.0.1", resolve));
  await new Promise((resolve) => unix.listen(socket, resolve));
  return { port: tcp.address().port };
}

async function serveDaemon() {
  const registry = await openRegistry(
    { kind: "sqlite", path: join(folder, "registry.db") },
    { operationTimeout: 5000 },
  );
  const silent = { info() {}, warn() {}, error: console.error };
  const daemon = await startDaemon({
    registry,
    listen: { host: "127.0.0.1", port: 0 },
    socket,
    claimsPerSecond: 0,
    log: silent,
  });
  return { port: Number(new URL(daemon.url).port) };
}

process.on("message", () => process.send({ ...process.cpuUsage(), rss: process.memoryUsage.rss() }));
process.on("disconnect", () => process.exit());
process.send({ socket, ...(await (kind === "daemon" ? serveDaemon() : serveBare())) });
