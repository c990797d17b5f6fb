import { cpSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { layouts } from "../../src/id/layout.ts";
import { Beaten } from "../../src/registries/engine/operate.ts";
import { Etcd, etcdMissing, openEtcd } from "../support/etcd.ts";
import { etcdParts } from "../support/etcd-records.ts";
import { expectFoundOut, expectRemembered } from "../support/put-back.ts";

describe.skipIf(etcdMissing !== undefined)(etcdMissing ?? "on a real server", { timeout: 120_000 }, () => {
  async function started(size?: number): Promise<Etcd> {
    const cluster = await Etcd.start(size);
    onTestFinished(() => cluster.remove());
    return cluster;
  }

  test("an older data directory that is put back is found out by the next renewal", async () => {
    const cluster = await started();
    const { first } = cluster;
    const kept = join(first.process.folder, "kept");

    async function whileDown(work: () => void): Promise<void> {
      await first.process.kill();
      work();
      await first.start();
    }

    await expectFoundOut({
      url: cluster.url(),
      isAway: true,
      copy: () => whileDown(() => cpSync(first.data, kept, { recursive: true })),
      putBack: () =>
        whileDown(() => {
          rmSync(first.data, { recursive: true });
          cpSync(kept, first.data, { recursive: true });
        }),
    });
  });

  test("`etcdctl snapshot restore` on a cluster of three is found out by the next renewal", async () => {
    const cluster = await started(3);
    let snapshot = "";
    await expectFoundOut({
      url: cluster.url(),
      isAway: true,
      copy: async () => {
        snapshot = await cluster.snapshot();
      },
      putBack: () => cluster.restore(snapshot),
    });
  });

  test("keys that `etcdctl del --prefix` deletes are missed by the next renewal, and every claim waits", async () => {
    const cluster = await started();
    await expectRemembered({
      url: cluster.url(),
      empty: async () => {
        await cluster.ctl("del", "--prefix", "snowlease/");
      },
    });
  });

  test("an era is noted only where the namespace still does not exist", async () => {
    const cluster = await started();
    const parts = etcdParts(cluster.url());
    const registry = await openEtcd(cluster.url());
    onTestFinished(async () => {
      parts.close();
      await registry.close();
    });
    const era = { era: "1-a", quarantineEnd: 1, opensAt: 1 };

    /** Notes an era; `made` comes between its read and its write. */
    async function note(namespace: string, made: () => Promise<unknown>): Promise<unknown> {
      const attempt = parts.attempt(namespace);
      const { standing } = await attempt.read([]);
      await made();
      const noted = { ...era, era: standing.noted === undefined ? "1-a" : "2-b" };
      return attempt.commit({ standing, becomes: { noted }, records: [] }).catch((error: unknown) => error);
    }
    const nothing = async (): Promise<void> => undefined;
    for (const isNoted of [false, true]) {
      const namespace = isNoted ? "noted" : "new";
      const init = () => registry.init({ namespace, layout: layouts.westid.fingerprint });
      if (isNoted) expect(await note(namespace, nothing)).toBeUndefined();
      expect(await note(namespace, init)).toBeInstanceOf(Beaten);
      const info = await registry.describe(namespace);
      expect(info?.era).toEqual(isNoted ? "1-a" : expect.not.stringMatching(/^[12]-/));
      if (isNoted) expect(info?.quarantineEnd).toBe(1);
    }
    expect(await note("other", () => note("other", nothing))).toBeInstanceOf(Beaten);
    expect(await note("other", nothing)).toBeUndefined();
    expect(await registry.describe("other")).toBeUndefined();
    expect(await registry.init({ namespace: "other", layout: layouts.westid.fingerprint })).toMatchObject({
      era: "2-b",
    });
    expect((await cluster.keys()).filter((key) => key.endsWith("/era"))).toEqual([]);
  });
});
