import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Layout, layouts } from "snowlease";
import mysql2 from "mysql2/promise";
import pg from "pg";
import { openRegistry, parseAddress } from "../dist/registries/index.js";
import { median } from "./bursts.mjs";
import { claimRequest, cycle, measured, row } from "./claims.mjs";
import { interleave } from "./interleave.mjs";
import { freePort } from "./ports.mjs";
import { figure, printLine, printTable } from "./table.mjs";

const { westid } = layouts;
const wide = Layout.parse("timestamp:28,worker:22,sequence:13@1700000000000/1000");
const crowd = 32;
/** How many of the pool's worker IDs others hold while one client claims, and while a crowd does: each of those has to find one. */
const fills = {
  empty: { name: "0 %", taken: [0, 0], layout: westid },
  half: { name: "50 %", taken: [512, 512], layout: westid },
  full: { name: "all but one each", taken: [1023, 1024 - crowd], layout: westid },
  wide: { name: "1,000,000 of 22 bits", taken: [1_000_000, 1_000_000], layout: wide },
};
const yardstick = "one write";
/** How many calls of each kind a client makes in a round: alone, and in a crowd. */
const [callsAlone, callsEach] = [40, 10];

/** Where the cases find the servers that `run` has started. */
const urlOf = (kind) => process.env[`BENCH_${kind.toUpperCase()}`];

const kinds = {
  postgres: {
    title: "PostgreSQL",
    missing: () => postgresFolder() === undefined && "PostgreSQL (apt-get install --no-install-recommends postgresql)",
    start: startPostgres,
    async connect(url) {
      const client = new pg.Client(url).on("error", () => undefined);
      await client.connect();
      return { run: async (text) => (await client.query(text)).rows, close: () => client.end() };
    },
    numbers: (count) => `(SELECT n FROM generate_series(0, ${count} - 1) n) numbers`,
    hash: (text) => `left(encode(sha256((${text})::bytea), 'hex'), 9)`,
    analyze: "ANALYZE",
  },
  mysql: {
    title: "MariaDB",
    missing: () =>
      spawnSync("mariadbd", ["--version"]).error &&
      "MariaDB (apt-get install --no-install-recommends mariadb-server-core mariadb-client-core)",
    start: startMariadb,
    async connect(url) {
      const connection = await mysql2.createConnection(url);
      return { run: async (text) => (await connection.query(text))[0], close: () => connection.end() };
    },
    numbers: (count) => `(SELECT seq AS n FROM seq_0_to_${count - 1}) numbers`,
    hash: (text) => `LEFT(SHA2(${text}, 256), 9)`,
    analyze: "ANALYZE TABLE",
  },
};

export const groups = Object.fromEntries(
  Object.keys(kinds).flatMap((kind) => [
    [kind, { cases: { [yardstick]: () => write(kind), ...perFill((fill) => one(kind, fill)) } }],
    [`${kind}-crowd`, { cases: { [yardstick]: () => writers(kind), ...perFill((fill) => claimers(kind, fill)) } }],
  ]),
);

function perFill(make) {
  return Object.fromEntries(Object.keys(fills).map((fill) => [fill, () => make(fill)]));
}

/** What the store needs for one write that survives: a row changed, a commit, one fsync. */
async function write(kind) {
  const { run, close } = await kinds[kind].connect(urlOf(kind));
  return measured({ write: () => run("UPDATE yardstick SET n = n + 1 WHERE id = 0") }, close, callsAlone);
}

async function one(kind, fill) {
  const registry = await open(kind, databaseOf(fills[fill].taken[0]));
  return measured(cycle(registry, fills[fill].layout), () => registry.close(), callsAlone);
}

async function writers(kind) {
  const clients = await Promise.all(Array.from({ length: crowd }, () => kinds[kind].connect(urlOf(kind))));
  const calls = clients.map(
    ({ run }, i) =>
      () =>
        run(`UPDATE yardstick SET n = n + 1 WHERE id = ${i}`),
  );
  return crowded({ write: calls }, async () => {
    for (const { close } of clients) await close();
  });
}

/** Each a registry of its own, as so many processes would have it. */
async function claimers(kind, fill) {
  const registries = await Promise.all(
    Array.from({ length: crowd }, () => open(kind, databaseOf(fills[fill].taken[1]))),
  );
  const cycles = registries.map((registry, i) => cycle(registry, fills[fill].layout, i));
  const calls = (name) => cycles.map((each) => each[name]);
  return crowded({ claim: calls("claim"), release: calls("release") }, async () => {
    for (const registry of registries) await registry.close();
  });
}

