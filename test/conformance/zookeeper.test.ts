import { setTimeout as sleep } from "node:timers/promises";
import { describe } from "vitest";
import { zookeeper } from "../../src/registries/zookeeper/address.ts";
import { patience } from "../support/patience.ts";
import { runConformance } from "../support/run-conformance.ts";
import { findServer, shareServer } from "../support/store-server.ts";
import { openZooKeeper, zooKeeperProgram } from "../support/zookeeper.ts";

const source = await findServer("zookeeper", zooKeeperProgram);

describe.skipIf(source.isMissing)(source.title, () => {
  const server = shareServer(source, openZooKeeper);

  runConformance("zookeeper", async () => ({
    namespace: server.newNamespace(),
    open: () => openZooKeeper(server.url("?sessionTimeout=60s"), patience),
    pause: sleep,
    now: Date.now,
    lacks: zookeeper.lacks,
  }));
});
