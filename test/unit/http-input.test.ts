import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { didYouMean } from "../../src/id/did-you-mean.ts";
import { inlined } from "../support/described.ts";
import { makeApi } from "../support/api.ts";

const token = "0123456789abcdef0123456789abcdef";
const now = 1_700_000_000_000;
const lease = "/v1/orders/leases/0";
const secret = "5ec4e7".repeat(7);

describe("a body that cannot be meant is 400 CONFIG_INVALID, in one line", () => {
  test.each<[what: string, method: string, path: string, body: unknown, detail: RegExp]>([
    ["no `now`", "POST", "/v1/orders/leases", {}, /`now` to be an integer from 0 to \d+ \(Unix ms\), got none/],
    ["no body", "POST", "/v1/orders/leases", undefined, /`now`/],
    ["not JSON", "POST", "/v1/orders/leases", "{now:1}", /JSON in UTF-8/],
    ["half of it", "POST", "/v1/orders/leases", '{"now":1', /JSON in UTF-8/],
    ["two of it", "POST", "/v1/orders/leases", '{"now":1}{"now":1}', /JSON in UTF-8/],
    ["NaN", "POST", "/v1/orders/leases", '{"now":NaN}', /JSON in UTF-8/],
    ["not UTF-8", "POST", "/v1/orders/leases", Uint8Array.of(0x22, 0xff, 0x22), /JSON in UTF-8/],
    ["UTF-16", "POST", "/v1/orders/leases", Buffer.from('{"now":1}', "utf16le"), /JSON in UTF-8/],
    // Newer engines write JSON of any depth, and go on to say what is wrong with it.
    [
      "lists in lists without end",
      "POST",
      "/v1/orders/leases",
      "[".repeat(30_000) + "]".repeat(30_000),
      /nested less|the body to be a JSON object/,
    ],
    [
      "a field of that",
      "POST",
      "/v1/orders/ids",
      `{"count":${"[".repeat(30_000)}${"]".repeat(30_000)}}`,
      /nested less|`count` to be an integer/,
    ],
    ["a list", "POST", "/v1/orders/leases", [now], /the body to be a JSON object/],
    ["null", "POST", "/v1/orders/leases", "null", /the body to be a JSON object/],
    ["a string", "POST", "/v1/orders/leases", JSON.stringify(secret), /the body to be a JSON object/],
    ["a name twice", "POST", "/v1/orders/leases", `{"now":1,"now":${now}}`, /every name once/],
    ["a name twice, once escaped", "POST", "/v1/orders/leases", `{"now":1,"n\\u006fw":${now}}`, /every name once/],
    [
      "a name twice, deeper",
      "POST",
      "/v1/orders/leases",
      `{"now":${now},"pool":{"first":1,"last":2,"last":3}}`,
      /once/,
    ],
    ["a misspelt field", "POST", "/v1/orders/leases", { now, worker: 7 }, /known fields, got `worker`/],
    ["a field in another case", "POST", "/v1/orders/leases", { now, windowms: 1000 }, /the body .*got `windowms`/],
    ["a misspelt field that is needed", "POST", "/v1/orders/leases", { nwo: now }, /the body .*got `nwo`/],
    [
      "a misspelt field behind unknown ones",
      "PATCH",
      lease,
      { region: "a", token, zone: 1, now, windowMS: 1000 },
      /known fields, got `windowMS`/,
    ],
    [
      "a misspelt field, deeper",
      "POST",
      "/v1/orders/leases",
      { now, pool: { first: 0, last: 1, frist: 1 } },
      /`pool` to have only known fields, got `frist`/,
    ],
    [
      "a misspelt limit",
      "POST",
      "/v1/orders/leases",
      { now, limits: { maxClockSkwe: 1 } },
      /`limits` to have only known fields, got `maxClockSkwe`/,
    ],
    [
      "a misspelt field in a list",
      "PUT",
      "/v1/orders/pins",
      {
        pins: [
          { workerId: 0, reason: "a" },
          { workerId: 1, reason: "a", onwer: "10.0.0.1" },
        ],
      },
      /`pins\.1` to have only known fields, got `onwer`/,
    ],
    [
      "a misspelt word of an operator",
      "POST",
      "/v1/orders/workers/0/release",
      { fence: 1, resetwindow: true, iKnow: true },
      /known fields, got `resetwindow`/,
    ],
    ["a number as text", "POST", "/v1/orders/leases", { now: String(now) }, /`now` .* got `1700000000000` \(string\)/],
    ["a fraction", "POST", "/v1/orders/leases", { now: 1.5 }, /`now` .* got `1.5` \(number\)/],
    ["a negative", "POST", "/v1/orders/leases", { now: -1 }, /`now` .* got `-1`/],
    ["beyond a double", "POST", "/v1/orders/leases", '{"now":1e400}', /`now`/],
    ["beyond a Date", "POST", "/v1/orders/leases", { now: 8_640_000_000_000_001 }, /`now`/],
    ["null as a value", "POST", "/v1/orders/leases", { now, workerId: null }, /`workerId` .* got `null` \(null\)/],
    ["a worker ID of 2^31", "POST", "/v1/orders/leases", { now, workerId: 2 ** 31 }, /`workerId` .*2147483647/],
    ["no window", "POST", "/v1/orders/leases", { now, windowMs: 0 }, /`windowMs`/],
    [
      "a short token",
      "POST",
      "/v1/orders/leases",
      { now, token: secret.slice(0, 31) },
      /`token` to be 32 hex digits, got another string/,
    ],
    ["a token with capitals", "POST", "/v1/orders/leases", { now, token: token.toUpperCase() }, /`token`/],
    [
      "a label that repaints a terminal",
      "POST",
      "/v1/orders/leases",
      { now, host: "a\u001b[2J" },
      /`host` .*control characters/,
    ],
    ["a label of two lines", "POST", "/v1/orders/leases", { now, instance: "a\nb" }, /`instance`/],
    ["a label too long", "POST", "/v1/orders/leases", { now, host: "a".repeat(256) }, /`host` .*255/],
    ["an unknown layout", "POST", "/v1/orders/leases", { now, layout: "westidd" }, /`layout` .*westidd/],
    [
      "a pool the wrong way round",
      "POST",
      "/v1/orders/leases",
      { now, pool: { first: 2, last: 1 } },
      /`first` <= `last`/,
    ],
    ["too many preferred", "POST", "/v1/orders/leases", { now, preferred: Array(9).fill(1) }, /`preferred`/],
    ["no list", "POST", "/v1/orders/leases", { now, preferred: 1 }, /`preferred` to be a list/],
    [
      "one of them wrong",
      "POST",
      "/v1/orders/leases",
      { now, preferred: [1, "2"] },
      /`preferred\.1` .* got `2` \(string\)/,
    ],
    ["an unknown reuse", "POST", "/v1/orders/leases", { now, reuse: "often" }, /`reuse` to be one of any, never/],
    ["a limit of nothing", "POST", "/v1/orders/leases", { now, limits: { maxWindow: 0 } }, /`limits\.maxWindow`/],
    ["a renewal without a token", "PATCH", lease, { now }, /`token` to be a string/],
    ["a renewal without `now`", "PATCH", lease, { token }, /`now`/],
    [
      "a turn that stays",
      "PATCH",
      lease,
      { token, now, turn: "a", nextTurn: "a" },
      /`nextTurn` to differ from `turn`; draw/,
    ],
    ["a sequence without its timestamp", "PATCH", lease, { token, now, lastSequence: 1 }, /`lastTimestamp` next to/],
    [
      "a token too long",
      "DELETE",
      lease,
      { token: secret.repeat(4) },
      /`token` to be at most 128 characters, got another string/,
    ],
    ["recents without a timestamp", "DELETE", lease, { token, recent: "AQ==" }, /`lastTimestamp`/],
    ["a begin of no recents", "DELETE", lease, { token, lastTimestamp: now, recentFrom: now }, /`recent` next to/],
    [
      "recents that are not base64",
      "DELETE",
      lease,
      { token, lastTimestamp: now, recent: "?" },
      /`recent` to be base64/,
    ],
    ["no ID", "POST", "/v1/orders/ids", { count: 0 }, /`count` to be an integer from 1 to 100000, got `0` \(number\)/],
    ["too many IDs", "POST", "/v1/orders/ids", { count: 100_001 }, /`count`/],
    ["an unknown format", "POST", "/v1/orders/ids", { format: "roman" }, /`format` to be one of decimal, hex/],
    ["a pin without a reason", "PUT", "/v1/orders/workers/0/pin", {}, /`reason`/],
    [
      "a pin with an empty reason",
      "PUT",
      "/v1/orders/workers/0/pin",
      { reason: "" },
      /`reason` .* 1 to 200 characters/,
    ],
    ["a pin with a blank reason", "PUT", "/v1/orders/workers/0/pin", { reason: " \u3000" }, /`reason` .* blank/],
    ["a pin with a reason too long", "PUT", "/v1/orders/workers/0/pin", { reason: "a".repeat(201) }, /`reason` .* 200/],
    ["a pin with a reason of two lines", "PUT", "/v1/orders/workers/0/pin", { reason: "a\nb" }, /`reason` .* control/],
    ...["host", "ip", "instance", "layout", "token"].map((name): [string, string, string, unknown, RegExp] => [
      `half a character in a claim's ${name}`,
      "POST",
      "/v1/orders/leases",
      { now, [name]: "a\ud800b" },
      new RegExp(`\`${name}\` to be `),
    ]),
    ["half a character in a held token", "PATCH", lease, { token: "\udc00", now }, /`token` to be well-formed/],
    [
      "half a character in a reason",
      "PUT",
      "/v1/orders/workers/0/pin",
      { reason: "a\udfff" },
      /`reason` .*well-formed/,
    ],
    ["force of another type", "POST", "/v1/orders/workers/0/release", { force: "yes" }, /`force` to be true or false/],
    ["prune without a time", "POST", "/v1/orders/prune", {}, /`before`/],
    ["a window of no length", "PUT", "/v1/orders", { maxWindow: 0 }, /`maxWindow`/],
  ])("%s", async (_, method, path, body, detail) => {
    const reply = await makeApi().call(method, path, body);
    expect([reply.status, reply.body.code, reply.body.title]).toEqual([400, "CONFIG_INVALID", "Bad Request"]);
    expect(reply.headers.get("content-type")).toBe("application/problem+json");
    expect(reply.body.detail).toMatch(detail);
    expect(reply.body.detail).not.toMatch(/\n|\u001b|5ec4e7/);
  });
});

