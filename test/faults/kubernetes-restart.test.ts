import { describe } from "vitest";
import { Kubernetes, kubernetesMissing, openKubernetes } from "../support/kubernetes.ts";
import { restartMatrix } from "../support/restart-matrix.ts";
import { subjectOn } from "../support/subject.ts";

describe.skipIf(kubernetesMissing !== undefined)(kubernetesMissing ?? "on a real server", () => {
  restartMatrix("kubernetes", async () => {
    const server = await Kubernetes.start();
    const registry = await openKubernetes(server.url());
    return subjectOn(server, registry);
  });
});
