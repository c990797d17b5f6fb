import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { defaultLayout, Layout } from "../../src/id/layout.ts";
import type { Grant, Registry } from "../../src/rule/registry.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { Etcd, etcdMissing, openEtcd } from "../support/etcd.ts";
import { makeRecords } from "../support/etcd-records.ts";
import { RequestCounter } from "../support/request-counter.ts";

/** SNOWLEASE_ROWS=1000000 takes minutes, and tests the same. */
const rows = Number(process.env["SNOWLEASE_ROWS"] ?? 50_000);

/** Longer than all claims of a test on a busy machine, ms: otherwise a worker ID is rightly granted twice. */
const window = 3_600_000;

describe.skipIf(etcdMissing !== undefined)(etcdMissing ?? "claims at once on etcd", { timeout: 600_000 }, () => {
  let server: Etcd;
  beforeAll(async () => {
    server = await Etcd.start(1, { options: ["--quota-backend-bytes=8000000000"] });
    const registry = await openEtcd(server.url(), 240_000);
    await registry.init({ namespace: "orders", layout: defaultLayout.fingerprint, maxWindow: window });
    await registry.close();
  });
  afterAll(() => server.remove());

  async function claimers(count: number, each: number): Promise<ChildProcess[]> {
    const script = join(import.meta.dirname, "../support/claimers.mjs");
    const made = Array.from({ length: count }, (_, i) =>
      fork(script, [server.url(), `host-${i}`, String(each), "240000", String(window)]),
    );
    onTestFinished(() => made.forEach((child) => child.kill("SIGKILL")));
    await Promise.all(made.map((child) => once(child, "message")));
    return made;
  }

  /** Sends all claims at the same moment; returns their grants. */
  async function go(children: readonly ChildProcess[]): Promise<(number | string)[]> {
    const answers = children.map((child) => once(child, "message"));
    for (const child of children) child.send("go");
    const told = (await Promise.all(answers)) as [{ workerIds: (number | string)[] }][];
    return told.flatMap(([{ workerIds }]) => workerIds);
  }

  async function opened(url = server.url()): Promise<Registry> {
    const registry = await openEtcd(url, 240_000);
    onTestFinished(() => registry.close());
    return registry;
  }

  test("200 from four processes get 200 worker IDs, and 200 again where all but 200 are taken", async () => {
    const ids = await go(await claimers(4, 50));
    expect(ids.filter((id) => typeof id !== "number")).toEqual([]);
    expect(new Set(ids).size).toBe(200);
    // 624 more claims leave 200 of 1,024.
    const registry = await opened();
    const all: (number | string)[] = [...ids];
    for (let i = 0; i < 624; i += 48) {
      const some = Array.from({ length: 48 }, (_, n) => {
        const holder = { host: `host-${i + n}`, ip: "", pid: 1, instance: "" };
        return granted(registry, claimRequest({ holder, window }));
      });
      all.push(...(await Promise.all(some)).map(({ workerId }) => workerId));
    }
    expect(new Set(all).size).toBe(824);
    const last = await go(await claimers(4, 50));
    expect(last.filter((id) => typeof id !== "number")).toEqual([]);
    expect(new Set([...all, ...last]).size).toBe(1024);
    expect(await go(await claimers(1, 3))).toEqual(["exhausted", "exhausted", "exhausted"]);
    // Each claim has its record and its token, and both indexes list it.
    for (const part of ["worker", "token", "idle", "host"]) {
      expect(await server.keys(`orders/${part}/`)).toHaveLength(1024);
    }
  });

  test("two clients claim with one token but begin at different worker IDs: they get one grant", async () => {
    const clients = await Promise.all([opened(), opened()]);
    for (let round = 0; round < 20; round++) {
      const request = claimRequest({ namespace: "tokens", window: 60_000 });
      const asked = clients.map((client, i) => granted(client, { ...request, preferred: [2 * round + i] }));
      const [one, other] = await Promise.all(asked);
      expect(other?.workerId).toBe(one?.workerId);
    }
    expect(await server.keys("tokens/worker/")).toHaveLength(20);
  });

  test("an operation takes the same round trips, however full or large the pool is", async () => {
    const counter = await RequestCounter.start(server.first.port);
    onTestFinished(() => counter.stop());
    const [direct, counted] = await Promise.all([opened(), opened(`etcd://127.0.0.1:${counter.port}`)]);
    const wide = Layout.parse("timestamp:28,worker:22,sequence:13@1700000000000/1000");
    const spaces = {
      narrow: { pool: defaultLayout.pool, layout: defaultLayout.fingerprint },
      wide: { pool: wide.pool, layout: wide.fingerprint },
      full: { pool: { first: 0, last: rows - 1 }, layout: wide.fingerprint },
    };
    type Space = keyof typeof spaces;
    let host = 0;
    const ask = (namespace: Space): ReturnType<typeof claimRequest> => {
      const holder = { host: `host-${host++}`, ip: "", pid: 1, instance: "" };
      return claimRequest({ namespace, ...spaces[namespace], holder, window: 600_000 });
    };
    /** Claims, renews and gives back; returns the round trips of each. */
    const trips = async (namespace: Space): Promise<number[]> => {
      const request = ask(namespace);
      let grant: Grant | undefined;
      const claim = await counter.of(async () => (grant = await granted(counted, request)));
      if (grant === undefined) throw new Error("Nothing was granted.");
      const key = keyOf(request, grant);
      const renew = await counter.of(() => counted.renew({ ...key, clock: Date.now(), window: 600_000 }));
      const used = { until: grant.from };
      return [claim, renew, await counter.of(() => counted.release({ ...key, clock: Date.now(), used }))];
    };
    const fill = async (namespace: Space, count: number): Promise<void> => {
      for (let left = count; left > 0; left -= 64) {
        await Promise.all(Array.from({ length: Math.min(64, left) }, () => granted(direct, ask(namespace))));
      }
    };
    await counted.ping();
    for (const [namespace, { layout }] of Object.entries(spaces)) {
      await direct.init({ namespace, layout, maxWindow: 600_000 });
      // The first claim of a pool also creates its band.
      await granted(direct, ask(namespace as Space));
    }
    for (const namespace of ["narrow", "wide"] as const) expect(await trips(namespace)).toEqual([4, 2, 2]);
    await fill("narrow", 510);
    await fill("wide", 639);
    /** One more where the search moves its hint on, and one more where the next unused worker ID is far ahead. */
    const expectSearch = async (namespace: Space): Promise<void> => {
      // Concurrent claims do not move the hint on.
      await fill(namespace, 1);
      const [claim, ...others] = await trips(namespace);
      expect([4, 5, 6]).toContain(claim);
      expect(others).toEqual([2, 2]);
    };
    for (const namespace of ["narrow", "wide"] as const) await expectSearch(namespace);
    // One unused worker ID is left.
    await fill("narrow", 508);
    await expectSearch("narrow");
    // All worker IDs were used, and one in a thousand is free again.
    const now = Date.now();
    const isFree = (id: number): boolean => id % 1000 === 711;
    await makeRecords(server.url(), "full", spaces.full.pool, (id) => now + (isFree(id) ? -1000 : 600_000));
    const [search = 0, ...after] = await trips("full");
    // One more round trip if none of the drawn parts has a free worker ID.
    expect([5, 6]).toContain(search);
    expect(after).toEqual([2, 2]);
    const begun = performance.now();
    const count = 20;
    for (let i = 0; i < count; i++) await granted(direct, ask("full"));
    if (process.env["SNOWLEASE_ROWS"] !== undefined) console.log(`${(performance.now() - begun) / count} ms a claim`);
    // The search looks at all of them before it answers `exhausted`.
    const left = Math.min(100, rows / 1000) - count;
    for (let i = 0; i < left; i++) {
      const { workerId } = await granted(direct, ask("full"));
      expect(workerId % 1000).toBe(711);
    }
    if (rows > 100_000) return;
    expect(await direct.claim(ask("full"))).toMatchObject({ outcome: "exhausted", freeAt: expect.any(Number) });
  });
});
