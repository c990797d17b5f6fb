import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { readStatements } from "../../src/registries/sql-sections.ts";
import { type SqliteConnection, type SqliteDriver, loadSqlite } from "../../src/registries/sqlite/driver.ts";
import { Layout } from "../../src/id/layout.ts";
import type { PoolBounds } from "../../src/id/pool-bounds.ts";
import type { Grant, Registry } from "../../src/rule/registry.ts";
import { claimRequest, newFolder, on, openRaw, openSqlite } from "../support/sqlite.ts";

const files = readdirSync(new URL("../../sql/sqlite/", import.meta.url)).filter((file) => file !== "schema.sql");
const statements = files.flatMap((file) =>
  [...readStatements(`sqlite/${file}`)].map(([name, sql]) => ({ name: `${file.replace(".sql", "")}.${name}`, sql })),
);

let driver: SqliteDriver;
let connection: SqliteConnection;

beforeAll(async () => {
  driver = await loadSqlite();
  connection = driver.open(":memory:");
  connection.exec(readFileSync(new URL("../../sql/sqlite/schema.sql", import.meta.url), "utf8"));
});

function plan(sql: string): readonly string[] {
  return connection
    .prepare(`EXPLAIN QUERY PLAN ${sql}`)
    .all()
    .map(({ detail }) => String(detail));
}

describe("no statement of a claim, renewal or release reads more than it needs", () => {
  const hot = statements.filter(({ name, sql }) => {
    const asked =
      /^(claim|record|namespace|history|clock)\./.test(name) &&
      !/^(history\.(list|prune)|clock\.(least|most|accept-for-all))$/.test(name);
    return asked && /^(?:--.*\n)*(SELECT|UPDATE|DELETE)/.test(sql);
  });

  test("and they are all here", () => {
    expect(hot.map(({ name }) => name)).toEqual(
      expect.arrayContaining([
        "claim.oldest",
        "claim.oldest-of-host",
        "claim.numbers",
        "record.gap-of",
        "history.supersede",
      ]),
    );
  });

  test.each(hot)("$name", ({ sql }) => {
    const steps = plan(sql);
    expect(steps.length).toBeGreaterThan(0);
    for (const step of steps) {
      expect(step).toMatch(/^SEARCH /);
      // SQLite walks through all entries that are equal in the first of several columns compared at once.
      expect(step).not.toMatch(/\)[<>]/);
    }
  });
});

test.each([
  ["claim.oldest", "COVERING INDEX worker_by_until (namespace_id=?)"],
  ["claim.oldest-of-host", "COVERING INDEX worker_by_host (namespace_id=? AND host=?)"],
  ["claim.newest-of-host", "COVERING INDEX worker_by_host (namespace_id=? AND host=?)"],
  ["claim.pinned-for", "COVERING INDEX worker_by_owner (namespace_id=? AND owner=?)"],
  ["claim.numbers", "PRIMARY KEY (namespace_id=? AND worker_id>? AND worker_id<?)"],
  ["claim.by-token", "worker_by_token (namespace_id=? AND token=?)"],
  ["record.gap-of", "PRIMARY KEY (namespace_id=? AND last>?)"],
  ["history.prune", "history_by_until (namespace_id=? AND until_ms<?)"],
  ["workers.all", "PRIMARY KEY (namespace_id=? AND worker_id>?)"],
])("%s seeks in %s", (name, index) => {
  const found = statements.find((statement) => statement.name === name);
  expect(plan(found?.sql ?? "").join("; ")).toContain(index);
});

test("every statement is used", () => {
  const folder = join(import.meta.dirname, "../../src/registries/sqlite");
  const source = readdirSync(folder)
    .map((file) => readFileSync(join(folder, file), "utf8"))
    .join("\n");
  for (const { name } of statements) {
    if (!name.startsWith("workers.")) expect(source).toContain(`"${name}"`);
  }
});

