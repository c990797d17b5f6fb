import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe } from "vitest";
import type { LateStore } from "../../src/conformance.ts";
import { Etcd, etcdMissing, openEtcd } from "../support/etcd.ts";
import { lateStore } from "../support/late-store.ts";
import { patience } from "../support/patience.ts";
import { runConformance } from "../support/run-conformance.ts";

const given = process.env["ETCD_URL"];

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

describe.skipIf(given === undefined && etcdMissing !== undefined)(etcdMissing ?? "on a real server", () => {
  let server: Etcd | undefined;
  beforeAll(async () => {
    if (given === undefined) server = await Etcd.start();
  });
  afterAll(() => server?.remove());

  runConformance("etcd", async () => {
    const at = server;
    return {
      // A server that somebody else owns may know every name that was used before.
      namespace: `t${crypto.randomUUID().replaceAll("-", "").slice(0, 20)}`,
      open: () => openEtcd(given ?? server?.url() ?? "", patience),
      pause: sleep,
      now: Date.now,
      ...(at && { late: () => lateEtcd(at) }),
    };
  });
});
