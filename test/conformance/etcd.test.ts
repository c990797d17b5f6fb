import { setTimeout as sleep } from "node:timers/promises";
import { Etcd, etcdMissing, openEtcd } from "../support/etcd.ts";
import { runConformance } from "../support/run-conformance.ts";
import { onServerOf } from "../support/store-server.ts";
import { newNamespace } from "../support/subject.ts";

onServerOf("etcd", { missing: etcdMissing, start: () => Etcd.start() }, {}, (server) => {
  runConformance("etcd", async () => ({
    namespace: newNamespace(),
    open: () => openEtcd(server().url()),
    pause: sleep,
    now: Date.now,
  }));
});
