import { cpSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, onTestFinished, test } from "vitest";
import { expectFoundOut, expectRemembered } from "../support/put-back.ts";
import { deleteAll } from "../support/zookeeper-tree.ts";
import { ZooKeeper, zooKeeperMissing } from "../support/zookeeper.ts";

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
      copy: () => whileDown(() => cpSync(server.data, kept, { recursive: true })),
      putBack: () =>
        whileDown(() => {
          rmSync(server.data, { recursive: true });
          cpSync(kept, server.data, { recursive: true });
        }),
    });
  });

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
});
