import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { connect as connectSecurely } from "node:tls";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { type Daemon, type DaemonOptions, startDaemon } from "../../src/daemon.ts";
import { Layout, layouts } from "../../src/id/layout.ts";
import type { IdMaker } from "../../src/ops/ids.ts";
import { RespConnection, type ServerContext } from "../../src/resp/connection.ts";
import { Metrics } from "../../src/http/monitoring/metrics.ts";
import type { TlsFiles } from "../../src/serving/certificates.ts";
import { AnswerMemory } from "../../src/serving/answer-memory.ts";
import { Connections } from "../../src/serving/connections.ts";
import { openRegistry, parseAddress } from "../../src/registries/index.ts";
import { memoryRegistry } from "../../src/testing.ts";
import { makeCertificates } from "../support/certificates.ts";
import { idsIn, RawClient, request } from "../support/resp.ts";

let folder: string;
const open: Daemon[] = [];
const clients: RawClient[] = [];
const log = { info() {}, warn() {}, error() {} };

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "snowlease-resp-"));
});

afterEach(async () => {
  for (const client of clients.splice(0)) client.socket.destroy();
  for (const daemon of open.splice(0)) await daemon.close("now");
  rmSync(folder, { recursive: true });
});

async function start(options: Partial<DaemonOptions> = {}): Promise<Daemon> {
  const nowhere = { host: "127.0.0.1", port: 0 };
  const daemon = await startDaemon({ registry: memoryRegistry(), listen: nowhere, resp: nowhere, log, ...options });
  open.push(daemon);
  return daemon;
}

async function connected({ resp = "" }: Daemon): Promise<RawClient> {
  const client = await RawClient.open(resp);
  clients.push(client);
  return client;
}

function tokenFile(...lines: string[]): string {
  const path = join(folder, "tokens");
  const hashed = lines.map((line) => line.replace(/^\S+/, (token) => createHash("sha256").update(token).digest("hex")));
  writeFileSync(path, hashed.map((line) => `${line}\n`).join(""), { mode: 0o600 });
  return path;
}

