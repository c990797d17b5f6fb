import { once } from "node:events";
import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { request } from "node:http";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import type { SnowleaseError } from "../../src/id/errors.ts";
import { type Daemon, type DaemonOptions, startDaemon } from "../../src/daemon.ts";
import { memoryRegistry } from "../../src/testing.ts";

const log = { info() {}, warn() {}, error() {} };
const anyPort = { host: "127.0.0.1", port: 0 };
const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

async function start(options: Partial<DaemonOptions> = {}): Promise<Daemon> {
  const daemon = await startDaemon({ registry: memoryRegistry(), log, listen: anyPort, ...options });
  cleanups.push(() => daemon.close("now"));
  return daemon;
}

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "snowlease-"));
  cleanups.push(() => rmSync(path, { recursive: true }));
  return path;
}

/** Sends bytes, and returns all answers until the daemon hangs up. */
async function raw(daemon: Daemon, ...parts: (string | Uint8Array)[]): Promise<string> {
  const socket = dial(daemon);
  for (const part of parts) socket.write(part);
  return textOf(socket);
}

function dial(daemon: Daemon): Socket {
  const { hostname, port } = new URL(daemon.url ?? "");
  const socket = connect(Number(port), hostname);
  socket.on("error", () => {});
  cleanups.push(() => socket.destroy());
  return socket;
}

async function textOf(socket: Socket): Promise<string> {
  const chunks: Buffer[] = [];
  socket.on("data", (chunk: Buffer) => void chunks.push(chunk));
  if (!socket.destroyed) await new Promise((resolve) => socket.once("close", resolve));
  return Buffer.concat(chunks).toString();
}

/** Expects exactly one answer: a problem of RFC 9457, after which the connection ends. */
function expectProblem(text: string, status: number, code = "CONFIG_INVALID"): void {
  const [head = "", body = ""] = text.split("\r\n\r\n");
  expect(head).toMatch(new RegExp(`^HTTP/1\\.1 ${status} [A-Z]`));
  expect(head).toMatch(/^content-type: application\/problem\+json\r?$/im);
  expect(head).toMatch(/^connection: close\r?$/im);
  expect(head).toMatch(new RegExp(`^content-length: ${Buffer.byteLength(body)}\r?$`, "im"));
  expect(JSON.parse(body)).toMatchObject({ status, code, detail: expect.stringMatching(/^Expected .*\.$/) as string });
}

const get = (path: string, ...headers: string[]): string =>
  `${[`GET ${path} HTTP/1.1`, "Host: localhost", "Connection: close", ...headers].join("\r\n")}\r\n\r\n`;

/** The head of a request for IDs, without the length of its body. */
const post = "POST /v1/a/ids HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
const chunkedHead = `${post}Transfer-Encoding: chunked\r\n\r\n`;

