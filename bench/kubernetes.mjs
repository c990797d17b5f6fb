import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { Agent, request } from "node:https";
import { tmpdir } from "node:os";
import { createInterface } from "node:readline";
import { json } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { openRegistry, parseAddress } from "../dist/registries/index.js";
import { fills, measurePools, poolGroups } from "./pools.mjs";
import { printLine, printTable } from "./table.mjs";

/** The variable that tells the cases of the server that `run` has started. */
const serverVariable = "BENCH_KUBERNETES";
const placeOf = ({ taken }) => `fill-${taken}`;
const yardstickPlace = "yardstick";
/** Where the replicas lease that are started and stopped. */
const replicaPlace = "replicas";

const serverOf = () => JSON.parse(process.env[serverVariable] ?? "{}");

export const groups = poolGroups(fills, {
  open,
  /** Replaces one Lease object again and again. */
  async writer() {
    const { port, ca } = serverOf();
    const agent = new Agent({ keepAlive: true, ca });
    const collection = `/apis/coordination.k8s.io/v1/namespaces/${yardstickPlace}/leases`;
    const name = `write-${process.pid}`;
    const send = async (method, path, body) => {
      const headers = { authorization: `Bearer token-of-${yardstickPlace}`, "content-type": "application/json" };
      const asked = request({ host: "127.0.0.1", port, agent, method, path, headers });
      asked.end(JSON.stringify(body));
      const [response] = await once(asked, "response");
      const answer = await json(response);
      if (response.statusCode >= 300) throw new Error(JSON.stringify(answer));
      return answer;
    };
    const about = { apiVersion: "coordination.k8s.io/v1", kind: "Lease" };
    let lease = await send("POST", collection, { ...about, metadata: { name } });
    let count = 0;
    return {
      async write() {
        lease.metadata.annotations = { count: String(count++) };
        lease = await send("PUT", `${collection}/${name}`, lease);
      },
      end: async () => agent.destroy(),
    };
  },
});

function open(fill) {
  return openRegistry(parseAddress(serverOf().urls[placeOf(fill)]), { operationTimeout: 20_000 });
}

/** A process that leases and makes an ID, and gives its worker ID back at SIGTERM. */
class Replica {
  #child;
  #lines;

  constructor(i) {
    const env = {
      ...process.env,
      SNOWLEASE_REGISTRY: serverOf().counted[replicaPlace],
      SNOWLEASE_HOST: `node-${i % 10}`,
      SNOWLEASE_INSTANCE: `orders-${i}`,
      SNOWLEASE_CLAIM_TIMEOUT: "60s",
    };
    const script = fileURLToPath(new URL("replica.mjs", import.meta.url));
    this.#child = spawn(process.execPath, [script], { env, stdio: ["ignore", "pipe", "inherit"] });
    this.#lines = createInterface({ input: this.#child.stdout });
  }

  async begun() {
    const [id] = await once(this.#lines, "line");
    return id;
  }

  async stop() {
    const ended = once(this.#child, "exit");
    this.#child.kill("SIGTERM");
    await ended;
  }
}

/** Scales a set of replicas up and down, as a Deployment is; for each step the time, and the requests to the API server. */
async function scale(asked) {
  const replicas = [];
  const ids = new Set();
  let made = 0;
  const rows = [];
  for (const size of [50, 3, 50]) {
    const [before, from, begun] = [await asked(), replicas.length, performance.now()];
    await Promise.all(replicas.splice(size).map((replica) => replica.stop()));
    const more = Array.from({ length: size - replicas.length }, () => new Replica(made++));
    replicas.push(...more);
    for (const id of await Promise.all(more.map((replica) => replica.begun()))) ids.add(id);
    const [seconds, calls] = [(performance.now() - begun) / 1000, (await asked()) - before];
    rows.push([
      `${from} to ${size} replicas`,
      seconds.toFixed(1),
      String(calls),
      (calls / Math.abs(size - from)).toFixed(1),
    ]);
  }
  if (ids.size !== made) throw new Error(`${made} replicas made ${ids.size} different IDs.`);
  await Promise.all(replicas.map((replica) => replica.stop()));
  printTable(
    "Replicas that are started and stopped at once, until each has made an ID or has ended",
    ["", "seconds", "requests", "each"],
    rows,
  );
}

export async function run() {
  const missing = ["etcd", "go", "kubectl"].find(
    (name) => spawnSync(name, ["version", "--client"]).error !== undefined,
  );
  if (missing !== undefined) {
    printLine(`\nKubernetes: skipped, ${missing} is not installed.`);
    return;
  }
  const script = fileURLToPath(new URL("kubernetes-server.ts", import.meta.url));
  const names = [...fills.map(placeOf), yardstickPlace, replicaPlace];
  const child = spawn(process.execPath, ["--import", "tsx", script, ...names], { stdio: ["pipe", "pipe", "inherit"] });
  process.on("exit", () => child.kill("SIGKILL"));
  try {
    const lines = createInterface({ input: child.stdout });
    const [line] = await once(lines, "line");
    process.env[serverVariable] = line;
    const title = `A registry in Lease objects of Kubernetes (its API machinery, on etcd with its data in ${tmpdir()}), one call after the other`;
    await measurePools(import.meta.url, title, fills, open);
    await scale(async () => {
      const answer = once(lines, "line");
      child.stdin.write("\n");
      return Number((await answer)[0]);
    });
  } finally {
    const ended = once(child, "exit");
    child.stdin.end();
    await ended;
  }
}
