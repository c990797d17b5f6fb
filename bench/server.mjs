// The server process of a case: `bare` answers every request with the same text, `daemon` serves an embedded registry. It tells
// where it listens, and how much CPU it has used whenever it is asked.

import { createServer } from "node:http";
import { join } from "node:path";
import { startDaemon } from "../dist/daemon.js";
import { openRegistry } from "../dist/registries/index.js";

const [kind, folder] = process.argv.slice(2);
const socket = join(folder, `${kind}.sock`);

async function serveBare() {
  const answer = JSON.stringify({ ids: ["1278549019894743040"] });
  const headers = { "content-type": "application/json", "content-length": answer.length };
  const handler = (request, response) => {
    request.resume().on("end", () => response.writeHead(200, headers).end(answer));
  };
  const [tcp, unix] = [createServer(handler), createServer(handler)];
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

process.on("message", () => process.send(process.cpuUsage()));
process.on("disconnect", () => process.exit());
process.send({ socket, ...(await (kind === "bare" ? serveBare() : serveDaemon())) });
