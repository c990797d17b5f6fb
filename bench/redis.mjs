import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { layouts } from "snowlease";
import { Redis } from "ioredis";
import { openRegistry, parseAddress } from "../dist/registries/index.js";
import { median } from "./bursts.mjs";
import { claimRequest, cycle, measured, row } from "./claims.mjs";
import { interleave } from "./interleave.mjs";
import { freePort } from "./ports.mjs";
import { figure, printLine, printTable } from "./table.mjs";

const namespace = "bench";
const layout = layouts.westid;
const size = layout.pool.last + 1;
/** How many of the pool's worker IDs others hold. */
const fills = [0, size / 2, size - 10];
const crowds = [1, 32];
const callsPerRound = 1600;
/** One scan is a thousand round trips. */
const scansPerRound = 4;

const emptyScript = "a script that does nothing";
const fillName = (taken) => `${Math.round((100 * taken) / size)} % taken`;

export const groups = {
  latency: {
    cases: {
      async PING() {
        const server = await startServer();
        const client = server.client();
        return measured({ ping: () => client.ping() }, () => server.stop(client));
      },
      /** What any script costs, whatever it does. */
      async [emptyScript]() {
        const server = await startServer();
        const client = server.client();
        const sha = await client.script("LOAD", "return 1");
        return measured({ run: () => client.evalsha(sha, 0) }, () => server.stop(client));
      },
      ...Object.fromEntries(fills.map((taken) => [`claims, ${fillName(taken)}`, () => claims(taken)])),
      ...Object.fromEntries(fills.map((taken) => [`scan, ${fillName(taken)}`, () => scans(taken)])),
    },
  },
  throughput: {
    cases: {
      ...Object.fromEntries(crowds.map((count) => [`PING, ${count}`, () => pings(count)])),
      ...Object.fromEntries(crowds.map((count) => [`claims, ${count}`, () => claimers(count)])),
    },
  },
};

async function claims(taken) {
  const { server, registry } = await openFilled(taken);
  return measured(cycle(registry, layout), async () => {
    await registry.close();
    await server.stop();
  });
}

/** What is done where every number is a key: ask for one after the other until one was free. */
async function scans(taken) {
  const server = await startServer();
  const client = server.client();
  for (let n = 0; n < taken; n++) await client.set(`workerId:use:${n}`, "1x10.0.0.1xother");
  const scan = async () => {
    for (let n = 0; n < size; n++) {
      if ((await client.setnx(`workerId:use:${n}`, "2x10.0.0.2xme")) === 1) return client.del(`workerId:use:${n}`);
    }
    throw new Error("No number was free.");
  };
  return measured({ claim: scan }, () => server.stop(client), scansPerRound);
}

async function pings(count) {
  const server = await startServer();
  const clients = Array.from({ length: count }, () => server.client());
  return crowd(
    clients.map((client) => () => client.ping()),
    () => server.stop(...clients),
  );
}

async function claimers(count) {
  const { server, registry } = await openFilled(0);
  const registries = await Promise.all(Array.from({ length: count }, () => server.open()));
  const calls = registries.map((each, i) => {
    const request = () => ({ ...claimRequest(layout, `host-${i}`, 60_000), workerId: i });
    return async () => {
      const asked = request();
      const { workerId, fence, from } = await each.claim(asked);
      // Alone it would be half of what it is: a claim can be made again only once it was given back.
      await each.release({ namespace, token: asked.token, workerId, fence, clock: Date.now(), used: { until: from } });
    };
  });
  return crowd(calls, async () => {
    for (const each of [registry, ...registries]) await each.close();
    await server.stop();
  });
}

/** Rounds of so many calls by all of these together; each answers how many of them that is a second. */
function crowd(calls, close) {
  const round = async () => {
    const begin = performance.now();
    const each = Math.floor(callsPerRound / calls.length);
    await Promise.all(
      calls.map(async (call) => {
        for (let i = 0; i < each; i++) await call();
      }),
    );
    return (each * calls.length * 1000) / (performance.now() - begin);
  };
  return { warm: () => round().then(() => null), round, close };
}

async function openFilled(taken) {
  const server = await startServer();
  const registry = await server.open();
  await registry.init({ new: true, namespace, layout: layout.fingerprint, maxWindow: 600_000 });
  for (let i = 0; i < taken; i++) await registry.claim(claimRequest(layout, `other-${i}`, 600_000));
  return { server, registry };
}

/** A redis-server that keeps everything in memory: what a disk takes is not what is compared here. */
async function startServer() {
  const port = await freePort();
  const place = ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
  const child = spawn("redis-server", [...place, "--loglevel", "warning"], { stdio: "ignore" });
  process.on("exit", () => child.kill("SIGKILL"));
  const client = () => new Redis({ port, retryStrategy: () => 20 }).on("error", () => undefined);
  const first = client();
  await first.ping();
  first.disconnect();
  return {
    client,
    open: () => openRegistry(parseAddress(`redis://127.0.0.1:${port}`), { operationTimeout: 5000 }),
    async stop(...clients) {
      for (const each of clients) each.disconnect();
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
    },
  };
}

export async function run() {
  if (spawnSync("redis-server", ["--version"]).error) {
    printLine(
      "\nRedis: skipped, redis-server is not installed (apt-get install --no-install-recommends redis-server).",
    );
    return;
  }
  await latency();
  await throughput();
}

async function latency() {
  const names = Object.keys(groups.latency.cases);
  const results = await interleave(import.meta.url, "latency", names, { rounds: 5 });
  const of = (name, operation) => results.get(name).rounds.map((times) => times[operation]);
  const pings = of("PING", "ping");
  const medians = pings.map(median);
  const rows = [row("PING", pings, medians), row(emptyScript, of(emptyScript, "run"), medians)];
  for (const operation of ["claim", "renew", "release"]) {
    for (const taken of fills) {
      rows.push(row(`${operation}, ${fillName(taken)}`, of(`claims, ${fillName(taken)}`, operation), medians));
    }
  }
  for (const taken of fills) {
    rows.push(row(`SETNX scan, ${fillName(taken)}`, of(`scan, ${fillName(taken)}`, "claim"), medians));
  }
  printTable("A registry in Redis, one call after the other", ["", "p50 us", "p99 us", "a second", "ratio"], rows);

  const faster = fills.map((taken) => {
    const own = of(`claims, ${fillName(taken)}`, "claim").map(median);
    const scan = of(`scan, ${fillName(taken)}`, "claim").map(median);
    return [fillName(taken), figure(median(scan.map((ns, i) => ns / own[i])))];
  });
  printTable("How many times faster a claim is than a SETNX scan", ["", "times"], faster);
}

async function throughput() {
  const results = await interleave(import.meta.url, "throughput", Object.keys(groups.throughput.cases), { rounds: 5 });
  const rows = crowds.map((count) => {
    const pings = results.get(`PING, ${count}`).rounds;
    const claims = results.get(`claims, ${count}`).rounds;
    const ratio = median(claims.map((rate, i) => rate / pings[i]));
    return [
      `${count} ${count === 1 ? "client" : "clients"}`,
      figure(median(claims)),
      figure(median(pings)),
      ratio.toFixed(2),
    ];
  });
  printTable("Claims, each given back, a second", ["", "claims", "PINGs", "ratio"], rows);
}
