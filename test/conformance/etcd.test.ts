import { setTimeout as sleep } from "node:timers/promises";
import { describe } from "vitest";
import { type Etcd, etcdProgram, openEtcd } from "../support/etcd.ts";
import { lateStore, lossyStore } from "../support/late-store.ts";
import { patience } from "../support/patience.ts";
import { runConformance } from "../support/run-conformance.ts";
import { findServer, shareServer } from "../support/store-server.ts";

/** How a cluster is reached whose writes and answers are kept. */
const reached = (cluster: Etcd) => ({
  url: cluster.url(),
  mark: /request_(?:put|delete_range)/,
  open: (url: string) => openEtcd(url, patience),
});

/** The checks run one after the other: the whole cluster is put back. */
const copyOf = (cluster: Etcd) => async () => {
  const snapshot = await cluster.snapshot();
  return () => cluster.restore(snapshot);
};

const source = await findServer("etcd", etcdProgram);

describe.skipIf(source.isMissing)(source.title, () => {
  const server = shareServer(source, openEtcd);

  runConformance("etcd", async () => {
    const { own } = server;
    return {
      namespace: server.newNamespace(),
      open: () => openEtcd(server.url(), patience),
      pause: sleep,
      now: Date.now,
      ...(own && {
        late: () => lateStore({ ...reached(own), copy: copyOf(own) }),
        lossy: () => lossyStore(reached(own)),
      }),
    };
  });
});