describe("IDs", () => {
  test("of all commands and connections, and of HTTP beside them, are all different", async () => {
    const daemon = await start();
    const all: bigint[] = [];
    const each = async (): Promise<void> => {
      const client = await connected(daemon);
      const asked = [
        ...Array.from({ length: 300 }, () => request("GET", "orders")),
        request("PING"),
        request("MGET", ...Array.from({ length: 200 }, () => "orders")),
        ...Array.from({ length: 300 }, () => request("get", "orders")),
        request("SNOWLEASE.IDS", "orders", 5000),
        ...Array.from({ length: 200 }, () => request("GET", "orders")),
      ].join("");
      // Cut anywhere: most requests come in two parts.
      for (let at = 0; at < asked.length; at += 997) client.send(asked.slice(at, at + 997));
      await client.until(() => idsIn(client.received).length >= 6000);
      expect(client.received).not.toMatch(/^-/m);
      all.push(...idsIn(client.received));
    };
    const http = async (): Promise<void> => {
      for (let i = 0; i < 20; i++) {
        const headers = { "content-type": "application/json" };
        const body = JSON.stringify({ count: 100 });
        const answer = await fetch(`${daemon.url}/v1/orders/ids`, { method: "POST", headers, body });
        all.push(...((await answer.json()) as { ids: string[] }).ids.map(BigInt));
      }
    };
    await Promise.all([...Array.from({ length: 8 }, each), http()]);
    expect(all).toHaveLength(8 * 6000 + 2000);
    expect(new Set(all).size).toBe(all.length);
  });

  test("are answered in the order of the requests, each to its own", async () => {
    const client = await connected(await start());
    const asked = Array.from(
      { length: 500 },
      (_, i) => request("ECHO", `n${i}`) + request("GET", i % 3 === 0 ? "bills" : "orders"),
    );
    client.send(asked.join(""));
    const lines = await client.lines(500 * 4);
    expect(lines).toHaveLength(500 * 4);
    for (let i = 0; i < 500; i++) {
      expect(lines[4 * i + 1]).toBe(`n${i}`);
      expect(lines[4 * i + 3]).toMatch(/^\d{18,19}$/);
    }
  });

  test("of ticks that are used up during a read go to their own requests, once each", async () => {
    const layout = Layout.parse("timestamp:41,worker:10,sequence:2@1490346283706/1");
    const daemon = await start({ layout });
    const each = async (name: string): Promise<bigint[]> => {
      const client = await connected(daemon);
      const part = (i: number): string => request("GET", "orders").repeat(60) + request("ECHO", `${name}${i}`);
      client.send(Array.from({ length: 10 }, (_, i) => part(i)).join(""));
      const lines = await client.lines(10 * 122);
      expect(lines).toHaveLength(10 * 122);
      for (let i = 0; i < 10; i++) expect(lines[i * 122 + 121]).toBe(`${name}${i}`);
      return idsIn(client.received);
    };
    const all = (await Promise.all(["a", "b", "c"].map(each))).flat();
    expect(all).toHaveLength(1800);
    expect(new Set(all).size).toBe(1800);
  });

  test("of an invalid namespace are refused by our code, in one line", async () => {
    const client = await connected(await start());
    expect(await client.ask(["GET", "A\r\n+OK"])).toMatch(
      /^-CONFIG_INVALID Expected the key, a namespace, to match .*\r\n$/,
    );
    expect(await client.ask(["MGET", "orders", "A"])).toMatch(/^-CONFIG_INVALID /);
    expect(await client.ask(["SNOWLEASE.IDS", "orders", "100001"])).toMatch(/^-CONFIG_INVALID Expected a count/);
    expect(await client.ask(["SNOWLEASE.IDS", "orders", "0"])).toMatch(/^-CONFIG_INVALID /);
    expect(await client.ask(["SNOWLEASE.IDS", "orders", "2"], 5)).toMatch(/^\*2\r\n\$\d+\r\n\d+\r\n\$\d+\r\n\d+\r\n$/);
  });

  test("as integers are only those that every client reads exactly, unless the daemon allows more", async () => {
    const client = await connected(await start());
    expect(await client.ask(["INCR", "orders"])).toMatch(/^-ERR An ID .* has 63 bits: .* use GET, or start.*\r\n$/);
    expect(await client.ask(["INCRBY", "orders", "2"])).toMatch(/^-ERR unknown command/);
    const told = await connected(await start({ respIntegers: true }));
    expect(await told.ask(["INCR", "orders"])).toMatch(/^:\d{18,19}\r\n$/);
    expect(await told.ask(["INCR", "orders"])).toMatch(/^:\d{18,19}\r\n$/);
    const small = await connected(await start({ layout: layouts.safe53 }));
    expect(await small.ask(["INCR", "orders"])).toMatch(/^:\d+\r\n$/);
  });

  test("of a full pool are refused with the time to wait", async () => {
    const registry = memoryRegistry();
    const pool = { first: 7, last: 7 };
    const [one, other] = [
      await start({ registry, pool }),
      await start({ registry: { ...registry, close: async () => undefined }, pool }),
    ];
    expect(await (await connected(one)).ask(["GET", "orders"], 2)).toMatch(/^\$/);
    expect(await (await connected(other)).ask(["GET", "orders"])).toMatch(/^-POOL_EXHAUSTED .* retryAfterMs=\d+\r\n$/);
  });
});

describe("the commands that libraries send first", () => {
  test.each<[readonly string[], RegExp]>([
    [["PING"], /^\+PONG\r\n$/],
    [["ping", "\r\n"], /^\$2\r\n\r\n\r\n$/],
    [["SELECT", "0"], /^\+OK\r\n$/],
    [["SELECT", "1"], /^-ERR DB index/],
    [["CLIENT", "SETNAME", "a b"], /^-ERR /],
    [["CLIENT", "SETNAME", "app"], /^\+OK\r\n$/],
    [["CLIENT", "GETNAME"], /^\$-1\r\n$/],
    [["CLIENT", "SETINFO", "LIB-NAME", "x"], /^\+OK\r\n$/],
    [["CLIENT", "ID"], /^:\d+\r\n$/],
    [["CLIENT", "KILL"], /^-ERR unknown subcommand/],
    [["CONFIG", "GET", "save"], /^\*0\r\n$/],
    [["CONFIG", "SET", "save", ""], /^-ERR /],
    [["COMMAND", "COUNT"], /^:\d+\r\n$/],
    [["HELLO", "4"], /^-NOPROTO /],
    [["HELLO", "3", "SETNAME"], /^-ERR Syntax/],
    [["AUTH", "x"], /^-ERR Expected no AUTH/],
    [["GET"], /^-ERR wrong number/],
    [["FLUSHALL"], /^-ERR unknown command 'FLUSHALL'/],
  ])("%j", async (words, answer) => {
    const client = await connected(await start());
    expect(await client.ask(words)).toMatch(answer);
  });

  test("HELLO 3 answers with a map, and RESET begins anew", async () => {
    const client = await connected(await start());
    expect(await client.ask(["HELLO", "3", "SETNAME", "app"], 20)).toMatch(
      /^%7\r\n\$6\r\nserver\r\n\$9\r\nsnowlease\r\n/,
    );
    expect(await client.ask(["CLIENT", "GETNAME"], 2)).toBe("$3\r\napp\r\n");
    expect(await client.ask(["CONFIG", "GET", "save"])).toBe("%0\r\n");
    expect(await client.ask(["RESET"])).toBe("+RESET\r\n");
    expect(await client.ask(["CLIENT", "GETNAME"])).toBe("$-1\r\n");
    expect(await client.ask(["INFO"], 5)).toContain("redis_version:");
    await client.lines(10);
    expect(client.received).toContain("loading:0");
  });

  test("QUIT ends the connection behind the answers before it", async () => {
    const client = await connected(await start());
    client.send(request("GET", "orders") + request("QUIT") + request("GET", "orders"));
    expect(await client.end()).toMatch(/^\$\d+\r\n\d+\r\n\+OK\r\n$/);
  });
});

