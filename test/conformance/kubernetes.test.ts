import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe } from "vitest";
import type { LossyStore } from "../../src/conformance.ts";
import { kubernetes } from "../../src/registries/kubernetes/address.ts";
import { ApiProxy } from "../support/api-proxy.ts";
import { Kubernetes, kubernetesMissing, openKubernetes } from "../support/kubernetes.ts";
import { runConformance } from "../support/run-conformance.ts";

const operationTimeout = 20_000;

/** A client through a proxy, which ends with it. */
async function lossyKubernetes(server: Kubernetes): Promise<LossyStore> {
  const proxy = await ApiProxy.start(server);
  const registry = await openKubernetes(server.url(proxy.port), operationTimeout);
  let held: ReturnType<ApiProxy["hold"]> | undefined;
  return {
    registry: {
      ...registry,
      async close() {
        await registry.close();
        await proxy.stop();
      },
    },
    keepAnswer() {
      held = proxy.hold(/^POST$|^(?:PATCH|DELETE) .*-worker-/, "after");
      return held.arrived;
    },
    lose: () => held?.lose(),
  };
}

const given = process.env["KUBERNETES_URL"];

describe.skipIf(given === undefined && kubernetesMissing !== undefined)(kubernetesMissing ?? "on a real server", () => {
  let server: Kubernetes | undefined;
  // The first one builds the server.
  beforeAll(async () => {
    if (given === undefined) server = await Kubernetes.start();
  }, 1_200_000);
  afterAll(() => server?.remove());

  runConformance("kubernetes", async () => ({
    // A cluster that somebody else owns may know every name that was used before.
    namespace: `t${crypto.randomUUID().replaceAll("-", "").slice(0, 20)}`,
    open: () => openKubernetes(given ?? server?.url() ?? "", operationTimeout),
    pause: sleep,
    now: Date.now,
    ...(server && { lossy: () => lossyKubernetes(server as Kubernetes) }),
    lacks: kubernetes.lacks,
  }));
});
