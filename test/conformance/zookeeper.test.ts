import { setTimeout as sleep } from "node:timers/promises";
import { lacksOf } from "../../src/proof/lacks.ts";
import { runConformance } from "../support/run-conformance.ts";
import { onServerOf } from "../support/store-server.ts";
import { newNamespace } from "../support/subject.ts";
import { openZooKeeper, ZooKeeper, zooKeeperMissing } from "../support/zookeeper.ts";

onServerOf("zookeeper", { missing: zooKeeperMissing, start: () => ZooKeeper.start() }, {}, (server) => {
  runConformance("zookeeper", async () => ({
    namespace: newNamespace(),
    open: () => openZooKeeper(server().url()),
    pause: sleep,
    now: Date.now,
    lacks: lacksOf("zookeeper"),
  }));
});