describe("bytes that are not a request", () => {
  test.each([
    "POST /v1/orders/ids HTTP/1.1\r\nHost: localhost\r\n\r\n",
    `Host: localhost\r\n${request("GET", "orders")}`,
    "GET orders\r\n",
    "*1\r\n*1\r\n".repeat(9),
  ])("ends the connection, and nothing behind it is answered: %j", async (text) => {
    const client = await connected(await start());
    client.send(request("PING") + text + request("GET", "orders"));
    expect(await client.end()).toMatch(/^\+PONG\r\n-ERR Protocol error: [^\r\n]*\r\n$/);
  });
});

describe("tokens", () => {
  test("give access by AUTH or HELLO, and only within their rights", async () => {
    const daemon = await start({ tokens: tokenFile("good worker orders*", "reader read", "boss admin") });
    const client = await connected(daemon);
    for (const words of [["GET", "orders"], ["PING"], ["INFO"], ["NOPE"]]) {
      expect(await client.ask(words)).toMatch(/^-NOAUTH /);
    }
    expect(await client.ask(["AUTH", "bad"])).toMatch(/^-WRONGPASS /);
    expect(await client.ask(["AUTH", "b\r\nd"])).toMatch(/^-WRONGPASS /);
    expect(await client.ask(["HELLO", "3"])).toMatch(/^-NOAUTH /);
    expect(await client.ask(["AUTH", "anyone", "good"])).toBe("+OK\r\n");
    expect(await client.ask(["GET", "orders_eu"], 2)).toMatch(/^\$/);
    expect(await client.ask(["GET", "bills"])).toMatch(/^-NOPERM /);
    expect(await client.ask(["MGET", "orders", "bills"])).toMatch(/^-NOPERM /);
    expect(await client.ask(["AUTH", "reader"])).toBe("+OK\r\n");
    expect(await client.ask(["GET", "orders_eu"])).toMatch(/^-NOPERM /);
    expect(await client.ask(["HELLO", "2", "AUTH", "default", "boss"], 20)).toMatch(/^\*14\r\n/);
    expect(await client.ask(["GET", "bills"], 2)).toMatch(/^\$/);
    expect(await client.ask(["RESET"])).toBe("+RESET\r\n");
    expect(await client.ask(["GET", "bills"])).toMatch(/^-NOAUTH /);
  });

  test("end their connections when they are removed, and lose rights at once when these are reduced", async () => {
    const daemon = await start({ tokens: tokenFile("gone worker", "less admin", "same worker") });
    const [gone, less, same] = await Promise.all(
      ["gone", "less", "same"].map(async (token) => {
        const client = await connected(daemon);
        await client.ask(["AUTH", token]);
        expect(await client.ask(["GET", "orders"], 2)).toMatch(/^\$/);
        return client;
      }),
    );
    tokenFile("less read", "same worker");
    daemon.reload?.();
    await gone?.end();
    expect(await less?.ask(["GET", "orders"])).toMatch(/^-NOPERM /);
    expect(await same?.ask(["GET", "orders"], 2)).toMatch(/^\$/);
  });

  test("must come within a limited time", async () => {
    const client = await connected(await start({ tokens: tokenFile("good worker"), limits: { headersTimeout: 50 } }));
    await client.end();
  });
});

