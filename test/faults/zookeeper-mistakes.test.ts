import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Registry } from "../../src/rule/registry.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { failure } from "../support/failures.ts";
import { eventually } from "../support/holder.ts";
import { type Maker, startMaker } from "../support/maker.ts";
import {
  deleteAll,
  expectWhole,
  makeNode,
  nodeText,
  readTree,
  removeNode,
  setNode,
} from "../support/zookeeper-tree.ts";
import { openZooKeeper, ZooKeeper, zooKeeperMissing } from "../support/zookeeper.ts";

/** On a busy machine a request is under way for a second. */
const terms = { maxWindow: 2500, maxClockSkew: 2000 };

/** What people do by hand to nodes that are not theirs. */
describe.skipIf(zooKeeperMissing !== undefined)(zooKeeperMissing ?? "nodes in ZooKeeper that somebody changed", () => {
  let ensemble: ZooKeeper;
  let port: number;
  let registry: Registry;
  let namespace: string;
  let root: string;
  let tests = 0;

  beforeAll(async () => {
    ensemble = await ZooKeeper.start();
    port = ensemble.servers[0]?.port ?? 0;
  });
  afterAll(() => ensemble.remove());
  beforeEach(async () => {
    namespace = `test${++tests}`;
    root = `/snowlease/${namespace}`;
    registry = await openZooKeeper(ensemble.url());
    await registry.init({ namespace, layout: claimRequest().layout, ...terms });
  });
  afterEach(() => registry.close());

  let hosts = 0;
  const ask = (wish: Parameters<typeof claimRequest>[0] = {}): ReturnType<typeof claimRequest> =>
    claimRequest({ namespace, holder: { host: `host-${hosts++}`, ip: "10.0.0.1", pid: 1, instance: "" }, ...wish });
  const state = (workerId: number): string => `${root}/state/0/${String(workerId).padStart(10, "0")}`;

  const make = (options: object): Promise<Maker> =>
    startMaker({ registry: ensemble.url(), namespace, window: 2000, ...options });

  test("a record deleted under its holder: its number rests as long as its window may last, then others have it", async () => {
    const pool = "0-0";
    const one = await make({ pool, host: "one" });
    await sleep(100);
    await deleteAll(port, state(0));
    const two = await make({ pool, host: "two", claimTimeout: 20_000 });
    await two.made(500);
    await Promise.all([one.stop(), two.stop()]);
    expect(one.ids.length).toBeGreaterThan(100);
    expect(new Set([...one.ids, ...two.ids]).size).toBe(one.ids.length + two.ids.length);
    expect(two.snowflake.lease.fence).toBeGreaterThan(1);
    expect(two.snowflake.lease.from).toBeGreaterThanOrEqual(one.snowflake.lease.until);
  });

  test("a record deleted after many claims: fences go on above all of them, and the history stays", async () => {
    for (let i = 0; i < 3; i++) {
      const request = ask({ workerId: 0 });
      const grant = await granted(registry, request);
      await registry.release({ ...keyOf(request, grant), clock: Date.now(), used: { until: grant.from + 1 } });
    }
    const request = ask({ workerId: 0 });
    const late = keyOf(request, await granted(registry, request));
    await deleteAll(port, state(0));
    await registry.pin(namespace, 0, "looked at");
    expect(await registry.worker(namespace, 0)).toMatchObject({ state: "pinned", fence: 4 });
    expect(await registry.history(namespace, 0)).toMatchObject([{ fence: 1 }, { fence: 2 }, { fence: 3 }]);
    expect(await registry.renew({ ...late, clock: Date.now(), window: 2000 })).toEqual({
      outcome: "lost",
      reason: "released",
    });
    await registry.unpin(namespace, 0);
    const again = await eventually(
      () => registry.claim(ask({ workerId: 0 })),
      ({ outcome }) => outcome === "granted",
    );
    expect(again).toMatchObject({ fence: 5 });
    expect((await registry.history(namespace, 0)).map(({ fence }) => fence)).toEqual([1, 2, 3, 5]);
  });

  test.each(["no JSON", "", '{"workerId":1}', '{"workerId":9,"fence":1}'])(
    "a record that holds %j: its number is nobody's, all others are claimed as ever",
    async (text) => {
      const pool = { first: 0, last: 3 };
      const requests = Array.from({ length: 4 }, () => ask({ pool }));
      for (const request of requests) {
        const grant = await granted(registry, request);
        await registry.release({ ...keyOf(request, grant), clock: Date.now(), used: { until: grant.from + 1 } });
      }
      await setNode(port, state(1), text);
      // The host that had it asks, too.
      const holder = requests[1]?.holder ?? ask().holder;
      const got = new Set<number>();
      for (let i = 0; i < 3; i++) got.add((await granted(registry, ask({ pool, holder }))).workerId);
      expect(got).toEqual(new Set([0, 2, 3]));
      expect(await registry.claim(ask({ pool }))).toMatchObject({ outcome: "exhausted" });
      for (const asked of [
        () => registry.claim(ask({ pool, workerId: 1 })),
        () => registry.worker(namespace, 1),
        () => registry.workers(namespace),
        () => registry.pin(namespace, 1, "broken"),
      ]) {
        const error = await failure(asked());
        expect(error.code).toBe("SCHEMA_INCOMPATIBLE");
        expect(error.message).toContain(state(1));
      }
    },
  );

  test("a record deleted by hand beside a pinned one: claims take neither for the other", async () => {
    const pool = { first: 0, last: 9 };
    for (let i = 0; i < 3; i++) await granted(registry, ask({ pool }));
    await registry.pin(namespace, 1, "kept");
    await deleteAll(port, state(2));
    expect(await granted(registry, ask({ pool }))).toMatchObject({ workerId: expect.not.toBeOneOf([0, 1, 2]) });
  });

  test("nodes of somebody else between ours are left alone", async () => {
    const request = ask();
    const key = keyOf(request, await granted(registry, request));
    const foreign = [
      "state/x",
      "state/0/x",
      "state/0/00000000001",
      "state/0/0000001000",
      "state/0/0000000000/x",
      "idle/0/x",
      "idle/x",
      "next/all",
      "history/x",
    ];
    for (const path of foreign) await makeNode(port, `${root}/${path}`, "mine");
    expect(await registry.renew({ ...key, clock: Date.now(), window: 2000 })).toMatchObject({ outcome: "renewed" });
    expect(await granted(registry, ask())).toMatchObject({ workerId: 1 });
    expect(await registry.workers(namespace)).toHaveLength(2);
    await registry.pin(namespace, 9, "kept");
    expect(await registry.unpin(namespace, 9)).toBe(true);
    await registry.prune(namespace, Date.now());
    const tree = await readTree(port, root);
    for (const path of foreign) expect(tree.get(`${root}/${path}`)).toBe("mine");
  });

  test("the node of the clock, of the namespace and of a session deleted: what is held stays so", async () => {
    const request = ask({ workerId: 0 });
    const key = keyOf(request, await granted(registry, request));
    await removeNode(port, "/snowlease/.clock");
    expect(await registry.renew({ ...key, clock: Date.now(), window: 2000 })).toMatchObject({ outcome: "renewed" });
    const [live = ""] = [...(await readTree(port, state(0))).keys()].filter((path) => path !== state(0));
    await removeNode(port, live);
    expect(await registry.worker(namespace, 0)).toMatchObject({ state: "resting" });
    expect(await registry.claim(ask({ workerId: 0 }))).toMatchObject({ outcome: "held" });
    await deleteAll(port, `${root}/meta`);
    expect(await registry.claim(ask({ workerId: 0 }))).toMatchObject({ outcome: "held" });
    // The next claim makes the namespace again, around the records that are there.
    expect(await granted(registry, ask())).toMatchObject({ workerId: 1 });
    expect(await registry.renew({ ...key, clock: Date.now(), window: 2000 })).toMatchObject({ outcome: "renewed" });
  });

  describe("fields that a newer version added", () => {
    const added = { turnOfLease: { text: "x", sent: ["y"] }, sendings: 7, "": null };

    /** A value with these fields in each object of it. */
    function grown(value: unknown): unknown {
      if (typeof value !== "object" || value === null) return value;
      if (Array.isArray(value)) return value.map(grown);
      const parts = Object.entries(value).map(([name, part]) => [name, grown(part)]);
      return { ...Object.fromEntries(parts), ...added };
    }

    async function read(path: string): Promise<Record<string, unknown>> {
      return JSON.parse(await nodeText(port, path)) as Record<string, unknown>;
    }

    async function grow(path: string): Promise<void> {
      await setNode(port, path, JSON.stringify(grown(await read(path))));
    }

    test("stay in the record and the limits through every operation, and no caller sees them", async () => {
      const pool = { first: 0, last: 0 };
      const meta = `${root}/meta`;
      await grow(meta);
      const limits = await nodeText(port, meta);
      expect(limits).toContain("turnOfLease");
      const answers: unknown[] = [];
      /** Does something, and sees that the record has the fields still. `parts`: objects in it that are the same. */
      async function does<Answer>(work: () => Promise<Answer>, ...parts: string[]): Promise<Answer> {
        const answer = await work();
        answers.push(answer);
        const stored = await read(state(0));
        expect(stored).toMatchObject(added);
        for (const part of parts) expect(stored[part]).toMatchObject(added);
        expect(await nodeText(port, meta)).toBe(limits);
        return answer;
      }

      const first = ask({ pool });
      const grant = await granted(registry, first);
      const key = keyOf(first, grant);
      await grow(state(0));
      const renewal = { ...key, window: 2000 };
      const checkpoint = { timestamp: grant.from, sequence: 1 };
      const renewed = { outcome: "renewed" };
      expect(await does(() => registry.renew({ ...renewal, clock: Date.now(), checkpoint }), "holder")).toMatchObject(
        renewed,
      );
      await grow(state(0));
      expect(await does(() => registry.renew({ ...renewal, clock: Date.now() }), "holder", "checkpoint")).toMatchObject(
        renewed,
      );
      const owner = { ip: "10.0.0.9" };
      await does(() => registry.pin(namespace, 0, "looked at", owner), "holder", "checkpoint");
      expect(await does(() => registry.unpin(namespace, 0), "holder", "checkpoint")).toBe(true);
      expect(await does(() => registry.claim(first), "holder")).toMatchObject({ outcome: "granted", fence: 1 });
      const recents = { from: grant.from, bytes: Uint8Array.of(1) };
      const used = { until: grant.from + 10, recents };
      expect(
        await does(() => registry.release({ ...key, clock: Date.now(), used }), "holder", "checkpoint"),
      ).toMatchObject({ outcome: "released" });
      await grow(state(0));
      await does(() => registry.pin(namespace, 0, "looked at"), "recents");
      await does(() => registry.unpin(namespace, 0), "recents");

      // The fields of the former holder's label go with it.
      const second = ask({ pool, clock: Date.now() + 20 });
      expect(await does(() => registry.claim(second), "recents")).toMatchObject({ outcome: "granted", fence: 2 });
      expect((await read(state(0)))["holder"]).toEqual(second.holder);
      const third = ask({ pool, workerId: 0 });
      expect(await does(() => registry.claim(third))).toMatchObject({ outcome: "held", holder: second.holder });
      const force = { namespace, workerId: 0, fence: 2, force: true, resetWindow: true };
      expect(await does(() => registry.forceRelease(force))).toMatchObject({ outcome: "released" });
      const late = await eventually(
        () => does(() => registry.claim({ ...third, clock: Date.now() })),
        ({ outcome }) => outcome === "granted",
      );
      expect(late).toMatchObject({ fence: 3 });

      for (const fence of [1, 2]) {
        await grow(`${root}/history/0/0000000000/${String(fence).padStart(10, "0")}`);
      }
      expect(await does(() => registry.history(namespace, 0))).toMatchObject([
        { fence: 1 },
        { fence: 2 },
        { fence: 3 },
      ]);
      expect(await does(() => registry.workers(namespace))).toMatchObject([{ workerId: 0, state: "live" }]);
      expect(await does(() => registry.worker(namespace, 0))).toMatchObject({ holder: third.holder });
      const info = { layout: third.layout, ...terms };
      const [id, era] = [expect.any(String), expect.any(String)];
      expect(await does(() => registry.describe(namespace))).toStrictEqual({ ...info, id, era });
      expect(await does(() => registry.init({ namespace, ...info }))).toStrictEqual({ ...info, id, era });
      await does(() => registry.rehearse?.(namespace) ?? Promise.resolve());
      expectWhole(await readTree(port), namespace);
      expect(await does(() => registry.prune(namespace, Date.now() + 60_000))).toBe(2);
      expect(JSON.stringify(answers)).not.toMatch(/turnOfLease|sendings/);
    });

    test("stay in the record of a number that is pinned and was never claimed, and a claim of its owner keeps them", async () => {
      const owner = { ip: "10.0.0.7" };
      await registry.pin(namespace, 5, "kept");
      await grow(state(5));
      await registry.pin(namespace, 5, "kept for one", owner);
      expect(await read(state(5))).toMatchObject({ ...added, owner: "10.0.0.7" });
      const request = ask({ holder: { host: "vm", ip: owner.ip, pid: 1, instance: "" } });
      expect(await granted(registry, request)).toMatchObject({ workerId: 5, fence: 1 });
      expect(await read(state(5))).toMatchObject({ ...added, fence: 1 });
    });
  });
});
