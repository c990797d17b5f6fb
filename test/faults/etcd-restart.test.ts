import { describe } from "vitest";
import { Etcd, etcdMissing, openEtcd } from "../support/etcd.ts";
import { restartMatrix } from "../support/restart-matrix.ts";
import { subjectOn } from "../support/subject.ts";

describe.skipIf(etcdMissing !== undefined)(etcdMissing ?? "on a real server", () => {
  restartMatrix("etcd", async () => {
    const server = await Etcd.start();
    const registry = await openEtcd(server.url());
    return subjectOn(server, registry);
  });
});
