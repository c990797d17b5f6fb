import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { Layout, layouts } from "snowlease";
import zookeeper from "node-zookeeper-client";
import { openRegistry, parseAddress } from "../dist/registries/index.js";
import { median } from "./bursts.mjs";
import { cycle, measured, row } from "./claims.mjs";
import { interleave } from "./interleave.mjs";
import { freePort } from "./ports.mjs";
import { figure, printLine, printTable } from "./table.mjs";

const jar = "/usr/share/java/zookeeper.jar";
/** Where the cases find the server that `run` has started. */
const port = Number(process.env.BENCH_ZOOKEEPER ?? 0);

const { westid } = layouts;
const wide = Layout.parse("timestamp:28,worker:22,sequence:13@1700000000000/1000");
/** How many of the pool's worker IDs others hold, with their sessions alive. */
const fills = [
  { taken: 0, layout: westid },
  { taken: 512, layout: westid },
  { taken: 1023, layout: westid },
  { taken: 4000, layout: wide },
];
const nameOf = ({ taken, layout }) => `${taken.toLocaleString("en")} of ${(layout.pool.last + 1).toLocaleString("en")}`;
const chrootOf = ({ taken }) => `/fill-${taken}`;
const yardstick = "one write";

export const groups = {
  claims: {
    cases: {
      async [yardstick]() {
        const client = await rawClient(port);
        await client.create("/yardstick").catch(() => undefined);
        return measured({ write: () => client.setData("/yardstick", Buffer.alloc(1)) }, () => client.close());
      },
      ...Object.fromEntries(fills.map((fill) => [nameOf(fill), () => own(fill)])),
      ...Object.fromEntries(fills.map((fill) => [`Leaf, ${nameOf(fill)}`, () => leafLike(fill)])),
      ...Object.fromEntries(fills.map((fill) => [`lock, ${nameOf(fill)}`, () => lockRecipe(fill)])),
    },
  },
};

async function own(fill) {
  const registry = await open(port, fill);
  return measured(cycle(registry, fill.layout), () => registry.close());
}

/** As Leaf does: a persistent node for each address, its sequence is the number; all are listed to find one's own. */
async function leafLike(fill) {
  const client = await rawClient(port);
  const folder = `${chrootOf(fill)}/forever`;
  let count = 0;
  const claim = async () => {
    const address = `10.1.0.1:${count++}-`;
    const names = await client.getChildren(folder);
    if (names.some((name) => name.startsWith(address))) throw new Error("It was here before.");
    return client.create(`${folder}/${address}`, zookeeper.CreateMode.PERSISTENT_SEQUENTIAL);
  };
  return peer(client, claim);
}

/** As with the recipe for a lock: queue for it, look what is free, take it, leave the queue. */
async function lockRecipe(fill) {
  const client = await rawClient(port);
  const folder = chrootOf(fill);
  const claim = async () => {
    const lock = await client.create(`${folder}/lock/l-`, zookeeper.CreateMode.EPHEMERAL_SEQUENTIAL);
    const queue = await client.getChildren(`${folder}/lock`);
    if (queue.toSorted()[0] !== lock.split("/").at(-1)) throw new Error("Others are in the queue.");
    const taken = new Set(await client.getChildren(`${folder}/taken`));
    let free = 0;
    while (taken.has(String(free))) free++;
    const path = await client.create(`${folder}/taken/${free}`, zookeeper.CreateMode.EPHEMERAL);
    await client.remove(lock);
    return path;
  };
  return peer(client, claim);
}

function peer(client, claim) {
  let path;
  const operations = {
    async claim() {
      path = await claim();
    },
    release: () => client.remove(path),
  };
  return measured(operations, () => client.close());
}

function open(at, fill) {
  return openRegistry(parseAddress(`zookeeper://127.0.0.1:${at}${chrootOf(fill)}`), { operationTimeout: 20_000 });
}

async function rawClient(at) {
  const client = zookeeper.createClient(`127.0.0.1:${at}`);
  client.connect();
  await once(client, "connected");
  const promised = (name) => promisify(client[name].bind(client));
  const [create, remove, setData] = ["create", "remove", "setData"].map(promised);
  // Its last argument but one is what `promisify` would take for the answer.
  const getChildren = (path) =>
    new Promise((resolve, reject) =>
      client.getChildren(path, (error, names) => (error ? reject(new Error(String(error))) : resolve(names))),
    );
  return { create, remove, setData, getChildren, close: () => client.close() };
}

/** Takes so many worker IDs in each of the ways; what is returned keeps their sessions alive. */
async function fillPool(at, fill) {
  const client = await rawClient(at);
  const folder = chrootOf(fill);
  for (const path of ["", "/forever", "/lock", "/taken"]) await client.create(`${folder}${path}`);
  const registry = await open(at, fill);
  await registry.init({ namespace: "bench", layout: fill.layout.fingerprint, maxWindow: 600_000 });
  for (let begin = 0; begin < fill.taken; begin += 50) {
    const some = Array.from({ length: Math.min(50, fill.taken - begin) }, (_, i) => begin + i);
    await Promise.all(
      some.flatMap((i) => [
        client.create(`${folder}/forever/10.0.0.1:${i}-`, zookeeper.CreateMode.PERSISTENT_SEQUENTIAL),
        client.create(`${folder}/taken/${i}`, zookeeper.CreateMode.EPHEMERAL),
        claimFor(registry, fill.layout, i),
      ]),
    );
  }
  return async () => {
    await registry.close();
    client.close();
  };
}