describe("a field of a newer client, which this daemon does not know, is ignored", () => {
  const newer = { receiptOfLease: { id: "a", era: 1 }, x: null, "": [], "zone of rack": "b" };
  const bodies: [method: string, path: string, body: object, status: number][] = [
    ["PUT", "/v1/orders", { layout: "westid" }, 200],
    ["POST", "/v1/orders/leases", { token, now, windowMs: 60_000, pool: { first: 0, last: 0, ...newer } }, 201],
    ["PATCH", lease, { token, now }, 200],
    ["DELETE", lease, { token, now }, 204],
    ["POST", `${lease}/release`, { token, now }, 204],
    ["POST", "/v1/orders/workers/0/release", { force: true }, 200],
    ["PUT", "/v1/orders/workers/1/pin", { reason: "a" }, 204],
    ["PUT", "/v1/orders/pins", { pins: [{ workerId: 2, reason: "a", ...newer }] }, 204],
    ["DELETE", "/v1/orders/pins", { workerIds: [1, 2] }, 200],
    ["POST", "/v1/orders/prune", { before: 1 }, 200],
    ["POST", "/v1/orders/quarantine/end", { era: "present" }, 200],
    ["POST", "/v1/orders/ids", { count: 1 }, 200],
    ["POST", "/v1/orders/remove", { era: "present", iKnow: true, whileHeld: true }, 204],
    ["POST", "/v1/bills/leases", { now, limits: { maxWindow: 90_000, ...newer } }, 201],
  ];

  test("by each call that takes a body", async () => {
    const { call, clock } = makeApi();
    await clock.advance(now - clock.now());
    const { body: description } = await call("GET", "/openapi.json");
    const tried = new Set<string>();
    for (const [method, path, body, status] of bodies) {
      const present = "era" in body ? { era: (await call("GET", "/v1/orders")).body.era } : {};
      const reply = await call(method, path, { ...body, ...present, ...newer });
      expect([method, path, reply.status, reply.body?.detail]).toEqual([method, path, status, undefined]);
      for (const name of Object.keys(newer)) expect(Object.keys(reply.body ?? {})).not.toContain(name);
      tried.add(`${method} ${path.replace(/^\/v1\/\w+/, "/v1/{namespace}").replace(/\/\d+/, "/{workerId}")}`);
    }
    const operations = Object.entries<Record<string, object>>(description.paths).flatMap(([path, methods]) =>
      Object.entries(methods).flatMap(([method, operation]) =>
        "requestBody" in operation ? [`${method.toUpperCase()} ${path}`] : [],
      ),
    );
    expect([...tried].toSorted()).toEqual(operations.toSorted());
    const { body: info } = await call("GET", "/v1/bills");
    const made = { id: expect.any(String), era: expect.any(String) };
    expect(info).toEqual({ ...made, layout: expect.any(String), maxWindow: 90_000, maxClockSkew: 10_000 });
  });

  test.each(["__proto__", "constructor", "toString", "hasOwnProperty"])("also where it is called %s", async (name) => {
    const { call } = makeApi();
    const body = `{"now":${now},"windowMs":60000,"${name}":{"host":"evil","workerId":7}}`;
    const { status, body: grant } = await call("POST", "/v1/orders/leases", body);
    expect([status, grant.workerId]).toEqual([201, 0]);
    expect((await call("GET", "/v1/orders/workers/0")).body.host).toBe("");
    expect(({} as { host?: string }).host).toBeUndefined();
  });

  test("and reaches no store", async () => {
    const requests: unknown[] = [];
    const { call } = makeApi({
      async takeBlocks(request) {
        requests.push(request);
        return { outcome: "taken", blocks: [1] };
      },
    });
    const body = { token, fence: 1, first: 0, spans: 1, blocks: 1, held: 0 };
    const { status } = await call("POST", `${lease}/blocks`, { ...body, namespace: "bills", workerId: 7, ...newer });
    expect(status).toBe(200);
    expect(requests).toStrictEqual([{ ...body, namespace: "orders", workerId: 0 }]);
  });

  test("however many there are", async () => {
    const names = Array.from({ length: 5000 }, (_, i) => `f${i}`);
    const body = { now, ...Object.fromEntries(names.map((name) => [name, 0])) };
    expect((await makeApi().call("POST", "/v1/orders/leases", body)).status).toBe(201);
  });

  /** The schemas of a body and of the objects in it. */
  function objectsIn(schema: unknown): { properties: object }[] {
    if (typeof schema !== "object" || schema === null) return [];
    const own = "properties" in schema ? [schema as { properties: object }] : [];
    return [...own, ...Object.values(schema).flatMap(objectsIn)];
  }

  // A daemon of an older version would take the newer one of two such names for a typing error.
  test("so no later field has a name that is near another one of its body", async () => {
    const { body: description } = await makeApi().call("GET", "/openapi.json");
    const schemas = Object.values<Record<string, { requestBody?: unknown }>>(inlined(description).paths)
      .flatMap((methods) => Object.values(methods))
      .flatMap(({ requestBody }) => objectsIn(requestBody));
    expect(schemas.length).toBeGreaterThan(12);
    const near = schemas.flatMap(({ properties }) => {
      const names = Object.keys(properties);
      return names.flatMap(
        (name) =>
          didYouMean(
            name,
            names.filter((other) => other !== name),
          ) ?? [],
      );
    });
    // Both have been there since the first version.
    expect(near.toSorted()).toEqual(["fence", "force"]);
  });
});