/** A case whose round lets many clients go through these together, and answers how long each call took, ns, and the whole. */
function crowded(operations, close) {
  const names = Object.keys(operations);
  const round = async () => {
    const times = Object.fromEntries(names.map((name) => [name, []]));
    const begin = performance.now();
    await Promise.all(
      Array.from({ length: crowd }, async (_, client) => {
        for (let i = 0; i < callsEach; i++) {
          for (const name of names) {
            const begin = performance.now();
            await operations[name][client]();
            times[name].push((performance.now() - begin) * 1e6);
          }
        }
      }),
    );
    return { times, rate: (callsEach * crowd * names.length * 1000) / (performance.now() - begin) };
  };
  return { warm: () => round().then(() => null), round, close };
}

function open(kind, database) {
  const url = urlOf(kind).replace(/\/\w+$/, `/${database}`);
  return openRegistry(parseAddress(`${url}?poolSize=1`), { operationTimeout: 30_000 });
}

const databaseOf = (taken) => `taken_${taken}`;

/** A database for each fill, with so many worker IDs held by others. */
async function fillAll(kind) {
  const { numbers, hash, analyze, connect } = kinds[kind];
  const url = urlOf(kind);
  const { run, close } = await connect(url);
  await run("CREATE TABLE yardstick (id INT PRIMARY KEY, n BIGINT)");
  await run(`INSERT INTO yardstick SELECT n, 0 FROM ${numbers(crowd)}`);
  const layouts = new Map(Object.values(fills).flatMap(({ taken, layout }) => taken.map((count) => [count, layout])));
  for (const [taken, layout] of layouts) {
    const database = databaseOf(taken);
    await run(`CREATE DATABASE ${database}`);
    const registry = await open(kind, database);
    await registry.init({ namespace: "bench", layout: layout.fingerprint, maxWindow: 600_000, separate: true });
    if (taken > 0) await registry.claim({ ...claimRequest(layout, "other-0", 600_000), workerId: 0 });
    await registry.close();
    const inside = await connect(url.replace(/\/\w+$/, `/${database}`));
    if (taken > 0) await occupy(inside.run, taken, layout.pool);
    const tables = ["window", "assign", "history", "meta"].map((name) => `workerid_${name}_bench`);
    await inside.run(`${analyze} ${tables.join(", ")}`);
    await inside.close();
  }
  await close();

  /** Turns the one claim into so many, of worker IDs from 0 up, by hosts of their own. */
  async function occupy(run, taken, { first, last }) {
    const host = "concat('other-', n % 500)";
    const others = {
      worker_id: "n",
      token: "concat('t', n)",
      host,
      hostname: host,
      ip: `concat('lease@', ${hash(host)})`,
    };
    for (const table of ["window", "assign"]) {
      const [first] = await run(`SELECT * FROM workerid_${table}_bench`);
      const columns = Object.keys(first);
      const values = columns.map((column) =>
        column === "ip" && table !== "assign" ? column : (others[column] ?? column),
      );
      await run(
        `INSERT INTO workerid_${table}_bench (${columns.join()}) SELECT ${values.join()} FROM workerid_${table}_bench CROSS JOIN ${numbers(taken)} WHERE n > 0`,
      );
    }
    await run(`INSERT INTO workerid_meta_bench (name, value, version) VALUES ('next:${first}-${last}', '${taken}', 1)`);
  }
}

function postgresFolder() {
  const versions = "/usr/lib/postgresql";
  if (!existsSync(versions)) return undefined;
  const folders = readdirSync(versions).toSorted((a, b) => Number(b) - Number(a));
  return folders.map((version) => join(versions, version, "bin")).find((bin) => existsSync(join(bin, "initdb")));
}

/** A PostgreSQL as it is installed: every commit is one fsync. */
async function startPostgres(folder, port) {
  // It refuses to be root.
  const as = userInfo().uid === 0 ? ["--reuid=postgres", "--regid=postgres", "--init-groups"] : [];
  if (as.length > 0) {
    const id = (flag) => Number(execFileSync("id", [flag, "postgres"], { encoding: "utf8" }));
    chownSync(folder, id("-u"), id("-g"));
  }
  const data = join(folder, "data");
  const init = ["-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C"];
  execFileSync("setpriv", [...as, join(postgresFolder(), "initdb"), ...init], { stdio: "ignore", cwd: folder });
  const settings = { listen_addresses: "127.0.0.1", port, unix_socket_directories: "", max_connections: 300 };
  const args = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  return {
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    child: spawn("setpriv", [...as, join(postgresFolder(), "postgres"), "-D", data, ...args], { stdio: "ignore" }),
    // A smart shutdown, so that its children go with it.
    signal: "SIGINT",
  };
}

