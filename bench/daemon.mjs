import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { Agent, request } from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { layouts } from "snowlease";
import { openRegistry } from "../dist/registries/index.js";
import { median } from "./bursts.mjs";
import { cycle, measured, row } from "./claims.mjs";
import { interleave } from "./interleave.mjs";
import { figure, printTable } from "./table.mjs";

const connections = 16;
const requestsPerRound = 8000;
const [leases, renewals] = [1000, 3];
const transports = { TCP: "tcp", "Unix socket": "unix" };
const body = JSON.stringify({ count: 1 });

export const groups = {
  leases: {
    cases: {
      async directly() {
        const folder = tempFolder();
        const path = join(folder, "registry.db");
        return leaseCase(await openRegistry({ kind: "sqlite", path }, { operationTimeout: 5000 }), () =>
          remove(folder),
        );
      },
      ...perTransport("bare HTTP", async (transport) => {
        const server = await startServer("bare");
        const agent = new Agent({ keepAlive: true });
        const close = () => {
          agent.destroy();
          return server.close();
        };
        return measured({ call: () => roundTrip({ ...server.target(transport), agent }) }, close);
      }),
      ...perTransport("daemon", async (transport) => {
        const server = await startServer("daemon");
        const { socketPath, port } = server.target(transport);
        const address = socketPath
          ? { kind: "unix", path: socketPath }
          : { kind: "http", urls: [`http://127.0.0.1:${port}`] };
        return leaseCase(await openRegistry(address, { operationTimeout: 5000 }), server.close);
      }),
    },
  },
  ids: {
    cases: {
      ...perTransport("bare HTTP", (transport) => loadCase("bare", transport)),
      ...perTransport("bare HTTP and JSON", (transport) => loadCase("json", transport)),
      ...perTransport("daemon", (transport) => loadCase("daemon", transport)),
    },
  },
};

function perTransport(name, make) {
  return Object.fromEntries(Object.entries(transports).map(([shown, key]) => [`${name}, ${shown}`, () => make(key)]));
}

async function leaseCase(registry, closed) {
  await registry.init({ namespace: "bench", layout: layouts.westid.fingerprint });
  return measured(cycle(registry, layouts.westid), async () => {
    await registry.close();
    await closed();
  });
}

function tempFolder() {
  return mkdtempSync(join(tmpdir(), "snowlease-bench-"));
}

function remove(folder) {
  rmSync(folder, { recursive: true });
}

/** A server in a process of its own. */
async function startServer(kind) {
  const folder = tempFolder();
  const child = fork(fileURLToPath(new URL("server.mjs", import.meta.url)), [kind, folder]);
  const [{ socket, port }] = await once(child, "message");
  return {
    target: (transport) => (transport === "unix" ? { socketPath: socket } : { host: "127.0.0.1", port }),
    /** CPU time used so far, us, and the memory that is resident, bytes. */
    async usage() {
      child.send("usage");
      const [{ user, system, rss }] = await once(child, "message");
      return { cpu: user + system, rss };
    },
    async close() {
      child.disconnect();
      await once(child, "exit");
      remove(folder);
    },
  };
}

/** One request by Node's own client, its answer read. */
function roundTrip(options) {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json", "content-length": body.length };
    const sent = request({ ...options, method: "POST", path: "/v1/bench/ids", headers }, (response) => {
      response.resume().on("end", resolve);
    });
    sent.on("error", reject).end(body);
  });
}

/** Requests for one ID each over a few connections at once; a round answers how many a second, and the server's CPU for one, us. */
async function loadCase(kind, transport) {
  const server = await startServer(kind);
  const sockets = await Promise.all(Array.from({ length: connections }, () => connected(server.target(transport))));
  const load = () => Promise.all(sockets.map((socket) => exchange(socket, requestsPerRound / connections)));
  return {
    warm: () => load().then(() => null),
    async round() {
      const [{ cpu }, begin] = [await server.usage(), performance.now()];
      await load();
      const seconds = (performance.now() - begin) / 1000;
      return { rate: requestsPerRound / seconds, cpu: ((await server.usage()).cpu - cpu) / requestsPerRound };
    },
    close() {
      for (const socket of sockets) socket.destroy();
      return server.close();
    },
  };
}

async function connected({ socketPath, ...address }) {
  const socket = connect(socketPath === undefined ? address : { path: socketPath });
  await once(socket, "connect");
  return socket.setEncoding("latin1").setNoDelay();
}

