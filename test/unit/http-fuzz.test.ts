import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Validator } from "@seriousme/openapi-schema-validator";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import type { GeneratorValue } from "fast-check";
import { inlined } from "../support/described.ts";
import { fc } from "../support/fast-check.ts";
import { afterAll, beforeAll, expect, test } from "vitest";
import { layouts } from "../../src/id/layout.ts";
import { type Daemon, startDaemon } from "../../src/daemon.ts";
import { memoryRegistry } from "../../src/testing.ts";
import { type Certificates, makeCertificates } from "../support/certificates.ts";
import { type RawAnswer, rawExchange } from "../support/raw-http.ts";
import { type RecordedWindows, recordWindows } from "../support/recorded-windows.ts";

type Json = Record<string, unknown>;

interface Parameter {
  readonly name: string;
  readonly in: "path" | "query";
  readonly schema: Json;
}

interface Operation {
  readonly method: string;
  readonly path: string;
  readonly parameters: readonly Parameter[];
  readonly body: Json | undefined;
  /** Status -> media type -> what validates it; `null`: there is no body. */
  readonly answers: ReadonlyMap<number, { readonly media: string; readonly valid: ValidateFunction } | null>;
}

/** Each with a daemon of its own. */
const runs = { HTTP: 25, TLS: 10 };
type Protocol = keyof typeof runs;
const requestsPerRun = 40;
/** For all of them on a busy machine, ms. */
const timeout = 180_000;
const tokens = { admin: "adm1n-".repeat(5), worker: "w0rker-".repeat(4), read: "r3ad-".repeat(6) };
/** What any operation may answer besides what it lists; as the description says in words. */
const everywhere = [400, 405, 408, 417, 431];

let folder: string;
let tokenFile: string;
let certificates: Certificates;
let operations: readonly Operation[];
let problem: ValidateFunction;
/** Operation and status that were seen. */
const seen = new Set<string>();

/** A daemon, what it logged, and what a fuzzer knows of it. */
interface World {
  readonly daemon: Daemon;
  readonly port: number;
  readonly secure: boolean;
  readonly windows: RecordedWindows;
  readonly log: { readonly level: string; readonly text: string }[];
  /** Claims that were granted over HTTP. */
  readonly leases: { readonly namespace: string; readonly workerId: number; readonly token: string; fence: number }[];
  readonly ids: string[];
  readonly secrets: Set<string>;
}

async function newWorld(protocol: Protocol): Promise<World> {
  const log: { level: string; text: string }[] = [];
  const write =
    (level: string) =>
    (fields: object, message: string): void =>
      void log.push({ level, text: `${JSON.stringify(fields)} ${message}` });
  const windows = recordWindows(memoryRegistry());
  const daemon = await startDaemon({
    registry: windows.registry,
    listen: { host: "127.0.0.1", port: 0 },
    tokens: tokenFile,
    tls: protocol === "TLS" ? { cert: certificates.certificate, key: certificates.key } : undefined,
    claimsPerSecond: 2,
    limits: { headersTimeout: 200, requestTimeout: 200 },
    log: { info: write("info"), warn: write("warn"), error: write("error") },
  });
  const port = Number(new URL(daemon.url ?? "").port);
  return {
    daemon,
    port,
    secure: protocol === "TLS",
    windows,
    log,
    leases: [],
    ids: [],
    secrets: new Set(Object.values(tokens)),
  };
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "snowlease-"));
  tokenFile = join(folder, "tokens");
  const line = ([role, token]: [string, string]): string =>
    `${createHash("sha256").update(token).digest("hex")} ${role}\n`;
  writeFileSync(tokenFile, Object.entries(tokens).map(line).join(""), { mode: 0o600 });
  certificates = makeCertificates(folder);
  const { daemon, port } = await newWorld("HTTP");
  try {
    const { body } = await rawExchange(port, Buffer.from(requestText("GET", "/openapi.json", [])));
    const description = JSON.parse(body) as Json;
    const checked = await new Validator().validate(structuredClone(description));
    expect(checked).toMatchObject({ valid: true });
    expect(description["openapi"]).toMatch(/^3\.1\./);
    ({ operations, problem } = operationsOf(inlined(description)));
  } finally {
    await daemon.close("now");
  }
});

afterAll(() => rmSync(folder, { recursive: true }));