describe("a connection", () => {
  test("serves several requests", async () => {
    const daemon = await start();
    const text = await raw(daemon, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", get("/readyz"));
    expect(text.match(/HTTP\/1\.1 200 OK/g)?.length).toBe(2);
  });

  test.each([
    ["no JSON", 400, "POST /v1/a/ids HTTP/1.1", "{", ["Content-Type: application/json"]],
    ["another type", 415, "POST /v1/a/ids HTTP/1.1", "{}", ["Content-Type: text/plain"]],
    ["a foreign page", 403, "POST /v1/a/ids HTTP/1.1", "{}", ["Origin: http://evil.example"]],
    ["another method", 405, "PUT /v1/a/ids HTTP/1.1", "{}", []],
    ["an unknown path", 404, "POST /v2 HTTP/1.1", "{}", []],
  ])("goes on after a request that was refused for %s", async (_, status, line, body, headers) => {
    const lines = [line, "Host: localhost", `Content-Length: ${body.length}`, ...headers, "", body];
    const text = await raw(await start(), lines.join("\r\n"), get("/healthz"));
    expect(text.match(/^HTTP\/1\.1 \d+|(?<=\})HTTP\/1\.1 \d+/gm)).toEqual([`HTTP/1.1 ${status}`, "HTTP/1.1 200"]);
  });

  test("that asks for the headers alone gets no body", async () => {
    const text = await raw(await start(), get("/healthz").replace("GET", "HEAD"));
    expect(text).toMatch(/^HTTP\/1\.1 200 OK\r\n[^{}]*\r\n\r\n$/);
  });

  test("of a page whose name was made to resolve to this host is refused", async () => {
    const daemon = await start();
    const text = await raw(daemon, "GET /healthz HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    expect(text).toMatch(/^HTTP\/1\.1 403 /);
    expect(text).toContain('"code":"FORBIDDEN"');
  });

  test.each([
    ["no Host", "GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n"],
    ["a Host that is none", "GET /healthz HTTP/1.1\r\nHost: a b\r\nConnection: close\r\n\r\n"],
    ["a Host that ends early", "GET /healthz HTTP/1.1\r\nHost: localhost/x\r\nConnection: close\r\n\r\n"],
    ["another protocol", "\u0016\u0003\u0001 hello\r\n\r\n"],
    ["two lengths", "POST /v1/a/ids HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}"],
    [
      "a length and chunks",
      "POST /v1/a/ids HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
    ["a size of a chunk that is none", `${chunkedHead}z\r\n`],
    ["a header without a name", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n: x\r\n\r\n"],
    ["a target that is none", "GET healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"],
  ])("with %s is answered 400, and ended", async (_, text) => {
    expectProblem(await raw(await start(), text), 400);
  });

  test("with endless headers is answered 431", async () => {
    expectProblem(await raw(await start(), get("/healthz", `X: ${"x".repeat(20_000)}`)), 431);
  });

  test("with endless chunk extensions is answered 413", async () => {
    expectProblem(await raw(await start(), `${chunkedHead}1;${"x".repeat(20_000)}\r\n`), 413);
  });

  test("with an unknown expectation is answered 417, one that waits for a 100 is served", async () => {
    const daemon = await start();
    expectProblem(await raw(daemon, get("/healthz", "Expect: the-unexpected")), 417);
    const waiting = `${post}Connection: close\r\nExpect: 100-continue\r\n`;
    const text = await raw(daemon, `${waiting}Content-Length: 2\r\n\r\n{}`);
    expect(text).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK\r\n/);
  });

  test("with nonsense after a request gets only the answer to that request", async () => {
    const text = await raw(await start(), `${post}Content-Length: 2\r\n\r\n{}nonsense\r\n\r\n`);
    expect(text).toMatch(/^HTTP\/1\.1 200 /);
    expect(text.match(/HTTP\/1\.1/g)).toHaveLength(1);
  });

  test("with nonsense after a refused last request gets no other answer", async () => {
    const text = await raw(await start(), `${get("/healthz", "Expect: nothing")}nonsense\r\n\r\n`);
    expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 417"]);
  });

  test("that should become a tunnel is answered 405", async () => {
    const text = await raw(await start(), "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n");
    expect(text).toMatch(/^HTTP\/1\.1 405 .*\r\n\r\n\{.*"code":"NOT_FOUND"\}$/s);
  });

  test("whose body has no type is answered 415; without a body no type is needed", async () => {
    const daemon = await start();
    const untyped = (body: string): string =>
      get("/v1/a/ids", `Content-Length: ${body.length}`).replace("GET", "POST") + body;
    expect(await raw(daemon, untyped("{}"))).toMatch(/^HTTP\/1\.1 415 /);
    expect(await raw(daemon, untyped(""))).toMatch(/^HTTP\/1\.1 200 /);
  });

  test.each([
    ["http://localhost/healthz", 200],
    ["http://LOCALHOST:80/healthz", 200],
    ["http://evil.example/healthz", 400],
    ["http://localhost:7070/healthz", 400],
    ["https://localhost/healthz", 200],
  ])("whose target is %s is answered %i: it is for the host that it names", async (target, status) => {
    expect(await raw(await start(), get(target))).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
  });

  test("over which nothing was asked ends at once when the daemon drains", async () => {
    const daemon = await start({ drainTimeout: 600_000 });
    const silent = dial(daemon);
    const used = dial(daemon);
    used.write("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    await Promise.all([once(silent, "connect"), once(used, "data")]);
    await Promise.all([daemon.close(), textOf(silent), textOf(used)]);
  });

  test("with nonsense after an answer is refused", async () => {
    const socket = dial(await start());
    socket.write("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    await once(socket, "data");
    socket.write("nonsense\r\n\r\n");
    expectProblem(await textOf(socket), 400);
  });

  test("with nonsense in a refused body is ended without another answer", async () => {
    const socket = dial(await start());
    socket.write(chunkedHead.replace("application/json", "text/plain"));
    const [first] = (await once(socket, "data")) as [Buffer];
    expect(first.toString()).toMatch(/^HTTP\/1\.1 415 /);
    socket.write("z\r\n");
    expect(await textOf(socket)).toBe("");
  });

  test("with a body whose announced length is too long is answered 413 before the body comes", async () => {
    const daemon = await start();
    const head = `${post}Content-Length: 1000000000\r\n\r\n`;
    const socket = dial(daemon);
    socket.write(head);
    const [first] = (await once(socket, "data")) as [Buffer];
    expect(first.toString()).toMatch(/^HTTP\/1\.1 413 /);
  });

  test("with endless chunks is answered 413, and ended", async () => {
    const daemon = await start();
    const socket = dial(daemon);
    socket.write(chunkedHead);
    const chunk = `4000\r\n${" ".repeat(0x4000)}\r\n`;
    const more = setInterval(() => socket.write(chunk), 1);
    cleanups.push(() => clearInterval(more));
    socket.once("data", () => clearInterval(more));
    expect(await textOf(socket)).toMatch(/^HTTP\/1\.1 413 /);
  });

  test("that sends a long body with its last request gets the whole answer", async () => {
    const socket = dial(await start());
    // While nothing is read, the kernel of the daemon holds the end of the answer.
    socket.pause();
    socket.write(get("/openapi.json", "Content-Length: 4000000") + " ".repeat(4_000_000));
    await setTimeout(300);
    socket.resume();
    const [, body = ""] = (await textOf(socket)).split("\r\n\r\n");
    expect(JSON.parse(body)).toMatchObject({ openapi: expect.any(String) as string });
  });

  test("that announces a longer body than it sends is ended with the answer", async () => {
    const socket = dial(await start());
    socket.write(get("/openapi.json", "Content-Length: 10"));
    const ended = once(socket, "end");
    expect(await textOf(socket)).toMatch(/^HTTP\/1\.1 200 .*\}$/s);
    await ended;
  });

  test("with a chunked body of the right size is served", async () => {
    const body = '{"count":2}';
    const chunks = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
    const head = `${post}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n`;
    const text = await raw(await start(), head, chunks);
    expect(text).toMatch(/^HTTP\/1\.1 200 /);
    expect(text).toMatch(/\{"ids":\["\d+","\d+"\]\}/);
  });

  describe("that asks for IDs gets the same answer with and without the length of its body", () => {
    test.each<[what: string, status: number, body: string, headers: string[]]>([
      ["one", 200, "{}", []],
      ["several in hex", 200, '{ "count": 3, "format": "hex" }', ["Content-Type: application/json"]],
      ["no JSON", 400, "{", []],
      ["no UTF-8", 400, "\xff", []],
      ["a name twice", 400, '{"count":1,"count":2}', []],
      ["too many", 400, '{"count":100001}', []],
      ["a misspelt field", 400, '{"coumt":1}', []],
      ["an unknown field", 200, '{"count":2,"zone":"a"}', []],
      ["another type", 415, "{}", ["Content-Type: text/plain"]],
      ["a foreign page", 403, "{}", ["Origin: http://evil.example"]],
      ["another host", 403, "{}", ["Host: evil.example"]],
    ])("%s: %i", async (_, status, body, headers) => {
      const daemon = await start();
      const host = headers.some((header) => header.startsWith("Host")) ? [] : ["Host: localhost"];
      const type = headers.some((header) => header.startsWith("Content-Type"))
        ? []
        : ["Content-Type: application/json"];
      const lines = ["POST /v1/a/ids HTTP/1.1", ...host, ...type, "Connection: close", ...headers];
      const ask = async (length: string, bytes: string): Promise<string> => {
        const text = await raw(daemon, Buffer.from([...lines, length, "", bytes].join("\r\n"), "latin1"));
        // The answer without the parts that differ each time, or that depend on the form of the request.
        return text
          .replace(/^(date|connection|keep-alive|transfer-encoding): .*\r\n/gim, "")
          .replace(/^content-length: \d+\r\n/gim, "")
          .replace(/"[0-9a-f]{15,}"/g, '"ID"');
      };
      const measured = await ask(`Content-Length: ${body.length}`, body);
      const chunk = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
      expect(measured).toBe(await ask("Transfer-Encoding: chunked", chunk));
      expect(measured).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    });

    test("and one that breaks off harms no other connection", async () => {
      const daemon = await start();
      const socket = dial(daemon);
      socket.write(`${post}Content-Length: 20\r\n\r\n{`);
      await once(socket, "connect");
      socket.end();
      expect(await textOf(socket)).toMatch(/^(HTTP\/1\.1 400 |$)/);
      expect(await raw(daemon, get("/healthz"))).toMatch(/^HTTP\/1\.1 200 /);
    });
  });

  test("whose headers come too slowly is ended", async () => {
    const daemon = await start({ limits: { headersTimeout: 200, requestTimeout: 10_000 } });
    expectProblem(await raw(daemon, "GET /healthz HTTP/1.1\r\nHost: local"), 408, "REGISTRY_UNAVAILABLE");
  });

  test("whose body comes too slowly is ended", async () => {
    const daemon = await start({ limits: { headersTimeout: 100, requestTimeout: 200 } });
    const head = `${post}Content-Length: 20\r\n\r\n`;
    expectProblem(await raw(daemon, head, "{"), 408, "REGISTRY_UNAVAILABLE");
  });

  test("that falls silent is ended", async () => {
    const daemon = await start({ limits: { keepAliveTimeout: 100 } });
    expect(await raw(daemon, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")).toMatch(/^HTTP\/1\.1 200 /);
  });
});

describe("the address", () => {
  test.each(["0.0.0.0", "::", "192.0.2.1", "example.com", "127.0.0.1.example", ""])("%s is refused", async (host) => {
    await expect(start({ listen: { host, port: 0 } })).rejects.toMatchObject({
      code: "CONFIG_INVALID",
      message: expect.stringMatching(/^Expected `listen` to be on 127\.0\.0\.1, ::1 or localhost/),
    });
  });

  test.each([
    ["localhost", /^http:\/\/127\.0\.0\.1:\d+$/],
    ["127.0.0.2", /^http:\/\/127\.0\.0\.2:\d+$/],
    ["::1", /^http:\/\/\[::1\]:\d+$/],
  ])("%s is served", async (host, url) => {
    const daemon = await start({ listen: { host, port: 0 } });
    expect(daemon.url).toMatch(url);
    expect((await fetch(`${daemon.url}/healthz`)).status).toBe(200);
  });

  test("of another server is refused in one line", async () => {
    const first = await start();
    const port = Number(new URL(first.url ?? "").port);
    await expect(start({ listen: { host: "127.0.0.1", port } })).rejects.toMatchObject({
      code: "CONFIG_INVALID",
      message: `Cannot listen on 127.0.0.1:${port}: it is in use; stop what listens there, or choose another.`,
    });
  });

  test("with an invalid port is refused", async () => {
    await expect(start({ listen: { host: "127.0.0.1", port: 65_536 } })).rejects.toMatchObject({
      code: "CONFIG_INVALID",
    });
  });
});

describe("the socket", () => {
  /** Asks /healthz over a Unix socket. */
  async function askSocket(socketPath: string): Promise<number | undefined> {
    const sent = request({ socketPath, path: "/healthz", agent: false }).end();
    const [response] = await once(sent, "response");
    response.resume();
    return response.statusCode;
  }

  test("is made for its owner and group, in a folder made for them, and goes with the daemon", async () => {
    const path = join(folder(), "run/deep/snowlease.sock");
    const daemon = await start({ listen: undefined, socket: path });
    expect([daemon.url, daemon.socket]).toEqual([undefined, path]);
    expect(await askSocket(path)).toBe(200);
    expect((statSync(path).mode & 0o777).toString(8)).toBe("660");
    expect((statSync(join(path, "..")).mode & 0o777).toString(8)).toBe("750");
    await daemon.close();
    expect(existsSync(path)).toBe(false);
  });

  test("leaves a folder that was there as it was", async () => {
    const there = folder();
    chmodSync(there, 0o711);
    await start({ socket: join(there, "s") });
    expect((statSync(there).mode & 0o777).toString(8)).toBe("711");
  });

  test("that a dead daemon left is replaced", async () => {
    const path = join(folder(), "s");
    await leaveSocket(path);
    expect(lstatSync(path).isSocket()).toBe(true);
    await start({ listen: undefined, socket: path });
    expect(await askSocket(path)).toBe(200);
  });

  test.each([
    ["that a dead daemon left", leaveSocket],
    ["that is not there", async () => {}],
  ] as const)("%s goes to one of several that start at once", async (_, prepare) => {
    for (let round = 0; round < 10; round++) {
      const there = folder();
      const path = join(there, "s");
      await prepare(path);
      const starts = Array.from({ length: 4 }, () => start({ listen: undefined, socket: path }));
      const started = await Promise.allSettled(starts);
      const refused = started.filter((result) => result.status === "rejected");
      expect(refused.map(({ reason }) => (reason as SnowleaseError).code)).toEqual(Array(3).fill("CONFIG_INVALID"));
      expect(await askSocket(path)).toBe(200);
      expect(readdirSync(there)).toEqual(["s"]);
      const [winner] = started.filter((result) => result.status === "fulfilled");
      await winner?.value.close();
      expect(readdirSync(there)).toEqual([]);
    }
  });

  test("waits for one that is starting, and not for one that was killed while it started", async () => {
    const path = join(folder(), "s");
    const lock = `${path}.lock`;
    writeFileSync(lock, "");
    const starting = start({ listen: undefined, socket: path });
    expect(await Promise.race([starting, setTimeout(100, "waits")])).toBe("waits");
    rmSync(lock);
    await (await starting).close();

    writeFileSync(lock, "");
    utimesSync(lock, 0, 0);
    await start({ listen: undefined, socket: path });
    expect(await askSocket(path)).toBe(200);
    expect(existsSync(lock)).toBe(false);
  });

  test("does not wait for one that was killed while it removed the lock of another either", async () => {
    const path = join(folder(), "s");
    const lock = `${path}.lock`;
    writeFileSync(lock, "");
    utimesSync(lock, 0, 0);
    linkSync(lock, `${lock}.old`);
    await start({ listen: undefined, socket: path });
    expect(await askSocket(path)).toBe(200);
    expect(readdirSync(join(path, ".."))).toEqual(["s"]);
  });

  test("of a living daemon is refused, and goes on", async () => {
    const path = join(folder(), "s");
    await start({ listen: undefined, socket: path });
    await expect(start({ listen: undefined, socket: path })).rejects.toMatchObject({
      code: "CONFIG_INVALID",
      message: expect.stringContaining("another daemon listens there"),
    });
    expect(await askSocket(path)).toBe(200);
  });

  test("never takes the place of a file", async () => {
    const path = join(folder(), "precious");
    writeFileSync(path, "data");
    await expect(start({ socket: path })).rejects.toMatchObject({
      code: "CONFIG_INVALID",
      message: expect.stringContaining("not a socket"),
    });
    expect(readFileSync(path, "utf8")).toBe("data");
  });

  test("of more than 107 bytes is refused", async () => {
    const path = join(folder(), "é".repeat(50));
    await expect(start({ socket: path })).rejects.toMatchObject({
      code: "CONFIG_INVALID",
      message: expect.stringContaining("107 bytes"),
    });
  });

  test("in a folder that cannot be made is refused in one line, and nothing goes on listening", async () => {
    const file = join(folder(), "file");
    writeFileSync(file, "");
    const first = await start();
    const listen = { host: "127.0.0.1", port: Number(new URL(first.url ?? "").port) };
    await first.close();
    await expect(start({ listen, socket: join(file, "s") })).rejects.toMatchObject({ code: "CONFIG_INVALID" });
    await start({ listen });
  });
});

/** Makes a socket file as a killed daemon leaves it: no process listens behind it. */
async function leaveSocket(path: string): Promise<void> {
  const { link, rename } = await import("node:fs/promises");
  const server = createServer();
  server.listen(`${path}.live`);
  await once(server, "listening");
  // A server unlinks its own path when it closes, not another name of the same socket.
  await link(`${path}.live`, `${path}.kept`);
  server.close();
  await once(server, "close");
  await rename(`${path}.kept`, path);
}
