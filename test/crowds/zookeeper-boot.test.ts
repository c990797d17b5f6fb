import { describe } from "vitest";
import { bootStorm } from "../support/boot-storm.ts";
import { openZooKeeper, ZooKeeper, zooKeeperMissing } from "../support/zookeeper.ts";
import { subjectOn } from "../support/subject.ts";

describe.skipIf(zooKeeperMissing !== undefined)(zooKeeperMissing ?? "on a real server", () => {
  bootStorm("zookeeper", "node-zookeeper-client", async () => {
    const server = await ZooKeeper.start();
    const registry = await openZooKeeper(server.url(), 60_000);
    return subjectOn(server, registry);
  });
});
