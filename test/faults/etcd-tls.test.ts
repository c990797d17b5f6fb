import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { Registry } from "../../src/rule/registry.ts";
import { type Certificates, makeCertificates } from "../support/certificates.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { Etcd, etcdMissing, openEtcd } from "../support/etcd.ts";
import { failure } from "../support/failures.ts";

describe.skipIf(etcdMissing !== undefined)(etcdMissing ?? "TLS to etcd", { timeout: 60_000 }, () => {
  const folder = mkdtempSync(join(tmpdir(), "snowlease-tls-"));
  let certificates: Certificates;
  let server: Etcd;
  let plain: Etcd;

  beforeAll(async () => {
    certificates = makeCertificates(folder);
    [server, plain] = await Promise.all([Etcd.start(1, { certificates }), Etcd.start()]);
  });
  afterAll(async () => {
    await Promise.all([server, plain].map((each) => each.remove()));
    rmSync(folder, { recursive: true, force: true });
  });

  async function opened(url: string, timeout = 1500): Promise<Registry> {
    const registry = await openEtcd(url, timeout);
    onTestFinished(() => registry.close());
    return registry;
  }
  const ca = (): string => `?tlsCa=${certificates.authority}`;

  test("with an authority that is trusted, all works as without TLS", async () => {
    const registry = await opened(server.url(ca()), 10_000);
    const request = claimRequest({ window: 60_000 });
    const key = keyOf(request, await granted(registry, request));
    expect(await registry.renew({ ...key, clock: Date.now(), window: 60_000 })).toMatchObject({ outcome: "renewed" });
    expect(await registry.release({ ...key, clock: Date.now() })).toEqual({ outcome: "released" });
  });

  test("without TLS to a port that wants it: refused in time", async () => {
    const ports = server.members.map(({ port }) => port);
    const { code } = await failure((await opened(plain.url("", ports))).ping());
    expect(code).toBe("REGISTRY_UNAVAILABLE");
  });

  test("a file without TLS is refused at once", async () => {
    expect(await failure(openEtcd(plain.url(ca())))).toMatchObject({ code: "CONFIG_INVALID" });
  });
});
