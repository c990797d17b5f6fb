import { execFileSync } from "node:child_process";
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Registry } from "../../src/rule/registry.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { failure } from "../support/failures.ts";
import { freePort } from "../support/servers.ts";
import { liveIn, readTree } from "../support/zookeeper-tree.ts";
import { openZooKeeper, ZooKeeper, zooKeeperMissing } from "../support/zookeeper.ts";

describe.skipIf(zooKeeperMissing !== undefined)(zooKeeperMissing ?? "TLS to ZooKeeper", () => {
  const folder = mkdtempSync(join(tmpdir(), "snowlease-tls-"));
  const file = (name: string): string => join(folder, name);
  let server: ZooKeeper | undefined;
  let secure: number;
  const open: Registry[] = [];

  /** A certificate that vouches for itself. */
  function certificate(name: string, names: string): void {
    const subject = ["-subj", "/CN=localhost", "-addext", `subjectAltName=${names}`];
    const key = ["-newkey", "rsa:2048", "-nodes", "-keyout", file(`${name}.key`)];
    execFileSync("openssl", ["req", "-x509", ...key, "-days", "2", ...subject, "-out", file(`${name}.pem`)], {
      stdio: "ignore",
    });
  }

  beforeAll(async () => {
    certificate("server", "DNS:localhost,IP:127.0.0.1");
    // What the server wants: both in one file.
    appendFileSync(file("both.pem"), readFileSync(file("server.key")));
    appendFileSync(file("both.pem"), readFileSync(file("server.pem")));
    secure = await freePort();
    const settings = [
      `secureClientPort=${secure}`,
      "secureClientPortAddress=127.0.0.1",
      "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
      "ssl.clientAuth=none",
      `ssl.keyStore.location=${file("both.pem")}`,
      `ssl.trustStore.location=${file("server.pem")}`,
    ];
    server = await ZooKeeper.start(1, false, { settings });
  });
  afterEach(async () => {
    for (const registry of open.splice(0)) await registry.close();
  });
  afterAll(async () => {
    await server?.remove();
    rmSync(folder, { recursive: true, force: true });
  });

  async function opened(where: string, query: string, timeout = 10_000): Promise<Registry> {
    const registry = await openZooKeeper(`zookeeper://${where}?${query}`, timeout);
    open.push(registry);
    return registry;
  }

  test.each(["localhost", "127.0.0.1"])(
    "with a certificate that is trusted, to %s: all works as without",
    async (host) => {
      const namespace = host === "localhost" ? "named" : "numbered";
      const registry = await opened(`${host}:${secure}`, `tls=true&tlsCa=${file("server.pem")}`);
      const request = claimRequest({ namespace, window: 60_000 });
      const key = keyOf(request, await granted(registry, request));
      expect(await registry.renew({ ...key, clock: Date.now(), window: 60_000 })).toMatchObject({ outcome: "renewed" });
      const live = async (): Promise<number[]> =>
        liveIn(await readTree(server?.servers[0]?.port ?? 0, `/snowlease/${namespace}/state`));
      expect(await live()).toEqual([0]);
      // 256 KiB of answers, in pieces as TLS makes them.
      await Promise.all(Array.from({ length: 200 }, (_, i) => registry.pin(namespace, 100 + i, "x".repeat(200))));
      expect(await registry.workers(namespace)).toHaveLength(201);
      await registry.close();
      expect(await live()).toEqual([]);
    },
  );

  test("without it to a port that wants it: refused in time", async () => {
    const { code } = await failure((await opened(`localhost:${secure}`, "tls=false", 1000)).ping());
    expect(code).toBe("REGISTRY_UNAVAILABLE");
  });

  test("a file without TLS", async () => {
    for (const query of [`tlsCa=${file("server.pem")}`, "tls=yes"]) {
      const error = await failure(openZooKeeper(`zookeeper://localhost:${secure}?${query}`));
      expect(error.code).toBe("CONFIG_INVALID");
    }
  });
});