describe("a connection is ended", () => {
  const limits = { token: 10, request: 20 };
  const clientOf = (token: string): string => token;
  const never = (): never => {
    throw new Error("No ID is asked for.");
  };
  const noIds: IdMaker = {
    holds: never,
    take: never,
    fillNow: never,
    bitsIn: never,
    releaseIdle: never,
    close: never,
  };

  interface Pair {
    readonly client: RawClient;
    /** The server's end. */
    readonly socket: Socket;
    readonly connection: RespConnection;
  }

  /** A connection that is looked at when the test wants it. */
  async function pair(options: Partial<ServerContext> = {}): Promise<Pair> {
    const context: ServerContext = {
      ids: noIds,
      memory: new AnswerMemory(),
      integers: false,
      version: "1.0.0",
      connections: new Connections({ most: 10 }, log),
      log,
      onFailed() {},
      idleTimeout: 60_000,
      ...options,
    };
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const accepted = once(server, "connection");
    const { port } = server.address() as AddressInfo;
    const client = await RawClient.open({ host: "127.0.0.1", port });
    clients.push(client);
    const [socket] = (await accepted) as [Socket];
    server.close();
    return { client, socket, connection: new RespConnection(socket, context) };
  }

  test("without a token, so long after it came, and so long after a RESET", async () => {
    const { client, connection } = await pair({ tokens: { clientOf, may: () => true, knows: () => true } });
    expect([0, 10, 11].map((now) => connection.isLate(now, limits))).toEqual([false, false, true]);
    await client.ask(["AUTH", "good"]);
    expect([1000, 2000].map((now) => connection.isLate(now, limits))).toEqual([false, false]);
    // Also where both come between two looks.
    client.send(request("RESET"));
    await client.ask(["AUTH", "good"], 2);
    await client.ask(["RESET"]);
    expect([2100, 2110, 2111].map((now) => connection.isLate(now, limits))).toEqual([false, false, true]);
  });

  test("within a request that does not become whole, and not between others however long they come in parts", async () => {
    const { client, connection } = await pair();
    const [first, second] = [request("PING").slice(0, 9), request("PING").slice(9)];
    await client.send(request("PING") + first).lines(1);
    for (let now = 0; now < 200; now += 15) {
      expect(connection.isLate(now, limits)).toBe(false);
      client.received = "";
      await client.send(second + first).lines(1);
    }
    expect([300, 320, 321].map((now) => connection.isLate(now, limits))).toEqual([false, false, true]);
  });

  test("when its client takes no answers", async () => {
    const { client, socket } = await pair({ idleTimeout: 50 });
    const closed = once(socket, "close");
    client.socket.pause();
    client.send(request("COMMAND").repeat(10_000));
    await closed;
  });
});

test("a connection with many requests gives the others their turns", async () => {
  const daemon = await start();
  const [many, other] = [await connected(daemon), await connected(daemon)];
  let asked = 0;
  const failed = vi.spyOn(Metrics.prototype, "failed").mockImplementation((_, count = 1) => void (asked += count));
  onTestFinished(() => failed.mockRestore());
  many.send(request("NOPE").repeat(20_000));
  await many.lines(1);
  const before = asked;
  await other.ask(["PING"]);
  expect(before).toBeLessThan(20_000);
});

test("a GET that is refused leaves those that repeat an earlier one alone", async () => {
  const client = await connected(await start({ tokens: tokenFile("good worker orders") }));
  const [orders, bills] = [request("GET", "orders"), request("GET", "bills")];
  client.send(request("AUTH", "good") + orders + bills + orders + orders + request("GET", "A") + orders);
  const lines = await client.lines(11);
  const kinds = lines.map((line) => line.replace(/^(\$|\d{17}|-\w+).*/, "$1").replace(/^\d+$/, "ID"));
  expect(kinds).toEqual(["+OK", "$", "ID", "-NOPERM", "$", "ID", "$", "ID", "-CONFIG_INVALID", "$", "ID"]);
});

