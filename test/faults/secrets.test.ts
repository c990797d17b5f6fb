import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { snowlease } from "../../src/snowlease.ts";
import { makeCertificates } from "../support/certificates.ts";
import { Sandbox, until } from "../support/cli.ts";
import { Etcd, etcdMissing } from "../support/etcd.ts";
import { Kubernetes, kubernetesMissing } from "../support/kubernetes.ts";
import { mariadbMissing, MariadbServer } from "../support/mariadb.ts";
import { postgresMissing, PostgresServer } from "../support/postgres.ts";
import { redisMissing, RedisServer } from "../support/redis.ts";
import { Secrets } from "../support/secrets.ts";
import { RawClient, request } from "../support/resp.ts";
import { freePort } from "../support/servers.ts";
import { ZooKeeper, zooKeeperMissing } from "../support/zookeeper.ts";

/** Right and wrong; what of them has to be encoded is. */
const password = "rotkohl/p4ss@word";
const wrong = "blaukraut:p4ss?word";

/** A server that lets nobody in without the password. */
interface Guarded {
  url(password: string, query?: string): string;
  /** Where no server is; default: the URL with another port. */
  nobody?(port: number): string;
  remove(): Promise<void>;
}

interface Store {
  readonly name: string;
  readonly missing: string | undefined;
  readonly source: string;
  start(): Promise<Guarded>;
}

const at =
  (scheme: string, port: number, path = "") =>
  (password: string, query = "") =>
    `${scheme}://user:${encodeURIComponent(password)}@127.0.0.1:${port}${path}${query}`;

const stores: readonly Store[] = [
  {
    name: "Redis",
    missing: redisMissing,
    source: "westid-redis",
    async start() {
      const server = await RedisServer.start();
      await server.client().call("ACL", "SETUSER", "user", "on", `>${password}`, "~*", "&*", "+@all");
      await server.client().call("ACL", "SETUSER", "default", "off");
      return { url: at("redis", server.port), remove: () => server.remove() };
    },
  },
  {
    name: "PostgreSQL",
    missing: postgresMissing,
    source: "westid-sql",
    async start() {
      const server = await PostgresServer.start();
      await server.query(`CREATE ROLE "user" SUPERUSER LOGIN PASSWORD '${password}'`);
      const lines = ["host all user 127.0.0.1/32 scram-sha-256", "host all all 127.0.0.1/32 trust"];
      writeFileSync(join(server.data, "pg_hba.conf"), `${lines.join("\n")}\n`);
      await server.query("SELECT pg_reload_conf()");
      return { url: at("postgres", server.port, "/postgres"), remove: () => server.remove() };
    },
  },
  {
    name: "MariaDB",
    missing: mariadbMissing,
    source: "cosid-sql",
    async start() {
      const server = await MariadbServer.start();
      await server.query(`CREATE USER 'user'@'%' IDENTIFIED BY '${password}'`);
      await server.query("GRANT ALL ON *.* TO 'user'@'%'");
      return { url: at("mysql", server.port, "/snowlease"), remove: () => server.remove() };
    },
  },
  {
    name: "etcd",
    missing: etcdMissing,
    source: "leaf",
    async start() {
      const cluster = await Etcd.start();
      await cluster.ctl("user", "add", `root:${password}`);
      await cluster.ctl("user", "add", `user:${password}`);
      for (const user of ["root", "user"]) await cluster.ctl("user", "grant-role", user, "root");
      await cluster.ctl("auth", "enable");
      return { url: at("etcd", cluster.first.port), remove: () => cluster.remove() };
    },
  },
  {
    name: "Kubernetes",
    missing: kubernetesMissing,
    source: "leaf",
    async start() {
      const server = await Kubernetes.start();
      server.rotate(password);
      const url = (token: string, query = ""): string => server.url(server.port, { token }) + query;
      return { url, nobody: (port) => server.url(port, { token: password }), remove: () => server.remove() };
    },
  },
  {
    name: "ZooKeeper",
    missing: zooKeeperMissing,
    source: "leaf",
    async start() {
      const ensemble = await ZooKeeper.start();
      const [server] = ensemble.servers;
      return { url: at("zookeeper", server?.port ?? 0), remove: () => ensemble.remove() };
    },
  },
];

let sandbox: Sandbox;
let secrets: Secrets;
beforeEach(() => {
  sandbox = new Sandbox();
  secrets = new Secrets([password, wrong]);
});

/** Runs command lines, and listens. */
async function listen(env: Record<string, string>, ...lines: (readonly string[])[]): Promise<number[]> {
  const codes: number[] = [];
  for (const args of lines) {
    const { code, stdout, stderr } = await sandbox.run(args, { env, input: "" });
    secrets.note(args.join(" ").replaceAll(/\S*:\/\/\S*/g, "URL"), stdout + stderr);
    codes.push(code);
  }
  return codes;
}

