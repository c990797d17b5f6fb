import { setTimeout as sleep } from "node:timers/promises";
import { describe } from "vitest";
import { lossyStore } from "../support/late-store.ts";
import { patience } from "../support/patience.ts";
import { runConformance } from "../support/run-conformance.ts";
import { findServer, shareServer } from "../support/store-server.ts";
import { openZooKeeper, zooKeeperProgram } from "../support/zookeeper.ts";

/** What writes a record, or deletes one. */
const mark = /"knownFrom":|\0\0\0\x02\0\xff{4}/;

const source = await findServer("zookeeper", zooKeeperProgram);

describe.skipIf(source.isMissing)(source.title, () => {
  const server = shareServer(source, openZooKeeper);

  runConformance("zookeeper", async () => {
    const url = server.url("?sessionTimeout=60s");
    return {
      namespace: server.newNamespace(),
      open: () => openZooKeeper(url, patience),
      pause: sleep,
      now: Date.now,
      ...(server.own && { lossy: () => lossyStore({ url, mark, open: (other) => openZooKeeper(other, patience) }) }),
    };
  });
});
