import { cpSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { expectFoundOut, expectRemembered } from "../support/put-back.ts";
import { layouts } from "../../src/id/layout.ts";
import { monotonic, systemClock } from "../../src/clock.ts";
import { Beaten } from "../../src/registries/engine/operate.ts";
import type { Attempt, RemoteStore } from "../../src/registries/engine/optimistic.ts";
import type { Standing } from "../../src/registries/engine/port.ts";
import { parseAddress } from "../../src/registries/index.ts";
import type { ServerAddress } from "../../src/registries/url.ts";
import { zooKeeperStore } from "../../src/registries/zookeeper/registry.ts";
import type { Grant } from "../../src/rule/registry.ts";
import type { Stored } from "../../src/rule/window.ts";
import { claimRequest, granted } from "../support/claims.ts";
import { patience } from "../support/patience.ts";
import { deleteAll, nodeVersion } from "../support/zookeeper-tree.ts";
import { openZooKeeper, ZooKeeper, zooKeeperMissing } from "../support/zookeeper.ts";

function openStore(ensemble: ZooKeeper): Promise<RemoteStore> {
  return zooKeeperStore(parseAddress(ensemble.url()) as ServerAddress, { operationTimeout: patience });
}

/** An attempt that goes on behind the one that it is given for: the store needs nothing back. */
function begin(store: RemoteStore, namespace: string): Promise<Attempt> {
  const how = { deadline: monotonic(systemClock) + patience, races: 0, kind: "renew", spread: 1 } as const;
  return store.attempt(namespace, how, async (attempt) => attempt);
}

/** The record of worker 0, and what stands under the name. */
async function read(attempt: Attempt): Promise<{ before: Stored | undefined; standing: Standing }> {
  const { found, standing } = await attempt.read([["byId", 0]]);
  return { before: found[0] as Stored | undefined, standing };
}

describe.skipIf(zooKeeperMissing !== undefined)(zooKeeperMissing ?? "on a real server", () => {
  test("an older data directory that is put back is found out by the next renewal", async () => {
    const ensemble = await ZooKeeper.start();
    onTestFinished(() => ensemble.remove());
    const [server] = ensemble.servers;
    if (server === undefined) throw new Error("there is no server");
    const kept = join(server.process.folder, "kept");

    /** Files of a running server are in no order that another one could read. */
    async function whileDown(work: () => void): Promise<void> {
      await server?.process.kill();
      work();
      await server?.start();
      await ensemble.serving();
    }

    await expectFoundOut({
      url: ensemble.url(),
      isAway: true,
      copy: () => whileDown(() => cpSync(server.data, kept, { recursive: true })),
      putBack: () =>
        whileDown(() => {
          rmSync(server.data, { recursive: true });
          cpSync(kept, server.data, { recursive: true });
        }),
    });
  });

  test(
    "what was read before an older directory is put back is not written behind that: versions come again",
    { timeout: patience },
    async () => {
      const ensemble = await ZooKeeper.start();
      onTestFinished(() => ensemble.remove());
      const [server] = ensemble.servers;
      if (server === undefined) throw new Error("there is no server");
      const kept = join(server.process.folder, "kept");
      const restarted = async (work: () => void): Promise<void> => {
        await server.process.kill();
        work();
        await server.start();
        await ensemble.serving();
      };
      const store = await openStore(ensemble);
      const registry = await openZooKeeper(ensemble.url(), patience);
      onTestFinished(async () => void (await Promise.all([store.close(), registry.close()])));
      await registry.init({ namespace: "orders", layout: layouts.westid.fingerprint, new: true });
      const claimed = (host: string): Promise<Grant> => {
        const holder = { host, ip: "192.0.2.1", pid: 1, instance: "" };
        return granted(registry, claimRequest({ holder, pool: { first: 0, last: 0 } }));
      };
      await restarted(() => cpSync(server.data, kept, { recursive: true }));
      await claimed("alpha");

      const attempt = await begin(store, "orders");
      const { before, standing } = await read(attempt);
      if (before === undefined) throw new Error("there is no record");
      await restarted(() => {
        rmSync(server.data, { recursive: true });
        cpSync(kept, server.data, { recursive: true });
      });
      await claimed("beta");
      // Both are the first write of that node.
      expect(await nodeVersion(server.port, "/snowlease/orders/state/0/0000000000")).toBe(0);
      const after = { ...before, until: before.until + 1 };
      const written = attempt.commit({ standing, records: [{ workerId: 0, before, after }] });
      await expect(written).rejects.toBeInstanceOf(Beaten);
      expect((await registry.worker("orders", 0))?.holder?.host).toBe("beta");
    },
  );

  test("nodes that an operator deletes are missed by the next renewal, and every claim waits", async () => {
    const ensemble = await ZooKeeper.start();
    onTestFinished(() => ensemble.remove());
    const [server] = ensemble.servers;
    if (server === undefined) throw new Error("there is no server");
    await expectRemembered({
      url: ensemble.url(),
      empty: () => deleteAll(server.port, "/snowlease"),
    });
  });

  test("an era is noted only where the namespace still does not exist", async () => {
    const ensemble = await ZooKeeper.start();
    onTestFinished(() => ensemble.remove());
    const store = await openStore(ensemble);
    const registry = await openZooKeeper(ensemble.url());
    onTestFinished(async () => void (await Promise.all([store.close(), registry.close()])));
    const era = { era: "1-a", quarantineEnd: 1, opensAt: 1 };
    await registry.ping();

    /** Notes an era; `made` comes between its read and its write. */
    const note = async (namespace: string, made: () => Promise<unknown>): Promise<unknown> => {
      const attempt = await begin(store, namespace);
      const { standing } = await read(attempt);
      await made();
      const noted = { ...era, era: standing.noted === undefined ? "1-a" : "2-b" };
      return attempt.commit({ standing, becomes: { noted }, records: [] }).catch((error: unknown) => error);
    };
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
  });
});
