import { afterEach, describe, expect, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { eventually, type HolderError, HolderProcess } from "../support/holder.ts";
import { postgresMissing, PostgresServer } from "../support/postgres.ts";
import { openSql } from "../support/sql.ts";

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
});
