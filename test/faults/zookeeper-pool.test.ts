import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { Layout } from "../../src/id/layout.ts";
import type { Grant, Registry } from "../../src/rule/registry.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { eventually } from "../support/holder.ts";
import { ask as askServer } from "../support/servers.ts";
import { liveIn, makeNode, makeRecords, readTree } from "../support/zookeeper-tree.ts";
import { openZooKeeper, ZooKeeper, zooKeeperMissing } from "../support/zookeeper.ts";

/** What a pool says of itself has to be so: one that has a free number must not answer that it has none. */
describe.skipIf(zooKeeperMissing !== undefined)(zooKeeperMissing ?? "a pool in ZooKeeper", () => {
  let ensemble: ZooKeeper;
  let port: number;
  let namespace: string;
  let tests = 0;
  const open: Registry[] = [];

  beforeAll(async () => {
    ensemble = await ZooKeeper.start();
    port = ensemble.servers[0]?.port ?? 0;
  });
  afterAll(() => ensemble.remove());
  beforeEach(() => (namespace = `test${++tests}`));
  afterEach(async () => {
    await Promise.all(open.splice(0).map((registry) => registry.close()));
  });

  async function opened(timeout = 20_000): Promise<Registry> {
    const registry = await openZooKeeper(ensemble.url(), timeout);
    open.push(registry);
    return registry;
  }

  let hosts = 0;
  const ask = (wish: Parameters<typeof claimRequest>[0] = {}): ReturnType<typeof claimRequest> =>
    claimRequest({ namespace, holder: { host: `host-${hosts++}`, ip: "10.0.0.1", pid: 1, instance: "" }, ...wish });

  /** Claims at once, but not all of them. */
  async function claimAll(registry: Registry, wishes: readonly ReturnType<typeof ask>[]): Promise<Grant[]> {
    const got: Grant[] = [];
    for (let begin = 0; begin < wishes.length; begin += 64) {
      const some = wishes.slice(begin, begin + 64).map((wish) => ({ ...wish, clock: Date.now() }));
      got.push(...(await Promise.all(some.map((request) => granted(registry, request)))));
    }
    return got;
  }

  test("finds the one whose holder died at a daemon that lives on", async () => {
    const [daemon, other] = await Promise.all([opened(), opened()]);
    const pool = { first: 0, last: 299 };
    await daemon.init({ namespace, layout: ask().layout, maxWindow: 600_000 });
    const wishes = Array.from({ length: 300 }, (_, i) => ask({ pool, window: i === 170 ? 2000 : 600_000 }));
    const gone = (await claimAll(daemon, wishes))[170];
    // Its session does not end, and nobody else takes its node away.
    await eventually(
      async () => liveIn(await readTree(port, `/snowlease/${namespace}/state`)),
      (ids) => ids.length === 299 && !ids.includes(gone?.workerId ?? -1),
    );
    expect(await other.claim(ask({ pool }))).toMatchObject({ outcome: "granted", workerId: gone?.workerId, fence: 2 });
    expect(await other.claim(ask({ pool }))).toMatchObject({ outcome: "exhausted" });
  });

  describe("of 20,000 numbers that nobody holds", () => {
    const wide = Layout.parse("timestamp:28,worker:22,sequence:13@1700000000000/1000");
    const pool = { first: 0, last: 19_999 };
    const all = Array.from({ length: 20_000 }, (_, i) => i);
    const wish = (): ReturnType<typeof ask> => ask({ pool, layout: wide.fingerprint, window: 60_000 });
    const later = (): number => Date.now() + 300_000;

    test("finds the one whose window has passed", async () => {
      const registry = await opened();
      await registry.init({ namespace, layout: wide.fingerprint });
      await makeRecords(port, namespace, all, (workerId) => (workerId === 3210 ? 1_700_000_000_000 : later()));
      expect(await registry.claim(wish())).toMatchObject({ outcome: "granted", workerId: 3210, fence: 2 });
      expect(await registry.claim(wish())).toMatchObject({ outcome: "exhausted" });
    });

    test("finds the one that was never used, though the hint says that there is none", async () => {
      const registry = await opened();
      await registry.init({ namespace, layout: wide.fingerprint });
      const used = all.filter((workerId) => workerId !== 3210);
      await makeRecords(port, namespace, used, later);
      await makeNode(port, `/snowlease/${namespace}/next/0-19999`, "20000");
      expect(await registry.claim(wish())).toMatchObject({ outcome: "granted", workerId: 3210, fence: 1 });
    });
  });

  test("where all numbers rest, a claim says until when, in a few requests; and finds one that is free by then", async () => {
    const registry = await opened();
    const { layout } = ask();
    const pool = { first: 0, last: 1023 };
    const all = Array.from({ length: 1024 }, (_, i) => i);
    const [soon, late, past] = [Date.now() + 6000, Date.now() + 300_000, Date.now() - 60_000];
    await registry.init({ namespace, layout, maxWindow: 600_000 });
    await makeRecords(port, namespace, all, (id) => (id === 300 ? soon : id === 100 || id === 200 ? past : late));
    await registry.pin(namespace, 200, "kept");
    const claim = (): ReturnType<Registry["claim"]> =>
      registry.claim(ask({ pool, window: 600_000, clock: Date.now() }));
    const packets = async (): Promise<number> => {
      const [, count] = /zk_packets_received\s+(\d+)/.exec(await askServer(port, "mntr")) ?? [];
      return Number(count);
    };
    const exhausted = async (): Promise<void> => {
      const before = await packets();
      expect(await claim()).toMatchObject({ outcome: "exhausted", freeAt: soon });
      expect((await packets()) - before).toBeLessThan(40);
    };

    const claim100 = async (fence: number): Promise<ReturnType<typeof keyOf> & { from: number }> => {
      const request = ask({ pool, window: 600_000, clock: Date.now() });
      const grant = await granted(registry, request);
      expect(grant).toMatchObject({ workerId: 100, fence });
      return { ...keyOf(request, grant), from: grant.from };
    };

    const first = await claim100(2);
    await registry.release({ ...first, clock: Date.now() });
    await exhausted();
    await registry.forceRelease({ namespace, workerId: 100, force: true, fence: 2, resetWindow: true });
    const second = await claim100(3);
    await exhausted();
    await registry.release({ ...second, clock: Date.now(), used: { until: second.from } });
    await claim100(4);
    await exhausted();
    expect(await registry.unpin(namespace, 200)).toBe(true);
    expect(await claim()).toMatchObject({ outcome: "granted", workerId: 200, fence: 2 });
    await sleep(Math.max(0, soon - Date.now()) + 50);
    expect(await claim()).toMatchObject({ outcome: "granted", workerId: 300, fence: 2 });
  });

  test("keeps the node of a holder that renews, and brings it back for one that renews late", async () => {
    const registry = await opened();
    const request = ask({ window: 3000 });
    const key = keyOf(request, await granted(registry, request));
    const renew = (): Promise<unknown> => registry.renew({ ...key, clock: Date.now(), window: 3000 });
    const alive = async (): Promise<number[]> => liveIn(await readTree(port, `/snowlease/${namespace}/state`));
    for (let i = 0; i < 4; i++) {
      await sleep(1000);
      expect(await renew()).toMatchObject({ outcome: "renewed" });
    }
    expect(await alive()).toEqual([0]);
    await eventually(alive, (ids) => ids.length === 0);
    expect(await renew()).toMatchObject({ outcome: "renewed" });
    expect(await alive()).toEqual([0]);
    expect(await registry.worker(namespace, 0)).toMatchObject({ state: "live", fence: 1 });
  });
});
