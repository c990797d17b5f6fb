import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import type { ClaimRequest, Grant, Registry } from "../../src/rule/registry.ts";
import { ApiProxy } from "../support/api-proxy.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { Kubernetes, kubernetesMissing, openKubernetes } from "../support/kubernetes.ts";
import { patience } from "../support/patience.ts";
import { expectFoundOut } from "../support/put-back.ts";

const namespace = "orders";
const record = `snowlease-${namespace}-worker-0`;
/** No window ends while a test runs. */
const window = 3_600_000;

describe.skipIf(kubernetesMissing !== undefined)(kubernetesMissing ?? "a cluster", { timeout: patience }, () => {
  let server: Kubernetes;

  beforeAll(async () => {
    server = await Kubernetes.start();
  }, patience);
  afterAll(() => server.remove());

  async function putBack(snapshot: string): Promise<void> {
    await server.process.kill();
    await server.etcd.restore(snapshot);
    await server.start();
  }

  test("whose etcd is restored from a snapshot is found out, and no ID comes twice", async () => {
    let snapshot = "";
    await expectFoundOut({
      url: server.url(),
      isAway: true,
      async copy() {
        snapshot = await server.etcd.snapshot();
      },
      putBack: () => putBack(snapshot),
    });
  });

  test("whose versions come again takes no write that was decided before: a renewal changes nothing of the claim that stands there", async () => {
    const proxy = await ApiProxy.start(server);
    const direct = await openKubernetes(server.url(), patience);
    const late = await openKubernetes(server.url(proxy.port), patience);
    const stopped = await openKubernetes(server.url(proxy.port), patience);
    onTestFinished(async () => {
      await Promise.all([direct, late, stopped].map((registry) => registry.close()));
      await proxy.stop();
    });
    await direct.init({ namespace, layout: defaultLayout.fingerprint, maxWindow: window, new: true });
    const claimed = async (registry: Registry, host: string): Promise<{ request: ClaimRequest; grant: Grant }> => {
      const holder = { host, ip: "192.0.2.1", pid: 1, instance: "" };
      const request = claimRequest({ namespace, holder, pool: { first: 0, last: 0 }, window });
      return { request, grant: await granted(registry, request) };
    };
    const first = await claimed(direct, "before");
    const used = { until: first.grant.from + 1 };
    await direct.release({ ...keyOf(first.request, first.grant), clock: Date.now(), used });
    const snapshot = await server.etcd.snapshot();
    // So far that a server which starts does not get there by itself, however long it takes.
    await server.etcd.raise(1000);
    const holder = await claimed(late, "alpha");
    const version = Number(server.object(record).metadata.resourceVersion);
    const kept = proxy.hold(`PATCH ${record}`);
    const renew = ({ request, grant }: typeof holder, registry: Registry) =>
      registry
        .renew({ ...keyOf(request, grant), window, clock: Date.now(), receipt: grant.receipt })
        .then(({ outcome }) => outcome)
        .catch((error: { readonly code?: string }) => String(error.code));
    const answer = renew(holder, late);
    await kept.arrived;
    // The server writes by itself, too, now and then: the claim's write waits until it is its turn.
    let next: typeof holder;
    do {
      await putBack(snapshot);
      const write = proxy.hold(`PATCH ${record}`);
      const claim = claimed(stopped, "beta");
      await Promise.race([write.arrived, claim]);
      const left = version - 1 - (await server.etcd.revision());
      expect(left).toBeGreaterThanOrEqual(0);
      await server.etcd.raise(left);
      write.go();
      next = await claim;
    } while (Number(server.object(record).metadata.resourceVersion) !== version);
    const stored = await direct.worker(namespace, 0);

    kept.go();
    expect(await answer).toMatch(/^(lost|QUARANTINE)$/);
    expect(await direct.worker(namespace, 0)).toEqual(stored);
    expect(await renew(next, direct)).toMatch(/^(renewed|QUARANTINE)$/);
  });

  test("keeps what others wrote on an object", async () => {
    const registry = await openKubernetes(server.url(), patience);
    onTestFinished(() => registry.close());
    await registry.init({ namespace: "kept", layout: defaultLayout.fingerprint, new: true });
    const request = claimRequest({ namespace: "kept", pool: { first: 0, last: 0 } });
    const grant = await granted(registry, request);
    const object = server.object("snowlease-kept-worker-0");
    object.metadata.annotations["note"] = "mine";
    object.metadata.finalizers = ["example.org/keep"];
    server.putBack(object);
    const key = keyOf(request, grant);
    expect(await registry.renew({ ...key, window: 60_000, clock: Date.now() })).toMatchObject({ outcome: "renewed" });
    const { metadata } = server.object("snowlease-kept-worker-0");
    expect(metadata.finalizers).toEqual(["example.org/keep"]);
    expect(metadata.annotations["note"]).toBe("mine");
  });
});