describe("a URL that cannot be meant is 400 CONFIG_INVALID", () => {
  test.each([
    ["/v1/Orders/workers", /`namespace` to match/],
    ["/v1/0rders/workers", /`namespace`/],
    [`/v1/${"a".repeat(33)}/workers`, /`namespace`/],
    ["/v1/a%2fb/workers", /`namespace`/],
    ["/v1/a%00/workers", /`namespace`/],
    ["/v1/%zz/workers", /`namespace`/],
    ["/v1/or%0Aders/workers", /`namespace`/],
    ["/v1/orders/workers/-1", /`workerId` .* got `-1`/],
    ["/v1/orders/workers/007", /`workerId` .* got `007` \(string\)/],
    ["/v1/orders/workers/1e3", /`workerId`/],
    ["/v1/orders/workers/0x1", /`workerId`/],
    ["/v1/orders/workers/2147483648", /`workerId`/],
    ["/v1/orders/workers/99999999999999999999", /`workerId`/],
    ["/v1/orders/workers/1%202", /`workerId`/],
    ["/v1/orders/workers?limit=0", /`limit`/],
    ["/v1/orders/workers?limit=10001", /`limit`/],
    ["/v1/orders/workers?limit=", /`limit`/],
    ["/v1/orders/workers?limit=1&limit=2", /every parameter once/],
    ["/v1/orders/workers?state=dead", /`state` to be one of live/],
    ["/v1/orders/workers?sate=live", /known fields, got `sate`/],
    ["/v1/orders/workers?after=x", /`after`/],
    ["/v1/orders/workers/1?x=1", /no query here, got `x`/],
    ["/v1/orders/workers/1/history?from=yesterday", /`from`/],
  ])("%s", async (path, detail) => {
    const reply = await makeApi().call("GET", path);
    expect([reply.status, reply.body.code]).toEqual([400, "CONFIG_INVALID"]);
    expect(reply.body.detail).toMatch(detail);
    expect(reply.body.detail).not.toMatch(/[\n\u0000]/);
  });
});

