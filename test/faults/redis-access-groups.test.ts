import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { type Certificates, makeCertificates, tlsOptions } from "../support/certificates.ts";
import { init, limits, namespace, quarantineOf } from "../support/failover.ts";
import { failure } from "../support/failures.ts";
import { eventually, HolderProcess, type HolderState } from "../support/holder.ts";
import { RedisCluster, Sentinels } from "../support/redis-groups.ts";
import { openRedis, redisMissing, RedisServer } from "../support/redis.ts";
import { freePort } from "../support/servers.ts";

const secrets = { admin: "open-sesame", app: "knock-knock", sentinel: "who-is-there", scout: "halt-who-goes" };
const login = `app:${secrets.app}@`;
const page = readFileSync("docs/registries/redis.md", "utf8");
const [rights, clusterRights] = [/An ACL user needs\s`([^`]+)`/, /On a cluster it also needs\s`([^`]+)`/].map(
  (list) => {
    const [, told = ""] = list.exec(page) ?? [];
    return told.split(/\s+/).filter((right) => right.startsWith("+"));
  },
) as [string[], string[]];

describe.skipIf(redisMissing !== undefined)(
  redisMissing ?? "groups of Redis servers that require a login of each client",
  () => {
    let folder: string;
    let certificates: Certificates;

    beforeAll(() => {
      folder = mkdtempSync(join(tmpdir(), "snowlease-redis-"));
      certificates = makeCertificates(folder);
    });
    afterAll(() => rmSync(folder, { recursive: true, force: true }));

    /** The rights of our own user at each of these servers, beside those that the documentation lists. */
    async function allow(servers: readonly RedisServer[], prefix: string, more: readonly string[] = []): Promise<void> {
      const user = ["reset", "on", `>${secrets.app}`, `~${prefix}*`, ...rights, ...more];
      await Promise.all(servers.map((server) => server.client().call("ACL", "SETUSER", "app", ...user)));
    }

    /** A process with or without the authority's certificate. */
    function holder(registry: string, trusts = true): HolderProcess {
      const options = { registry, namespace, window: limits.maxWindow, operationTimeout: 3000 };
      const environment: Record<string, string> = trusts ? { NODE_EXTRA_CA_CERTS: certificates.authority } : {};
      const made = new HolderProcess(options, { environment });
      onTestFinished(() => made.kill());
      return made;
    }

    async function lives(made: HolderProcess): Promise<HolderState> {
      await made.ask("start");
      const { error } = await made.ask("make", { count: 100 });
      expect(error).toBeUndefined();
      return made.ask("renew");
    }

    async function refused(registry: string, trusts = true): Promise<{ code: string; message: string }> {
      const error = await failureOf(holder(registry, trusts).ask("start"));
      for (const secret of Object.values(secrets)) expect(JSON.stringify([error.message, error])).not.toContain(secret);
      expect(error.message.split("\n")).toHaveLength(1);
      return { code: error.code, message: error.message };
    }

    describe("sentinels", () => {
      let servers: readonly [RedisServer, RedisServer];
      let sentinels: Sentinels;
      const password = `sentinelPassword=${secrets.sentinel}`;
      const user = { name: "scout", password: secrets.scout };

      beforeAll(async () => {
        const ports = [await freePort(), await freePort()] as const;
        const start = (port: number): Promise<RedisServer> =>
          RedisServer.start(["--repl-diskless-sync-delay", "0", ...tlsOptions(certificates, port)], secrets.admin);
        servers = [await start(ports[0]), await start(ports[1])];
        await servers[1].follow(ports[0]);
        sentinels = await Sentinels.watch(servers[0], { certificates, password: secrets.sentinel, user }, ports[0]);
        await allow(servers, "workerId");
        const registry = await openRedis(`redis://${login}127.0.0.1:${servers[0].port}`);
        await init(registry);
        await registry.close();
      });
      afterAll(() => Promise.all([...servers, sentinels].map((each) => each.remove())));

      test("a user's password, another one for the sentinels, TLS to all of them: to the primary, and to the next one", async () => {
        const made = holder(sentinels.url(`?tls=true&maxLag=0&${password}`, login));
        await lives(made);
        const connected = String(await servers[0].client().call("CLIENT", "LIST"));
        expect(connected).toMatch(/ user=app /);
        await servers[0].kill();
        const quarantine = await eventually(
          () => quarantineOf(servers[1]),
          (end) => end > 0,
        );
        const back = await eventually(
          () => made.ask("state"),
          ({ until }) => until > quarantine,
        );
        expect(back.state).toBe("held");
        expect((await made.ask("make", { count: 100 })).error).toBeUndefined();
        await made.ask("close");
        expect(new Set(made.ids()).size).toBe(200);
        await servers[0].start();
      });

      test("a separate user of the sentinels that may ask for the primary", async () => {
        const scout = `&sentinelUser=scout&sentinelPassword=${secrets.scout}`;
        const made = holder(sentinels.url(`?tls=true&maxLag=0${scout}`, login));
        await lives(made);
        await made.ask("close");
        const other = `&sentinelUser=other&sentinelPassword=${secrets.scout}`;
        expect(await refused(sentinels.url(`?tls=true${other}`, login))).toMatchObject({ code: "UNAUTHORIZED" });
      });

      test("an unknown authority, or no TLS at all: refused", async () => {
        const code = "REGISTRY_UNAVAILABLE";
        expect(await refused(sentinels.url(`?tls=true&${password}`, login), false)).toMatchObject({ code });
        expect(await refused(sentinels.url(`?${password}`, login))).toMatchObject({ code });
      });

      test("a wrong or missing password of the user: UNAUTHORIZED", async () => {
        for (const wrong of [`app:${secrets.sentinel}@`, ""]) {
          expect(await refused(sentinels.url(`?tls=true&${password}`, wrong))).toMatchObject({ code: "UNAUTHORIZED" });
        }
      });

      test("a wrong or missing password of the sentinels: UNAUTHORIZED", async () => {
        for (const wrong of [`&sentinelPassword=${secrets.app}`, ""]) {
          expect(await refused(sentinels.url(`?tls=true${wrong}`, login))).toMatchObject({ code: "UNAUTHORIZED" });
        }
      });
    });

    describe("a cluster", () => {
      let cluster: RedisCluster;

      beforeAll(async () => {
        cluster = await RedisCluster.start({ certificates, password: secrets.admin });
        await allow(cluster.nodes, "{workerId", clusterRights);
        const registry = await openRedis(cluster.url("", login));
        await init(registry);
        await registry.close();
      });
      afterAll(() => cluster.remove());

      test("a user's password, and TLS to all nodes", async () => {
        const made = holder(cluster.tlsUrl("", login));
        await lives(made);
        const { owner } = await cluster.ownerOf(`{workerId/${namespace}}`);
        const connected = String(await owner.client().call("CLIENT", "LIST"));
        expect(connected).toMatch(/ user=app /);
        await made.ask("close");
        expect(new Set(made.ids()).size).toBe(100);
      });

      test("an unknown authority: refused", async () => {
        expect(await refused(cluster.tlsUrl("", login), false)).toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
      });

      test("a wrong or missing password of the user: UNAUTHORIZED", async () => {
        for (const wrong of [`app:${secrets.sentinel}@`, ""]) {
          expect(await refused(cluster.tlsUrl("", wrong))).toMatchObject({ code: "UNAUTHORIZED" });
        }
      });

      test("without the right to ask for the slots of nodes: FORBIDDEN", async () => {
        await allow(cluster.nodes, "{workerId");
        onTestFinished(() => allow(cluster.nodes, "{workerId", clusterRights));
        expect(await refused(cluster.tlsUrl("", login))).toMatchObject({ code: "FORBIDDEN" });
      });

      test("keys of another namespace: FORBIDDEN", async () => {
        await allow(cluster.nodes, "{workerId/invoices}", clusterRights);
        onTestFinished(() => allow(cluster.nodes, "{workerId", clusterRights));
        const registry = await openRedis(cluster.url("", login));
        onTestFinished(() => registry.close());
        expect(await failure(registry.describe(namespace))).toMatchObject({ code: "FORBIDDEN" });
      });
    });
  },
);

async function failureOf(promise: Promise<unknown>): Promise<{ code: string; message: string }> {
  try {
    await promise;
  } catch (error) {
    return error as { code: string; message: string };
  }
  throw new Error("It did not fail.");
}