describe.each(stores)("a password of $name", ({ missing, source, start }) => {
  describe.skipIf(missing !== undefined)(missing ?? "on a server of its own", () => {
    let server: Guarded;
    beforeAll(async () => {
      server = await start();
    });
    afterAll(() => server.remove());

    test("is told by no command, whatever becomes of it", async () => {
      const right = ["--registry", server.url(password)];
      const codes = await listen(
        {},
        ["init", "--new", ...right],
        ["init", "--json", "--new", ...right],
        ["init", "--print", ...right],
        ["id", "--window", "1s", ...right],
        ["workers", "--json", ...right],
        ["doctor", ...right],
        ["doctor", "--json", ...right],
        ["assign", "--once", ...right],
        ["exec", ...right, "--", "sh", "-c", "env; tr '\\0' ' ' < /proc/$PPID/cmdline"],
      );
      expect(codes).toEqual([0, 0, 0, 0, 0, 0, 0, 0, 0]);
      const free = await freePort();
      const nobody = server.nobody?.(free) ?? server.url(password).replace(/:\d+(?=\/|$)/, `:${free}`);
      for (const registry of [server.url(wrong), nobody]) {
        const to = ["--registry", registry, "--operation-timeout", "1s"];
        const codes = await Promise.all([
          listen({}, ["workers", ...to], ["id", ...to]),
          listen({}, ["doctor", "--json", ...to]),
        ]);
        expect(codes.flat()).not.toContain(0);
        secrets.noteError("snowlease()", await failure(registry));
      }
      // It waits for a registry to come, or ends.
      const daemon = sandbox.start(["daemon", "--registry", server.url(wrong), "--listen", "127.0.0.1:0", "--json"]);
      secrets.note("daemon", await daemon.line().catch(() => ""));
      await daemon.kill();
      secrets.note("daemon", daemon.stderr);
      await listen(
        { SNOWLEASE_REGISTRY: server.url(wrong), SNOWLEASE_OPERATION_TIMEOUT: "1s" },
        ["workers"],
        ["migrate", "plan", "--from", source, server.url(password)],
        ["migrate", "plan", "--from", source, server.url(wrong)],
        ["migrate", "plan", "--from", "uid-generator", server.url(password, "?x=rotkohl/p4ss@word")],
      );
      secrets.expectKept();
    }, 120_000);
  });
});

/** What a program gets that cannot have a generator. */
async function failure(registry: string): Promise<unknown> {
  try {
    const ids = await snowlease({ registry, operationTimeout: 1000 });
    await ids.close();
    return undefined;
  } catch (error) {
    return error;
  }
}

test("a URL in the wrong place is not repeated with its password", async () => {
  const url = `redis://user:${encodeURIComponent(password)}@127.0.0.1:1/0?sentinelPassword=${encodeURIComponent(wrong)}`;
  const codes = await listen(
    {},
    [url],
    ["--registry", url, "workers"],
    ["workers", url],
    ["workers", `--regsitry=${url}`],
    ["workers", `--${url}`],
    ["workers", `--json=${url}`],
    ["workers", "--state", url],
    ["workers", "--namespace", url],
    ["workers", "--registry", url, "--registry", url],
    ["id", "-n", url],
    ["id", "--layout", url],
    ["id", "--pool", url],
    ["id", "--window", url],
    ["explain", url],
    ["audit", url],
    ["audit", "--limit", url],
    ["pin", url, "--reason", "x"],
    ["daemon", "--listen", url],
    ["daemon", "--socket", url, "--registry", url],
    ["daemon", "--tokens", url],
    ["migrate", url],
    ["migrate", "apply", url],
    ["migrate", "plan", "--from", url],
    ["migrate", "plan", "--from", "ip", "--hosts", url],
    ["migrate", "plan", "--from", "leaf", url],
    ["migrate", "plan", "--from", "westid-redis", url, "--out", "/nowhere/x"],
    ["id", "--registry", url.replace("redis", "redis+sentinel").replace("/0", "/main"), "--operation-timeout", "500ms"],
  );
  expect(codes.filter((code) => code === 0)).toEqual([]);
  secrets.expectKept();
});