/** Sends a request and waits for its answer, so many times. By hand, so that the client costs less than the server. */
function exchange(socket, times) {
  const head = `POST /v1/bench/ids HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}`;
  return new Promise((resolve, reject) => {
    let [left, answer] = [times, ""];
    const send = () => socket.write(`${head}\r\n\r\n${body}`);
    const read = (chunk) => {
      answer += chunk;
      if (!isWhole(answer)) return;
      if (!answer.startsWith("HTTP/1.1 200 ")) return reject(new Error(`The server answered ${answer}`));
      answer = "";
      if (--left > 0) return send();
      socket.off("data", read);
      resolve();
    };
    socket.on("data", read).once("error", reject);
    send();
  });
}

function isWhole(answer) {
  const end = answer.indexOf("\r\n\r\n");
  if (end < 0) return false;
  const length = /\r\ncontent-length: (\d+)/i.exec(answer)?.[1];
  return length === undefined ? answer.endsWith("\r\n0\r\n\r\n") : answer.length === end + 4 + Number(length);
}

/** Prints round trips of claims and renewals beside what they are made of, then what a request for an ID costs the server, and what its memory is. */
export async function run() {
  await printLeases();
  await printIds();
  await printMemory();
}

async function printLeases() {
  const results = await interleave(import.meta.url, "leases", Object.keys(groups.leases.cases), { rounds: 5 });
  const timesOf = (name, operation) => results.get(name).rounds.map((times) => times[operation]);
  const rows = Object.keys(transports).map((transport) => {
    const bare = timesOf(`bare HTTP, ${transport}`, "call");
    return [...row(`a bare HTTP round trip, ${transport}`, bare, bare.map(median)).slice(0, -1), ""];
  });
  for (const operation of ["claim", "renew"]) {
    const direct = timesOf("directly", operation);
    rows.push([...row(`${operation} directly`, direct, direct.map(median)).slice(0, -1), ""]);
    for (const transport of Object.keys(transports)) {
      const bare = timesOf(`bare HTTP, ${transport}`, "call");
      const parts = direct.map((times, i) => median(times) + median(bare[i]));
      rows.push(row(`${operation} by a daemon, ${transport}`, timesOf(`daemon, ${transport}`, operation), parts));
    }
  }
  const head = ["", "p50 us", "p99 us", "a second", "of both parts"];
  printTable("A daemon with an embedded registry, one call after the other", head, rows);
}

async function printIds() {
  const results = await interleave(import.meta.url, "ids", Object.keys(groups.ids.cases), { rounds: 5 });
  const rows = [...results].map(([name, { rounds }]) => {
    const [, transport] = name.split(", ");
    const beside = (yardstick) => {
      const bare = results.get(`${yardstick}, ${transport}`).rounds;
      return figure(median(rounds.map(({ cpu }, i) => cpu / bare[i].cpu)));
    };
    return [
      name,
      figure(median(rounds.map(({ rate }) => rate))),
      figure(median(rounds.map(({ cpu }) => cpu))),
      beside("bare HTTP"),
      beside("bare HTTP and JSON"),
    ];
  });
  const title = `Requests for one ID, ${connections} connections at once`;
  printTable(title, ["", "a second", "server CPU us", "of bare HTTP", "of HTTP and JSON"], rows);
}

/** What a daemon takes of memory, with nobody's leases and with many, each renewed a few times. */
async function printMemory() {
  const server = await startServer("daemon");
  const { port } = server.target("tcp");
  const registry = await openRegistry({ kind: "http", urls: [`http://127.0.0.1:${port}`] }, { operationTimeout: 5000 });
  const rows = [];
  const print = async (name) => rows.push([name, figure((await server.usage()).rss / 2 ** 20)]);
  await registry.init({ namespace: "bench", layout: layouts.westid.fingerprint });
  await print("no lease");
  const cycles = Array.from({ length: leases }, (_, i) => cycle(registry, layouts.westid, i));
  for (const { claim } of cycles) await claim();
  await print(`${leases} live leases`);
  for (let i = 0; i < renewals; i++) for (const { renew } of cycles) await renew();
  await print(`the same, each renewed ${renewals} times`);
  await registry.close();
  await server.close();
  printTable("Memory of a daemon with an embedded registry", ["", "resident MiB"], rows);
}
