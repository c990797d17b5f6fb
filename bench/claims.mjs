import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { layouts, Layout } from "snowlease";
import { openRegistry } from "../dist/registries/index.js";
import { loadSqlite } from "../dist/registries/sqlite/driver.js";
import { median } from "./bursts.mjs";
import { interleave } from "./interleave.mjs";
import { figure, printTable } from "./table.mjs";

const cyclesPerRound = 100;
const namespace = "bench";
const large = Layout.parse("timestamp:28,worker:22,sequence:13@1700000000000/1000");

/** The same claims with this much of the pool held by others. */
const fills = [
  { taken: 0, layout: layouts.westid },
  { taken: 512, layout: layouts.westid },
  { taken: 1023, layout: layouts.westid },
  { taken: 1_000_000, layout: large },
];

const yardstick = "one fsynced write";

export const groups = {
  sqlite: {
    cases: {
      async [yardstick]() {
        const { path, remove } = tempFile();
        const connection = (await loadSqlite()).open(path);
        connection.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE t (a INTEGER)");
        connection.exec("INSERT INTO t VALUES (0)");
        const update = connection.prepare("UPDATE t SET a = a + 1");
        return measured(
          {
            write() {
              connection.exec("BEGIN IMMEDIATE");
              update.run();
              connection.exec("COMMIT");
            },
          },
          () => {
            connection.close();
            remove();
          },
        );
      },
      ...Object.fromEntries(fills.map((fill) => [nameOf(fill), () => sqliteCase(fill)])),
    },
  },
};

function nameOf({ taken, layout }) {
  return `${taken.toLocaleString("en")} of ${(layout.pool.last + 1).toLocaleString("en")} taken`;
}

async function sqliteCase({ taken, layout }) {
  const { path, remove } = tempFile();
  const registry = await openRegistry({ kind: "sqlite", path }, { operationTimeout: 5000 });
  await registry.init({ namespace, layout: layout.fingerprint, maxWindow: 600_000 });
  if (taken > 0) {
    await registry.claim(claimRequest(layout, "other", 600_000));
    await occupy(path, taken);
  }
  return measured(cycle(registry, layout), async () => {
    await registry.close();
    remove();
  });
}

/** Claim, renew and release, each time from another of 64 hosts (of this `site`), as calls that follow each other. */
export function cycle(registry, layout, site = 0) {
  let count = 0;
  let key;
  return {
    async claim() {
      const request = claimRequest(layout, `host-${site}-${count++ % 64}`, 60_000);
      const answer = await registry.claim(request);
      if (answer.outcome !== "granted") throw new Error(`The claim was refused: ${answer.outcome}.`);
      const { workerId, fence, from } = answer;
      key = { namespace, workerId, fence, token: request.token, from };
    },
    async renew() {
      const { from: _, ...named } = key;
      const answer = await registry.renew({ ...named, clock: Date.now(), window: 60_000 });
      if (answer.outcome !== "renewed") throw new Error(`The renewal was refused: ${answer.outcome}.`);
    },
    async release() {
      const { from, ...named } = key;
      const answer = await registry.release({ ...named, clock: Date.now(), used: { until: from } });
      if (answer.outcome !== "released") throw new Error(`The release was refused: ${answer.outcome}.`);
    },
  };
}

export function claimRequest(layout, host, window) {
  const holder = { host, ip: "10.0.0.1", pid: 1, instance: "" };
  const token = randomBytes(16).toString("hex");
  return { namespace, token, pool: layout.pool, holder, clock: Date.now(), window, layout: layout.fingerprint };
}

/** Turns the one claim in the file into `taken` of them, of worker IDs from 0 up, by hosts of their own. */
async function occupy(path, taken) {
  const connection = (await loadSqlite()).open(path);
  const others = { worker_id: "i", token: "lower(hex(randomblob(16)))", host: "'other-' || (i % 500)" };
  connection.exec("BEGIN IMMEDIATE");
  for (const table of ["worker", "history"]) {
    const columns = connection
      .prepare(`PRAGMA table_info(${table})`)
      .all()
      .map((column) => column.name);
    const values = columns.map((column) => others[column] ?? column);
    connection.exec(
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${taken - 1})
       INSERT INTO ${table} (${columns.join()}) SELECT ${values.join()} FROM ${table} CROSS JOIN n WHERE worker_id = 0`,
    );
  }
  connection.exec(`UPDATE gap SET first = ${taken} WHERE first = 1; COMMIT; PRAGMA wal_checkpoint(TRUNCATE)`);
  connection.close();
}

function tempFile() {
  const folder = mkdtempSync(join(tmpdir(), "snowlease-bench-"));
  return { path: join(folder, "registry.db"), remove: () => rmSync(folder, { recursive: true }) };
}

/** A case whose round does each of these in turn, many times, and answers how long every one of them took, ns. */
export function measured(operations, close, cyclesEach = cyclesPerRound) {
  const round = async (cycles) => {
    const times = Object.fromEntries(Object.keys(operations).map((name) => [name, []]));
    for (let i = 0; i < cycles; i++) {
      for (const [name, operation] of Object.entries(operations)) {
        const begin = performance.now();
        await operation();
        times[name].push((performance.now() - begin) * 1e6);
      }
    }
    return times;
  };
  return { warm: () => round(2 * cyclesEach).then(() => null), round: () => round(cyclesEach), close };
}

/**
 * A row of a table: how long an operation took, how many of them that is a second, and how many times the yardstick that was
 * measured beside it in the same round.
 */
export function row(name, rounds, yardsticks) {
  const all = rounds.flat().toSorted((a, b) => a - b);
  const mean = all.reduce((sum, ns) => sum + ns, 0) / all.length;
  const ratio = median(rounds.map((times, i) => median(times) / yardsticks[i]));
  const p99 = all[Math.floor(all.length * 0.99)];
  return [name, figure(median(all) / 1000), figure(p99 / 1000), figure(1e9 / mean), figure(ratio)];
}

export async function run() {
  const names = Object.keys(groups.sqlite.cases);
  const results = await interleave(import.meta.url, "sqlite", names, { rounds: 5 });
  const writes = results.get(yardstick).rounds.map(({ write }) => write);
  const medians = writes.map(median);
  const rows = [row(yardstick, writes, medians)];
  for (const operation of ["claim", "renew", "release"]) {
    for (const name of names.slice(1)) {
      const rounds = results.get(name).rounds.map((times) => times[operation]);
      rows.push(row(`${operation}, ${name}`, rounds, medians));
    }
  }
  const title = `The embedded registry (sqlite, files in ${tmpdir()}), one call after the other`;
  printTable(title, ["", "p50 us", "p99 us", "a second", "ratio"], rows);
}
