import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { openRegistry, parseAddress } from "../dist/registries/index.js";
import { fills, measurePools, poolGroups, wideFill } from "./pools.mjs";
import { freePort } from "./ports.mjs";
import { printLine } from "./table.mjs";

/** The variable that tells the cases the port of the server that `run` has started. */
const portVariable = "BENCH_ETCD";
const all = [...fills, wideFill];

export const groups = poolGroups(all, {
  open,
  writer() {
    const agent = new Agent({ keepAlive: true });
    const put = JSON.stringify({ key: base64("yardstick"), value: base64("x") });
    return { write: () => post(agent, "kv/put", put), end: async () => agent.destroy() };
  },
});

const base64 = (text) => Buffer.from(text).toString("base64");

async function post(agent, path, body) {
  const port = Number(process.env[portVariable]);
  const asked = request({ host: "127.0.0.1", port, agent, method: "POST", path: `/v3/${path}` });
  asked.end(body);
  const [response] = await once(asked, "response");
  response.resume();
  await once(response, "end");
}

function open({ taken }) {
  const url = `etcd://127.0.0.1:${process.env[portVariable]}/fill-${taken}`;
  return openRegistry(parseAddress(url), { operationTimeout: 20_000 });
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
    process.env[portVariable] = String(server.at);
    const title = `A registry in etcd (one member, its data in ${tmpdir()}), one call after the other`;
    await measurePools(import.meta.url, title, all, open);
  } finally {
    await server.stop();
  }
}
