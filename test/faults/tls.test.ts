import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { openRegistry, parseAddress } from "../../src/registries/index.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { type Certificates, makeCertificates, tlsOptions } from "../support/certificates.ts";
import { claimRequest, granted } from "../support/claims.ts";
import { Etcd, etcdMissing } from "../support/etcd.ts";
import { failure } from "../support/failures.ts";
import { mariadbMissing, MariadbServer } from "../support/mariadb.ts";
import { postgresMissing, PostgresServer } from "../support/postgres.ts";
import { redisMissing, RedisServer } from "../support/redis.ts";
import { freePort } from "../support/servers.ts";
import { ZooKeeper, zooKeeperMissing } from "../support/zookeeper.ts";

/** A server that wants the certificate of each client that comes by TLS. */
interface StrictServer {
  /** Where it has TLS, and where it has none; `host`: as which it is asked. */
  tls(host: string, query: string): string;
  readonly toPlain: string;
  remove(): Promise<void>;
}

const folder = mkdtempSync(join(tmpdir(), "snowlease-tls-"));
let ours: Certificates;
let others: Certificates;

beforeAll(() => {
  mkdirSync(join(folder, "others"));
  ours = makeCertificates(folder);
  others = makeCertificates(join(folder, "others"));
  // PostgreSQL runs as a user of its own, and reads a key of root's where a group may.
  chmodSync(folder, 0o755);
  chmodSync(ours.key, 0o640);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const stores: readonly {
  readonly name: string;
  readonly missing: string | undefined;
  /** The code of the refusal of a client without a certificate. */
  readonly withoutOwn: string;
  start(): Promise<StrictServer>;
}[] = [
  {
    name: "redis",
    missing: redisMissing,
    withoutOwn: "REGISTRY_UNAVAILABLE",
    async start() {
      const port = await freePort();
      const server = await RedisServer.start([...tlsOptions(ours, port), "--tls-auth-clients", "yes"]);
      return {
        tls: (host, query) => `rediss://${host}:${port}?${query}`,
        toPlain: server.url("?tls=true"),
        remove: () => server.remove(),
      };
    },
  },
  {
    name: "postgres",
    missing: postgresMissing,
    withoutOwn: "UNAUTHORIZED",
    async start() {
      const rules = join(folder, "pg_hba.conf");
      writeFileSync(rules, "hostssl all all all trust clientcert=verify-ca\nhostnossl all all all trust\n");
      if (process.getuid?.() === 0) execFileSync("chgrp", ["postgres", ours.key]);
      const { authority, certificate, key } = ours;
      const files = { ssl_cert_file: certificate, ssl_key_file: key, ssl_ca_file: authority };
      const server = await PostgresServer.start({ ssl: "on", ...files, hba_file: rules });
      const plain = await PostgresServer.start();
      return {
        tls: (host, query) => server.url(`?tls=true&${query}`).replace("127.0.0.1", host),
        toPlain: plain.url("?tls=true"),
        remove: async () => void (await Promise.all([server.remove(), plain.remove()])),
      };
    },
  },
  {
    name: "mysql",
    missing: mariadbMissing,
    withoutOwn: "UNAUTHORIZED",
    async start() {
      const { authority, certificate, key } = ours;
      const files = [`--ssl-ca=${authority}`, `--ssl-cert=${certificate}`, `--ssl-key=${key}`];
      const [server, plain] = await Promise.all([MariadbServer.start(files), MariadbServer.start(["--skip-ssl"])]);
      await server.query("CREATE USER strict REQUIRE X509");
      await server.query("GRANT ALL ON *.* TO strict");
      return {
        tls: (host, query) => server.url(`?tls=true&${query}`).replace("root@127.0.0.1", `strict@${host}`),
        toPlain: plain.url("?tls=true"),
        remove: async () => void (await Promise.all([server.remove(), plain.remove()])),
      };
    },
  },
  {
    name: "etcd",
    missing: etcdMissing,
    withoutOwn: "REGISTRY_UNAVAILABLE",
    async start() {
      const options = ["--client-cert-auth", `--trusted-ca-file=${ours.authority}`];
      const [server, plain] = await Promise.all([Etcd.start(1, { certificates: ours, options }), Etcd.start()]);
      const [port] = plain.members.map((member) => member.port);
      return {
        tls: (host, query) => server.url(`?${query}`).replace("127.0.0.1", host),
        toPlain: `etcds://127.0.0.1:${port}`,
        remove: async () => void (await Promise.all([server.remove(), plain.remove()])),
      };
    },
  },
  {
    name: "zookeeper",
    missing: zooKeeperMissing,
    withoutOwn: "REGISTRY_UNAVAILABLE",
    async start() {
      const port = await freePort();
      // What the server wants: both in one file.
      const both = join(folder, "both.pem");
      writeFileSync(both, readFileSync(ours.key, "utf8") + readFileSync(ours.certificate, "utf8"));
      const settings = [
        `secureClientPort=${port}`,
        "secureClientPortAddress=127.0.0.1",
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.clientAuth=need",
        `ssl.keyStore.location=${both}`,
        `ssl.trustStore.location=${ours.authority}`,
      ];
      const server = await ZooKeeper.start(1, false, { settings });
      return {
        tls: (host, query) => `zookeeper://${host}:${port}?tls=true&${query}`,
        toPlain: `zookeeper://127.0.0.1:${server.servers[0]?.port}?tls=true`,
        remove: () => server.remove(),
      };
    },
  },
];

/** Each is longer than a test: what is tried again for so long is never told. */
const operationTimeout = 600_000;
const lasting = { lasting: true };

describe.each(stores)("TLS to $name", ({ name, missing, start, withoutOwn }) => {
  describe.skipIf(missing !== undefined)(missing ?? "that wants the client's certificate, too", () => {
    let server: StrictServer;
    let own: string;

    beforeAll(async () => {
      server = await start();
      own = `tlsCert=${ours.certificate}&tlsKey=${ours.key}`;
    });
    afterAll(() => server.remove());

    async function opened(url: string): Promise<Registry> {
      const registry = await openRegistry(parseAddress(url), { operationTimeout });
      onTestFinished(() => registry.close());
      return registry;
    }

    const refused = async (url: string) => failure((await opened(url)).ping());

    test("with an authority that is trusted and a certificate of it, all works", async () => {
      const registry = await opened(server.tls("127.0.0.1", `tlsCa=${ours.authority}&${own}`));
      await registry.init({ namespace: "orders", layout: defaultLayout.fingerprint, new: true });
      const request = claimRequest({ window: 60_000 });
      const { workerId } = await granted(registry, request);
      expect(await registry.worker("orders", workerId)).toMatchObject({ state: "live" });
    });

    test.each(["no authority", "another one"])("%s to trust: told at once, with what to name", async (which) => {
      const query = which === "no authority" ? own : `tlsCa=${others.authority}&${own}`;
      const { code, message, details } = await refused(server.tls("127.0.0.1", query));
      expect([code, details]).toEqual(["REGISTRY_UNAVAILABLE", expect.objectContaining(lasting)]);
      expect(message).toMatch(
        / shows a certificate that this program does not trust \(.+\), nothing was changed; name the authority that signed it with `tlsCa`\.$/,
      );
    });

    test("the certificate of another name", async () => {
      const { message, details } = await refused(server.tls("[::ffff:127.0.0.1]", `tlsCa=${ours.authority}&${own}`));
      expect(details).toMatchObject(lasting);
      expect(message).toContain(" shows a certificate of another name (");
    });

    test("no certificate of the client's own", async () => {
      const { code, message } = await refused(server.tls("127.0.0.1", `tlsCa=${ours.authority}`));
      expect(code).toBe(withoutOwn);
      expect(message).toMatch(/certificate|refused the login/);
    });

    test("a port without TLS", async () => {
      if (["redis", "etcd", "zookeeper"].includes(name)) {
        // They wait for the end of what they take for a request, or hang up without a word.
        const registry = await openRegistry(parseAddress(server.toPlain), { operationTimeout: 1000 });
        onTestFinished(() => registry.close());
        expect((await failure(registry.ping())).message).toContain("and whether that port has TLS.");
        return;
      }
      const { code, message, details } = await refused(server.toPlain);
      expect([code, details]).toEqual(["REGISTRY_UNAVAILABLE", expect.objectContaining(lasting)]);
      expect(message).toContain(" speaks no TLS (");
    });

    test.each([
      [
        "a file that is not there",
        () => `tlsCa=${join(folder, "none.pem")}`,
        /`tlsCa` to name a file that can be read/,
      ],
      ["half of a pair", () => `tlsCert=${ours.certificate}`, /`tlsCert` and `tlsKey` to be given together/],
      ["a key of another one", () => `tlsCert=${ours.certificate}&tlsKey=${others.key}`, /belong together/],
    ])("%s is refused before anything is asked", async (_, query, message) => {
      const error = await failure(opened(server.tls("127.0.0.1", query())));
      expect([error.code, error.message]).toEqual(["CONFIG_INVALID", expect.stringMatching(message)]);
    });
  });
});
