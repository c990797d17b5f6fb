import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { databases, type DatabaseServer } from "../support/databases.ts";
import { driveStandIn, oracleStandIn } from "../support/oracle.ts";
import { expectApart, liveOn, type Span } from "../support/spans.ts";
import { openSql } from "../support/sql.ts";

const namespace = "orders";
/** 200 clients of one process need an answer each, on a busy machine, ms. */
const patience = 120_000;

driveStandIn();

describe.each([...databases, oracleStandIn])("$name", ({ missing, start }) => {
  describe.skipIf(missing !== undefined)(missing ?? "on a server of its own", () => {
    let server: DatabaseServer;
    const open: Registry[] = [];

    beforeEach(async () => {
      server = await start();
      await (await opened()).init({ namespace, layout: defaultLayout.fingerprint });
    });
    afterEach(async () => {
      await Promise.all(open.splice(0).map((registry) => registry.close()));
      await server.remove();
    });

    async function opened(query = "", timeout = patience): Promise<Registry> {
      const registry = await openSql(server.url(query), timeout);
      open.push(registry);
      return registry;
    }

    test(
      "killed with -9 amid claims, renewals and releases, again and again: no two windows overlap, nothing is lost or left over",
      { timeout: patience },
      async () => {
        const spans: Span[] = [];
        let goesOn = true;
        const lives: Promise<void>[] = [];
        for (let i = 0; i < 12; i++) {
          const holder = { host: `host-${i % 5}`, ip: "192.0.2.1", pid: 4711, instance: "" };
          const wish = { holder, pool: { first: 0, last: 9 }, window: 150 };
          lives.push(liveOn(await opened("?poolSize=1", 1000), wish, spans, () => goesOn));
        }
        for (let round = 0; round < 3; round++) {
          const before = spans.length;
          while (spans.length < before + 30) await sleep(10);
          await server.kill();
          await sleep(100);
          await server.start();
        }
        const before = spans.length;
        while (spans.length < before + 30) await sleep(10);
        goesOn = false;
        await Promise.all(lives);

        const registry = await opened();
        const workers = await registry.workers(namespace);
        expectApart(spans, workers);
        for (const { workerId, fence } of workers) {
          const rows = await registry.history(namespace, workerId, { limit: 10_000 });
          // A row for each claim; at most one claim goes on.
          expect(rows.map((row) => row.fence)).toEqual(rows.map((_, i) => i + 1));
          expect(rows.at(-1)?.fence).toBe(fence);
          expect(rows.filter(({ end }) => end === undefined).length).toBeLessThanOrEqual(1);
        }
        // All used worker IDs can be claimed again, and no lock is left.
        await sleep(200);
        for (let workerId = 0; workerId < 10; workerId++)
          await granted(registry, claimRequest({ workerId, window: 1000 }));
        const [{ n }] = (await server.query("SELECT count(*) AS n FROM workerid_assign_orders")) as [{ n: unknown }];
        expect(Number(n)).toBe(10);
      },
    );

    test("200 clients that start at once get 200 worker IDs", { timeout: 2 * patience }, async () => {
      const clients = await Promise.all(Array.from({ length: 200 }, () => opened()));
      const requests = clients.map((_, i) =>
        claimRequest({ window: 60_000, holder: { host: `host-${i % 3}`, ip: "192.0.2.1", pid: i, instance: "" } }),
      );
      const grants = await Promise.all(clients.map((registry, i) => granted(registry, requests[i] ?? claimRequest())));
      expect(new Set(grants.map(({ workerId }) => workerId)).size).toBe(200);
      const renewed = await Promise.all(
        clients.map((registry, i) => {
          const [request, grant] = [requests[i], grants[i]];
          if (request === undefined || grant === undefined) throw new Error("There are as many of each.");
          return registry.renew({ ...keyOf(request, grant), clock: Date.now(), window: 60_000 });
        }),
      );
      expect(renewed.every(({ outcome }) => outcome === "renewed")).toBe(true);
    });

    test("200 clients get the 200 worker IDs that 200 others gave back", { timeout: 2 * patience }, async () => {
      const registry = await opened("?poolSize=8");
      const pool = { first: 0, last: 199 };
      const first = await Promise.all(
        Array.from({ length: 200 }, async () => {
          const request = claimRequest({ pool, window: 60_000 });
          return { request, grant: await granted(registry, request) };
        }),
      );
      for (const { request, grant } of first) {
        await registry.release({ ...keyOf(request, grant), clock: Date.now(), used: { until: grant.from } });
      }
      const clients = await Promise.all(Array.from({ length: 200 }, () => opened()));
      const holder = { host: "another", ip: "192.0.2.2", pid: 1, instance: "" };
      const grants = await Promise.all(
        clients.map((client) => granted(client, claimRequest({ pool, holder, window: 60_000 }))),
      );
      expect(new Set(grants.map(({ workerId }) => workerId)).size).toBe(200);
    });
  });
});
