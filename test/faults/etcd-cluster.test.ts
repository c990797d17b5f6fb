import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import type { Registry } from "../../src/rule/registry.ts";
import { snowlease, type SnowleaseOptions } from "../../src/snowlease.ts";
import { claimRequest, granted } from "../support/claims.ts";
import { Etcd, etcdMissing, openEtcd } from "../support/etcd.ts";
import { blackHole, FaultProxy } from "../support/fault-proxy.ts";
import { eventually } from "../support/holder.ts";
import { Maker } from "../support/maker.ts";

const namespace = "orders";
const elsewhere = { host: "elsewhere", ip: "", pid: 1, instance: "" };
/** Time for elections on a busy machine, ms. */
const patience = 120_000;

describe.skipIf(etcdMissing !== undefined)(etcdMissing ?? "an etcd cluster of three", { timeout: patience }, () => {
  let cluster: Etcd;
  let registry: Registry;
  let makers: Maker[];

  beforeEach(async () => {
    makers = [];
    cluster = await Etcd.start(3);
    registry = await openEtcd(cluster.url());
  });
  afterEach(async () => {
    await Promise.all(makers.map((maker) => maker.stop()));
    await Promise.all(makers.map(({ snowflake }) => snowflake.close().catch(() => undefined)));
    await registry.close();
    await cluster.remove();
  });

  async function make(options: SnowleaseOptions = {}): Promise<Maker> {
    const maker = new Maker(await snowlease({ registry: cluster.url(), namespace, window: 6000, ...options }));
    makers.push(maker);
    return maker;
  }

  /** Compares all IDs that any process made; returns how many there are. */
  function expectDistinct(): number {
    const all = makers.flatMap(({ ids }) => ids);
    expect(new Set(all).size).toBe(all.length);
    return all.length;
  }

  test("the leader is killed with -9, again and again, during claims, renewals and give-backs: no ID twice", async () => {
    for (let i = 0; i < 4; i++) await make({ host: `steady-${i}` });
    let running = true;
    onTestFinished(() => void (running = false));
    let rounds = 0;
    // Other leases come and go all the time beside the steady ones.
    const guests = Array.from({ length: 4 }, async (_, i) => {
      while (running) {
        const options = { window: 2000, host: `guest-${i}`, claimTimeout: 8000, operationTimeout: 8000 };
        const guest = await make(options).catch(() => undefined);
        await sleep(100 * Math.random());
        await guest?.stop();
        await guest?.snowflake.close().catch(() => undefined);
        if (guest !== undefined) rounds++;
      }
    });
    for (let round = 0; round < 3; round++) {
      await sleep(400);
      const leader = await cluster.leader();
      await leader.process.kill();
      await sleep(1500);
      await leader.start();
    }
    running = false;
    await Promise.all(guests);
    for (const maker of makers) await maker.stop();
    expect(rounds).toBeGreaterThan(8);
    expect(expectDistinct()).toBeGreaterThan(1000);
    // A holder does not notice an outage shorter than its window.
    for (const { failures, snowflake } of makers.slice(0, 4)) {
      expect(failures.get("LEASE_LOST")).toBeUndefined();
      expect(snowflake.lease.fence).toBe(1);
    }
  });

  test("what was acknowledged before the leader was killed is there after it", async () => {
    const acknowledged: { workerId: number; fence: number; until: number }[] = [];
    let running = true;
    onTestFinished(() => void (running = false));
    const asked = (async () => {
      while (running) {
        const request = claimRequest({ reuse: "never" });
        // A closed registry refuses at once: without a pause, this loop would block everything else.
        const answer = await registry.claim(request).catch(() => sleep(20));
        if (answer?.outcome === "granted") acknowledged.push(answer);
      }
    })();
    const moreThan = (count: number): Promise<number> =>
      eventually(
        async () => acknowledged.length,
        (length) => length > count,
      );
    for (let round = 0; round < 2; round++) {
      const before = await moreThan(acknowledged.length + 10);
      const leader = await cluster.leader();
      await leader.process.kill();
      await moreThan(before);
      await leader.start();
    }
    running = false;
    await asked;
    expect(new Set(acknowledged.map(({ workerId }) => workerId)).size).toBe(acknowledged.length);
    for (const { workerId, fence, until } of acknowledged) {
      expect(await registry.worker(namespace, workerId)).toMatchObject({ fence, until });
    }
  });

  test("a stopped leader wakes while another one leads: it gives no outdated answer", async () => {
    const steady = await make({ window: 10_000 });
    const old = await cluster.leader();
    const others = cluster.members.filter((member) => member !== old);
    const [atOld, atOthers] = await Promise.all([
      openEtcd(cluster.url("", [old.port]), 10_000),
      openEtcd(
        cluster.url(
          "",
          others.map(({ port }) => port),
        ),
        20_000,
      ),
    ]);
    onTestFinished(async () => void (await Promise.all([atOld.close(), atOthers.close()])));
    for (let round = 0; round < 3; round++) {
      old.process.signal("SIGSTOP");
      const request = claimRequest({ workerId: 100 + round, window: 60_000, holder: { ...elsewhere } });
      const { workerId, fence, until } = await granted(atOthers, request);
      // The leader gets this request while stopped, and answers when it wakes.
      const asked = [atOld.worker(namespace, workerId), atOld.claim(claimRequest({ workerId, window: 1000 }))] as const;
      await sleep(200);
      old.process.signal("SIGCONT");
      const [seen, answer] = await Promise.all(asked);
      expect(seen).toMatchObject({ fence, until });
      expect(answer).toMatchObject({ outcome: "held", live: true });
    }
    await steady.stop();
    expect(steady.failures.get("LEASE_LOST")).toBeUndefined();
    expectDistinct();
  });

  test("a holder that reaches only one of three members goes on through that one", async () => {
    const proxies = await Promise.all(cluster.members.map(({ port }) => FaultProxy.start(port)));
    onTestFinished(async () => void (await Promise.all(proxies.map((proxy) => proxy.stop()))));
    const ports = proxies.map(({ port }) => port);
    const maker = await make({ registry: cluster.url("", ports), window: 10_000 });
    for (const cut of [0, 1, 2]) {
      for (const [i, proxy] of proxies.entries()) if (i !== cut) proxy.set(blackHole);
      const { until } = maker.snowflake.lease;
      await eventually(
        async () => maker.snowflake.lease.until,
        (now) => now > until,
      );
      for (const proxy of proxies) proxy.heal();
    }
    await maker.stop();
    expect(maker.failures.size).toBe(0);
    expect(maker.snowflake.lease.fence).toBe(1);
    expectDistinct();
  });

  test("without a majority nothing is granted, and holders go on until their windows end", async () => {
    const maker = await make({ window: 4000 });
    const [one, ...others] = cluster.members;
    await Promise.all(others.map((member) => member.process.kill()));
    const alone = await openEtcd(cluster.url("", [one?.port ?? 0]), 1500);
    onTestFinished(() => alone.close());
    await expect(alone.claim(claimRequest({ namespace }))).rejects.toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
    await maker.made(maker.ids.length + 100);
    await Promise.all(others.map((member) => member.start()));
    await maker.snowflake.lease.renew();
    await maker.made(maker.ids.length + 100);
    expect(maker.failures.get("LEASE_LOST")).toBeUndefined();
    expectDistinct();
  });
});
