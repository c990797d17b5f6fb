import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type App, type AppOptions, createApp } from "../../src/http/app.ts";
import { claimRate } from "../../src/serving/claim-rate.ts";
import { ownHosts } from "../../src/http/access/guard.ts";
import { drain, makeServer } from "../../src/http/server/server.ts";
import { tokenFile } from "../../src/serving/tokens.ts";
import { fakeClock, memoryRegistry } from "../../src/testing.ts";
import { type RawAnswer, rawExchange } from "../support/raw-http.ts";

/*
 * What is plain is answered on Node's own objects, all else by way of Request and Response: whichever way a request goes, the answer is the
 * same. A header that came twice is not plain.
 */

const folder = mkdtempSync(join(tmpdir(), "snowlease-direct-"));
const cleanups: (() => unknown)[] = [() => rmSync(folder, { recursive: true })];
afterAll(async () => {
  for (const cleanup of cleanups.toReversed()) await cleanup();
});

/** Stands still: no request is late. */
const clock = fakeClock();
const silent = { info() {}, warn() {}, error() {} };
const grants = ["worker worker", "elsewhere worker bills", "reader read", "admin admin"];
const tokens = join(folder, "tokens");
writeFileSync(
  tokens,
  grants.map((line) => line.replace(/^\w+/, (token) => createHash("sha256").update(token).digest("hex"))).join("\n"),
  { mode: 0o600 },
);

/** Starts a server, and tells which way each request went. */
async function serve(options: Partial<AppOptions>): Promise<{ port: number; ways: string[] }> {
  const ways: string[] = [];
  const app = createApp({ registry: memoryRegistry({ clock }), clock, ...options });
  const watched: App = {
    fetch(...request) {
      ways.push("Request");
      return app.fetch(...request);
    },
    answer(...request) {
      const answered = app.answer(...request);
      if (answered) ways.push("direct");
      return answered;
    },
  };
  const server = makeServer(watched, { limits: { headersTimeout: 600_000, requestTimeout: 600_000 } });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  cleanups.push(() => drain(server, 0, AbortSignal.abort()));
  return { port: (server.address() as AddressInfo).port, ways };
}

type Headers = Readonly<Record<string, string>>;