function operationsOf(description: Json): { operations: Operation[]; problem: ValidateFunction } {
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  const { Problem } = (description["components"] as { schemas: Record<string, Json> }).schemas;
  const compile = (schema: Json): ValidateFunction => ajv.compile(closed(schema));
  const found: Operation[] = [];
  for (const [path, methods] of Object.entries(description["paths"] as Record<string, Record<string, Json>>)) {
    for (const [method, { parameters, requestBody, responses }] of Object.entries(methods)) {
      const contentOf = (holder: unknown): [string, { schema: Json }] | undefined =>
        Object.entries((holder as { content?: Record<string, { schema: Json }> } | undefined)?.content ?? {})[0];
      const answers = new Map(
        Object.entries(responses as Record<string, unknown>).map(([status, response]) => {
          const content = contentOf(response);
          return [Number(status), content ? { media: content[0], valid: compile(content[1].schema) } : null];
        }),
      );
      const body = contentOf(requestBody)?.[1].schema;
      found.push({ method: method.toUpperCase(), path, parameters: parameters as Parameter[], body, answers });
    }
  }
  return { operations: found, problem: compile(Problem ?? {}) };
}

/** The same schema without room for the fields of newer daemons: this one answers with described fields alone. */
function closed<Part>(schema: Part): Part {
  if (typeof schema !== "object" || schema === null) return schema;
  if (Array.isArray(schema)) return schema.map(closed) as Part;
  const parts = Object.fromEntries(Object.entries(schema).map(([name, part]) => [name, closed(part as unknown)]));
  return {
    ...parts,
    ...(parts["type"] === "object" && "properties" in parts && { additionalProperties: false }),
  } as Part;
}

/** Draws a value: the fuzzer's one source of chance. */
type Draw = GeneratorValue;

const chance = (draw: Draw, percent: number): boolean => draw(fc.nat, { max: 99 }) < percent;
/** By its number: what was drawn is printed on failure. */
function oneOf<Value>(draw: Draw, ...values: readonly Value[]): Value {
  return values.at(draw(fc.nat, { max: values.length - 1 })) as Value;
}

const junk = fc.oneof(
  fc.constantFrom<unknown>(null, true, "", " ", 0, -1, 0.5, 1e21, -(2 ** 53), 2 ** 31, 2 ** 53, [], {}, [[]]),
  fc.constantFrom(
    "x".repeat(300),
    "\u0000",
    "\u001b[2J",
    "\ud800",
    "a\r\nb",
    "../..",
    "' OR 1=1 --",
    "{{7*7}}",
    "💥".repeat(70),
  ),
  fc.jsonValue({ maxDepth: 2 }),
);

/** A value that a schema allows, or nearly so; often one that means something here. */
function valueOf(draw: Draw, schema: Json, name: string, world: World): unknown {
  const { enum: values, anyOf, pattern } = schema as { enum?: unknown[]; anyOf?: Json[]; pattern?: string };
  const known = knownValue(draw, name, world);
  if (known !== undefined && chance(draw, 90)) return known;
  if (values !== undefined) return oneOf(draw, ...values);
  if (anyOf !== undefined) return valueOf(draw, oneOf(draw, ...anyOf), name, world);
  switch (schema["type"]) {
    case "integer":
    case "number": {
      const { minimum: min = 0, maximum: max = 2 ** 53 - 1 } = schema as { minimum?: number; maximum?: number };
      return oneOf(
        draw,
        min,
        max,
        max + 1,
        min - 1,
        draw(fc.integer, { min: Math.max(min, -(2 ** 31)), max: Math.min(max, 2 ** 31) }),
      );
    }
    case "boolean":
      return draw(fc.boolean);
    case "array": {
      const { items = {}, maxItems = 9 } = schema as { items?: Json; maxItems?: number };
      return Array.from({ length: draw(fc.nat, { max: maxItems + 1 }) }, () => valueOf(draw, items, "", world));
    }
    case "object":
      return objectOf(draw, schema, world);
    case "string":
      if (schema["format"] === "base64") return draw(fc.base64String, { maxLength: 40 });
      if (pattern !== undefined && !pattern.includes("\\p") && chance(draw, 70))
        return draw(fc.stringMatching, new RegExp(pattern, "u"));
      return draw(fc.string, { maxLength: 30 });
    default:
      return draw(() => junk);
  }
}

function objectOf(draw: Draw, schema: Json, world: World): Json {
  const { properties = {}, required = [] } = schema as { properties?: Record<string, Json>; required?: string[] };
  const made: Json = {};
  for (const [name, property] of Object.entries(properties)) {
    if (required.includes(name) || chance(draw, 12)) made[name] = valueOf(draw, property, name, world);
  }
  return made;
}

