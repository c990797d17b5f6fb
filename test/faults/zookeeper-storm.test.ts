import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { defaultLayout, Layout } from "../../src/id/layout.ts";
import type { Grant } from "../../src/rule/registry.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { TurnCounter } from "../support/turns.ts";
import { expectWhole, liveIn, readTree } from "../support/zookeeper-tree.ts";
import { openZooKeeper, ZooKeeper, zooKeeperMissing } from "../support/zookeeper.ts";

describe.skipIf(zooKeeperMissing !== undefined)(zooKeeperMissing ?? "claims at once on ZooKeeper", () => {
  let server: ZooKeeper;
  beforeAll(async () => {
    server = await ZooKeeper.start();
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

  test("200 from four processes get 200 worker IDs, and 200 again where all but 200 are taken", async () => {
    const first = await claimers(4, 50);
    const ids = await go(first);
    expect(ids.filter((id) => typeof id !== "number")).toEqual([]);
    expect(new Set(ids).size).toBe(200);
    // 624 more: 200 of 1,024 are left.
    const more = await go(await claimers(2, 312));
    const all = [...ids, ...more];
    expect(all.filter((id) => typeof id !== "number")).toEqual([]);
    expect(new Set(all).size).toBe(824);
    const last = await go(await claimers(4, 50));
    expect(last.filter((id) => typeof id !== "number")).toEqual([]);
    expect(new Set([...all, ...last]).size).toBe(1024);
    const [port] = server.servers.map((each) => each.port);
    const tree = await readTree(port ?? 0);
    expect(liveIn(tree).toSorted((a, b) => a - b)).toEqual(Array.from({ length: 1024 }, (_, i) => i));
    expectWhole(tree);
    expect(await go(await claimers(1, 3))).toEqual(["exhausted", "exhausted", "exhausted"]);
  });

  test("one token from two clients that reach for different numbers gets one grant", async () => {
    const clients = await Promise.all([openZooKeeper(server.url()), openZooKeeper(server.url())]);
    onTestFinished(async () => void (await Promise.all(clients.map((client) => client.close()))));
    for (let round = 0; round < 20; round++) {
      const request = claimRequest({ namespace: "tokens", window: 60_000 });
      const asked = clients.map((client, i) => granted(client, { ...request, preferred: [2 * round + i] }));
      const [one, other] = await Promise.all(asked);
      expect(other?.workerId).toBe(one?.workerId);
    }
    const [port] = server.servers.map((each) => each.port);
    const tree = await readTree(port ?? 0, "/snowlease");
    expectWhole(tree, "tokens");
    // Each client that asks has a session of its own.
    expect(new Set(liveIn(new Map([...tree].filter(([path]) => path.includes("/tokens/"))))).size).toBe(20);
  });

  test("a claim takes two to four round trips, however full the pool is and however large", async () => {
    const [port = 0] = server.servers.map((each) => each.port);
    const counter = await TurnCounter.start(port);
    onTestFinished(() => counter.stop());
    const [direct, counted] = await Promise.all([
      openZooKeeper(server.url(), 20_000),
      openZooKeeper(`zookeeper://127.0.0.1:${counter.port}`, 20_000),
    ]);
    onTestFinished(async () => void (await Promise.all([direct.close(), counted.close()])));
    const wide = Layout.parse("timestamp:28,worker:22,sequence:13@1700000000000/1000");
    const spaces = {
      narrow: { pool: defaultLayout.pool, layout: defaultLayout.fingerprint },
      wide: { pool: wide.pool, layout: wide.fingerprint },
    };
    let host = 0;
    const ask = (namespace: "narrow" | "wide"): ReturnType<typeof claimRequest> => {
      const holder = { host: `host-${host++}`, ip: "", pid: 1, instance: "" };
      return claimRequest({ namespace, ...spaces[namespace], holder, window: 600_000 });
    };
    /** Claims, renews and gives back; how many round trips each of them took. */
    const trips = async (namespace: "narrow" | "wide"): Promise<number[]> => {
      const request = ask(namespace);
      let grant: Grant | undefined;
      const claim = await counter.of(async () => (grant = await granted(counted, request)));
      if (grant === undefined) throw new Error("Nothing was granted.");
      const key = keyOf(request, grant);
      const renew = await counter.of(() => counted.renew({ ...key, clock: Date.now(), window: 600_000 }));
      const used = { until: grant.from };
      return [claim, renew, await counter.of(() => counted.release({ ...key, clock: Date.now(), used }))];
    };
    const fill = async (namespace: "narrow" | "wide", count: number): Promise<void> => {
      for (let left = count; left > 0; left -= 64) {
        await Promise.all(Array.from({ length: Math.min(64, left) }, () => granted(direct, ask(namespace))));
      }
    };
    await counted.ping();
    for (const [namespace, claim] of [
      ["narrow", 2],
      ["wide", 3],
    ] as const) {
      await direct.init({ namespace, layout: spaces[namespace].layout, maxWindow: 600_000 });
      expect(await trips(namespace)).toEqual([claim, 2, 2]);
    }
    await fill("narrow", 512);
    await fill("wide", 1500);
    expect(await trips("narrow")).toEqual([2, 2, 2]);
    // Claims at once leave the place behind where a search begins: the next claim moves it.
    expect((await trips("wide"))[0]).toBeLessThanOrEqual(4);
    expect(await trips("wide")).toEqual([3, 2, 2]);
    // Two numbers are left that were given back.
    await fill("narrow", 510);
    expect(await trips("narrow")).toEqual([3, 2, 2]);
    // The same host comes again.
    host--;
    expect(await trips("narrow")).toEqual([3, 2, 2]);
  });
});
