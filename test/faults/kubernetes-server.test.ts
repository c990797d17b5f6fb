import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { inspect } from "node:util";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { encryptionOf } from "../../src/registries/encryption.ts";
import { parseAddress } from "../../src/registries/index.ts";
import type { Grant, Registry } from "../../src/rule/registry.ts";
import { ApiProxy } from "../support/api-proxy.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { Kubernetes, kubernetesMissing, openKubernetes } from "../support/kubernetes.ts";

describe.skipIf(kubernetesMissing !== undefined)(kubernetesMissing ?? "an API server", { timeout: 120_000 }, () => {
  let server: Kubernetes;
  beforeAll(async () => {
    server = await Kubernetes.start();
  }, 1_200_000);
  afterAll(() => server.remove());

  async function opened(url = server.url(), operationTimeout = 5000): Promise<Registry> {
    const registry = await openKubernetes(url, operationTimeout);
    onTestFinished(() => registry.close());
    return registry;
  }

  const all = ["get", "list", "create", "patch", "delete"];

  test("shows people who has what", async () => {
    const registry = await opened();
    const holder = { host: "node-1", ip: "10.0.0.1", pid: 7, instance: "orders-x2x9k" };
    const request = claimRequest({ namespace: "shown", workerId: 7, holder });
    const grant = await granted(registry, request);
    expect(server.kubectl("get", "leases")).toMatch(/^snowlease-shown-worker-7 +orders-x2x9k /m);
    const used = { until: grant.from };
    await registry.release({ ...keyOf(request, grant), clock: Date.now(), used, receipt: grant.receipt });
    expect(server.kubectl("get", "leases")).not.toContain("orders-x2x9k");
  });

  test("refuses a token that was replaced: the next one is read, and nothing fails", async () => {
    const registry = await opened();
    await granted(registry, claimRequest({ namespace: "rotated" }));
    server.rotate("second-token");
    await granted(registry, claimRequest({ namespace: "rotated" }));
  });

  test("is logged in to by a program of the kubeconfig, whose answer no error shows", async () => {
    const { folder } = server.process;
    const apiVersion = "client.authentication.k8s.io/v1";
    const [script, file] = [join(folder, "login"), join(folder, "login-token")];
    const answer = { kind: "ExecCredential", apiVersion, status: { token: `$(cat ${file})` } };
    const lines = [
      `test -e ${file} || { echo '{"kind": "ExecCredential"'; echo log in first >&2; exit 3; }`,
      `cat <<END\n${JSON.stringify(answer)}\nEND`,
    ];
    writeFileSync(script, `#!/bin/sh\n${lines.join("\n")}\n`, { mode: 0o755 });
    const exec = { apiVersion, command: script, interactiveMode: "Never" };
    const url = server.url(server.port, { exec });
    writeFileSync(file, server.token);
    const registry = await opened(url);
    await granted(registry, claimRequest({ namespace: "program" }));
    server.rotate("third-token");
    writeFileSync(file, "third-token");
    await granted(registry, claimRequest({ namespace: "program" }));
    rmSync(file);
    const error: unknown = await openKubernetes(url).catch((reason: unknown) => reason);
    expect(error).toMatchObject({
      code: "CONFIG_INVALID",
      message: expect.stringContaining("log in first") as unknown,
    });
    expect(inspect(error, { depth: Infinity, showHidden: true })).not.toContain("ExecCredential");
  });

  test("is reached by a way of which the kubeconfig tells whether a network sees what is sent", async () => {
    const at = async (address: string, more: object = {}): Promise<unknown> => {
      const file = join(server.process.folder, "somewhere.json");
      const cluster = { server: address, ...more };
      const config = {
        "current-context": "c",
        clusters: [{ name: "c", cluster }],
        contexts: [{ name: "c", context: { cluster: "c", user: "c" } }],
        users: [{ name: "c", user: { token: "t" } }],
      };
      writeFileSync(file, JSON.stringify(config));
      return encryptionOf(parseAddress(`kubernetes:?kubeconfig=${encodeURIComponent(file)}`), 5000);
    };
    expect(await encryptionOf(parseAddress(server.url()), 5000)).toEqual({ is: "local" });
    expect(await at("https://10.0.0.1:6443")).toEqual({ is: "encrypted" });
    expect(await at("https://10.0.0.1:6443", { "insecure-skip-tls-verify": true })).toEqual({
      is: "unchecked",
      setting: "`insecure-skip-tls-verify` in the kubeconfig",
    });
    expect(await at("http://10.0.0.1:8001")).toMatchObject({ is: "plain", addresses: ["10.0.0.1:8001"] });
    await expect(at("nowhere")).rejects.toMatchObject({
      code: "CONFIG_INVALID",
      message: expect.stringContaining("it prints no usable `clusters.0.cluster.server`") as string,
    });
  });

  test("serves a pod, by the files of its service account, which are read again", async () => {
    const { url, environment } = server.pod;
    for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
    onTestFinished(() => void vi.unstubAllEnvs());
    const registry = await opened(url);
    await granted(registry, claimRequest({ namespace: "pod" }));
    server.rotate("fourth-token");
    const answer = await registry.claim(claimRequest({ namespace: "pod" }));
    expect(answer).toMatchObject({ outcome: "granted", workerId: 1 });
    // The pod's namespace of Kubernetes is that of its files; it has no rights in another one.
    const other = await opened(url.replace("kubernetes:", "kubernetes://others"));
    await expect(other.claim(claimRequest({ namespace: "pod" }))).rejects.toMatchObject({ code: "FORBIDDEN" });
    await expect(openKubernetes("kubernetes:?serviceAccount=/nowhere")).rejects.toMatchObject({
      code: "CONFIG_INVALID",
      message: expect.stringMatching(/^This pod has no \/nowhere\/token of its service account .*ENOENT/) as unknown,
    });
  });

  test("takes rights away: FORBIDDEN says which are needed", async () => {
    const registry = await opened();
    await granted(registry, claimRequest({ namespace: "rights" }));
    const token = server.token;
    server.allow([{ token, name: "snowlease", namespace: server.place, verbs: ["get", "list"] }]);
    onTestFinished(() => server.allow([{ token, name: "snowlease", namespace: server.place, verbs: all }]));
    const refused = { code: "FORBIDDEN", message: /get, list, create, patch and delete/ };
    await expect(registry.claim(claimRequest({ namespace: "rights" }))).rejects.toMatchObject({
      code: refused.code,
      message: expect.stringMatching(refused.message) as unknown,
    });
    await expect(registry.rehearse?.("rights")).rejects.toMatchObject({ code: "FORBIDDEN" });
  });

  test("checks rights in a rehearsal, which changes nothing", async () => {
    const registry = await opened();
    await granted(registry, claimRequest({ namespace: "rehearsed" }));
    const before = server.kubectl("get", "leases", "--output=name");
    await registry.rehearse?.("rehearsed");
    expect(server.kubectl("get", "leases", "--output=name")).toBe(before);
  });

  test("is killed amid a claim: the claim is granted once it is back, and once only", async () => {
    const proxy = await ApiProxy.start(server);
    onTestFinished(() => proxy.stop());
    const registry = await opened(server.url(proxy.port), 60_000);
    await registry.init({ namespace: "killed", layout: claimRequest().layout });
    const held = proxy.hold("POST", "after");
    const claim = granted(registry, claimRequest({ namespace: "killed" }));
    await held.arrived;
    await server.process.kill();
    held.go();
    await server.start();
    const { workerId } = await claim;
    const records = await registry.workers("killed");
    expect(records.map((record) => record.workerId)).toEqual([workerId]);
  });

  test("is away past the window of a holder, which then renews as before", async () => {
    const registry = await opened(server.url(), 60_000);
    const request = claimRequest({ namespace: "away", window: 1000 });
    const grant = await granted(registry, request);
    await server.process.kill();
    await sleep(1500);
    await server.start();
    const nextTurn = crypto.randomUUID().replaceAll("-", "");
    const more = { clock: Date.now(), window: 1000, nextTurn, receipt: grant.receipt };
    expect(await registry.renew({ ...keyOf(request, grant), ...more })).toMatchObject({ outcome: "renewed" });
  });

  test("that throttles gets each call again, when it says", async () => {
    const busy = await Kubernetes.start(["--max-requests-inflight=2", "--max-mutating-requests-inflight=1"]);
    onTestFinished(() => busy.remove());
    const registry = await opened(busy.url(), 60_000);
    const claims = Array.from({ length: 20 }, (_, i) => {
      const holder = { host: `host-${i}`, ip: "", pid: 1, instance: "" };
      return granted(registry, claimRequest({ namespace: "busy", holder }));
    });
    const ids = (await Promise.all(claims)).map(({ workerId }: Grant) => workerId);
    expect(new Set(ids).size).toBe(20);
  });
});