/** What a field of this name may well be. */
function knownValue(draw: Draw, name: string, { leases, ids }: World): unknown {
  const now = Date.now();
  const lease = leases.length > 0 ? oneOf(draw, ...leases) : undefined;
  switch (name) {
    case "namespace":
      return oneOf(draw, lease?.namespace ?? "orders", "orders", "orders", "bills", "nosuch");
    case "workerId":
      return oneOf(draw, lease?.workerId ?? 0, 0, 1, 2);
    case "token":
      return lease?.token ?? "0123456789abcdef".repeat(2);
    case "fence":
      return oneOf(draw, lease?.fence ?? 1, 1, 2);
    case "id":
      return ids.length > 0 ? oneOf(draw, ...ids) : "1278549019894743040";
    case "now":
    case "lastTimestamp":
    case "until":
    case "from":
    case "before":
      return now + oneOf(draw, 0, 0, 0, 1000, -1000, 60_000);
    case "windowMs":
      return oneOf(draw, 1000, 60_000);
    case "layout":
      return oneOf(draw, "westid", layouts.westid.fingerprint, "twitter");
    case "maxWindow":
      return 120_000;
    case "maxClockSkew":
      return 10_000;
    case "count":
      return oneOf(draw, 1, 3, 5000);
    case "format":
      return "decimal";
    case "force":
    case "iKnow":
      return true;
    case "recent":
      return "AQ==";
    default:
      return undefined;
  }
}

/** Text of a body: as it should be, or what becomes of it on a bad day. */
function bodyBytes(draw: Draw, body: Json): Buffer {
  const spoilt = { ...body };
  if (chance(draw, 30)) {
    const names = Object.keys(body);
    const name = names.length > 0 && chance(draw, 70) ? oneOf(draw, ...names) : oneOf(draw, "extra", "__proto__", "");
    if (chance(draw, 20)) delete spoilt[name];
    else Object.defineProperty(spoilt, name, { value: draw(() => junk), enumerable: true });
  }
  const text = JSON.stringify(spoilt);
  if (!chance(draw, 20)) return Buffer.from(text);
  const odd: readonly (() => Buffer)[] = [
    () => Buffer.alloc(0),
    () => Buffer.from(text.slice(0, draw(fc.nat, { max: text.length }))),
    () => Buffer.concat([Buffer.from(text.slice(0, -1)), Buffer.from(',"x":"\xff\xfe"}', "latin1")]),
    () => Buffer.from(text, "utf16le"),
    () => Buffer.from(`\ufeff${text}`),
    () => Buffer.from(` \n${text}\t `),
    () => Buffer.from(`{"now":1,${text.slice(1)}`),
    () => Buffer.from(`{"now":${"[".repeat(20_000)}${"]".repeat(20_000)}}`),
    () => Buffer.from(`{"host":"${"x".repeat(60_000)}","now":${Date.now()}}`),
    () => Buffer.from(JSON.stringify({ ...body, x: "y".repeat(70_000) })),
    () => Buffer.from(JSON.stringify([spoilt])),
    () => Buffer.from(JSON.stringify(draw(() => junk))),
    () => Buffer.from(draw(fc.uint8Array, { maxLength: 200 })),
    () => Buffer.from(text.replaceAll("u", "\\u0075")),
  ];
  return oneOf(draw, ...odd)();
}

function requestText(method: string, target: string, headers: readonly string[]): string {
  const own = headers.some((line) => /^host:/i.test(line)) ? [] : ["Host: localhost"];
  const login = headers.some((line) => /^authorization:/i.test(line)) ? [] : [`Authorization: Bearer ${tokens.admin}`];
  return `${[`${method} ${target} HTTP/1.1`, ...own, ...login, "Connection: close", ...headers].join("\r\n")}\r\n\r\n`;
}

