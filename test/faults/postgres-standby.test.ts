import { afterEach, describe, expect, test } from "vitest";
import { Snowflake } from "../../src/generator/snowflake.ts";
import { defaultLayout } from "../../src/id/layout.ts";
import { systemClock } from "../../src/clock.ts";
import { Lease } from "../../src/lease/lease.ts";
import { eventually, type HolderError, HolderProcess } from "../support/holder.ts";
import { postgresMissing, PostgresServer } from "../support/postgres.ts";
import { openSql } from "../support/sql.ts";
import { Wire } from "../support/wire.ts";

const namespace = "orders";
/** Longer than a promotion takes, ms: without a quarantine, two would make IDs in it. */
const window = 5000;

const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

describe.skipIf(postgresMissing !== undefined)(postgresMissing ?? "a PostgreSQL and its standby", () => {
  test("a standby that lagged is promoted: what it never heard of is not made again", async () => {
    const primary = await PostgresServer.start();
    ends.push(() => primary.remove());
    const registry = await openSql(primary.url());
    ends.push(() => registry.close());
    const layout = defaultLayout.fingerprint;
    await registry.init({ namespace, layout, maxWindow: window, maxClockSkew: 1000 });
    const standby = await primary.follower();
    ends.push(() => standby.remove());

    const holders: HolderProcess[] = [];
    const holder = (server: PostgresServer): HolderProcess => {
      const made = new HolderProcess({ registry: server.url(), namespace, window, pool: "0-1" });
      ends.push(() => made.kill());
      holders.push(made);
      return made;
    };
    const seen = async (): Promise<number[]> => {
      const rows = await standby.query(`SELECT worker_id FROM workerid_window_${namespace} ORDER BY worker_id`);
      return rows.map((row) => Number(row["worker_id"]));
    };

    const known = holder(primary);
    await known.ask("start");
    await known.ask("run");
    await eventually(seen, ([first]) => first === 0);
    await standby.query("ALTER SYSTEM SET primary_conninfo = ''");
    await standby.query("SELECT pg_reload_conf()");
    await eventually(
      () => standby.query("SELECT pid FROM pg_stat_wal_receiver"),
      (receivers) => receivers.length === 0,
    );
    const unknown = holder(primary);
    expect((await unknown.ask("start")).workerId).toBe(1);
    await unknown.ask("run");
    const { until } = await known.ask("renew");
    await primary.kill();
    await standby.query("SELECT pg_promote()");
    expect(await seen()).toEqual([0]);

    const refusals = new Set<string>();
    const heirs = [holder(standby), holder(standby)];
    for (const heir of heirs) {
      const begun = await eventually(
        () => heir.ask("start").catch((error: unknown) => void refusals.add((error as HolderError).code)),
        (state) => state !== undefined,
      );
      expect(begun?.from).toBeGreaterThanOrEqual(until);
      await heir.ask("run");
    }
    expect(refusals).toContain("QUARANTINE");
    for (const heir of heirs) {
      await eventually(
        () => Promise.resolve(heir.ids().length),
        (made) => made > 1000,
      );
    }
    for (const one of holders) await one.kill();
    const all = holders.flatMap((one) => one.ids());
    expect(unknown.ids().length).toBeGreaterThan(0);
    expect(new Set(all).size).toBe(all.length);
  });

  test("behind a proxy that sends reads to a standby which lags: no lease is lost, and no quarantine begins", async () => {
    const primary = await PostgresServer.start();
    ends.push(() => primary.remove());
    const registry = await openSql(primary.url());
    ends.push(() => registry.close());
    await registry.init({ namespace, layout: defaultLayout.fingerprint });
    const standby = await primary.follower();
    ends.push(() => standby.remove());
    await standby.query("ALTER SYSTEM SET recovery_min_apply_delay = '1h'");
    await standby.query("SELECT pg_reload_conf()");
    const wire = await Wire.start(primary.port, standby.port);
    ends.push(() => wire.stop());
    const { era } = (await registry.describe(namespace)) ?? {};

    const heard: unknown[] = [];
    const failures = new Set<string>();
    const holders: { lease: Lease; ids: Snowflake }[] = [];
    for (let i = 0; i < 3; i++) {
      const url = primary.url("?poolSize=1").replace(String(primary.port), String(wire.port));
      const through = await openSql(url, 1500);
      ends.push(() => through.close());
      const makeToken = (): string => `${i}`.repeat(32);
      const lease = await Lease.claim(
        { registry: through, clock: systemClock, makeToken },
        {
          namespace,
          layout: defaultLayout,
          pool: { first: 0, last: 7 },
          window: 60_000,
          claimTimeout: 60_000,
          maxWait: 500,
          operationTimeout: 30_000,
          reuse: "any",
          onLost: "stop",
          holder: { host: `host-${i}`, ip: "192.0.2.1", pid: 4711, instance: "" },
        },
      );
      ends.push(() => lease.orphan());
      lease.on("lost", (event) => heard.push(event));
      lease.on("quarantine", (event) => heard.push(event));
      lease.on("renew-failed", ({ error }) => failures.add(`${error.code} ${error.message}`));
      holders.push({ lease, ids: new Snowflake(lease, {}) });
    }
    const made: bigint[] = [];
    const make = (): void => {
      for (const { ids } of holders) for (let i = 0; i < 100; i++) made.push(ids.next());
    };
    for (const { lease } of holders) expect(await lease.renew()).toBe(true);
    make();
    // The standby has none of these claims.
    expect(await standby.query(`SELECT worker_id FROM workerid_window_${namespace} WHERE token IS NOT NULL`)).toEqual(
      [],
    );
    wire.isSplit = true;
    for (const { lease } of holders) expect(await lease.renew()).toBe(false);
    make();
    expect(wire.splits).toBeGreaterThan(0);
    expect([...failures]).toEqual([expect.stringMatching(/^REGISTRY_UNAVAILABLE .*is read-only/)]);
    wire.isSplit = false;
    for (const { lease } of holders) await eventually(() => lease.renew(), Boolean);
    make();
    expect(heard).toEqual([]);
    expect((await registry.describe(namespace))?.era).toBe(era);
    expect(new Set(made).size).toBe(made.length);
  });
});
