import { describe, onTestFinished, test } from "vitest";
import { Kubernetes, kubernetesMissing } from "../support/kubernetes.ts";
import { expectFoundOut } from "../support/put-back.ts";

describe.skipIf(kubernetesMissing !== undefined)(kubernetesMissing ?? "a cluster", { timeout: 300_000 }, () => {
  test("whose etcd is restored from a snapshot is detected, and no ID comes twice", async () => {
    const server = await Kubernetes.start();
    onTestFinished(() => server.remove());
    let snapshot = "";
    await expectFoundOut({
      url: server.url(),
      isAway: true,
      async copy() {
        snapshot = await server.etcd.snapshot();
      },
      async putBack() {
        await server.process.kill();
        await server.etcd.restore(snapshot);
        await server.start();
      },
    });
  });
});