const oddHeaders: readonly (readonly string[])[] = [
  ["Authorization: Bearer nobodys"],
  ["Authorization: Basic Zm9vOmJhcg=="],
  ["Authorization: "],
  [`Authorization: Bearer ${tokens.read}`],
  [`Authorization: Bearer ${tokens.worker}`, "Authorization: Bearer x"],
  ["Origin: http://evil.example"],
  ["Origin: http://localhost", "Origin: http://evil.example"],
  ["Host: evil.example"],
  ["Host: localhost", "Host: evil.example"],
  ["Host: "],
  ["Host: a b"],
  ["Expect: 100-continue"],
  ["Expect: nothing"],
  ["Sec-Fetch-Site: cross-site"],
  ["Upgrade: websocket", "Connection: Upgrade"],
  ["Content-Encoding: gzip"],
  ["Accept: text/html", "Accept-Encoding: gzip, br"],
  [`X-Long: ${"x".repeat(20_000)}`],
  Array.from({ length: 200 }, (_, i) => `X-${i}: y`),
  ["Last-Event-ID: 12345678-3"],
  ["Last-Event-ID: \u00ff\u00fe"],
  ["no colon"],
  ["Bad Name: x"],
  ["X-Control: \u0001"],
  [" folded: x"],
  ["Range: bytes=0-1", "If-None-Match: *"],
  ["X-HTTP-Method-Override: DELETE"],
];

const oddTypes = [
  "text/plain",
  "application/x-www-form-urlencoded",
  "application/json;charset=utf-16",
  "application/jsonx",
  "",
  "x",
];

/** The target as it should be, or as somebody might try. */
function oddTarget(draw: Draw, path: string): string {
  const variants: readonly (() => string)[] = [
    () => `${path}/`,
    () => `/${path}`,
    () => path.toUpperCase(),
    () => path.replace("/v1/", "/v1/../v1/./"),
    () => path.replace("/v1/", "/v1/%2e%2e/"),
    () => `${path}%00`,
    () => `${path}%`,
    () => `${path}%ff`,
    () => `${path}#fragment`,
    () => `${path};a=b`,
    () => `${path}?limit=1&limit=2`,
    () => `${path}?${"a".repeat(3000)}`,
    () => `${path}?x=%zz&=`,
    () => `/v1/${"a".repeat(5000)}`,
    () => `http://localhost${path}`,
    () => `http://evil.example${path}`,
    () => `//evil.example${path}`,
    () => "*",
    () => path.slice(1),
    () => "",
    () => `/${draw(fc.webPath)}`,
    () => `/v1/orders/workers/${oneOf(draw, "-1", "01", "1e3", "99999999999999999999", "NaN", "0x1", "١")}`,
  ];
  return oneOf(draw, ...variants)();
}

/** Makes one request, sends it, and checks what comes back. */
async function fuzzOnce(draw: Draw, world: World): Promise<void> {
  const operation = oneOf(draw, ...operations);
  const values = new Map<Parameter, unknown>();
  for (const parameter of operation.parameters) {
    if (parameter.in === "query" && chance(draw, 60)) continue;
    const spoilt = chance(draw, 7);
    values.set(parameter, spoilt ? draw(() => junk) : valueOf(draw, parameter.schema, parameter.name, world));
  }
  const lease = world.leases.length > 0 && chance(draw, 60) ? oneOf(draw, ...world.leases) : undefined;
  let path = operation.path;
  const query: string[] = [];
  for (const [{ name, in: place }, value] of values) {
    // Somebody who renews or gives back mostly names what goes together.
    const meant = lease === undefined ? value : ((lease as unknown as Json)[name] ?? value);
    const text = encodable(typeof meant === "string" ? meant : JSON.stringify(meant));
    if (place === "path") path = path.replace(`{${name}}`, encodeURIComponent(text));
    else query.push(`${name}=${encodeURIComponent(text)}`);
  }
  if (query.length > 0) path += `?${query.join("&")}`;

  const target = chance(draw, 10) ? oddTarget(draw, path) : path;
  // An empty segment, or a dot, is part of the path.
  const isOdd = target !== path || /\/(?:\.{0,2})(?:[/?]|$)/.test(path);
  const otherMethod = chance(draw, 7);
  const method = otherMethod
    ? oneOf(
        draw,
        "GET",
        "HEAD",
        "POST",
        "PUT",
        "PATCH",
        "DELETE",
        "OPTIONS",
        "TRACE",
        "CONNECT",
        "PROPFIND",
        "get",
        "FOO",
      )
    : operation.method;

  const headers: string[] = chance(draw, 15) ? [...oneOf(draw, ...oddHeaders)] : [];
  let body: Uint8Array = Buffer.alloc(0);
  if (operation.body !== undefined || chance(draw, 5)) {
    const meant = objectOf(draw, operation.body ?? {}, world);
    if (lease !== undefined && "token" in meant)
      Object.assign(meant, { token: lease.token, ...("fence" in meant && { fence: lease.fence }) });
    body = bodyBytes(draw, meant);
    const type = chance(draw, 92) ? "application/json" : oneOf(draw, undefined, ...oddTypes);
    if (type !== undefined) headers.push(`Content-Type: ${type}`);
    headers.push(...framing(draw, body));
    if (headers.some((line) => line.startsWith("Transfer-Encoding"))) body = chunked(body);
  }
  const bytes = Buffer.concat([Buffer.from(requestText(method, target, headers), "latin1"), body]);
  const answer = await rawExchange(world.port, bytes, world.secure);
  try {
    check(answer, { operation: isOdd || otherMethod ? undefined : operation, method, world });
  } catch (error) {
    throw new Error(`${bytes.subarray(0, 2000).toString()}\n\n${answer.text.slice(0, 2000)}`, { cause: error });
  }
}

