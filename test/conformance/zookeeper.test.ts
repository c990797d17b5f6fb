import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe } from "vitest";
import { zookeeper } from "../../src/registries/zookeeper/address.ts";
import { patience } from "../support/patience.ts";
import { runConformance } from "../support/run-conformance.ts";
import { openZooKeeper, ZooKeeper, zooKeeperMissing } from "../support/zookeeper.ts";

const given = process.env["ZOOKEEPER_URL"];

describe.skipIf(given === undefined && zooKeeperMissing !== undefined)(zooKeeperMissing ?? "on a real server", () => {
  let server: ZooKeeper | undefined;
  beforeAll(async () => {
    if (given === undefined) server = await ZooKeeper.start();
  });
  afterAll(() => server?.remove());

  runConformance("zookeeper", async () => ({
    // A server that somebody else owns may know every name that was used before.
    namespace: `t${crypto.randomUUID().replaceAll("-", "").slice(0, 20)}`,
    open: () => openZooKeeper(given ?? server?.url("?sessionTimeout=60s") ?? "", patience),
    pause: sleep,
    now: Date.now,
    lacks: zookeeper.lacks,
  }));
});
