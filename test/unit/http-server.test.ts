import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { type Daemon, type DaemonOptions, startDaemon } from "../../src/daemon.ts";
import { memoryRegistry } from "../../src/testing.ts";

const log = { info() {}, warn() {}, error() {} };
const anyPort = { host: "127.0.0.1", port: 0 };
/** Of what no test here is about: a busy machine may take long over a request. */
const limits = { headersTimeout: 600_000, requestTimeout: 600_000, keepAliveTimeout: 600_000 };
const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

async function start(options: Partial<DaemonOptions> = {}): Promise<Daemon> {
  const daemon = await startDaemon({ registry: memoryRegistry(), log, listen: anyPort, limits, ...options });
  cleanups.push(() => daemon.close("now"));
  return daemon;
}

/** Sends bytes and returns all that comes back until the daemon hangs up. */
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

/** Expects one answer and no more: a problem of RFC 9457, after which the connection ends. */
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

/** The head of a request for IDs but for how long its body is. */
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

  test("of a page whose name was made to resolve here is refused", async () => {
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

  test("with headers without end is answered 431", async () => {
    expectProblem(await raw(await start(), get("/healthz", `X: ${"x".repeat(20_000)}`)), 431);
  });

  test("with extensions of a chunk without end is answered 413", async () => {
    expectProblem(await raw(await start(), `${chunkedHead}1;${"x".repeat(20_000)}\r\n`), 413);
  });

  test("that expects what nobody does is answered 417, one that waits for a 100 is served", async () => {
    const daemon = await start();
    expectProblem(await raw(daemon, get("/healthz", "Expect: the-unexpected")), 417);
    const waiting = `${post}Connection: close\r\nExpect: 100-continue\r\n`;
    const text = await raw(daemon, `${waiting}Content-Length: 2\r\n\r\n{}`);
    expect(text).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK\r\n/);
  });

  test("with nonsense behind a request gets the answer to that, and no other", async () => {
    const text = await raw(await start(), `${post}Content-Length: 2\r\n\r\n{}nonsense\r\n\r\n`);
    expect(text).toMatch(/^HTTP\/1\.1 200 /);
    expect(text.match(/HTTP\/1\.1/g)).toHaveLength(1);
  });

  test("with nonsense behind what was refused as its last request gets no other answer", async () => {
    const text = await raw(await start(), `${get("/healthz", "Expect: nothing")}nonsense\r\n\r\n`);
    expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 417"]);
  });

  test("that is to be a tunnel is answered 405", async () => {
    const text = await raw(await start(), "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n");
    expect(text).toMatch(/^HTTP\/1\.1 405 .*\r\n\r\n\{.*"code":"NOT_FOUND"\}$/s);
  });

  test("with a body that has no type is answered 415, and no body needs none", async () => {
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

  test("with nonsense after an answer is told so", async () => {
    const socket = dial(await start());
    socket.write("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    await once(socket, "data");
    socket.write("nonsense\r\n\r\n");
    expectProblem(await textOf(socket), 400);
  });

  test("with nonsense in a body that was refused already is ended without another answer", async () => {
    const socket = dial(await start());
    socket.write(chunkedHead.replace("application/json", "text/plain"));
    const [first] = (await once(socket, "data")) as [Buffer];
    expect(first.toString()).toMatch(/^HTTP\/1\.1 415 /);
    socket.write("z\r\n");
    expect(await textOf(socket)).toBe("");
  });

  test("with a body that is announced too long is answered 413 before it has come", async () => {
    const daemon = await start();
    const head = `${post}Content-Length: 1000000000\r\n\r\n`;
    const socket = dial(daemon);
    socket.write(head);
    const [first] = (await once(socket, "data")) as [Buffer];
    expect(first.toString()).toMatch(/^HTTP\/1\.1 413 /);
  });

  test("with chunks without end is answered 413, and ended", async () => {
    const daemon = await start();
    const socket = dial(daemon);
    socket.write(chunkedHead);
    const chunk = `4000\r\n${" ".repeat(0x4000)}\r\n`;
    const more = setInterval(() => socket.write(chunk), 1);
    cleanups.push(() => clearInterval(more));
    socket.once("data", () => clearInterval(more));
    expect(await textOf(socket)).toMatch(/^HTTP\/1\.1 413 /);
  });

  test("with a chunked body of the right size is served", async () => {
    const body = '{"count":2}';
    const chunks = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
    const head = `${post}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n`;
    const text = await raw(await start(), head, chunks);
    expect(text).toMatch(/^HTTP\/1\.1 200 /);
    expect(text).toMatch(/\{"ids":\["\d+","\d+"\]\}/);
  });

  describe("that asks for IDs is answered the same, whether it says how long its body is or not", () => {
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
        // What differs from one moment to the next, or is said in another way.
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

    test("and one that breaks off harms nobody", async () => {
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

  test("that says nothing any more is ended", async () => {
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

  test("of somebody else is refused in one line", async () => {
    const first = await start();
    const port = Number(new URL(first.url ?? "").port);
    await expect(start({ listen: { host: "127.0.0.1", port } })).rejects.toMatchObject({
      code: "CONFIG_INVALID",
      message: `Cannot listen on 127.0.0.1:${port}: it is in use; stop what listens there, or choose another.`,
    });
  });

  test("with a port that is none is refused", async () => {
    await expect(start({ listen: { host: "127.0.0.1", port: 65_536 } })).rejects.toMatchObject({
      code: "CONFIG_INVALID",
    });
  });
});