/** On a busy machine a whole request, too, may arrive more slowly than the daemon waits: it was not read, and is sent again. */
async function readInTime({ port, secure }: World, text: string): Promise<RawAnswer> {
  for (;;) {
    const answer = await rawExchange(port, Buffer.from(text), secure);
    if (answer.status !== 408) return answer;
  }
}

/**
 * Claims that are as they should be, and what may be done to them: so that there is something to ask for, and no operation whose
 * success is left to chance alone.
 */
async function begin(world: World): Promise<void> {
  const send = async (method: string, path: string, body: object): Promise<string> => {
    const text = JSON.stringify(body);
    const head = requestText(method, path, ["Content-Type: application/json", `Content-Length: ${text.length}`]);
    const operation = operations.find((one) => one.method === method && matches(one.path, path));
    const answer = await readInTime(world, head + text);
    check(answer, { operation, method, world });
    expect(answer.status).toBeLessThan(300);
    return answer.text;
  };
  await send("PUT", "/v1/orders", { layout: layouts.westid.fingerprint });
  for (let i = 0; i < 5; i++) await send("POST", "/v1/orders/leases", { now: Date.now() });
  const [renewed, , , released, deleted] = world.leases;
  await send("PATCH", `/v1/orders/leases/${renewed?.workerId}`, { token: renewed?.token, now: Date.now() });
  await send("POST", `/v1/orders/leases/${released?.workerId}/release`, { token: released?.token });
  await send("DELETE", `/v1/orders/leases/${deleted?.workerId}`, { token: deleted?.token });
  await send("POST", "/v1/orders/workers/1/release", { force: true });
  for (const workerId of [2, 5]) await send("PUT", `/v1/orders/workers/${workerId}/pin`, { reason: "kept" });
  await send("DELETE", "/v1/orders/workers/5/pin", {});
  await send("PUT", "/v1/orders/pins", { pins: [{ workerId: 5, reason: "kept" }] });
  await send("DELETE", "/v1/orders/pins", { workerIds: [5] });
  await send("POST", "/v1/orders/prune", { before: Date.now() });
  await send("POST", "/v1/orders/ids", {});
  const eraOf = async (path: string): Promise<string | undefined> =>
    /"era":"([^"]*)"/.exec(await send("GET", path, {}))?.[1];
  await send("POST", "/v1/orders/quarantine/end", { era: await eraOf("/v1/orders") });
  await send("PUT", "/v1/gone", { layout: layouts.westid.fingerprint });
  await send("POST", "/v1/gone/remove", { era: await eraOf("/v1/gone"), iKnow: true });
  for (const path of [
    "",
    "/scope",
    "/events",
    "/workers",
    "/workers/0",
    "/workers/0/history",
    `/ids/${world.ids[0]}`,
  ]) {
    await send("GET", `/v1/orders${path}`, {});
  }
  for (const path of ["/metrics", "/healthz", "/readyz", "/openapi.json"]) await send("GET", path, {});
}

function matches(template: string, path: string): boolean {
  return new RegExp(`^${template.replace(/\{\w+\}/g, "[^/]+")}$`).test(path);
}

function encodable(text: string): string {
  return text.replace(/\p{Cs}/gu, "\ufffd");
}

function framing(draw: Draw, body: Uint8Array): readonly string[] {
  const usual = [`Content-Length: ${body.length}`];
  if (chance(draw, 92)) return usual;
  return oneOf<readonly string[]>(
    draw,
    ["Transfer-Encoding: chunked"],
    ["Transfer-Encoding: chunked", `Content-Length: ${body.length}`],
    ["Transfer-Encoding: gzip, chunked"],
    [],
    [`Content-Length: ${body.length + 10}`],
    ["Content-Length: -1"],
    ["Content-Length: 99999999999"],
    [`Content-Length: ${body.length}`, `Content-Length: ${body.length + 1}`],
  );
}

