import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe } from "vitest";
import { kubernetes } from "../../src/registries/kubernetes/address.ts";
import { Kubernetes, kubernetesMissing, openKubernetes } from "../support/kubernetes.ts";
import { runConformance } from "../support/run-conformance.ts";

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
    open: () => openKubernetes(given ?? server?.url() ?? "", 20_000),
    pause: sleep,
    now: Date.now,
    lacks: kubernetes.lacks,
  }));
});
