import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Registry } from "../../src/rule/registry.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { Holders, init, limits, namespace, quarantineOf, timesOf } from "../support/failover.ts";
import { failure } from "../support/failures.ts";
import { blackHole, type Faults, FaultProxy } from "../support/fault-proxy.ts";
import { eventually } from "../support/holder.ts";
import { openRedis, redisMissing, RedisServer } from "../support/redis.ts";

const quick = ["--repl-diskless-sync-delay", "0"];
/** Nothing arrives until it is healed. */
const heldUp: Faults = { toServer: "hold", toClient: "hold" };

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "a Redis that is cut off from its replica", () => {
  let one: RedisServer;
  let other: RedisServer;
  /** A replica of the other. */
  let third: RedisServer | undefined;
  let link: FaultProxy;
  let holders: Holders;
  const open: Registry[] = [];

  beforeEach(() => {
    holders = new Holders();
  });
  afterEach(async () => {
    await holders.kill();
    await Promise.all(open.splice(0).map((registry) => registry.close()));
    await link.stop();
    await Promise.all([one.remove(), other.remove(), third?.remove()]);
    third = undefined;
  });

  async function begin(options: readonly string[] = []): Promise<void> {
    [one, other] = await Promise.all([RedisServer.start(quick), RedisServer.start(quick)]);
    link = await FaultProxy.start(one.port);
    await init(await opened(one.url()));
    await other.follow(link.port);
    // It confirms what it gets.
    await one.client().set("here", "1");
    await one.client().wait(1, 0);
    for (const [name = "", value = ""] of options.map((option) => option.split(" "))) {
      await one.client().config("SET", name, value);
    }
  }

  async function opened(url: string, timeout?: number): Promise<Registry> {
    const registry = await openRedis(url, timeout);
    open.push(registry);
    return registry;
  }

  describe("while the replica is promoted, and both answer", () => {
    /** The only number there is, so that both would have to give it. */
    const options = { pool: "0-0", claimTimeout: 30_000 };

    /** One holder on the old primary, and one on the new: where the old one's window ends, and the new one's began. */
    async function split(maxLag: number, then?: () => unknown, rest = ""): Promise<{ until: number; from: number }> {
      const query = `?maxLag=${maxLag}ms${rest}`;
      const old = await holders.run(one.url(query), options);
      await eventually(
        async () => other.client().exists(`workerId/${namespace}:window:0`),
        (found) => found === 1,
      );
      // The old one does not learn that its replica is gone: it hears nothing any more.
      link.set(blackHole);
      await other.promote();
      const promoted = Date.now();
      then?.();
      const { begun } = await holders.run(other.url(query), options);
      const quarantine = await quarantineOf(other);
      expect(quarantine).toBeGreaterThanOrEqual(promoted + limits.maxWindow + 2 * limits.maxClockSkew + maxLag);
      expect(begun.from).toBeGreaterThanOrEqual(quarantine);
      await sleep(300);
      return { until: (await old.holder.ask("state")).until, from: begun.from };
    }

    test("with min-replicas-to-write, and maxLag above min-replicas-max-lag: no ID twice", async () => {
      await begin(["min-replicas-to-write 1", "min-replicas-max-lag 1"]);
      const { until, from } = await split(3000);
      expect(until).toBeLessThanOrEqual(from);
      await holders.expectDistinct();
    });

    test("with `wait` over the replica that is promoted: no ID twice", async () => {
      await begin();
      third = await RedisServer.start(quick);
      await third.follow(other.port);
      const { until, from } = await split(0, undefined, "&wait=1");
      expect(until).toBeLessThanOrEqual(from);
      await holders.expectDistinct();
    });

    // This is why the promise says `not across a partition`, or how many replicas there may be.
    test.each([
      { what: "neither", options: [], stays: false },
      {
        what: "min-replicas-to-write 1, but a second replica that stays with the old one",
        options: ["min-replicas-to-write 1", "min-replicas-max-lag 1"],
        stays: true,
      },
    ])("with $what, the old one answering for longer than the quarantine: the same IDs twice", async (given) => {
      await begin(given.options);
      third = await RedisServer.start(quick);
      if (given.stays) await third.follow(one.port);
      const { until, from } = await split(0);
      expect(until).toBeGreaterThan(from);
      await eventually(
        async () => holders.ids(),
        (ids) => new Set(ids).size < ids.length,
      );
    });

    test("with neither, the old one falling silent before the quarantine's last window: no ID twice", async () => {
      await begin();
      // As long as it goes on answering, plus one window and the difference of clocks, lies within the quarantine.
      const { until, from } = await split(1500, () => setTimeout(() => void one.kill(), 1000));
      expect(until).toBeLessThanOrEqual(from);
      await holders.expectDistinct();
    });
  });

  test("promises no more than it keeps", async () => {
    await begin();
    const durability = async (query: string): Promise<string> => {
      const registry = await opened(one.url(query));
      return (await registry.ping()).durability;
    };
    const set = (name: string, value: number): Promise<unknown> => one.client().config("SET", name, value);
    expect(await durability("")).toContain("not across a partition");
    expect(await durability("?wait=2")).toContain("as long as its replicas number at most 2");
    await set("min-replicas-to-write", 1);
    expect(await durability("")).toContain("as long as its replicas number at most 1");
    // An old primary would write for 12 s more.
    expect(await durability("?maxLag=11s")).toMatch(/not across a partition.*12s /);
    await set("min-replicas-max-lag", 30);
    expect(await durability("")).toMatch(/not across a partition.*32s /);
    await set("min-replicas-max-lag", 0);
    expect(await durability("")).toContain("not across a partition");
  });

  describe("and has to have its writes confirmed (`wait`)", () => {
    test("a claim that is not is given up, and the number free again", async () => {
      await begin();
      const registry = await opened(one.url("?wait=1"), 600);
      const request = claimRequest({ window: 1000 });
      const first = await granted(registry, request);
      await registry.release({ ...keyOf(request, first), clock: Date.now(), used: { until: first.from } });
      link.set(heldUp);
      const error = await failure(registry.claim(claimRequest({ window: 1000 })));
      expect(error.code).toBe("REGISTRY_UNAVAILABLE");
      expect(error.message).toContain("0 of 1 replicas");
      const record = await registry.worker(namespace, first.workerId);
      expect(record).toMatchObject({ state: "free", clean: true, until: record?.from, fence: first.fence + 1 });
      link.heal();
      expect(await granted(registry, claimRequest({ window: 1000 }))).toMatchObject({ fence: first.fence + 2 });
    });

    test("a claim whose answer was lost is not taken for confirmed when it is asked again elsewhere", async () => {
      await begin();
      const request = claimRequest({ window: 1000 });
      const deaf = await opened(one.url(), 600);
      link.set(heldUp);
      // Written, without its having been confirmed; and then a connection that has written nothing itself.
      await granted(deaf, request);
      const registry = await opened(one.url("?wait=1"), 600);
      expect((await failure(registry.claim(request))).code).toBe("REGISTRY_UNAVAILABLE");
    });

    test("a renewal that is not leaves the old window: the holder uses it to its end, and nothing behind it", async () => {
      await begin();
      const { holder } = await holders.run(one.url("?wait=1"), { operationTimeout: 3000 });
      await eventually(
        () => holder.ask("renew"),
        ({ until, from }) => until > from + limits.maxWindow + limits.maxClockSkew,
      );
      link.set(heldUp);
      await eventually(
        () => holder.ask("state"),
        ({ events }) => events.some(({ code }) => code === "REGISTRY_UNAVAILABLE"),
      );
      const { until } = await holder.ask("state");
      const stopped = await eventually(
        () => holder.ask("state"),
        ({ failures }) => failures["LEASE_EXPIRED"] !== undefined,
      );
      // The server has what it asked for; it knows that it must not use it.
      const registry = await opened(one.url());
      const record = await registry.worker(namespace, stopped.workerId);
      expect(record?.until).toBeGreaterThan(until);
      expect(stopped.until).toBe(until);
      expect(timesOf(holder).at(-1)).toBeLessThan(until);
      link.heal();
      const back = await eventually(
        () => holder.ask("state"),
        (state) => state.until > until,
      );
      expect(back).toMatchObject({ state: "held", fence: stopped.fence });
      await holder.ask("make", { count: 1000 });
      await holders.expectDistinct();
    });
  });
});
