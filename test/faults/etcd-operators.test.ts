import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Registry } from "../../src/rule/registry.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { Etcd, etcdMissing, openEtcd } from "../support/etcd.ts";
import { failure } from "../support/failures.ts";
import { eventually } from "../support/holder.ts";
import { startMaker } from "../support/maker.ts";

const namespace = "orders";

describe.skipIf(etcdMissing !== undefined)(etcdMissing ?? "what operators do to etcd", { timeout: 120_000 }, () => {
  async function started(...how: Parameters<typeof Etcd.start>): Promise<Etcd> {
    const cluster = await Etcd.start(...how);
    onTestFinished(() => cluster.remove());
    return cluster;
  }
  async function opened(url: string, timeout?: number): Promise<Registry> {
    const registry = await openEtcd(url, timeout);
    onTestFinished(() => registry.close());
    return registry;
  }

  test("compaction and defragmentation under holders: no window is missed", async () => {
    const cluster = await started(3);
    const makers = await Promise.all(
      [0, 1, 2].map((i) => startMaker({ registry: cluster.url(), namespace, window: 2000, host: `host-${i}` })),
    );
    const registry = await opened(cluster.url());
    for (let round = 0; round < 5; round++) {
      const { revision } = JSON.parse(await cluster.ctl("get", "none", "-w", "json")).header as { revision: number };
      await cluster.ctl("compact", String(revision));
      await cluster.ctl("defrag");
      const request = claimRequest();
      const grant = await granted(registry, request);
      expect(await registry.release({ ...keyOf(request, grant), clock: Date.now() })).toEqual({ outcome: "released" });
      await sleep(500);
    }
    for (const maker of makers) {
      await maker.stop();
      expect(maker.failures.get("LEASE_LOST")).toBeUndefined();
      expect(maker.snowflake.lease.fence).toBe(1);
    }
    const ids = makers.flatMap((maker) => maker.ids);
    expect(new Set(ids).size).toBe(ids.length);
  });

  test("a quota that is full: refused with what to run, and it goes on after that was run", async () => {
    const cluster = await started(1, { options: ["--quota-backend-bytes=16777216"] });
    const registry = await opened(cluster.url());
    const request = claimRequest({ window: 60_000 });
    const key = keyOf(request, await granted(registry, request));
    const renew = (): Promise<unknown> => registry.renew({ ...key, clock: Date.now(), window: 60_000 });
    // As another user of the cluster fills it.
    for (let isFull = false; !isFull;) {
      isFull = await cluster.ctl("put", "others", "x".repeat(100_000)).then(
        () => false,
        () => true,
      );
    }
    const error = await failure(renew());
    expect(error).toMatchObject({ code: "REGISTRY_UNAVAILABLE", retryable: true });
    expect(error.message).toContain("etcdctl alarm disarm");
    // Reads go on.
    expect(await registry.worker(namespace, key.workerId)).toMatchObject({ state: "live", fence: 1 });
    const { revision } = JSON.parse(await cluster.ctl("get", "none", "-w", "json")).header as { revision: number };
    await cluster.ctl("compact", String(revision));
    await cluster.ctl("defrag");
    await cluster.ctl("alarm", "disarm");
    expect(await renew()).toMatchObject({ outcome: "renewed" });
  });

  test("the records alone are deleted: holders prove it, and all worker IDs can be had after the quarantine", async () => {
    const cluster = await started();
    const registry = await opened(cluster.url());
    const pool = { first: 0, last: 63 };
    const wish = (): ReturnType<typeof claimRequest> => claimRequest({ pool, window: 500 });
    await registry.init({ namespace, layout: wish().layout, maxWindow: 500, maxClockSkew: 1000, new: true });
    const maker = await startMaker({ registry: cluster.url(), namespace, window: 500, pool: "0-63", host: "holder" });
    for (let i = 0; i < 63; i++) await granted(registry, { ...wish(), reuse: "never" });
    expect(await cluster.keys("orders/next/")).toEqual(["orders/next/0-63"]);
    await cluster.ctl("del", "--prefix", "snowlease/orders/worker/");
    await eventually(
      async () => (await registry.describe(namespace))?.quarantineUntil,
      (until) => until !== undefined,
    );
    await eventually(
      async () => registry.claim(wish()).catch(() => undefined),
      (answer) => answer?.outcome === "granted",
    );
    // The hint said that every number has a record.
    for (let i = 0; i < 50; i++) await granted(registry, wish());
    await maker.stop();
    // And the indexes name records that are gone, before any that came since.
    for (let i = 0; i < 80; i++) {
      await eventually(
        async () => registry.claim(wish()),
        (answer) => answer.outcome === "granted",
      );
    }
  });

  test("one record is deleted: the claim that had it can be sent again", async () => {
    const cluster = await started();
    const registry = await opened(cluster.url());
    const request = claimRequest();
    const { workerId } = await granted(registry, request);
    await cluster.ctl("del", "--prefix", `snowlease/orders/worker/${String(workerId).padStart(16, "0")}`);
    await granted(registry, request);
    expect(await cluster.keys("orders/token/")).toHaveLength(1);
    expect(await registry.claim(request)).toMatchObject({ outcome: "granted", workerId });
  });

  test("a number that is pinned for a host is found behind hundreds of others of that host", async () => {
    const cluster = await started();
    const registry = await opened(cluster.url());
    const { layout, holder } = claimRequest();
    await registry.init({ namespace, layout, new: true });
    const pins = [...Array.from({ length: 600 }, (_, i) => i), 1020];
    for (let i = 0; i < pins.length; i += 50) {
      const some = pins.slice(i, i + 50);
      await Promise.all(some.map((workerId) => registry.pin(namespace, workerId, "its own", { ip: holder.ip })));
    }
    const pool = { first: 1015, last: 1020 };
    expect(await granted(registry, claimRequest({ pool }))).toMatchObject({ workerId: 1020 });
  });

  test("a copy in another cluster that is separated begins with a quarantine, and the original goes on", async () => {
    const [original, other] = [await started(), await started()];
    const registry = await opened(original.url());
    const request = claimRequest({ window: 60_000 });
    const key = keyOf(request, await granted(registry, request));
    const keys = await original.keys();
    for (const name of keys) {
      const path = `snowlease/${name}`;
      const { kvs } = JSON.parse(await original.ctl("get", path, "-w", "json")) as { kvs: { value?: string }[] };
      await other.ctl("put", path, Buffer.from(kvs[0]?.value ?? "", "base64").toString());
    }
    const copy = await opened(other.url());
    const { id, era = "" } = (await copy.describe(namespace)) ?? {};
    expect(id).toBe((await registry.describe(namespace))?.id);
    const separated = await copy.separate?.({ namespace, era });
    expect(separated?.id).not.toBe(id);
    expect(await failure(copy.claim(claimRequest()))).toMatchObject({ code: "QUARANTINE" });
    expect(await registry.renew({ ...key, clock: Date.now(), window: 60_000 })).toMatchObject({ outcome: "renewed" });
  });

  describe("users", () => {
    async function guarded(options: readonly string[] = []): Promise<{
      readonly cluster: Etcd;
      readonly url: (login: string) => string;
      readonly asRoot: (...args: readonly string[]) => Promise<string>;
    }> {
      const cluster = await started(1, { options });
      await cluster.ctl("user", "add", "root:secret");
      await cluster.ctl("user", "grant-role", "root", "root");
      await cluster.ctl("role", "add", "snowlease");
      await cluster.ctl("role", "grant-permission", "snowlease", "--prefix=true", "readwrite", "snowlease/");
      await cluster.ctl("user", "add", "ada:s3cret");
      await cluster.ctl("user", "grant-role", "ada", "snowlease");
      await cluster.ctl("user", "add", "eve:s3cret");
      await cluster.ctl("auth", "enable");
      return {
        cluster,
        url: (login) => cluster.url().replace("//", `//${login}`),
        asRoot: (...args) => cluster.ctl("--user=root:secret", ...args),
      };
    }

    test("a user with the rights that the docs name can do everything, others are told what they lack", async () => {
      const { cluster, url } = await guarded();
      const registry = await opened(url("ada:s3cret@"));
      await registry.init({ namespace, layout: claimRequest().layout, new: true });
      const request = claimRequest({ window: 60_000 });
      const key = keyOf(request, await granted(registry, request));
      await registry.renew({ ...key, clock: Date.now(), window: 60_000 });
      await registry.pin(namespace, 7, "kept");
      await registry.unpin(namespace, 7);
      await registry.rehearse?.(namespace);
      await registry.release({ ...key, clock: Date.now() });
      expect(await registry.history(namespace, key.workerId)).toHaveLength(1);
      await registry.prune?.(namespace, Date.now() + 100_000);
      for (const [login, code, advice] of [
        ["", "UNAUTHORIZED", "USER:PASSWORD@"],
        ["ada:wrong@", "UNAUTHORIZED", "correct the login"],
        ["nobody:s3cret@", "UNAUTHORIZED", "correct the login"],
        ["eve:s3cret@", "FORBIDDEN", "read and write all keys under the prefix"],
      ] as const) {
        const error = await failure((await opened(url(login))).claim(claimRequest()));
        expect(error).toMatchObject({ code });
        expect(error.message).toContain(advice);
        expect(error.message).not.toMatch(/s3cret|wrong/);
      }
      const elsewhere = await opened(`${url("ada:s3cret@")}/services`);
      expect(await failure(elsewhere.describe(namespace))).toMatchObject({ code: "FORBIDDEN" });
      expect(await cluster.ctl("--user=root:secret", "get", "--prefix", "--keys-only", "services")).toBe("");
    });

    test("a login that expires, users that change and a member that forgot its logins: asked anew", async () => {
      const { cluster, url, asRoot } = await guarded(["--auth-token-ttl=1"]);
      const registry = await opened(url("ada:s3cret@"));
      const request = claimRequest({ window: 60_000 });
      const key = keyOf(request, await granted(registry, request));
      const renew = (): Promise<unknown> => registry.renew({ ...key, clock: Date.now(), window: 60_000 });
      await sleep(3000);
      expect(await renew()).toMatchObject({ outcome: "renewed" });
      await asRoot("user", "add", "another:s3cret");
      expect(await renew()).toMatchObject({ outcome: "renewed" });
      await cluster.first.process.kill();
      await cluster.first.start();
      expect(await renew()).toMatchObject({ outcome: "renewed" });
      await asRoot("user", "revoke-role", "ada", "snowlease");
      expect(await failure(renew())).toMatchObject({ code: "FORBIDDEN" });
      await asRoot("user", "grant-role", "ada", "snowlease");
      expect(await renew()).toMatchObject({ outcome: "renewed" });
    });
  });
});
