import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Layout, layouts } from "snowlease";
import { openRegistry, parseAddress } from "../dist/registries/index.js";
import { cycle, measured, row } from "./claims.mjs";
import { interleave } from "./interleave.mjs";
import { median } from "./bursts.mjs";
import { freePort } from "./ports.mjs";
import { printLine, printTable } from "./table.mjs";

/** Where the cases find the server that `run` has started. */
const port = Number(process.env.SNOWLEASE_BENCH_ETCD ?? 0);

const wide = Layout.parse("timestamp:28,worker:22,sequence:13@1700000000000/1000");
/** How many of the pool's worker IDs others hold. */
const fills = [
  { taken: 0, layout: layouts.westid },
  { taken: 512, layout: layouts.westid },
  { taken: 1023, layout: layouts.westid },
  { taken: 4000, layout: wide },
];
const nameOf = ({ taken, layout }) => `${taken.toLocaleString("en")} of ${(layout.pool.last + 1).toLocaleString("en")}`;
const yardstick = "one write";
const clients = 32;
/** How often each of the clients claims and gives back. */
const turns = 10;

export const groups = {
  claims: {
    cases: {
      async [yardstick]() {
        const agent = new Agent({ keepAlive: true });
        const put = JSON.stringify({ key: base64("yardstick"), value: base64("x") });
        return measured({ write: () => post(agent, "kv/put", put) }, async () => agent.destroy());
      },
      ...Object.fromEntries(
        fills.map((fill) => [
          nameOf(fill),
          async () => {
            const registry = await open(port, fill);
            return measured(cycle(registry, fill.layout), () => registry.close());
          },
        ]),
      ),
    },
  },
};

const base64 = (text) => Buffer.from(text).toString("base64");

async function post(agent, path, body) {
  const asked = request({ host: "127.0.0.1", port, agent, method: "POST", path: `/v3/${path}` });
  asked.end(body);
  const [response] = await once(asked, "response");
  response.resume();
  await once(response, "end");
}

function open(at, { taken }) {
  return openRegistry(parseAddress(`etcd://127.0.0.1:${at}/fill-${taken}`), { operationTimeout: 20_000 });
}

async function fillPool(at, fill) {
  const registry = await open(at, fill);
  await registry.init({ namespace: "bench", layout: fill.layout.fingerprint, maxWindow: 600_000 });
  for (let begin = 0; begin < fill.taken; begin += 50) {
    const some = Array.from({ length: Math.min(50, fill.taken - begin) }, (_, i) => begin + i);
    await Promise.all(some.map((i) => claimFor(registry, fill.layout, i)));
  }
  await registry.close();
}

async function claimFor(registry, layout, i) {
  const answer = await registry.claim({
    namespace: "bench",
    token: i.toString(16).padStart(32, "0"),
    workerId: i,
    pool: layout.pool,
    holder: { host: `other-${i % 500}`, ip: "10.0.0.1", pid: i, instance: "" },
    clock: Date.now(),
    window: 600_000,
    layout: layout.fingerprint,
  });
  if (answer.outcome !== "granted") throw new Error(`Worker ${i} was refused: ${answer.outcome}.`);
}

/** Claims and gives back with many clients at once; how many worker IDs a second are granted. */
async function grantsAtOnce(at) {
  const registries = await Promise.all(Array.from({ length: clients }, () => open(at, fills[0])));
  const begun = performance.now();
  await Promise.all(
    registries.map(async (registry, site) => {
      const { claim, release } = cycle(registry, layouts.westid, site);
      for (let i = 0; i < turns; i++) {
        await claim();
        await release();
      }
    }),
  );
  const seconds = (performance.now() - begun) / 1000;
  await Promise.all(registries.map((registry) => registry.close()));
  return Math.round((clients * turns) / seconds);
}

async function startServer() {
  const folder = mkdtempSync(join(tmpdir(), "snowlease-bench-"));
  const [at, peer] = [await freePort(), await freePort()];
  const [client, member] = [`http://127.0.0.1:${at}`, `http://127.0.0.1:${peer}`];
  const args = [
    `--data-dir=${folder}/data`,
    `--listen-client-urls=${client}`,
    `--advertise-client-urls=${client}`,
    `--listen-peer-urls=${member}`,
    `--initial-advertise-peer-urls=${member}`,
    `--initial-cluster=default=${member}`,
  ];
  const child = spawn("etcd", args, { stdio: "ignore" });
  process.on("exit", () => child.kill("SIGKILL"));
  while (!(await fetch(`${client}/health`).catch(() => undefined))?.ok) await sleep(50);
  return {
    at,
    async stop() {
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
      rmSync(folder, { recursive: true });
    },
  };
}

export async function run() {
  if (spawnSync("etcd", ["--version"]).error) {
    printLine("\netcd: skipped, it is not installed (apt-get install --no-install-recommends etcd-server).");
    return;
  }
  const server = await startServer();
  try {
    for (const fill of fills) await fillPool(server.at, fill);
    process.env.SNOWLEASE_BENCH_ETCD = String(server.at);
    const names = Object.keys(groups.claims.cases);
    const results = await interleave(import.meta.url, "claims", names, { rounds: 2, processes: 2 });
    const of = (name, operation) => results.get(name).rounds.map((times) => times[operation]);
    const writes = of(yardstick, "write");
    const medians = writes.map(median);
    const rows = [row(yardstick, writes, medians)];
    for (const operation of ["claim", "renew", "release"]) {
      for (const fill of fills) {
        rows.push(row(`${operation}, ${nameOf(fill)} taken`, of(nameOf(fill), operation), medians));
      }
    }
    const head = ["", "p50 us", "p99 us", "a second", "ratio"];
    printTable(`A registry in etcd (one member, its data in ${tmpdir()}), one call after the other`, head, rows);
    printLine(
      `${clients} clients at once: ${await grantsAtOnce(server.at)} worker IDs granted and given back a second`,
    );
  } finally {
    await server.stop();
  }
}