function chunked(body: Uint8Array): Uint8Array {
  const head = body.length === 0 ? "" : `${body.length.toString(16)}\r\n`;
  return Buffer.concat([Buffer.from(head), body, Buffer.from(`${head === "" ? "" : "\r\n"}0\r\n\r\n`)]);
}

/** Holds an answer against the description, and learns from it. */
function check(
  { status, headers, body, text }: RawAnswer,
  { operation, method, world }: { operation: Operation | undefined; method: string; world: World },
): void {
  const media = headers.get("content-type")?.split(";")[0] ?? "";
  const answered = operation?.answers.get(status);
  expect(status).toBeGreaterThanOrEqual(200);
  expect(status).not.toBe(500);
  if (operation !== undefined) expect([...operation.answers.keys(), ...everywhere]).toContain(status);
  // What cannot be read as a request is none for the headers alone either.
  if (method === "HEAD" && (status < 400 || body === "")) expect(body).toBe("");
  else if (operation === undefined && media === "text/html") expect(body).toMatch(/^<!doctype html>/);
  else if (status >= 400) {
    expect(media).toBe("application/problem+json");
    const parsed = JSON.parse(body) as { status: number; detail: string };
    expect({ errors: problem(parsed) ? null : problem.errors }).toEqual({ errors: null });
    expect(parsed).toMatchObject({ status, detail: expect.not.stringMatching(/[\r\n]|its log says why/) as unknown });
    if (status === 429 || status === 503) expect(headers.get("retry-after")).toMatch(/^[1-9]\d*$/);
  } else if (answered === null) expect(body).toBe("");
  else if (answered !== undefined) {
    expect(media).toBe(answered.media);
    const value: unknown = media === "application/json" ? JSON.parse(body) : body;
    expect({ errors: answered.valid(value) ? null : answered.valid.errors }).toEqual({ errors: null });
  }

  let learnt: Json = {};
  if (body !== "" && status < 300 && media === "application/json") learnt = JSON.parse(body) as Json;
  const { token, ids } = learnt as { token?: string; ids?: string[] };
  const others = [...world.secrets].filter((secret) => secret !== token && text.includes(secret));
  expect(others).toEqual([]);
  if (token !== undefined) {
    world.secrets.add(token);
    const { workerId, fence } = learnt as { workerId: number; fence: number };
    world.leases.push({ namespace: world.windows.lastNamespace, workerId, fence, token });
  }
  world.ids.push(...(ids ?? []).slice(0, 3));
  if (operation !== undefined) seen.add(`${operation.method} ${operation.path} ${status}`);
}

test.each(["HTTP", "TLS"] as const)(
  "whatever is sent over %s, the answer is one of those described; nothing breaks, and no window is granted twice",
  { timeout },
  async (protocol) => {
    seen.clear();
    const property = fc.asyncProperty(fc.gen(), async (draw) => {
      const world = await newWorld(protocol);
      try {
        await begin(world);
        for (let i = 0; i < requestsPerRun; i++) await fuzzOnce(draw, world);
        const alive = await readInTime(world, requestText("GET", "/readyz", []));
        expect(alive.status).toBe(200);
      } finally {
        await world.daemon.close("now");
      }
      expect(world.log.filter(({ level }) => level === "error")).toEqual([]);
      const told = world.log.map(({ text }) => text).join("\n");
      expect([...world.secrets].filter((secret) => told.includes(secret))).toEqual([]);
      world.windows.check();
    });
    const seed = process.env["SNOWLEASE_SEED"];
    const found = await fc.check(property, {
      numRuns: runs[protocol],
      endOnFailure: true,
      ...(seed !== undefined && { seed: Number(seed) }),
    });
    // Shorter than what fast-check prints, which is all that was drawn.
    if (found.failed) throw new Error(`To see it again: SNOWLEASE_SEED=${found.seed}`, { cause: found.errorInstance });
    // A fuzzer that never gets through tests nothing.
    const never = operations.filter(({ method, path, answers }) => {
      return ![...answers.keys()].some((status) => status < 300 && seen.has(`${method} ${path} ${status}`));
    });
    expect(never.map(({ method, path }) => `${method} ${path}`)).toEqual([]);
  },
);