async function claimFor(registry, layout, i) {
  const holder = { host: `other-${i % 500}`, ip: "10.0.0.1", pid: i, instance: "" };
  const answer = await registry.claim({
    namespace: "bench",
    token: i.toString(16).padStart(32, "0"),
    workerId: i,
    pool: layout.pool,
    holder,
    clock: Date.now(),
    window: 600_000,
    layout: layout.fingerprint,
  });
  if (answer.outcome !== "granted") throw new Error(`Worker ${i} was refused: ${answer.outcome}.`);
}

/** Stands before the server, lets everything arrive late, and counts how often the client spoke after it had been answered. */
async function startRelay(delay) {
  const relay = { turns: 0, port: 0, close: () => server.close() };
  const server = createServer((client) => {
    const upstream = connect(relay.target ?? 0, "127.0.0.1");
    let spoke = "server";
    for (const [from, to, name] of [
      [client, upstream, "client"],
      [upstream, client, "server"],
    ]) {
      from.setNoDelay();
      from.on("error", () => to.destroy());
      from.on("close", () => setTimeout(() => to.destroy(), delay));
      from.on("data", (bytes) => {
        if (name === "client" && spoke === "server") relay.turns++;
        spoke = name;
        setTimeout(() => to.write(bytes), delay);
      });
    }
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  relay.port = server.address().port;
  return relay;
}

/** Round trips of each operation, the median of some. */
async function countTurns(at, fill) {
  const relay = await startRelay(15);
  relay.target = at;
  const registry = await open(relay.port, fill);
  const operations = cycle(registry, fill.layout);
  const counts = {};
  for (let i = 0; i < 7; i++) {
    for (const [name, operation] of Object.entries(operations)) {
      const before = relay.turns;
      await operation();
      (counts[name] ??= []).push(relay.turns - before);
    }
  }
  await registry.close();
  relay.close();
  return Object.fromEntries(Object.entries(counts).map(([name, all]) => [name, median(all)]));
}

async function startServer() {
  const folder = mkdtempSync(join(tmpdir(), "snowlease-bench-"));
  mkdirSync(join(folder, "data"));
  const at = await freePort();
  const lines = [
    "tickTime=2000",
    "maxSessionTimeout=60000",
    `dataDir=${folder}/data`,
    `clientPort=${at}`,
    "clientPortAddress=127.0.0.1",
    "admin.enableServer=false",
    "maxClientCnxns=0",
  ];
  writeFileSync(join(folder, "zoo.cfg"), lines.join("\n"));
  const classes = `${folder}:${jar}:/usr/share/java/slf4j-nop.jar`;
  const main = "org.apache.zookeeper.server.ZooKeeperServerMain";
  const child = spawn("java", ["-Xmx512m", "-cp", classes, main, join(folder, "zoo.cfg")], { stdio: "ignore" });
  process.on("exit", () => child.kill("SIGKILL"));
  for (;;) {
    const client = connect(at, "127.0.0.1");
    const [up] = await Promise.race([
      once(client, "connect").then(() => [true]),
      once(client, "error").then(() => []),
    ]).catch(() => []);
    client.destroy();
    if (up) break;
    await sleep(50);
  }
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
  if (!existsSync(jar) || spawnSync("java", ["-version"]).error) {
    printLine(
      "\nZooKeeper: skipped, it is not installed (apt-get install --no-install-recommends libzookeeper-java default-jre-headless).",
    );
    return;
  }
  const server = await startServer();
  const filled = [];
  for (const fill of fills) filled.push(await fillPool(server.at, fill));
  try {
    const turns = [];
    for (const fill of fills) turns.push(await countTurns(server.at, fill));
    process.env.BENCH_ZOOKEEPER = String(server.at);
    const names = Object.keys(groups.claims.cases);
    const results = await interleave(import.meta.url, "claims", names, { rounds: 2, processes: 2 });
    const of = (name, operation) => results.get(name).rounds.map((times) => times[operation]);
    const writes = of(yardstick, "write");
    const medians = writes.map(median);
    const rows = [[...row(yardstick, writes, medians), 1]];
    for (const operation of ["claim", "renew", "release"]) {
      for (const [i, fill] of fills.entries()) {
        const trips = figure(turns[i][operation]);
        rows.push([...row(`${operation}, ${nameOf(fill)} taken`, of(nameOf(fill), operation), medians), trips]);
      }
    }
    for (const [peer, trips] of [
      ["Leaf", 2],
      ["lock", 5],
    ]) {
      for (const fill of fills) {
        const name = `${peer}, ${nameOf(fill)}`;
        rows.push([...row(`as ${peer}, ${nameOf(fill)} taken`, of(name, "claim"), medians), trips]);
      }
    }
    const head = ["", "p50 us", "p99 us", "a second", "ratio", "round trips"];
    printTable(`A registry in ZooKeeper (one server, its log in ${tmpdir()}), one call after the other`, head, rows);
  } finally {
    for (const end of filled) await end();
    await server.stop();
  }
}
