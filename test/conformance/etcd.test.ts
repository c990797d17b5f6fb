import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe } from "vitest";
import { Etcd, etcdMissing, openEtcd } from "../support/etcd.ts";
import { patience } from "../support/patience.ts";
import { runConformance } from "../support/run-conformance.ts";

const given = process.env["ETCD_URL"];

describe.skipIf(given === undefined && etcdMissing !== undefined)(etcdMissing ?? "on a real server", () => {
  let server: Etcd | undefined;
  beforeAll(async () => {
    if (given === undefined) server = await Etcd.start();
  });
  afterAll(() => server?.remove());

  runConformance("etcd", async () => ({
    // A server that somebody else owns may know every name that was used before.
    namespace: `t${crypto.randomUUID().replaceAll("-", "").slice(0, 20)}`,
    open: () => openEtcd(given ?? server?.url() ?? "", patience),
    pause: sleep,
    now: Date.now,
  }));
});