describe("what is not there", () => {
  test.each([
    "/",
    "/v1",
    "/v2/orders/leases",
    "/v1/orders/leases/",
    "/v1/orders/leases/1/2",
    "/v1//workers",
    "/metricsx",
  ])("%s is 404 NOT_FOUND", async (path) => {
    const reply = await makeApi().call("GET", path);
    expect([reply.status, reply.body.code]).toEqual([404, "NOT_FOUND"]);
    expect(reply.body.detail).toBe(`There is no \`GET ${path}\` here; see /openapi.json.`);
  });

  test.each([
    ["GET", "/v1/orders/leases", "POST"],
    ["PUT", "/v1/orders/leases/1", "PATCH, DELETE"],
    ["DELETE", "/healthz", "GET, HEAD"],
    ["OPTIONS", "/v1/orders/leases", "POST"],
    ["BREW", "/v1/orders/workers/1/pin", "PUT, DELETE"],
  ])("%s %s is 405, with what is allowed", async (method, path, allow) => {
    const reply = await makeApi().call(method, path);
    expect([reply.status, reply.headers.get("allow"), reply.body.status]).toEqual([405, allow, 405]);
    expect(reply.body.detail).toBe(`There is no \`${method} ${path}\` here, only ${allow}.`);
  });

  test("HEAD answers as GET does, without a body", async () => {
    const { status, body } = await makeApi().call("HEAD", "/healthz");
    expect([status, body]).toEqual([200, undefined]);
  });
});

