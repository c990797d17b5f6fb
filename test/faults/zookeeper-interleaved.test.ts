import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { SnowleaseError } from "../../src/id/errors.ts";
import type { Grant, Registry } from "../../src/rule/registry.ts";
import { Wire } from "../../src/registries/zookeeper/wire.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { failure } from "../support/failures.ts";
import { eventually } from "../support/holder.ts";
import { patience } from "../support/patience.ts";
import {
  deleteAll,
  expectWhole,
  forbidChildren,
  letRead,
  liveIn,
  makeNode,
  nodeText,
  nodeTexts,
  readTree,
  setNode,
} from "../support/zookeeper-tree.ts";
import { openZooKeeper, ZooKeeper, zooKeeperMissing } from "../support/zookeeper.ts";

/** A request of a client, by the method that makes it and the path that it names first. */
type Sent = (method: string, path: string) => boolean;

/** What another client does between two requests of one operation. */
describe.skipIf(zooKeeperMissing !== undefined)(zooKeeperMissing ?? "two clients of ZooKeeper, one in between", () => {
  let ensemble: ZooKeeper;
  let port: number;
  let registry: Registry;
  let other: Registry;
  let namespace: string;
  let root: string;
  let tests = 0;
  /** What to do before the first request that is such a one, and how many requests the first client has made. */
  let between: { readonly sent: Sent; readonly work: () => Promise<unknown> } | undefined;
  let commits = 0;

  beforeAll(async () => {
    ensemble = await ZooKeeper.start();
    port = ensemble.servers[0]?.port ?? 0;
  });
  afterAll(() => ensemble.remove());

  beforeEach(async () => {
    namespace = `test${++tests}`;
    root = `/snowlease/${namespace}`;
    other = await openZooKeeper(ensemble.url(), patience);
    registry = await openZooKeeper(ensemble.url(), patience);
    await other.init({ namespace, layout: claimRequest().layout, maxWindow: 60_000 });
    commits = 0;
    await spied();
  });
  afterEach(async () => {
    between = undefined;
    vi.restoreAllMocks();
    await Promise.all([registry.close(), other.close()]);
  });

  /** Sees what the first client sends from now on. */
  async function spied(): Promise<void> {
    const calls = Wire.prototype.calls;
    const own = new Set<Wire>();
    vi.spyOn(Wire.prototype, "calls").mockImplementation(function (this: Wire, id) {
      const session = calls.call(this, id);
      if (own.size === 0) own.add(this);
      if (!own.has(this)) return session;
      let before: Promise<unknown> = Promise.resolve();
      return new Proxy(session, {
        get(_, name: keyof typeof session) {
          const method = session[name];
          if (typeof method !== "function") return method;
          return (...input: readonly unknown[]) => {
            const call = async (): Promise<unknown> => {
              const path = name === "commit" ? "" : String(input[0]);
              if (name === "commit") commits++;
              if (between?.sent(name, path) === true) {
                const { work } = between;
                between = undefined;
                await work();
              }
              return (method as (...input: readonly unknown[]) => unknown)(...input);
            };
            const sent = before.then(call);
            // In their order, but without waiting for an answer.
            before = between === undefined ? Promise.resolve() : sent.catch(() => undefined);
            return sent;
          };
        },
      });
    });
    await registry.ping();
  }

  const atRecord =
    (workerId: number): Sent =>
    (method, path) =>
      method === "get" && path.endsWith(`/${String(workerId).padStart(10, "0")}`);
  /** Before the transaction with this number. */
  const atCommit =
    (number: number): Sent =>
    (method) =>
      method === "commit" && commits === number;
  let hosts = 0;
  const ask = (wish: Parameters<typeof claimRequest>[0] = {}): ReturnType<typeof claimRequest> =>
    claimRequest({ namespace, holder: { host: `host-${hosts++}`, ip: "10.0.0.1", pid: 1, instance: "" }, ...wish });

  /** Claims these numbers, and gives them back, one after the other. */
  async function used(...ids: readonly number[]): Promise<void> {
    for (const workerId of ids) {
      const request = ask({ workerId });
      const grant = await granted(other, request);
      await other.release({ ...keyOf(request, grant), clock: Date.now(), used: { until: grant.from } });
    }
  }

  const forget = async (): Promise<void> => {
    const era = (await other.describe(namespace))?.era ?? "";
    await other.remove?.({ namespace, era, forget: true });
  };

  test("numbers that are pinned while a claim reads them do not hide another free one", async () => {
    await used(0, 1, 2);
    const pinnedAt = (workerId: number, then?: () => void): typeof between => ({
      sent: atRecord(workerId),
      work: async () => {
        await other.pin(namespace, workerId, "kept");
        then?.();
      },
    });
    between = pinnedAt(0, () => (between = pinnedAt(1)));
    const claim = await registry.claim(ask({ pool: { first: 0, last: 2 } }));
    expect(claim).toMatchObject({ outcome: "granted", workerId: 2, fence: 2 });
  });

  test("a list goes on behind numbers that are no more when it reads them", async () => {
    await other.pin(namespace, 0, "kept");
    await granted(other, ask({ workerId: 900 }));
    between = { sent: atRecord(0), work: () => other.unpin(namespace, 0) };
    expect(await registry.workers(namespace, { limit: 1 })).toMatchObject([{ workerId: 900 }]);
  });

  test("the history has a claim once that ends while it is read", async () => {
    await used(0);
    await granted(other, ask({ workerId: 0 }));
    const force = { namespace, workerId: 0, force: true };
    between = {
      sent: (method, path) => method === "get" && path.includes("/history/"),
      work: () => other.forceRelease(force),
    };
    const live = await registry.history(namespace, 0);
    expect(live.map(({ fence }) => fence)).toEqual([1, 2]);
    expect(await registry.history(namespace, 0)).toMatchObject([{ fence: 1 }, { fence: 2, end: "forced" }]);
  });

  test("a renewal is not beaten by pins that are taken from other numbers", async () => {
    const request = ask({ workerId: 0 });
    const key = keyOf(request, await granted(registry, request));
    await other.pin(namespace, 7, "kept");
    commits = 0;
    between = { sent: atCommit(1), work: () => other.unpin(namespace, 7) };
    expect(await registry.renew({ ...key, clock: Date.now(), window: 60_000 })).toMatchObject({ outcome: "renewed" });
    expect(commits).toBe(1);
  });

  // The first transaction fails, because its host has no folder yet.
  test.each([1, 2])(
    "a claim whose namespace is forgotten before its transaction %d makes another one, in which nothing is lost",
    async (number) => {
      await used(0);
      between = { sent: atCommit(number), work: forget };
      expect(await granted(registry, ask({ workerId: 0 }))).toMatchObject({ workerId: 0, fence: 1 });
      expectWhole(await readTree(port), namespace);
    },
  );

  test("what is decided in a namespace that is forgotten is not written into the next one of its name", async () => {
    between = {
      sent: atCommit(1),
      work: async () => {
        await forget();
        await granted(other, ask({ workerId: 5 }));
      },
    };
    const before = await other.describe(namespace);
    await granted(registry, ask({ workerId: 0 }));
    const after = await other.describe(namespace);
    expect(after?.id).not.toBe(before?.id);
    const record = JSON.parse((await nodeTexts(port, root))[`${root}/state/0/0000000000`] ?? "") as { era: string };
    expect(record.era).toBe(after?.era);
  });

  test.each([
    ["an unpin", () => registry.unpin(namespace, 3)],
    ["a pin", () => registry.pin(namespace, 3, "another reason")],
    ["a claim by its owner", () => registry.claim(ask({ workerId: 3, holder: { ...ask().holder, ip: "10.0.0.9" } }))],
  ])("%s of a number that is only pinned is not written over its next holder", async (_, late) => {
    // Not the first one in the namespace, which makes a node for that.
    await other.pin(namespace, 9, "kept");
    await other.unpin(namespace, 9);
    await other.pin(namespace, 3, "kept", { ip: "10.0.0.9" });
    const request = ask({ workerId: 3, window: 60_000 });
    let grant: Grant | undefined;
    const work = async (): Promise<void> => {
      await other.unpin(namespace, 3);
      grant = await granted(other, request);
    };
    between = { sent: atCommit(1), work };
    await late();
    if (grant === undefined) throw new Error("nothing came in between");
    const renewal = { ...keyOf(request, grant), clock: Date.now(), window: 60_000 };
    expect(await other.renew(renewal)).toMatchObject({ outcome: "renewed", from: grant.from });
    expectWhole(await readTree(port), namespace);
  });

  test("what is decided about a record is not written over the one that was made in the place of it", async () => {
    const first = await granted(other, ask({ workerId: 0, window: 50 }));
    await eventually(
      () => other.worker(namespace, 0),
      (record) => record?.state === "free",
    );
    let held: Grant | undefined;
    const work = async (): Promise<void> => {
      held = await granted(other, ask({ workerId: 0, window: 60_000 }));
      await deleteAll(port, `${root}/state/0/0000000000`);
      expect(await other.claim(ask({ workerId: 0 }))).toMatchObject({ outcome: "held" });
    };
    between = { sent: atCommit(1), work };
    expect(await registry.claim(ask({ workerId: 0 }))).toMatchObject({ outcome: "held" });
    expect(held?.fence).toBe(first.fence + 1);
    expect((await registry.worker(namespace, 0))?.until).toBeGreaterThanOrEqual(held?.until ?? Infinity);
  });

  test.each(["renew", "release"] as const)(
    "a %s of a claim that the store has forgotten begins a quarantine, where its number is pinned and was never claimed",
    async (method) => {
      await other.pin(namespace, 9, "kept");
      await other.unpin(namespace, 9);
      await other.pin(namespace, 0, "kept", { ip: "10.0.0.9" });
      const path = `${root}/state/0/0000000000`;
      const before = await nodeText(port, path);
      const request = ask({ workerId: 0, holder: { host: "owner", ip: "10.0.0.9", pid: 1, instance: "" } });
      const grant = await granted(other, request);
      await setNode(port, path, before);
      const era = (await other.describe(namespace))?.era;
      const asked = { ...keyOf(request, grant), clock: Date.now(), receipt: grant.receipt };
      if (method === "renew") {
        expect(await failure(registry.renew({ ...asked, window: 2000 }))).toMatchObject({ code: "QUARANTINE" });
      } else expect(await registry.release(asked)).toMatchObject({ outcome: "lost", reason: "forgotten" });
      expect((await other.describe(namespace))?.era).not.toBe(era);
    },
  );

  test("a claim that has read a note makes no namespace behind a later one", async () => {
    const remove = async (): Promise<void> => {
      const era = (await other.describe(namespace))?.era ?? "";
      await other.remove?.({ namespace, era });
    };
    await remove();
    let until = 0;
    const work = async (): Promise<void> => {
      await other.init({ namespace, layout: claimRequest().layout });
      await forget();
      ({ until } = await granted(other, ask({ workerId: 0, window: 60_000 })));
      await remove();
    };
    between = { sent: atCommit(1), work };
    expect(await failure(registry.claim(ask({ workerId: 0 })))).toMatchObject({ code: "QUARANTINE" });
    expect(until).toBeGreaterThan(Date.now());
  });

  test("a record deleted by hand is noticed, whatever else is pinned beside its pool", async () => {
    const pool = { first: 0, last: 1 };
    for (const workerId of [0, 1]) await granted(other, ask({ workerId, window: 60_000 }));
    await other.pin(namespace, 500, "kept");
    await deleteAll(port, `${root}/state/0/0000000001`);
    expect(await registry.claim(ask({ pool }))).toMatchObject({ outcome: "exhausted" });
    expect(await registry.worker(namespace, 1)).toMatchObject({ state: "resting" });
  });

  test("the node that marks a namespace, deleted by hand: it is named", async () => {
    const id = (await other.describe(namespace))?.id ?? "";
    await deleteAll(port, `${root}/meta/${id}`);
    const error = await failure(registry.claim(ask()));
    expect(error).toMatchObject({ code: "SCHEMA_INCOMPATIBLE" });
    expect(error.message).toContain(`${root}/meta/${id}`);
  });

  test("a pin whose namespace is removed under it leaves nothing beside the note", async () => {
    await used(0);
    const work = async (): Promise<void> => {
      const era = (await other.describe(namespace))?.era ?? "";
      await other.remove?.({ namespace, era });
    };
    // The first one fails, because the address has no folder yet.
    between = { sent: atCommit(2), work };
    expect(await failure(registry.pin(namespace, 3, "kept", { ip: "10.0.0.9" }))).toMatchObject({ code: "NOT_FOUND" });
    const left = Object.keys(await nodeTexts(port, root));
    expect(left).toEqual([root, `${root}/meta`, expect.stringContaining(`${root}/meta/`)]);
  });

  test("a renewal that is repeated over another session shows that its holder lives", async () => {
    const request = ask({ workerId: 0 });
    const key = keyOf(request, await granted(registry, request));
    const renewal = { ...key, clock: Date.now(), window: 60_000, nextTurn: "1".repeat(32) };
    expect(await registry.renew(renewal)).toMatchObject({ outcome: "renewed" });
    await registry.close();
    expect(await other.worker(namespace, 0)).toMatchObject({ state: "resting" });
    expect(await other.renew(renewal)).toMatchObject({ outcome: "renewed" });
    expect(await other.worker(namespace, 0)).toMatchObject({ state: "live" });
    expect(await other.forceRelease({ namespace, workerId: 0, force: false })).toMatchObject({ outcome: "live" });
  });

  test("a renewal that only proves what was forgotten shows no session below the record", async () => {
    const request = ask({ workerId: 3 });
    const grant = await granted(other, request);
    const proof = (grant.receipt ?? "").split(".").with(6, "50").join(".");
    const refused = await failure(
      registry.renew({ ...keyOf(request, grant), receipt: proof, clock: Date.now(), window: 1000 }),
    );
    expect(refused.code).toBe("QUARANTINE");
    expect(liveIn(await readTree(port, root))).toEqual([3]);
  });

  test("a release takes the nodes of all sessions that asked for its claim", async () => {
    const request = ask({ workerId: 0 });
    const grant = await granted(other, request);
    expect(await granted(registry, request)).toEqual({ ...grant, clock: expect.any(Number) });
    expect(liveIn(await readTree(port, root))).toEqual([0, 0]);
    expect(await registry.release({ ...keyOf(request, grant), clock: Date.now() })).toEqual({ outcome: "released" });
    expect(liveIn(await readTree(port, root))).toEqual([]);
  });

  test("a note of version 1 is refused by name", async () => {
    const older = `${namespace}-1`;
    await makeNode(port, `/snowlease/${older}`);
    await makeNode(port, `/snowlease/${older}/era`, '{"era":"1-a","quarantineEnd":1,"opensAt":1}');
    const asked = [registry.describe(older), registry.claim(ask({ namespace: older }))];
    for (const each of asked) {
      const error = await failure(each);
      expect(error.code).toBe("SCHEMA_INCOMPATIBLE");
      expect(error.message).toContain("of version 1");
    }
  });

  test("what a claim does beside its transaction may fail", async () => {
    const pool = { first: 0, last: 9999 };
    await makeNode(port, `${root}/next/0-9999`, "not a number");
    await letRead(port, `${root}/next`);
    for (let i = 0; i < 40; i++) await granted(other, ask({ workerId: i }));
    expect(await granted(registry, ask({ pool }))).toMatchObject({ workerId: 40 });
  });

  test("a user who may make no folders is told so at once, and may use those that are there", async () => {
    await makeNode(port, `/${namespace}`);
    const mine = await openZooKeeper(ensemble.url(`/${namespace}`), patience);
    onTestFinished(() => mine.close());
    const layout = claimRequest().layout;
    await mine.init({ namespace, layout });
    await makeNode(port, `/${namespace}/snowlease/made`);
    const base = `/${namespace}/snowlease`;
    await forbidChildren(port, `${base}/${namespace}`);
    await forbidChildren(port, base);
    expect(await granted(mine, ask({ workerId: 3 }))).toMatchObject({ workerId: 3 });
    await deleteAll(port, `${base}/${namespace}/host`);
    const asked = [
      () => mine.claim(ask({ workerId: 4 })),
      () => mine.claim(ask()),
      () => mine.init({ namespace: "other", layout }),
      () => mine.claim(ask({ namespace: "other" })),
    ];
    for (const each of asked) {
      const error = await failure(each());
      expect(error).toBeInstanceOf(SnowleaseError);
      expect(error).toMatchObject({ code: "UNAUTHORIZED" });
    }
    expect(await granted(mine, ask({ namespace: "made", workerId: 3 }))).toMatchObject({ workerId: 3 });
  });

  test("what guards a number that is only pinned, deleted by hand under a claim: the claim decides anew", async () => {
    const owner = { ip: "10.0.0.9" };
    await other.pin(namespace, 3, "kept", owner);
    const work = async (): Promise<void> => {
      await deleteAll(port, `${root}/unpins`);
      await other.unpin(namespace, 3);
      await other.pin(namespace, 3, "kept for others");
    };
    between = { sent: atCommit(1), work };
    const late = ask({ workerId: 3, holder: { host: "owner", ip: owner.ip, pid: 1, instance: "" } });
    expect(await registry.claim(late)).toMatchObject({ outcome: "pinned" });
  });

  test("a removal beside which the mark was deleted, or has somebody else's node, says so", async () => {
    const { id = "", era = "" } = (await other.describe(namespace)) ?? {};
    await makeNode(port, `${root}/meta/${id}/x`, "mine");
    const removal = (confirmed: string): Promise<void> =>
      other.remove?.({ namespace, era: confirmed }) ?? Promise.resolve();
    expect(await failure(removal(era))).toMatchObject({ code: "SCHEMA_INCOMPATIBLE" });
    await deleteAll(port, `${root}/meta/${id}`);
    const sealed = (await other.describe(namespace))?.era ?? "";
    expect(await failure(removal(sealed))).toMatchObject({ code: "SCHEMA_INCOMPATIBLE" });
  });

  test("somebody else's node below a record that is to be deleted is named, and nothing is changed", async () => {
    await registry.pin(namespace, 3, "kept", { ip: "10.0.0.9" });
    await makeNode(port, `${root}/state/0/0000000003/x`, "mine");
    const error = await failure(registry.unpin(namespace, 3));
    expect(error).toMatchObject({ code: "SCHEMA_INCOMPATIBLE" });
    expect(error.message).toContain(`${root}/state/0/0000000003`);
    expect(await registry.worker(namespace, 3)).toMatchObject({ state: "pinned", owner: "10.0.0.9" });
    expectWhole(await readTree(port), namespace);
  });

  test("records and the node of the namespace deleted by hand: a claim makes both again, and the number rests", async () => {
    await used(0);
    await deleteAll(port, `${root}/state/0/0000000000`);
    await deleteAll(port, `${root}/meta`);
    expect(await registry.claim(ask({ workerId: 0 }))).toMatchObject({ outcome: "held" });
    expect(await registry.worker(namespace, 0)).toMatchObject({ state: "resting", fence: 2 });
  });
});
