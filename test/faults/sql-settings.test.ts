import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import type { HolderLabel, Registry } from "../../src/rule/registry.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { MariadbServer, mariadbMissing } from "../support/mariadb.ts";
import { mysqlMissing, pluginOptions, startMysql } from "../support/mysql.ts";
import { postgresMissing, PostgresServer } from "../support/postgres.ts";
import { expectApart, liveOn, type Span } from "../support/spans.ts";
import { openSql } from "../support/sql.ts";

const namespace = "orders";
const pool = { first: 0, last: 5 };
/** Nothing of it may mean anything to a database. */
const odd: HolderLabel = { host: `k\\n"ö'\`%_--/*;$1:host 🐧`, ip: "::1", pid: 1, instance: "\\x00\\" };

const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

async function opened(url: string, timeout = 30_000): Promise<Registry> {
  const registry = await openSql(url, timeout);
  ends.push(() => registry.close());
  return registry;
}

/** A crowd that competes for a few numbers: what they were told are windows that do not overlap. */
async function crowd(url: string, many: number, timeout?: number, amid?: () => Promise<void>): Promise<void> {
  const registry = await opened(url);
  await registry.init({ namespace, layout: defaultLayout.fingerprint });
  const spans: Span[] = [];
  let goesOn = true;
  const lives: Promise<void>[] = [];
  for (let i = 0; i < 10; i++) {
    const wish = { pool, window: 60, holder: { ...odd, host: `${odd.host}host-${i % 4}` } };
    lives.push(liveOn(await opened(`${url}?poolSize=1`, timeout), wish, spans, () => goesOn));
  }
  const ended = Promise.all(lives);
  const more = async (): Promise<void> => {
    const before = spans.length;
    await Promise.race([ended, until(() => spans.length >= before + many)]);
  };
  await more();
  if (amid !== undefined) {
    await amid();
    await more();
  }
  goesOn = false;
  await ended;
  const workers = await registry.workers(namespace);
  expectApart(spans, workers);
  for (const { holder } of workers) {
    expect(holder?.host).toMatch(odd.host.slice(0, 3));
    expect(holder).toMatchObject({
      ip: odd.ip,
      instance: odd.instance,
      host: expect.stringContaining(odd.host) as string,
    });
  }
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await sleep(5);
}

/** What a holder persists comes back byte for byte, and the clock is that of the world. */
async function roundTrip(url: string): Promise<void> {
  const registry = await opened(url);
  await registry.init({ namespace: "bytes", layout: defaultLayout.fingerprint });
  const request = claimRequest({ namespace: "bytes", holder: odd });
  const grant = await granted(registry, request);
  expect(Math.abs(grant.clock - Date.now())).toBeLessThan(5000);
  const bytes = Uint8Array.from({ length: 256 }, (_, i) => i);
  const now = Date.now();
  const recents = { from: Math.max(grant.from, now - 5000), bytes };
  await registry.release({ ...keyOf(request, grant), clock: now, used: { until: now, recents } });
  expect(await registry.worker("bytes", grant.workerId)).toMatchObject({ holder: odd, recents, clean: true });
  await registry.pin("bytes", 9, odd.host);
  expect(await registry.worker("bytes", 9)).toMatchObject({ pinned: odd.host });
}

describe.skipIf(postgresMissing !== undefined)(postgresMissing ?? "PostgreSQL", () => {
  const settings: Readonly<Record<string, Readonly<Record<string, string>>>> = {
    serializable: { default_transaction_isolation: "serializable" },
    "repeatable read, read-only by default": {
      default_transaction_isolation: "repeatable read",
      default_transaction_read_only: "on",
    },
    "read uncommitted, far from UTC": {
      default_transaction_isolation: "read uncommitted",
      timezone: "America/New_York",
      datestyle: "SQL, DMY",
      intervalstyle: "sql_standard",
    },
    "texts and bytes written otherwise": {
      standard_conforming_strings: "off",
      backslash_quote: "on",
      bytea_output: "escape",
      extra_float_digits: "0",
      quote_all_identifiers: "on",
    },
  };

  test.each(Object.entries(settings))("%s", async (_, settings) => {
    const server = await PostgresServer.start(settings);
    ends.push(() => server.remove());
    await roundTrip(server.url());
    await crowd(server.url(), 40);
  });

  test("a role that would not wait for its commits has to", async () => {
    const server = await PostgresServer.start({ wal_writer_delay: "10s" });
    ends.push(() => server.remove());
    await server.query("ALTER ROLE postgres SET synchronous_commit = off");
    await server.query("ALTER ROLE postgres SET timezone = 'Australia/Lord_Howe'");
    const registry = await opened(server.url());
    await registry.init({ namespace, layout: defaultLayout.fingerprint });
    for (let i = 0; i < 3; i++) {
      const request = claimRequest({ window: 60_000 });
      const grant = await granted(registry, request);
      await server.kill();
      await server.start();
      expect(await registry.worker(namespace, grant.workerId)).toMatchObject({
        fence: grant.fence,
        until: grant.until,
      });
    }
  });

  test("stopped amid commits for longer than anybody waits, and going on: no two windows overlap", async () => {
    const server = await PostgresServer.start();
    ends.push(() => server.remove());
    await crowd(server.url(), 40, 700, async () => {
      const all = [server.process.pid, ...server.process.children()];
      for (const pid of all) process.kill(pid, "SIGSTOP");
      await sleep(1500);
      for (const pid of all) process.kill(pid, "SIGCONT");
    });
  });
});