describe("the size of a body", () => {
  const padded = (size: number): string => `{"now":${now}}`.padEnd(size);

  test("64 KiB are read", async () => {
    expect((await makeApi().call("POST", "/v1/orders/leases", padded(65_536))).status).toBe(201);
  });

  test.each([
    ["a byte more", padded(65_537), {}],
    ["a byte more that was announced", padded(65_537), { "content-length": "65537" }],
    ["a stream without end", endless(), {}],
  ])("%s is 413", async (_, body, headers: Record<string, string>) => {
    const reply = await makeApi().call("POST", "/v1/orders/leases", body, headers);
    expect([reply.status, reply.body.code]).toEqual([413, "CONFIG_INVALID"]);
  });

  function endless(): ReadableStream {
    return new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(1024).fill(0x20)) });
  }
});

describe("the type of a body", () => {
  test.each(["application/json", "application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.x+json"])(
    "%s is read",
    async (type) => {
      expect((await makeApi().call("POST", "/v1/orders/leases", { now }, { "content-type": type })).status).toBe(201);
    },
  );

  test.each([
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/jsonp",
  ])("%s is 415", async (type) => {
    const reply = await makeApi().call("POST", "/v1/orders/leases", { now }, { "content-type": type });
    expect([reply.status, reply.body.code]).toEqual([415, "CONFIG_INVALID"]);
  });
});

