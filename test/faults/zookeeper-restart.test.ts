import { describe } from "vitest";
import { restartMatrix } from "../support/restart-matrix.ts";
import { openZooKeeper, ZooKeeper, zooKeeperMissing } from "../support/zookeeper.ts";
import { subjectOn } from "../support/subject.ts";

describe.skipIf(zooKeeperMissing !== undefined)(zooKeeperMissing ?? "on a real server", () => {
  restartMatrix("zookeeper", async () => {
    const server = await ZooKeeper.start();
    const registry = await openZooKeeper(server.url());
    return subjectOn(server, registry);
  });
});