describe("TLS", () => {
  const files = (): TlsFiles => {
    const { certificate, key } = makeCertificates(folder);
    return { cert: certificate, key };
  };

  test("carries IDs, also of certificates that were renewed", async () => {
    const daemon = await start({ tls: files() });
    expect(daemon.resp).toMatch(/^rediss:/);
    for (let i = 0; i < 2; i++) {
      const ca = readFileSync(join(folder, "ca-cert.pem"));
      const client = RawClient.over(
        connectSecurely({ host: "127.0.0.1", port: Number(new URL(daemon.resp ?? "").port), ca }),
      );
      clients.push(client);
      expect(await client.ask(["GET", "orders"], 2)).toMatch(/^\$\d+\r\n\d+\r\n$/);
      makeCertificates(folder);
      daemon.reload?.();
    }
  });

  test("a client that makes no handshake is ended after a while", async () => {
    const silent = await connected(await start({ tls: files(), limits: { handshakeTimeout: 50 } }));
    await silent.end();
  });

  test.each(["drain", "now"] as const)("a client that makes no handshake does not hold up the end: %s", async (how) => {
    const daemon = await start({ tls: files(), limits: { handshakeTimeout: 600_000 } });
    const silent = await connected(daemon);
    await daemon.close(how);
    await silent.end();
  });
});

test("an incomplete request ends its connection; an idle connection stays", async () => {
  const daemon = await start({ limits: { requestTimeout: 50, headersTimeout: 50 } });
  const [slow, idle] = [await connected(daemon), await connected(daemon)];
  slow.send("*2\r\n$3\r\nGET");
  await slow.end();
  expect(await idle.ask(["PING"])).toBe("+PONG\r\n");
});

test("connections count together with those of HTTP, and one without room gets an error", async () => {
  const daemon = await start({ maxConnections: 2 });
  const [one, two] = [await connected(daemon), await connected(daemon)];
  for (const client of [one, two]) await client.send(`${request("PING")}*1\r\n`).lines(1);
  const third = await connected(daemon);
  expect(await third.end()).toMatch(/^-ERR Expected fewer connections.*\r\n$/);
  const health = await fetch(`${daemon.url}/healthz`);
  expect(health.status).toBe(200);
  expect([one.closed, two.closed]).toEqual([false, false]);
});

test("errors are counted by our codes", async () => {
  const daemon = await start({ tokens: tokenFile("boss admin") });
  const client = await connected(daemon);
  await client.ask(["GET", "orders"]);
  await client.ask(["AUTH", "bad"]);
  const headers = { authorization: "Bearer boss" };
  const metrics = await (await fetch(`${daemon.url}/metrics`, { headers })).text();
  expect(metrics).toContain('snowlease_errors_total{code="UNAUTHORIZED"} 2');
});

test("a drain answers the read requests, and accepts no more connections", async () => {
  const daemon = await start();
  const client = await connected(daemon);
  const idle = await connected(daemon);
  client.send(request("GET", "orders") + request("SNOWLEASE.IDS", "orders", 1000));
  await client.lines(1);
  const closed = daemon.close();
  const received = await client.end();
  expect(idsIn(received)).toHaveLength(1001);
  expect(await idle.end()).toBe("");
  await closed;
  await expect(RawClient.open(daemon.resp ?? "")).rejects.toThrow();
});

test("a program that takes its address for that of a Redis is told what it is", async () => {
  const daemon = await start();
  const registry = await openRegistry(parseAddress(daemon.resp ?? ""), { operationTimeout: 60_000 });
  try {
    const what = /is a Snowlease daemon, .* such as http:\/\/HOST:7070\.$/;
    await expect(registry.describe("orders")).rejects.toThrow(what);
    await expect(registry.ping()).rejects.toThrow(what);
  } finally {
    await registry.close();
  }
});

test("a Unix socket is for its owner and group", async () => {
  const socket = join(folder, "resp.sock");
  const daemon = await start({ resp: { socket } });
  expect(daemon.resp).toBe(socket);
  expect(statSync(socket).mode & 0o777).toBe(0o660);
  expect(await (await connected(daemon)).ask(["GET", "orders"], 2)).toMatch(/^\$/);
});

test("an address that other machines reach needs tokens and TLS", async () => {
  const resp = { host: "0.0.0.0", port: 0 };
  const refused = expect.objectContaining({ code: "CONFIG_INVALID" }) as Error;
  await expect(start({ resp })).rejects.toThrow(/^Expected `resp` to be on 127\.0\.0\.1/);
  await expect(start({ resp, tokens: tokenFile("good worker") })).rejects.toThrow(refused);
  await expect(start({ resp: { socket: `${folder}/${"x".repeat(120)}` } })).rejects.toThrow(
    /^Expected `resp` to be a path/,
  );
  const daemon = await start({ resp, insecure: true });
  expect(daemon.resp).toMatch(/^redis:\/\/0\.0\.0\.0:\d+$/);
});
