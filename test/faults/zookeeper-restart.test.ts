import { defaultLayout } from "../../src/id/layout.ts";
import { restartMatrix } from "../support/restart-matrix.ts";
import { onServerOf } from "../support/store-server.ts";
import { newNamespace, subjectIn } from "../support/subject.ts";
import { openZooKeeper, ZooKeeper, zooKeeperMissing } from "../support/zookeeper.ts";

onServerOf("zookeeper", { missing: zooKeeperMissing, start: () => ZooKeeper.start() }, { restarts: true }, (server) => {
  restartMatrix("zookeeper", async () => {
    const namespace = newNamespace();
    const registry = await openZooKeeper(server().url());
    await registry.init({ namespace, layout: defaultLayout.fingerprint });
    return subjectIn(namespace, server(), registry);
  });
});
