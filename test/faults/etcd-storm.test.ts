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

/** SNOWLEASE_ROWS=1000000 takes minutes, and tells the same. */
const rows = Number(process.env["SNOWLEASE_ROWS"] ?? 50_000);

describe.skipIf(etcdMissing !== undefined)(etcdMissing ?? "claims at once on etcd", { timeout: 600_000 }, () => {
  let server: Etcd;
  beforeAll(async () => {
    server = await Etcd.start(1, { options: ["--quota-backend-bytes=8000000000"] });
  });
  afterAll(() => server.remove());

  async function claimers(count: number, each: number): Promise<ChildProcess[]> {
    const script = join(import.meta.dirname, "../support/claimers.mjs");
    const made = Array.from({ length: count }, (_, i) => fork(script, [server.url(), `host-${i}`, String(each)]));
    onTestFinished(() => made.forEach((child) => child.kill("SIGKILL")));
    await Promise.all(made.map((child) => once(child, "message")));
    return made;
  }

  /** Lets all of them claim at the same moment; what each got. */
  async function go(children: readonly ChildProcess[]): Promise<(number | string)[]> {
    const answers = children.map((child) => once(child, "message"));
    for (const child of children) child.send("go");
    const told = (await Promise.all(answers)) as [{ workerIds: (number | string)[] }][];
    return told.flatMap(([{ workerIds }]) => workerIds);
  }

  async function opened(url = server.url()): Promise<Registry> {
    const registry = await openEtcd(url, 60_000);
    onTestFinished(() => registry.close());
    return registry;
  }

  test("200 from four processes get 200 worker IDs, and 200 again where all but 200 are taken", async () => {
    const ids = await go(await claimers(4, 50));
    expect(ids.filter((id) => typeof id !== "number")).toEqual([]);
    expect(new Set(ids).size).toBe(200);
    // 624 more: 200 of 1,024 are left.
    const registry = await opened();
    const all: (number | string)[] = [...ids];
    for (let i = 0; i < 624; i += 48) {
      const some = Array.from({ length: 48 }, (_, n) => {
        const holder = { host: `host-${i + n}`, ip: "", pid: 1, instance: "" };
        return granted(registry, claimRequest({ holder, window: 60_000 }));
      });
      all.push(...(await Promise.all(some)).map(({ workerId }) => workerId));
    }
    expect(new Set(all).size).toBe(824);
    const last = await go(await claimers(4, 50));
    expect(last.filter((id) => typeof id !== "number")).toEqual([]);
    expect(new Set([...all, ...last]).size).toBe(1024);
    expect(await go(await claimers(1, 3))).toEqual(["exhausted", "exhausted", "exhausted"]);
    // Each has its record and its token, and stands in both indexes.
    for (const part of ["worker", "token", "idle", "host"]) {
      expect(await server.keys(`orders/${part}/`)).toHaveLength(1024);
    }
  });

  test("none is refused while numbers are free: as many at once as can be served, of windows that have passed", async () => {
    const pool = { first: 0, last: 47 };
    const namespace = "rested";
    const clients = await Promise.all(Array.from({ length: 40 }, () => opened()));
    const [first] = clients;
    const ask = (host: string, wish = {}) =>
      claimRequest({ namespace, pool, holder: { host, ip: "", pid: 1, instance: "" }, ...wish });
    await first?.init({ namespace, layout: ask("").layout, new: true });
    await makeRecords(server.url(), namespace, pool, () => Date.now() - 60_000);
    const grants = await Promise.all(clients.map((client, i) => granted(client, ask(`new-${i}`, { window: 60_000 }))));
    expect(new Set(grants.map(({ workerId }) => workerId)).size).toBe(40);
  });

  test("nor where they were given back cleanly, with windows that end later", async () => {
    const pool = { first: 0, last: 99 };
    const namespace = "leading";
    const registry = await opened();
    const ask = (host: string, wish = {}) =>
      claimRequest({
        namespace,
        pool,
        window: 60_000,
        lead: 50_000,
        holder: { host, ip: "", pid: 1, instance: "" },
        ...wish,
      });
    for (let workerId = 0; workerId <= pool.last; workerId++) {
      const request = ask(`old-${workerId}`, { workerId });
      const key = keyOf(request, await granted(registry, request));
      await registry.release({ ...key, clock: Date.now(), used: { until: Date.now() + 25_000 } });
    }
    const grants = await Promise.all(Array.from({ length: 100 }, (_, i) => granted(registry, ask(`new-${i}`))));
    expect(new Set(grants.map(({ workerId }) => workerId)).size).toBe(100);
  });

  test("one token from two clients that reach for different numbers gets one grant", async () => {
    const clients = await Promise.all([opened(), opened()]);
    for (let round = 0; round < 20; round++) {
      const request = claimRequest({ namespace: "tokens", window: 60_000 });
      const asked = clients.map((client, i) => granted(client, { ...request, preferred: [2 * round + i] }));
      const [one, other] = await Promise.all(asked);
      expect(other?.workerId).toBe(one?.workerId);
    }
    expect(await server.keys("tokens/worker/")).toHaveLength(20);
  });

  test("an operation takes the same round trips, however full the pool is and however large", async () => {
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
    /** Claims, renews and gives back; how many round trips each of them took. */
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
      await granted(direct, ask(namespace as Space));
    }
    for (const namespace of ["narrow", "wide"] as const) expect(await trips(namespace)).toEqual([3, 2, 2]);
    await fill("narrow", 510);
    await fill("wide", 639);
    /** One more where the next unused number is far behind the one at which the search begins. */
    const expectSearch = async (namespace: Space): Promise<void> => {
      // Claims at once leave the hint behind.
      await fill(namespace, 1);
      const [claim, ...others] = await trips(namespace);
      expect([3, 4]).toContain(claim);
      expect(others).toEqual([2, 2]);
    };
    for (const namespace of ["narrow", "wide"] as const) await expectSearch(namespace);
    // One is left.
    await fill("narrow", 508);
    await expectSearch("narrow");
    // Each number was used, and of one in a thousand the window has passed.
    const now = Date.now();
    const isFree = (id: number): boolean => id % 1000 === 711;
    await makeRecords(server.url(), "full", spaces.full.pool, (id) => now + (isFree(id) ? -1000 : 600_000));
    const [search = 0, ...after] = await trips("full");
    // Three more where none of the slots that it drew has one.
    expect([4, 7]).toContain(search);
    expect(after).toEqual([2, 2]);
    const begun = performance.now();
    const count = 20;
    for (let i = 0; i < count; i++) await granted(direct, ask("full"));
    if (process.env["SNOWLEASE_ROWS"] !== undefined) console.log(`${(performance.now() - begun) / count} ms a claim`);
    // None is called exhausted before all were looked at.
    const left = Math.min(100, rows / 1000) - count;
    for (let i = 0; i < left; i++) {
      const { workerId } = await granted(direct, ask("full"));
      expect(workerId % 1000).toBe(711);
    }
    if (rows > 100_000) return;
    expect(await direct.claim(ask("full"))).toMatchObject({ outcome: "exhausted", freeAt: expect.any(Number) });
  });
});
