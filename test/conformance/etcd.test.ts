import { setTimeout as sleep } from "node:timers/promises";
import { describe } from "vitest";
import type { LateStore } from "../../src/conformance.ts";
import { type Etcd, etcdProgram, openEtcd } from "../support/etcd.ts";
import { lateStore } from "../support/late-store.ts";
import { patience } from "../support/patience.ts";
import { runConformance } from "../support/run-conformance.ts";
import { findServer, shareServer } from "../support/store-server.ts";

/** The checks run one after the other: the whole cluster is put back. */
const lateEtcd = (cluster: Etcd): Promise<LateStore> =>
  lateStore({
    port: cluster.first.port,
    mark: "request_put",
    open: (port) => openEtcd(cluster.url("", [port]), patience),
    async copy() {
      const snapshot = await cluster.snapshot();
      return () => cluster.restore(snapshot);
    },
  });

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
      ...(own && { late: () => lateEtcd(own) }),
    };
  });
});
