import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
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
  let others: Certificates;
  let server: Etcd;
  let strict: Etcd;
  let plain: Etcd;

  beforeAll(async () => {
    mkdirSync(join(folder, "others"));
    certificates = makeCertificates(folder);
    others = makeCertificates(join(folder, "others"));
    const asks = ["--client-cert-auth", `--trusted-ca-file=${certificates.authority}`];
    [server, strict, plain] = await Promise.all([
      Etcd.start(1, { certificates }),
      Etcd.start(1, { certificates, options: asks }),
      Etcd.start(),
    ]);
  });
  afterAll(async () => {
    await Promise.all([server, strict, plain].map((each) => each.remove()));
    rmSync(folder, { recursive: true, force: true });
  });

  async function opened(url: string, timeout = 1500): Promise<Registry> {
    const registry = await openEtcd(url, timeout);
    onTestFinished(() => registry.close());
    return registry;
  }
  const ca = (): string => `?tlsCa=${certificates.authority}`;

  test("with a trusted authority, everything works as without TLS", async () => {
    const registry = await opened(server.url(ca()), 10_000);
    const request = claimRequest({ window: 60_000 });
    const key = keyOf(request, await granted(registry, request));
    expect(await registry.renew({ ...key, clock: Date.now(), window: 60_000 })).toMatchObject({ outcome: "renewed" });
    expect(await registry.release({ ...key, clock: Date.now() })).toEqual({ outcome: "released" });
  });

  test("a member that requires a client's certificate gets one, and refuses a client without", async () => {
    const { certificate, key } = certificates;
    const own = `${ca()}&tlsCert=${certificate}&tlsKey=${key}`;
    await granted(await opened(strict.url(own), 10_000), claimRequest());
    expect(await failure((await opened(strict.url(ca()))).ping())).toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
  });

  test("with another authority, and with none, the client refuses to talk", async () => {
    for (const rest of ["", `?tlsCa=${others.authority}`]) {
      const error = await failure((await opened(server.url(rest))).ping());
      expect(error.code).toBe("REGISTRY_UNAVAILABLE");
      expect(error.message).toMatch(/certificate|issuer/);
    }
  });

  test("TLS to a port without it, and plain text to a port with TLS: refused in time", async () => {
    const ports = (each: Etcd): number[] => each.members.map(({ port }) => port);
    for (const url of [server.url(ca(), ports(plain)), plain.url("", ports(server))]) {
      expect(await failure((await opened(url)).ping())).toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
    }
  });

  test("missing files, half of a pair, and a file without TLS are refused at once", async () => {
    for (const url of [
      server.url(`?tlsCa=${join(folder, "none.pem")}`),
      server.url(`${ca()}&tlsCert=${certificates.certificate}`),
      server.url(`${ca()}&tlsCert=${certificates.certificate}&tlsKey=${others.key}`),
      plain.url(ca()),
    ]) {
      expect(await failure(openEtcd(url))).toMatchObject({ code: "CONFIG_INVALID" });
    }
  });
});
