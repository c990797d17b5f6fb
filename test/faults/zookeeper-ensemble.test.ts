import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { snowlease, type SnowleaseOptions } from "../../src/snowlease.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { eventually, HolderProcess } from "../support/holder.ts";
import { Maker } from "../support/maker.ts";
import { expectWhole, liveIn, readTree } from "../support/zookeeper-tree.ts";
import { openZooKeeper, ZooKeeper, zooKeeperMissing } from "../support/zookeeper.ts";

const namespace = "orders";
const settings = "?sessionTimeout=2s";
/** Nine starts of a JVM on a busy machine, ms. */
const patience = 180_000;

describe.skipIf(zooKeeperMissing !== undefined)(
  zooKeeperMissing ?? "a ZooKeeper ensemble of three",
  { timeout: patience },
  () => {
    let ensemble: ZooKeeper;
    let registry: Registry;
    let holders: HolderProcess[];
    let makers: Maker[];

    beforeEach(async () => {
      holders = [];
      makers = [];
      ensemble = await ZooKeeper.start(3);
      registry = await openZooKeeper(ensemble.url(settings));
    });
    afterEach(async () => {
      await Promise.all(holders.map((holder) => holder.kill()));
      await Promise.all(makers.map((maker) => maker.stop()));
      await Promise.all(makers.map(({ snowflake }) => snowflake.close().catch(() => undefined)));
      await registry.close();
      await ensemble.remove();
    });

    async function make(options: SnowleaseOptions = {}): Promise<Maker> {
      const maker = new Maker(
        await snowlease({ registry: ensemble.url(settings), namespace, window: 6000, ...options }),
      );
      makers.push(maker);
      return maker;
    }

    function holder(options: object = {}): HolderProcess {
      const made = new HolderProcess({ registry: ensemble.url(settings), namespace, window: 3000, ...options });
      holders.push(made);
      return made;
    }

    /** Compares all IDs that anybody made; returns how many there are. */
    function expectDistinct(): number {
      const all = [...makers.flatMap(({ ids }) => ids), ...holders.flatMap((each) => each.ids())];
      expect(new Set(all).size).toBe(all.length);
      return all.length;
    }

    /** Every ID lies in a window that its worker ID's history has. */
    async function expectRecorded(): Promise<void> {
      const all = [...makers.flatMap(({ ids }) => ids), ...holders.flatMap((each) => each.ids())];
      const parts = all.map((id) => defaultLayout.decompose(id));
      for (const workerId of new Set(parts.map((part) => part.workerId))) {
        const rows = await registry.history(namespace, workerId);
        for (const [i, row] of rows.entries()) expect(row.from).toBeGreaterThanOrEqual(rows[i - 1]?.until ?? 0);
        const times = parts.filter((part) => part.workerId === workerId).map(({ timestamp }) => timestamp);
        const outside = times.filter(
          (at) => !rows.some((row) => at >= (row.continuedFrom ?? row.from) && at < row.until),
        );
        expect(outside).toEqual([]);
      }
    }

    async function settled(): Promise<Map<string, string>> {
      await ensemble.serving();
      return readTree((await ensemble.leader()).port);
    }

    /** A holder that is stopped may have a request on its way, and the tree is read node by node: it is read again where it is not whole. */
    async function expectAllWhole(): Promise<void> {
      for (let tries = 1; ; tries++) {
        try {
          return expectWhole(await settled());
        } catch (error) {
          if (tries === 5) throw error;
          await sleep(500);
        }
      }
    }

    test("the leader is killed with -9, again and again, during claims, renewals and give-backs: no ID twice", async () => {
      for (let i = 0; i < 4; i++) await make({ window: 4000, host: `steady-${i}` });
      let running = true;
      onTestFinished(() => void (running = false));
      let rounds = 0;
      // Beside the steady ones: leases that come and go all the time.
      const guests = Array.from({ length: 4 }, async (_, i) => {
        while (running) {
          const guest = await make({
            window: 2000,
            host: `guest-${i}`,
            claimTimeout: 8000,
            operationTimeout: 8000,
          }).catch(() => undefined);
          await sleep(100 * Math.random());
          await guest?.stop();
          await guest?.snowflake.close().catch(() => undefined);
          if (guest !== undefined) rounds++;
        }
      });
      for (let round = 0; round < 3; round++) {
        await sleep(400);
        const leader = await ensemble.leader();
        await leader.process.kill();
        const left = ensemble.servers.filter((server) => server !== leader);
        await ensemble.serving(left);
        await sleep(500);
        await leader.start();
        await ensemble.serving();
      }
      running = false;
      await Promise.all(guests);
      for (const maker of makers) await maker.stop();
      expect(rounds).toBeGreaterThan(8);
      expect(expectDistinct()).toBeGreaterThan(1000);
      // An outage shorter than the window is not noticed.
      for (const { failures, snowflake } of makers.slice(0, 4)) {
        expect(failures.get("LEASE_LOST")).toBeUndefined();
        expect(snowflake.lease.fence).toBe(1);
      }
      await expectRecorded();
      await expectAllWhole();
    });

    test("what was acknowledged before the leader was killed is there after it", async () => {
      const acknowledged: { workerId: number; fence: number; until: number }[] = [];
      let running = true;
      onTestFinished(() => void (running = false));
      const asked = (async () => {
        while (running) {
          const request = claimRequest({ reuse: "never" });
          // One that was closed refuses at once: without a pause nothing else would ever run again.
          const answer = await registry.claim(request).catch(() => sleep(20));
          if (answer?.outcome === "granted") acknowledged.push(answer);
        }
      })();
      for (let round = 0; round < 2; round++) {
        await sleep(300);
        const leader = await ensemble.leader();
        await leader.process.kill();
        await ensemble.serving(ensemble.servers.filter((server) => server !== leader));
        await sleep(300);
        await leader.start();
        await ensemble.serving();
      }
      running = false;
      await asked;
      expect(acknowledged.length).toBeGreaterThan(20);
      expect(new Set(acknowledged.map(({ workerId }) => workerId)).size).toBe(acknowledged.length);
      for (const { workerId, fence, until } of acknowledged) {
        expect(await registry.worker(namespace, workerId)).toMatchObject({ fence, until });
      }
      await expectAllWhole();
    });

    test("a holder that is left with a minority stops at its window, while the majority gives its number to another", async () => {
      await registry.close();
      await ensemble.remove();
      ensemble = await ZooKeeper.start(3, true);
      registry = await openZooKeeper(ensemble.url(settings));
      const [last] = ensemble.servers.slice(-1);
      const pool = "0-0";
      const cut = await make({ registry: ensemble.url(settings, [last?.port ?? 0]), window: 2500, pool, host: "cut" });
      await sleep(300);
      ensemble.isolate();
      const others = ensemble.servers.slice(0, -1).map(({ port }) => port);
      const next = await make({
        registry: ensemble.url(settings, others),
        window: 2500,
        pool,
        host: "next",
        claimTimeout: 20_000,
        operationTimeout: 20_000,
      });
      await next.made(1000);
      // Whatever it was told by its server, the first one's window is over.
      expect(cut.snowflake.lease.until).toBeLessThanOrEqual(next.snowflake.lease.from);
      expect(next.snowflake.lease.fence).toBe(2);
      expect(cut.failures.get("LEASE_EXPIRED")).toBeGreaterThan(0);
      ensemble.rejoin();
      await eventually(
        async () => cut.snowflake.lease.state,
        (state) => state !== "held",
      );
      await Promise.all([cut.stop(), next.stop()]);
      expect(expectDistinct()).toBeGreaterThan(1000);
      await expectRecorded();
      await expectAllWhole();
    });

    test("a process stopped past its session, not its window, goes on with the same claim", async () => {
      const one = holder({ registry: ensemble.url("?sessionTimeout=500ms"), window: 9000 });
      const begun = await one.ask("start");
      await one.ask("run");
      await sleep(300);
      one.signal("SIGSTOP");
      await eventually(
        () => registry.worker(namespace, begun.workerId),
        (record) => record?.state === "resting",
      );
      one.signal("SIGCONT");
      await one.ask("renew");
      expect(await registry.worker(namespace, begun.workerId)).toMatchObject({ state: "live", fence: begun.fence });
      expect(await one.ask("state")).toMatchObject({ state: "held", workerId: begun.workerId, fence: begun.fence });
      await one.ask("close");
      expect(expectDistinct()).toBeGreaterThan(100);
      expect(liveIn(await settled())).toEqual([]);
    });

    test("all servers stopped longer than a session, and woken: the claim goes on", async () => {
      const one = await make({ registry: ensemble.url("?sessionTimeout=500ms"), window: 4000, operationTimeout: 800 });
      const { workerId, fence } = one.snowflake.lease;
      await sleep(200);
      for (const { process } of ensemble.servers) process.signal("SIGSTOP");
      await sleep(2500);
      for (const { process } of ensemble.servers) process.signal("SIGCONT");
      const before = one.snowflake.lease.until;
      await eventually(
        async () => one.snowflake.lease.until,
        (until) => until > before,
      );
      expect(one.snowflake.lease).toMatchObject({ workerId, fence, state: "held" });
      expect(await registry.worker(namespace, workerId)).toMatchObject({ state: "live", fence });
      await one.stop();
      expect(expectDistinct()).toBeGreaterThan(100);
      await expectAllWhole();
    });

    test("the whole ensemble is killed with -9 and started again: nothing is forgotten, the holders go on", async () => {
      const steady = [await make({ host: "a" }), await make({ host: "b" })];
      const gone = claimRequest({ window: 60_000, holder: { host: "c", ip: "", pid: 1, instance: "" } });
      const grant = await granted(registry, gone);
      await sleep(300);
      await Promise.all(ensemble.servers.map(({ process }) => process.kill()));
      await sleep(500);
      await Promise.all(ensemble.servers.map((server) => server.start()));
      await ensemble.serving();
      for (const { snowflake } of steady) {
        const before = snowflake.lease.until;
        await eventually(
          async () => snowflake.lease.until,
          (until) => until > before,
        );
        expect(snowflake.lease).toMatchObject({ state: "held", fence: 1 });
      }
      expect(await registry.worker(namespace, grant.workerId)).toMatchObject({ fence: 1, until: grant.until });
      const wanted = claimRequest({ workerId: grant.workerId });
      expect(await registry.claim(wanted)).toMatchObject({ outcome: "held", freeAt: grant.until });
      // The same token still gets the same grant.
      const again = await granted(registry, { ...gone, clock: Date.now() });
      expect(again).toMatchObject({ workerId: grant.workerId, fence: 1, until: grant.until });
      expect(await registry.release({ ...keyOf(gone, grant), clock: Date.now() })).toEqual({ outcome: "released" });
      for (const maker of steady) await maker.stop();
      expect(expectDistinct()).toBeGreaterThan(1000);
      await expectAllWhole();
    });
  },
);