function request(path: string, headers: Headers, body: string | Uint8Array, method = "POST"): Uint8Array {
  const lines = Object.entries({ Host: "localhost", Connection: "close", ...headers }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  return Buffer.concat([Buffer.from(`${method} ${path} HTTP/1.1\r\n${lines.join("")}\r\n`), Buffer.from(body)]);
}

const json = (body: string | Uint8Array): Headers => ({
  "Content-Type": "application/json",
  "Content-Length": String(Buffer.byteLength(body)),
});
const bearer = (token: string): Headers => ({ Authorization: `Bearer ${token}` });
const twice: Headers = { "X-Odd": "1\r\nX-Odd: 2" };

/** The answer, without what differs from one time to the next. */
function facts({ status, headers, body }: RawAnswer): object {
  const names = [...headers.keys()].filter((name) => !["date", "content-length"].includes(name)).toSorted();
  const same = names.map((name) => `${name}: ${headers.get(name)}`);
  return { status, same, body: body.replace(/\d{12,}/g, "N").replace(/[0-9a-f]{32}/, "T") };
}

let open: { port: number; ways: string[] };
let closed: { port: number; ways: string[] };
beforeAll(async () => {
  let made = 1_000_000_000_000n;
  const ids = {
    holds: () => true,
    releaseIdle: () => Promise.resolve(),
    take: async (_: string, count: number) => BigUint64Array.from({ length: count }, () => made++),
    close: async () => undefined,
  };
  open = await serve({ ids, hosts: ownHosts });
  // So seldom that what is asked here is never allowed again.
  closed = await serve({ ids, tokens: tokenFile(tokens, silent), claimRate: claimRate(1e-9, clock) });
});

const ids = "/v1/orders/ids";
const leases = "/v1/orders/leases";
const one = '{"count":1}';
const claim = JSON.stringify({ now: 1 });
const worker = bearer("worker");

test.each<[string, "open" | "closed", number, string, Headers, string | Uint8Array, ("direct" | "Request")?]>([
  ["one ID", "open", 200, ids, json(one), one],
  ["many IDs", "open", 200, ids, json('{"count":5000}'), '{"count":5000}'],
  ["no body", "open", 200, ids, {}, ""],
  ["an empty body", "open", 200, ids, { "Content-Length": "0" }, ""],
  ["a name of its own origin", "open", 200, ids, { ...json(one), Origin: "http://localhost" }, one],
  ["a foreign Host", "open", 403, ids, { ...json(one), Host: "evil.example" }, one],
  ["a foreign Origin", "open", 403, ids, { ...json(one), Origin: "http://evil.example" }, one],
  ["another site's page", "open", 403, ids, { ...json(one), "Sec-Fetch-Site": "cross-site" }, one],
  ["a token that is known", "closed", 200, ids, { ...json(one), ...worker }, one],
  ["no token", "closed", 401, ids, json(one), one],
  ["another token", "closed", 401, ids, { ...json(one), ...bearer("nobody") }, one],
  ["a token of another role", "closed", 403, ids, { ...json(one), ...bearer("reader") }, one],
  ["a token of another namespace", "closed", 403, ids, { ...json(one), ...bearer("elsewhere") }, one],
  [
    "an administrator's route",
    "closed",
    403,
    "/v1/orders/prune",
    { ...json('{"before":1}'), ...worker },
    '{"before":1}',
  ],
  ["one claim too many", "closed", 429, leases, { ...json(claim), ...worker }, claim],
  ["a body that is too long", "open", 413, ids, json(" ".repeat(65_537)), " ".repeat(65_537), "Request"],
  ["the longest body", "open", 200, ids, json(one.padEnd(65_536)), one.padEnd(65_536)],
  ["another type", "open", 415, ids, { ...json(one), "Content-Type": "text/plain" }, one],
  ["a coding", "open", 415, ids, { ...json(one), "Content-Encoding": "gzip" }, one],
  ["a byte order mark", "open", 200, ids, json(`\ufeff${one}`), `\ufeff${one}`],
  ["no type", "open", 415, ids, { "Content-Length": String(one.length) }, one],
  ["no JSON", "open", 400, ids, json('{"count":'), '{"count":'],
  [
    "no UTF-8",
    "open",
    400,
    ids,
    json(Buffer.from('{"count":"\xff"}', "latin1")),
    Buffer.from('{"count":"\xff"}', "latin1"),
  ],
  ["a name twice", "open", 400, ids, json('{"count":1,"count":2}'), '{"count":1,"count":2}'],
  ["a misspelt field", "open", 400, ids, json('{"cöunt":1}'), '{"cöunt":1}'],
  ["an unknown field", "open", 200, ids, json('{"é":1}'), '{"é":1}'],
  ["a wrong number", "open", 400, ids, json('{"count":0}'), '{"count":0}'],
  ["a name that is no namespace's", "open", 400, "/v1/Orders/ids", json(one), one],
  ["a query", "open", 400, `${ids}?a=1`, json(one), one, "Request"],
  ["an escape in the path", "open", 200, "/v1/%6frders/ids", json(one), one, "Request"],
  ["a place that is none", "open", 404, "/v1/orders/nothing", json(one), one, "Request"],
])("%s is answered the same, whichever way it goes", async (_, where, status, path, headers, body, way = "direct") => {
  const { port, ways } = where === "open" ? open : closed;
  if (status === 429) for (let i = 0; i < 20; i++) await rawExchange(port, request(path, headers, body));
  ways.length = 0;
  const plain = await rawExchange(port, request(path, headers, body));
  const odd = await rawExchange(port, request(path, { ...headers, ...twice }, body));
  expect(ways).toEqual([way, "Request"]);
  expect(plain.status).toBe(status);
  expect(plain.headers.get("content-length")).toBe(String(Buffer.byteLength(plain.body)));
  if (status >= 400) expect(plain.headers.get("content-type")).toBe("application/problem+json");
  expect(facts(plain)).toEqual(facts(odd));
});

test("who may have sent a token twice is nobody who was told apart", async () => {
  const headers = { ...json(one), Authorization: "Bearer nobody\r\nAuthorization: Bearer worker" };
  const swapped = { ...json(one), Authorization: "Bearer worker\r\nAuthorization: Bearer nobody" };
  for (const sent of [headers, swapped])
    expect((await rawExchange(closed.port, request(ids, sent, one))).status).toBe(401);
});

test("renewals and give-backs go directly, too, and what has no body is answered without one", async () => {
  const { port, ways } = open;
  const body = JSON.stringify({ now: clock.now() });
  const claimed = await rawExchange(port, request("/v1/bills/leases", json(body), body));
  const { workerId, token } = JSON.parse(claimed.body) as { workerId: number; token: string };
  const path = `/v1/bills/leases/${workerId}`;
  const renewal = JSON.stringify({ token, now: clock.now() });
  const release = JSON.stringify({ token });
  ways.length = 0;
  const renewed = await rawExchange(port, request(path, json(renewal), renewal, "PATCH"));
  const released = await rawExchange(port, request(path, json(release), release, "DELETE"));
  const again = await rawExchange(port, request(path, { ...json(release), ...twice }, release, "DELETE"));
  expect([claimed.status, renewed.status, released.status, ways]).toEqual([
    201,
    200,
    204,
    ["direct", "direct", "Request"],
  ]);
  expect(facts(released)).toEqual(facts(again));
  expect(released.body).toBe("");
});

test("a body that comes in pieces is one; one that breaks off harms nobody else", async () => {
  const { port, ways } = open;
  ways.length = 0;
  const [head, tail] = [request(ids, json(one), one).subarray(0, -4), request(ids, json(one), one).subarray(-4)];
  const broken = connect(port, "127.0.0.1");
  broken.write(head);
  while (ways.length === 0) await new Promise(setImmediate);
  broken.resetAndDestroy();
  const socket = connect(port, "127.0.0.1").setEncoding("utf8");
  socket.write(head);
  while (ways.length === 1) await new Promise(setImmediate);
  socket.write(tail);
  const [text] = (await once(socket, "data")) as [string];
  expect(text).toMatch(/^HTTP\/1\.1 200 /);
  expect(ways).toEqual(["direct", "direct"]);
});