/** A MariaDB as it is installed: every commit is one fsync. */
async function startMariadb(folder, port) {
  const data = join(folder, "data");
  const login = ["--auth-root-authentication-method=normal", "--skip-test-db", "--user=root"];
  execFileSync("mariadb-install-db", ["--no-defaults", `--datadir=${data}`, ...login], { stdio: "ignore" });
  // Of those that share a folder for temporary files, one that starts deletes what the others have there.
  const folders = [`--datadir=${data}`, `--tmpdir=${folder}`];
  const place = ["--user=root", ...folders, `--socket=${join(folder, "s.sock")}`, `--port=${port}`];
  return {
    url: `mysql://root@127.0.0.1:${port}/mysql`,
    child: spawn("mariadbd", ["--no-defaults", ...place, "--bind-address=127.0.0.1"], { stdio: "ignore" }),
    signal: "SIGKILL",
  };
}

async function startServer(kind) {
  const folder = mkdtempSync(join(tmpdir(), "snowlease-bench-"));
  const { url, child, signal } = await kinds[kind].start(folder, await freePort());
  const end = () => child.kill(signal);
  process.on("exit", end);
  for (let up = false; !up; await sleep(50)) {
    if (child.exitCode !== null) throw new Error(`${kinds[kind].title} ended.`);
    up = await kinds[kind].connect(url).then(
      ({ close }) => close().then(() => true),
      () => false,
    );
  }
  return {
    url,
    async stop() {
      const ended = once(child, "exit");
      end();
      await ended;
      rmSync(folder, { recursive: true });
    },
  };
}

export async function run() {
  for (const [kind, { title, missing }] of Object.entries(kinds)) {
    const what = missing();
    if (what) {
      printLine(`\n${title}: skipped, there is no ${what}.`);
      continue;
    }
    const server = await startServer(kind);
    try {
      process.env[`BENCH_${kind.toUpperCase()}`] = server.url;
      await fillAll(kind);
      await latency(kind, title);
      await throughput(kind);
    } finally {
      await server.stop();
    }
  }
}

const head = ["", "p50 us", "p99 us", "a second", "ratio"];

async function latency(kind, title) {
  const results = await interleave(import.meta.url, kind, [yardstick, ...Object.keys(fills)], {
    rounds: 6,
    processes: 1,
  });
  const of = (name, operation) => results.get(name).rounds.map((times) => times[operation]);
  const writes = of(yardstick, "write");
  const medians = writes.map(median);
  const rows = [row(yardstick, writes, medians)];
  for (const operation of ["claim", "renew", "release"]) {
    for (const [fill, { name }] of Object.entries(fills)) {
      rows.push(row(`${operation}, ${name} taken`, of(fill, operation), medians));
    }
  }
  printTable(`A registry in ${title} (its files in ${tmpdir()}), one call after the other`, head, rows);
}

async function throughput(kind) {
  const names = [yardstick, ...Object.keys(fills)];
  const results = await interleave(import.meta.url, `${kind}-crowd`, names, { rounds: 6, processes: 1 });
  const of = (name, operation) => results.get(name).rounds.map(({ times }) => times[operation]);
  const rates = (name) => results.get(name).rounds.map(({ rate }) => rate);
  const writes = of(yardstick, "write");
  const medians = writes.map(median);
  const rated = (cells, name, share) => {
    const ratio = median(rates(name).map((rate, i) => rates(yardstick)[i] / rate));
    return [...cells.slice(0, 3), figure(median(rates(name)) * share), cells[4], figure(ratio)];
  };
  const rows = [rated(row(yardstick, writes, medians), yardstick, 1)];
  for (const operation of ["claim", "release"]) {
    for (const [fill, { name }] of Object.entries(fills)) {
      rows.push(rated(row(`${operation}, ${name} taken`, of(fill, operation), medians), fill, 0.5));
    }
  }
  printTable(`The same, ${crowd} clients at once`, [...head, "of its rate"], rows);
}