const engines = [
  { name: "MariaDB", missing: mariadbMissing, start: MariadbServer.start },
  { name: "MySQL", missing: mysqlMissing, start: startMysql },
];

describe.each(engines)("$name", ({ missing, start }) => {
  describe.skipIf(missing !== undefined)(missing ?? "set up differently", () => {
    const settings: Readonly<Record<string, readonly string[]>> = {
      serializable: ["--transaction-isolation=SERIALIZABLE"],
      "read uncommitted, far from UTC": ["--transaction-isolation=READ-UNCOMMITTED", "--default-time-zone=-09:30"],
      "another language": [
        "--sql-mode=ANSI,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH",
        "--character-set-server=latin1",
      ],
      "no mode at all": ["--sql-mode=", "--autocommit=0", "--default-storage-engine=MyISAM"],
      "a transaction begins with each end of one": ["--completion-type=CHAIN"],
      "a connection ends with each transaction": ["--completion-type=RELEASE"],
      "a log of statements": ["--log-bin=b", "--binlog-format=MIXED", "--server-id=1", "--sync-binlog=1"],
    };

    test.each(Object.entries(settings))("%s", async (_, options) => {
      const server = await start(options);
      ends.push(() => server.remove());
      await roundTrip(server.url());
      await crowd(server.url(), 40);
    });

    test("sessions that read only a few rows, and may change only some", async () => {
      const server = await start(["--skip-character-set-client-handshake", "--character-set-server=latin1"]);
      ends.push(() => server.remove());
      for (const setting of [
        "sql_select_limit = 3",
        "sql_safe_updates = 1",
        "sql_big_selects = 0",
        "max_join_size = 1",
      ])
        await server.query(`SET GLOBAL ${setting}`);
      await roundTrip(server.url());
      await crowd(server.url(), 40);
    });

    test("a log of statements that cannot hold ours", async () => {
      const server = await start(["--log-bin=b", "--binlog-format=STATEMENT", "--server-id=1"]);
      ends.push(() => server.remove());
      await roundTrip(server.url());
      // A user who may not choose another format is told what to change.
      await server.query("CREATE USER app@'127.0.0.1'");
      await server.query("GRANT ALL ON snowlease.* TO app@'127.0.0.1'");
      const app = await opened(server.url().replace("root@", "app@"));
      await expect(app.claim(claimRequest({ namespace: "bytes" }))).rejects.toMatchObject({
        code: "CONFIG_INVALID",
        message: expect.stringMatching(/BINLOG_FORMAT = STATEMENT.*; set binlog_format to ROW or MIXED/i) as string,
      });
      await server.query("SET GLOBAL binlog_format = MIXED");
      await granted(await opened(server.url().replace("root@", "app@")), claimRequest({ namespace: "bytes" }));
    });

    test("read-only by default", async () => {
      const server = await start();
      ends.push(() => server.remove());
      await server.query("SET GLOBAL TRANSACTION READ ONLY");
      await roundTrip(server.url());
    });

    test("stopped amid commits for longer than anybody waits, and going on: no two windows overlap", async () => {
      const server = await start();
      ends.push(() => server.remove());
      await crowd(server.url(), 40, 700, async () => {
        server.process.signal("SIGSTOP");
        await sleep(1500);
        server.process.signal("SIGCONT");
      });
    });
  });
});

describe.skipIf(mysqlMissing !== undefined)(mysqlMissing ?? "MySQL", () => {
  test.each([
    ["one primary", "ON"],
    ["several primaries", "OFF"],
  ])("set up for a replication group with %s", async (_, single) => {
    const group = ["--plugin-load-add=group_replication.so", `--loose-group-replication-single-primary-mode=${single}`];
    const server = await startMysql([...pluginOptions, ...group]);
    ends.push(() => server.remove());
    if (single === "ON") return roundTrip(server.url());
    await expect((await opened(server.url())).claim(claimRequest())).rejects.toMatchObject({
      code: "CONFIG_INVALID",
      message: expect.stringContaining("group_replication_single_primary_mode=OFF") as string,
    });
  });
});