describe("the coding of a body", () => {
  const claim = JSON.stringify({ now });

  test.each(["identity", "Identity", ""])("%j is read", async (coding) => {
    const headers = { "content-encoding": coding };
    expect((await makeApi().call("POST", "/v1/orders/leases", claim, headers)).status).toBe(201);
  });

  test.each<[string, Uint8Array | string]>([
    ["gzip", gzipSync(claim)],
    ["br", brotliCompressSync(claim)],
    ["deflate, gzip", gzipSync(deflateSync(claim))],
    ["gzip", claim],
    ["x-none", claim],
  ])("%s is 415, which names the coding to use", async (coding, body) => {
    const {
      status,
      headers,
      body: problem,
    } = await makeApi().call("POST", "/v1/orders/leases", body, {
      "content-encoding": coding,
    });
    expect([status, headers.get("accept-encoding"), problem.code]).toEqual([415, "identity", "CONFIG_INVALID"]);
    expect(problem.detail).toBe(
      `Expected a body without content-encoding, got \`${coding}\` (string); send it as it is.`,
    );
  });

  test("a byte order mark before JSON is skipped", async () => {
    expect((await makeApi().call("POST", "/v1/orders/leases", `\ufeff${claim}`)).status).toBe(201);
  });
});

describe("what a browser sends for somebody else's page is 403 FORBIDDEN", () => {
  test.each([
    [{ host: "evil.example" }],
    [{ host: "evil.example:7070" }],
    [{ host: "localhost.evil.example" }],
    [{ host: "127.0.0.1.evil.example" }],
    [{ host: "192.168.1.10:7070" }],
    [{ host: "0.0.0.0:7070" }],
    [{ host: "[::2]" }],
    [{ host: "" }],
    [{ host: "localhost:7070", origin: "http://evil.example" }],
    [{ host: "localhost:7070", origin: "http://localhost:3000" }],
    [{ host: "localhost:7070", origin: "https://localhost:7070" }],
    [{ host: "localhost:7070", origin: "null" }],
    [{ origin: "http://localhost" }],
    [{ "sec-fetch-site": "cross-site" }],
    [{ "sec-fetch-site": "same-site" }],
  ])("%j", async (headers: Record<string, string>) => {
    const api = makeApi();
    for (const [method, path] of [
      ["POST", "/v1/orders/ids"],
      ["GET", "/healthz"],
      ["GET", "/nowhere"],
    ] as const) {
      const reply = await api.call(method, path, undefined, headers);
      expect([reply.status, reply.body.code]).toEqual([403, "FORBIDDEN"]);
    }
    expect(await api.registry.workers("orders")).toEqual([]);
  });

  test.each([
    [{}],
    [{ host: "localhost" }],
    [{ host: "LOCALHOST:7070" }],
    [{ host: "127.0.0.1:7070" }],
    [{ host: "127.8.8.8" }],
    [{ host: "[::1]:7070" }],
    [{ host: "localhost:7070", origin: "http://localhost:7070", "sec-fetch-site": "same-origin" }],
    [{ host: "localhost:7070", "sec-fetch-site": "none" }],
  ])("but not %j", async (headers: Record<string, string>) => {
    expect((await makeApi().call("POST", "/v1/orders/ids", undefined, headers)).status).toBe(200);
  });
});
