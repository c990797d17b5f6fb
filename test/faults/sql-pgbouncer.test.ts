import { randomBytes } from "node:crypto";
import { afterEach, describe, expect, test } from "vitest";
import { Snowflake } from "../../src/generator/snowflake.ts";
import { defaultLayout } from "../../src/id/layout.ts";
import { systemClock } from "../../src/clock.ts";
import { Lease } from "../../src/lease/lease.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { claimRequest, granted } from "../support/claims.ts";
import { eventually } from "../support/holder.ts";
import { Maker } from "../support/maker.ts";
import { Pgbouncer, pgbouncerMissing } from "../support/pgbouncer.ts";
import { postgresMissing, PostgresServer } from "../support/postgres.ts";
import { expectApart, liveOn, type Span } from "../support/spans.ts";
import { openSql } from "../support/sql.ts";

const namespace = "orders";
const missing = postgresMissing ?? pgbouncerMissing;

const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

describe.skipIf(missing !== undefined)(
  missing ?? "behind a PgBouncer that gives each transaction another session",
  () => {
    async function begun(): Promise<{ server: PostgresServer; bouncer: Pgbouncer; registry: Registry }> {
      const server = await PostgresServer.start();
      ends.push(() => server.remove());
      const bouncer = await Pgbouncer.start(server.port);
      ends.push(() => bouncer.remove());
      const registry = await opened(bouncer.url());
      await registry.init({ namespace, layout: defaultLayout.fingerprint });
      return { server, bouncer, registry };
    }

    async function opened(url: string, timeout = 30_000): Promise<Registry> {
      const registry = await openSql(url, timeout);
      ends.push(() => registry.close());
      return registry;
    }

    test("killed with -9 amid claims of a crowd: no two windows overlap", async () => {
      const { bouncer, registry } = await begun();
      const spans: Span[] = [];
      let goesOn = true;
      const lives: Promise<void>[] = [];
      for (let i = 0; i < 12; i++) {
        const holder = { host: `host-${i % 5}`, ip: "192.0.2.1", pid: 4711, instance: "" };
        const wish = { holder, pool: { first: 0, last: 7 }, window: 150 };
        lives.push(liveOn(await opened(bouncer.url("?poolSize=1"), 1000), wish, spans, () => goesOn));
      }
      const more = async (): Promise<void> => {
        const before = spans.length;
        await eventually(
          () => Promise.resolve(spans.length),
          (now) => now >= before + 40,
        );
      };
      await more();
      await bouncer.kill();
      await bouncer.start();
      await more();
      goesOn = false;
      await Promise.all(lives);
      expectApart(spans, await registry.workers(namespace));
    });

    test("live holders renew through it, each time in another session: none is lost, and no quarantine begins", async () => {
      const { bouncer, registry } = await begun();
      const { era } = (await registry.describe(namespace)) ?? {};
      const losses: unknown[] = [];
      const renewals: number[] = [];
      const makers: Maker[] = [];
      for (let i = 0; i < 6; i++) {
        const host = {
          registry: await opened(bouncer.url("?poolSize=2")),
          clock: systemClock,
          makeToken: () => randomBytes(16).toString("hex"),
        };
        const lease = await Lease.claim(host, {
          namespace,
          layout: defaultLayout,
          pool: { first: 0, last: 7 },
          window: 1500,
          claimTimeout: 60_000,
          maxWait: 500,
          operationTimeout: 30_000,
          reuse: "any",
          onLost: "stop",
          holder: { host: `host-${i}`, ip: "192.0.2.1", pid: 4711, instance: "" },
        });
        ends.push(() => lease.orphan());
        renewals.push(0);
        lease.on("renewed", () => (renewals[i] = (renewals[i] ?? 0) + 1));
        lease.on("lost", (event) => losses.push(event));
        lease.on("quarantine", (event) => losses.push(event));
        const maker = new Maker(new Snowflake(lease, {}));
        ends.push(() => maker.stop());
        makers.push(maker);
      }
      await eventually(
        () => Promise.resolve(Math.min(...renewals)),
        (least) => least >= 10,
      );
      await bouncer.kill();
      await bouncer.start();
      const sofar = Math.max(...renewals);
      await eventually(
        () => Promise.resolve(Math.min(...renewals)),
        (least) => least >= sofar + 3,
      );
      for (const maker of makers) await maker.stop();
      expect(losses).toEqual([]);
      expect((await registry.describe(namespace))?.era).toBe(era);
      const ids = makers.flatMap((maker) => maker.ids);
      expect(ids.length).toBeGreaterThan(100);
      expect(new Set(ids).size).toBe(ids.length);
    });

    test("what a standby has not confirmed is not acknowledged, although nothing of a session stays", async () => {
      const { server, bouncer } = await begun();
      await server.query("ALTER DATABASE postgres SET synchronous_commit = 'local'");
      await server.query("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
      await server.query("SELECT pg_reload_conf()");
      const impatient = await opened(bouncer.url(), 700);
      await expect(impatient.claim(claimRequest())).rejects.toMatchObject({
        code: "REGISTRY_UNAVAILABLE",
        message: expect.stringContaining("is not known") as string,
      });
      await server.query("ALTER SYSTEM SET synchronous_standby_names = ''");
      await server.query("SELECT pg_reload_conf()");
      await granted(await opened(bouncer.url()), claimRequest());
    });
  },
);