test("a URL that is none is not repeated with its password", async () => {
  const url = `redis://user:${encodeURIComponent(password)}@127.0.0.1:1/0`;
  const malformed: readonly string[] = [
    `${url}?pasword=${password}`,
    `${url}?x=${password}&x=${wrong}`,
    `${url}?${password}`,
    `${url}#${wrong}`,
    url.replace("127.0.0.1", "127.0.0.1 "),
    url.replace("127.0.0.1", `${password}@127.0.0.1`),
    url.replace("user:", `${password}:`),
    url.replace(":1/", ":x/"),
    url.replace("://", ":/"),
    url.replace("://", "x://"),
    url.replace("redis", "sqlite"),
    url.replace("redis", "http"),
    url.replace("redis", "http").replace("127.0.0.1:1", "no host"),
    `${url}%`,
    ` ${url}`,
    `"${url}"`,
  ];
  for (const registry of malformed) {
    secrets.noteError(registry.slice(0, 12), await failure(registry));
  }
  expect(await listen({}, ["workers", "--registry", ` ${url}`], ["init", "--registry", `"${url}"`])).toEqual([2, 2]);
  secrets.expectKept();
});

test("a config file, an assigner and an environment that are wrong keep what stands in them", async () => {
  const url = `postgres://user:${encodeURIComponent(password)}@127.0.0.1:1/x`;
  const files: readonly string[] = [
    `{"registry": "${url}", "token": "${wrong}"}`,
    `{"registry": "${url}" "token": "${wrong}"}`,
    `{"registry": ["${url}"]}`,
    `{"registry": {"url": "${url}"}}`,
    `{"${url}": 1}`,
    `"${url}"`,
    `["${url}"]`,
    `{"token": ["${wrong}"], "registry": "http://127.0.0.1:1"}`,
    `{"token": "${wrong}\\n", "registry": "http://127.0.0.1:1"}`,
  ];
  for (const text of files) {
    writeFileSync(join(sandbox.work, "snowlease.json"), text);
    expect(await listen({ SNOWLEASE_OPERATION_TIMEOUT: "500ms" }, ["workers"], ["doctor", "--json"])).not.toContain(0);
  }
  writeFileSync(join(sandbox.work, "snowlease.json"), "{}");
  writeFileSync(
    join(sandbox.work, "assigner.mjs"),
    `throw Object.assign(new Error("cannot reach ${url}"), { url: "${url}" });`,
  );
  const SNOWLEASE_REGISTRY = url;
  const assigned = await listen(
    { SNOWLEASE_REGISTRY, SNOWLEASE_OPERATION_TIMEOUT: "500ms", SNOWLEASE_ASSIGNER: "./assigner.mjs" },
    ["id"],
    ["assign", "--json"],
  );
  expect(assigned).toEqual([2, 2]);
  await listen({ SNOWLEASE_REGISTRY: url, SNOWLEASE_ASSIGNER: url }, ["id"]);
  await listen({ SNOWLEASE_NAMESPACE: url }, ["id"]);
  await listen({ SNOWLEASE_WORKER_ID: url }, ["id"]);
  await listen({ SNOWLEASE_TOKEN: `${wrong}\n`, SNOWLEASE_REGISTRY: "http://127.0.0.1:1" }, ["id"]);
  await listen({ SNOWLEASE_LAYOUT: url }, ["id"], ["inspect", "1"]);
  secrets.expectKept();
});

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "a daemon on a guarded Redis", () => {
  test("tells nobody a password, a token or whose lease is whose", async () => {
    const server = await RedisServer.start(undefined, password);
    const far = `redis://:${encodeURIComponent(password)}@127.0.0.1:${server.port}`;
    try {
      const [admin, worker] = ["rotkohl-4dmin", "rotkohl-w0rker"];
      for (const token of [admin, worker]) secrets.add(token);
      const tokens = sandbox.tokens(`${admin} admin`, `${worker} worker`);
      const { certificate } = makeCertificates(sandbox.work);
      expect(await listen({}, ["init", "--new", "--registry", far])).toEqual([0]);
      const serving = ["daemon", "--registry", far, "--listen", "127.0.0.1:0", "--resp", "127.0.0.1:0"];
      const daemon = sandbox.start([...serving, "--tokens", tokens, "--json"]);
      const first = await daemon.line();
      secrets.note("daemon", first);
      const { url, resp } = JSON.parse(first) as { url: string; resp: string };
      const ask = async (method: string, path: string, token: string, body?: object): Promise<string> => {
        const headers = { authorization: `Bearer ${token}`, ...(body && { "content-type": "application/json" }) };
        const response = await fetch(url + path, { method, headers, ...(body && { body: JSON.stringify(body) }) });
        return `${response.status} ${JSON.stringify([...response.headers])} ${await response.text()}`;
      };
      const hear = async (...request: Parameters<typeof ask>): Promise<string> => {
        const answer = await ask(...request);
        secrets.note(`${request[0]} ${request[1]}`, answer);
        return answer;
      };
      const reading = new AbortController();
      const events = await fetch(`${url}/v1/default/events`, {
        headers: { authorization: `Bearer ${admin}` },
        signal: reading.signal,
      });
      let streamed = "";
      const streaming = (async () => {
        for await (const chunk of events.body ?? []) streamed += new TextDecoder().decode(chunk);
      })().catch(() => undefined);

      const claimed = JSON.parse(
        (await ask("POST", "/v1/default/leases", worker, { now: Date.now() })).replace(/^.*?\] /, ""),
      ) as {
        token: string;
        workerId: number;
      };
      secrets.add(claimed.token);
      const path = `/v1/default/leases/${claimed.workerId}`;
      const now = Date.now();
      // Somebody else's token is not told to him who sends it wrongly, and neither is his own.
      const other = `${claimed.token.slice(0, 31)}${claimed.token.endsWith("0") ? "1" : "0"}`;
      secrets.add(other);
      await hear("PATCH", path, worker, { token: other, now });
      await hear("PATCH", path, worker, { token: `${claimed.token} `, now });
      await hear("PATCH", path, worker, { token: [claimed.token], now });
      await hear("PATCH", path, worker, { token: claimed.token, now: now - 3_600_000 });
      await hear("PATCH", path, worker, { token: claimed.token, now, lastTimestamp: 1 });
      expect(await hear("PATCH", path, worker, { token: claimed.token, now })).toMatch(/^200 /);
      await hear("DELETE", `/v1/default/leases/999`, worker, { token: claimed.token });
      for (const path of [
        "/",
        "/metrics",
        "/openapi.json",
        "/readyz",
        "/healthz",
        "/v1/default/workers",
        "/v1/default/workers/0",
        "/v1/default/workers/0/history",
        "/?namespace=default&worker=0",
        `/v1/default/leases?token=${wrong}`,
        `/nothing?token=${encodeURIComponent(password)}`,
      ]) {
        for (const token of [admin, worker, wrong.replace(":", "")]) await hear("GET", path, token);
      }
      secrets.add(wrong.replace(":", ""));
      const client = await RawClient.open(resp);
      const words = [
        ["AUTH", wrong],
        ["AUTH", worker, wrong],
        ["HELLO", "3", "AUTH", worker, wrong],
        ["AUTH", wrong, worker],
        ["GET", "default"],
        ["CLIENT", "INFO"],
        ["HELLO", worker],
        ["INFO"],
      ];
      for (const [i, asked] of words.entries()) {
        client.send(request(...asked) + request("ECHO", `${i} heard`));
        await client.until(() => client.received.includes(`${i} heard`));
      }
      secrets.note("the Redis protocol", client.received);
      client.socket.destroy();
      const env = { SNOWLEASE_TOKEN: admin, SNOWLEASE_REGISTRY: url };
      await listen(
        env,
        ["workers"],
        ["workers", "--json"],
        ["doctor", "--json"],
        ["id"],
        ["release", "0"],
        ["explain", "1"],
      );
      await listen(
        { ...env, SNOWLEASE_TOKEN: worker },
        ["workers"],
        ["release", "0"],
        ["exec", "--", "sh", "-c", "env | grep -v ^SNOWLEASE_TOKEN="],
      );
      const holder = sandbox.start(["assign", "--registry", url.replace("//", `//:${worker}@`)]);
      secrets.note("assign", await holder.line());
      const told = [daemon.pid, holder.pid].map((pid) => secrets.noteProcess(pid));
      expect(told.map((text) => /^snowlease (\w+)/.exec(text)?.[1])).toEqual(["daemon", "assign"]);

      await until(() => streamed.includes("event: "));
      await server.process.kill();
      await hear("GET", "/readyz", admin);
      await hear("PATCH", path, worker, { token: claimed.token, now: Date.now() });
      await listen({ ...env, SNOWLEASE_OPERATION_TIMEOUT: "500ms" }, ["workers"], ["id"]);
      await server.start(["--requirepass", wrong]);
      await hear("GET", "/readyz", admin);
      await hear("GET", "/v1/default/workers", admin);
      await listen({}, [...serving, "--tls-cert", certificate, "--tls-key", tokens]);
      writeFileSync(tokens, `${admin} admin\n`);
      daemon.signal("SIGHUP");
      await until(() => daemon.stderr.includes("not-reloaded"));
      holder.signal("SIGTERM");
      secrets.note("assign", (await holder.ended).stderr);
      reading.abort();
      await streaming;
      secrets.note("events", streamed);
      daemon.signal("SIGTERM");
      const { stdout, stderr } = await daemon.ended;
      secrets.note("the daemon's log", stdout + stderr);
      expect(stderr).toContain('"event":"claimed"');
      secrets.expectKept();
    } finally {
      await server.remove();
    }
  }, 120_000);
});
