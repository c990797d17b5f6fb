import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import type { ClaimRequest, Grant, Registry } from "../../src/rule/registry.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { Holders, namespace, quarantineOf } from "../support/failover.ts";
import { failure } from "../support/failures.ts";
import { eventually } from "../support/holder.ts";
import { openRedis, redisMissing, RedisServer } from "../support/redis.ts";

const prefix = `workerId/${namespace}`;
/** Nobody's window passes here by itself. */
const window = 60_000;
/** A replica holds the same at once; a primary forgets that it had one after a second. */
const quick = ["--repl-diskless-sync-delay", "0", "--repl-backlog-ttl", "1"];
const none = "0".repeat(40);

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "a Redis that somebody lays hands on", () => {
  let server: RedisServer;
  let registry: Registry;

  beforeEach(async () => {
    server = await RedisServer.start(quick);
    registry = await openRedis(server.url("?maxLag=0"));
    await registry.init({
      new: true,
      namespace,
      layout: defaultLayout.fingerprint,
      maxWindow: window,
      maxClockSkew: 2000,
    });
  });
  afterEach(async () => {
    await registry.close();
    await server.remove();
  });

  /** A claim of a number that has been held since, and whether its window begins before that of its holder ends. */
  async function overlaps({ until }: Grant, wish: Partial<ClaimRequest>): Promise<boolean> {
    try {
      const answer = await registry.claim(claimRequest({ window, ...wish }));
      return answer.outcome === "granted" && answer.workerId === 3 && answer.from < until;
    } catch {
      return false;
    }
  }

  const take = (): Promise<Grant> => granted(registry, claimRequest({ workerId: 3, window }));

  describe("both keys of a number go, while a holder has it", () => {
    const [record, use] = [`${prefix}:window:3`, `${prefix}:use:3`] as const;
    const ways: Readonly<Record<string, () => Promise<unknown>>> = {
      deleted: () => server.client().del(record, use),
      expired: () => Promise.all([record, use].map((key) => server.client().pexpire(key, 0))),
      renamed: async () => {
        await server.client().rename(record, `${prefix}:window:9`);
        await server.client().rename(use, `${prefix}:use:9`);
      },
    };
    const wishes: readonly Partial<ClaimRequest>[] = [{ workerId: 3 }, { preferred: [3] }];
    const cases = Object.keys(ways).flatMap((way) => wishes.map((wish) => ({ way, wish })));

    test.each(cases)("$way, then asked for by $wish: nobody gets it before the window has passed", async (each) => {
      const grant = await take();
      await ways[each.way]?.();
      expect(await overlaps(grant, each.wish)).toBe(false);
    });

    test("deleted, then asked for by nobody in particular: nobody gets it", async () => {
      await take();
      await ways["deleted"]?.();
      const answers = await Promise.all([1, 2, 3, 4].map(() => granted(registry, claimRequest({ window }))));
      expect(answers.map(({ workerId }) => workerId)).toEqual([0, 1, 2, 4]);
    });

    test("overwritten by a Java process, asked for by name, and deleted: nobody gets it before the window has passed", async () => {
      const grant = await take();
      await server.client().set(use, "811x10.0.0.7xgamma");
      expect(await registry.claim(claimRequest({ workerId: 3, window }))).toMatchObject({ outcome: "foreign" });
      await ways["deleted"]?.();
      expect(await overlaps(grant, { workerId: 3 })).toBe(false);
    });

    const owner = { ip: "10.0.0.7" };
    test.each([
      { what: "unpinned", pin: undefined, wish: {} },
      { what: "claimed by its owner", pin: owner, wish: { holder: { host: "beta", pid: 1, instance: "", ...owner } } },
    ])("deleted, then pinned, and $what: nobody gets it before the window has passed", async ({ pin, wish }) => {
      const grant = await take();
      await ways["deleted"]?.();
      await registry.pin(namespace, 3, "kept", pin);
      if (pin === undefined) expect(await registry.unpin(namespace, 3)).toBe(true);
      expect(await overlaps(grant, { workerId: 3, ...wish })).toBe(false);
      expect(await quarantineOf(server)).toBeGreaterThanOrEqual(grant.until);
    });
  });

  test("a Java process with the pid, address and host name of one that gave back: the number is foreign", async () => {
    // Pid 1 of a container that was started again with another program in it.
    const holder = { host: "orders", ip: "172.18.0.5", pid: 1, instance: "" };
    const request = claimRequest({ holder, window });
    const grant = await granted(registry, request);
    await registry.release({ ...keyOf(request, grant), clock: Date.now(), used: { until: grant.from } });
    expect(await server.client().setnx(`${prefix}:use:${grant.workerId}`, "1x172.18.0.5xorders")).toBe(1);
    expect(await registry.worker(namespace, grant.workerId)).toMatchObject({ state: "foreign" });
    const answer = await registry.claim(claimRequest({ workerId: grant.workerId, window }));
    expect(answer).toMatchObject({ outcome: "foreign" });
  });

  test("another database in its place: nothing is granted there, and what was granted still stands here", async () => {
    await take();
    await server.client().swapdb(0, 1);
    const { code, message } = await failure(registry.claim(claimRequest({ window })));
    expect(code).toBe("CONFIG_INVALID");
    expect(message).toContain("and exists in database 1:");
    await server.client().swapdb(0, 1);
    const answer = await registry.claim(claimRequest({ workerId: 3, window }));
    expect(answer).toMatchObject({ outcome: "held" });
    expect(await quarantineOf(server)).toBe(0);
  });

  test("a grant that was not confirmed is not confirmed by asking again", async () => {
    const replica = await RedisServer.start(quick);
    onTestFinished(() => replica.remove());
    await replica.follow(server.port);
    const careful = await openRedis(server.url("?maxLag=0&wait=1"), 6000);
    onTestFinished(() => careful.close());
    await granted(careful, claimRequest({ window }));
    replica.process.signal("SIGSTOP");
    const request = claimRequest({ window });
    await granted(registry, request);
    // This time the script writes nothing that WAIT could wait for.
    const error = await failure(careful.claim(request));
    expect(error.message).toContain("0 of 1 replicas");
  });

  test("a claim that was sent twice: a window that one answer confirms is not closed because the other one was not confirmed", async () => {
    const replica = await RedisServer.start(quick);
    onTestFinished(() => replica.remove());
    await replica.follow(server.port);
    const [impatient, patient] = await Promise.all(
      [6000, 30_000].map((timeout) => openRedis(server.url("?maxLag=0&wait=1"), timeout)),
    );
    if (impatient === undefined || patient === undefined) throw new Error("two are open");
    onTestFinished(() => Promise.all([impatient.close(), patient.close()]).then(() => undefined));
    for (const each of [impatient, patient]) await granted(each, claimRequest({ window: 1 }));
    replica.process.signal("SIGSTOP");
    const request = claimRequest({ workerId: 3, window });
    const first = failure(impatient.claim(request));
    await eventually(
      () => server.client().exists(`${prefix}:window:3`),
      (found) => found === 1,
    );
    const second = granted(patient, request);
    expect((await first).message).toContain("0 of 1 replicas");
    replica.process.signal("SIGCONT");
    expect(await overlaps(await second, { workerId: 3 })).toBe(false);
  });

  test("its statistics set back after it was a replica for a while: what it forgot is noticed all the same", async () => {
    const other = await RedisServer.start(quick);
    onTestFinished(() => other.remove());
    await other.follow(server.port);
    await other.promote();
    const grant = await take();
    await server.follow(other.port);
    await server.promote();
    await server.client().config("RESETSTAT");
    await eventually(
      () => server.replication(),
      (told) => told.get("master_replid2") === none,
    );
    expect(await overlaps(grant, { workerId: 3 })).toBe(false);
    expect(await quarantineOf(server)).toBeGreaterThan(0);
  });

  test("its writes held up past every window: holders stop, and no ID comes twice", async () => {
    const holders = new Holders();
    onTestFinished(() => holders.kill());
    const url = server.url("?maxLag=0");
    const options = { pool: "0-1", claimTimeout: 30_000 };
    const running = [await holders.run(url, options), await holders.run(url, options)];
    await sleep(300);
    await server.client().call("CLIENT", "PAUSE", 3000, "WRITE");
    const third = holders.add(url, options);
    const started = third.ask("start");
    for (const { holder } of running) {
      await eventually(
        () => holder.ask("state"),
        ({ failures }) => failures["LEASE_EXPIRED"] !== undefined,
      );
    }
    // What was held up is done now. One of the three gets no number before another gives one back.
    await sleep(1000);
    await running[0]?.holder.ask("close").catch(() => undefined);
    await started;
    await third.ask("run");
    await eventually(
      async () => third.ids().length,
      (count) => count > 1000,
    );
    await holders.expectDistinct();
  });
});