describe("a pool that was narrowed to 1000 of 100,000 numbers", () => {
  const layout = Layout.parse("timestamp:28,worker:22,sequence:13@1700000000000/1000").fingerprint;
  const [wide, narrow] = [
    { first: 0, last: 99_999 },
    { first: 40_000, last: 40_999 },
  ];
  const [ended, open] = [1_700_000_000_000, 8_000_000_000_000];
  let path: string;
  let registry: Registry;
  let hosts = 0;

  beforeEach(async () => {
    path = join(newFolder(), "registry.db");
    registry = await openSqlite(path, { operationTimeout: 60_000 });
  });

  const claim = (pool: PoolBounds, host = `new-${hosts++}`): ReturnType<Registry["claim"]> =>
    registry.claim(claimRequest({ pool, layout, holder: on(host) }));

  /** Each number has a record, as claims from the wide pool left it: `live`, or free for long. One in 50 outside is pinned. */
  async function fill(live: { readonly inside: number; readonly outside: boolean }): Promise<void> {
    await claim(wide);
    const raw = await openRaw(path);
    raw.exec(`
      WITH RECURSIVE each_number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM each_number WHERE n < ${wide.last}),
      told AS (
        SELECT n, CASE WHEN n BETWEEN ${narrow.first} AND ${narrow.last} THEN n - ${narrow.first} < ${live.inside} ELSE ${live.outside ? 1 : 0} END AS live
        FROM each_number
      )
      INSERT INTO worker (
        namespace_id, worker_id, fence, token, from_ms, until_ms, seen_clock, clean, known_from_ms, host, ip, pid, instance, claimed_at, pinned
      )
      SELECT
        1, n, 1, iif(live, printf('%032d', n), NULL), 1, iif(live, ${open}, ${ended}) + n, 1, 0, 1,
        'host-' || n % 100, '', 1, '', 1, iif(n % 50 = 7 AND n NOT BETWEEN ${narrow.first} AND ${narrow.last}, 'kept', NULL)
      FROM told;
      UPDATE gap SET first = ${wide.last + 1} WHERE namespace_id = 1;`);
    raw.close();
  }

  /** The quickest of a few, ms: others are at work on this machine. */
  async function quickest(work: () => Promise<unknown>): Promise<number> {
    const times: number[] = [];
    for (let i = 0; i < 9; i++) {
      const begun = performance.now();
      await work();
      times.push(performance.now() - begun);
    }
    return Math.min(...times);
  }

  test.each([
    { label: "full, and all others are free", inside: 1000, outside: false },
    { label: "full, as all others are", inside: 1000, outside: true },
    { label: "half full", inside: 500, outside: true },
    { label: "empty", inside: 0, outside: true },
  ])("$label: a claim finds its numbers behind all those outside of it", async ({ inside, outside }) => {
    await fill({ inside, outside });
    // A host that was there before gets its own number.
    const own = await claim(narrow, "host-77");
    if (inside < 1000) expect(own).toMatchObject({ outcome: "granted", fence: 2 });
    const got = new Set<number>(own.outcome === "granted" ? [own.workerId] : []);
    let answer = await claim(narrow);
    const time = await quickest(() => claim(narrow));
    for (; answer.outcome === "granted"; answer = await claim(narrow)) {
      expect(answer.workerId).toBeGreaterThanOrEqual(narrow.first);
      expect(answer.workerId).toBeLessThanOrEqual(narrow.last);
      expect(got).not.toContain(answer.workerId);
      got.add(answer.workerId);
    }
    expect(answer).toMatchObject({ outcome: "exhausted", freeAt: expect.any(Number) });
    expect(time).toBeLessThan(10 * (await quickest(() => claim({ first: 200_000, last: 200_999 }))));
  });

  describe("and a larger one behind the others", () => {
    const large = { first: 30_000, last: 69_999 };
    const raw = async (): Promise<SqliteConnection> => openRaw(path);

    beforeEach(async () => {
      await fill({ inside: 0, outside: false });
      const all = `worker_id BETWEEN ${large.first} AND ${large.last}`;
      (await raw()).exec(`UPDATE worker SET until_ms = ${open} + worker_id, pinned = NULL WHERE ${all}`);
    });

    test("finds the one that is free, and none after it", async () => {
      (await raw()).exec(`UPDATE worker SET until_ms = ${ended} WHERE worker_id = 55555`);
      const answer = await claim(large);
      expect(answer).toMatchObject({ outcome: "granted", workerId: 55_555 });
      const { until: freeAt } = answer as Grant;
      expect(await claim(large)).toMatchObject({ outcome: "exhausted", freeAt });
    });

    test("is exhausted also while its holders renew", async () => {
      const connection = await raw();
      const answer = claim(large);
      let isOver = false;
      void answer.finally(() => (isOver = true));
      for (let i = 0; !isOver; i++) {
        const oldest = large.first + ((8 * i) % 40_000);
        const some = `worker_id BETWEEN ${oldest} AND ${oldest + 7}`;
        connection.exec(`UPDATE worker SET until_ms = until_ms + 1000000 WHERE namespace_id = 1 AND ${some}`);
        await turn();
      }
      expect(await answer).toMatchObject({ outcome: "exhausted", freeAt: expect.any(Number) });
    });
  });
});
