import { defaultLayout } from "../../src/id/layout.ts";
import { Etcd, etcdMissing, openEtcd } from "../support/etcd.ts";
import { restartMatrix } from "../support/restart-matrix.ts";
import { onServerOf } from "../support/store-server.ts";
import { newNamespace, subjectIn } from "../support/subject.ts";

onServerOf("etcd", { missing: etcdMissing, start: () => Etcd.start() }, { restarts: true }, (server) => {
  restartMatrix("etcd", async () => {
    const namespace = newNamespace();
    const registry = await openEtcd(server().url());
    await registry.init({ namespace, layout: defaultLayout.fingerprint });
    return subjectIn(namespace, server(), registry);
  });
});
