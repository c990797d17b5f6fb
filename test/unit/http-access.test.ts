import crypto, { createHash } from "node:crypto";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { layouts } from "../../src/id/layout.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { admit } from "../../src/http/access/credentials.ts";
import { type AppOptions, createApp } from "../../src/http/app.ts";
import { type Daemon, type DaemonOptions, startDaemon } from "../../src/daemon.ts";
import { daemonRegistry } from "../../src/registries/daemon/registry.ts";
import { parseTokens, tokenFile, type Tokens } from "../../src/serving/tokens.ts";
import { roles } from "../../src/api/call.ts";
import { fakeClock, memoryRegistry } from "../../src/testing.ts";

const folder = mkdtempSync(join(tmpdir(), "snowlease-access-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** Stands still: no request is late. */
const clock = fakeClock();
/** What is asked here is answered, however slowly. */
const limits = { headersTimeout: 600_000, requestTimeout: 600_000 };
const patient = { operationTimeout: 600_000 };
const silent = { info() {}, warn() {}, error() {} };
const hash = (token: string): string => createHash("sha256").update(token).digest("hex");

let files = 0;
/** A file of tokens, each line `TOKEN ROLE [GLOB]`: the token is hashed on the way. */
function written(lines: readonly string[], path = join(folder, `tokens-${files++}`)): string {
  writeFileSync(path, lines.map((line) => line.replace(/^\S+/, hash)).join("\n"), { mode: 0o600 });
  return path;
}

const lines = roles.flatMap((role) => [
  `${role}-all ${role}`,
  `${role}-orders ${role} orders`,
  `${role}-o ${role} o*s`,
]);

const bearer = (token: string): Record<string, string> => ({ authorization: `Bearer ${token}` });
const basic = (login: string): Record<string, string> => ({
  authorization: `Basic ${Buffer.from(login).toString("base64")}`,
});

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  /** Only of a refusal: what succeeds may go on without end. */
  readonly text: string;
}

const ids: AppOptions["ids"] = {
  holds: () => true,
  take: () => Promise.resolve(BigUint64Array.of(1n)),
};

type Ask = (operation: string, headers?: Record<string, string>) => Promise<Answer>;

async function answerOf(response: Response): Promise<Answer> {
  const { status, headers } = response;
  if (status >= 400) return { status, headers, text: await response.text() };
  await response.body?.cancel();
  return { status, headers, text: "" };
}

/** A registry that has these namespaces. */
async function registryOf(...namespaces: readonly string[]): Promise<Registry> {
  const registry = memoryRegistry({ clock });
  for (const namespace of namespaces) await registry.init({ namespace, layout: layouts.westid.fingerprint });
  return registry;
}

function makeAsk(options: Partial<AppOptions> = {}): Ask {
  const app = registryOf("orders", "bills").then((registry) => createApp({ registry, ids, clock, ...options }));
  return async (operation, headers = {}) => {
    const [method = "", path = ""] = operation.split(" ");
    const response = await (await app).fetch(new Request(`http://localhost${path}`, { method, headers }));
    return answerOf(response);
  };
}

type Security = readonly Record<string, readonly string[]>[];

describe("every route that the description lists", () => {
  let operations: { readonly operation: string; readonly security: Security | undefined }[];
  let ask: Ask;
  let daemon: Daemon;
  afterAll(() => daemon.close("now"));

  beforeAll(async () => {
    const listen = { host: "127.0.0.1", port: 0 };
    daemon = await startDaemon({
      registry: memoryRegistry({ clock }),
      listen,
      limits,
      clock,
      log: silent,
      tokens: written(lines),
    });
    ask = async (operation, headers = {}) => {
      const [method = "", path = ""] = operation.split(" ");
      return answerOf(await fetch(daemon.url + path, { method, headers }));
    };
    const response = await fetch(`${daemon.url}/openapi.json`);
    const { paths, components } = (await response.json()) as {
      paths: Record<string, Record<string, { security?: Security }>>;
      components: { securitySchemes: object };
    };
    expect(Object.keys(components.securitySchemes)).toEqual(["bearer", "basic"]);
    operations = Object.entries(paths).flatMap(([path, item]) =>
      Object.entries(item).map(([method, { security }]) => ({
        operation: `${method.toUpperCase()} ${path.replace("{namespace}", "orders").replace(/\{\w+\}/, "7")}`,
        security,
      })),
    );
    expect(operations.length).toBeGreaterThan(15);
  });

  const inNamespace = (operation: string): boolean => operation.includes("/v1/orders");
  const closed = (): typeof operations => operations.filter(({ security }) => security !== undefined);

  test("names who may call it: workers lease, readers look, administrators change the rest", () => {
    for (const { operation, security } of operations) {
      if (security === undefined) {
        expect(["GET /healthz", "GET /openapi.json", "GET /"]).toContain(operation);
        continue;
      }
      const [role] = security[0]?.["bearer"] ?? [];
      expect(security).toEqual(["bearer", "basic"].map((scheme) => ({ [scheme]: role === undefined ? [] : [role] })));
      const isWorkers = /^(POST|PATCH|DELETE) .*\/leases\b|^POST .*\/ids$/.test(operation);
      if (isWorkers) expect({ operation, role }).toEqual({ operation, role: "worker" });
      else if (operation.startsWith("GET ")) expect(["read", undefined]).toContain(role);
      else expect({ operation, role }).toEqual({ operation, role: "admin" });
    }
  });

  test("refuses a stranger with 401 and a challenge", async () => {
    const strangers: Record<string, Record<string, string>> = {
      nothing: {},
      "another token": bearer("nobody"),
      "another password": basic("worker-all:nobody"),
      "a hash instead of the token": bearer(hash("admin-all")),
      "no token behind Bearer": { authorization: "Bearer " },
      "another scheme": { authorization: "Digest admin-all" },
      "a token alone": { authorization: "admin-all" },
      "two tokens": { authorization: "Bearer admin-all admin-all" },
      "no login in Basic": { authorization: "Basic ====" },
    };
    for (const { operation } of closed()) {
      for (const [who, headers] of Object.entries(strangers)) {
        const { status, headers: answered, text } = await ask(operation, headers);
        expect({ operation, who, status }).toEqual({ operation, who, status: 401 });
        expect(answered.get("content-type")).toBe("application/problem+json");
        expect(answered.get("www-authenticate")).toMatch(/^Bearer realm="snowlease".*, Basic realm="snowlease"/);
        expect(JSON.parse(text)).toMatchObject({ status: 401, code: "UNAUTHORIZED" });
        expect(text).not.toMatch(/admin-all|nobody/);
      }
    }
  });

  test("refuses a token of another role with 403, and one of another namespace", async () => {
    const elsewhere = operations.map(({ operation, security }) => ({
      operation: operation.replace("/v1/orders", "/v1/bills"),
      security,
    }));
    for (const { operation, security } of [
      ...closed(),
      ...elsewhere.filter(({ security }) => security !== undefined),
    ]) {
      const [needed] = security?.[0]?.["bearer"] ?? [];
      for (const role of roles) {
        for (const where of ["all", "orders", "o"]) {
          const isRole = needed === undefined || role === needed || role === "admin";
          const isWhere =
            where === "all" || (inNamespace(operation) ? true : !operation.includes("/v1/") && needed === undefined);
          const { status, headers, text } = await ask(operation, bearer(`${role}-${where}`));
          const seen = { operation, token: `${role}-${where}`, refused: status === 401 || status === 403 };
          expect(seen).toEqual({ ...seen, refused: !(isRole && isWhere) });
          if (!seen.refused) continue;
          expect(status).toBe(403);
          expect(JSON.parse(text)).toMatchObject({ code: "FORBIDDEN" });
          expect(headers.get("www-authenticate")).toContain('error="insufficient_scope"');
        }
      }
    }
  });

  test("refuses before it looks at anything else of the request", async () => {
    expect((await ask("POST /v1/orders/leases", { "content-type": "text/plain" })).status).toBe(401);
    expect((await ask("GET /v1/NO/workers?x=1")).status).toBe(401);
    expect((await ask("GET /v1/NO/workers", bearer("read-orders"))).status).toBe(403);
    expect((await ask("GET /v1/NO/workers", bearer("read-all"))).status).toBe(400);
    expect((await ask("HEAD /v1/orders/workers")).status).toBe(401);
    expect((await ask("HEAD /v1/orders/workers", bearer("read-orders"))).status).toBe(200);
  });

  test("is open to every client where there are no tokens", async () => {
    const open = makeAsk();
    for (const { operation } of operations) expect([401, 403]).not.toContain((await open(operation)).status);
  });
});

describe("a token", () => {
  test.each([
    ["Bearer", bearer("read-all")],
    ["bearer in small letters", { authorization: "bearer read-all" }],
    ["the password of a login", basic("anybody:read-all")],
    ["a password without a user", basic(":read-all")],
    ["a user without a password", basic("read-all:")],
  ])("is taken as %s", async (_, headers) => {
    const ask = makeAsk({ tokens: tokenFile(written(lines), silent) });
    expect((await ask("GET /v1/orders/workers", headers)).status).toBe(200);
  });

  test("with several lines may do what each of them says", async () => {
    const ask = makeAsk({ tokens: tokenFile(written(["t worker orders", "t read bills", "u read"]), silent) });
    const statuses = ["POST /v1/orders/ids", "GET /v1/bills/workers", "GET /v1/orders/workers", "POST /v1/bills/ids"];
    const found = await Promise.all(statuses.map(async (operation) => (await ask(operation, bearer("t"))).status));
    expect(found).toEqual([200, 200, 403, 403]);
  });

  test("is compared with every line in constant time, wherever it stands", () => {
    const tokens: Tokens = tokenFile(written(["first read", "second read", "third read"]), silent);
    const compare = vi.spyOn(crypto, "timingSafeEqual");
    syncBuiltinESMExports();
    try {
      for (const token of ["first", "third", "nobody"]) {
        compare.mockClear();
        const admitted = (): string => admit(tokens, `Bearer ${token}`, "read", "orders");
        if (token === "nobody") expect(admitted).toThrow("another came");
        else expect(admitted()).toBe(hash(token));
        expect(compare).toHaveBeenCalledTimes(3);
      }
    } finally {
      compare.mockRestore();
      syncBuiltinESMExports();
    }
  });
});

describe("a file of tokens", () => {
  const good = hash("secret-token");

  test("has comments, empty lines and any line end", () => {
    const text = `# who\r\n\r\n${good} read # a dashboard\r\n\t${good.toUpperCase()}  worker   orders_*  \n`;
    const grants = parseTokens(text, "f");
    expect(grants.map(({ role }) => role)).toEqual(["read", "worker"]);
    expect(grants.map(({ namespaces }) => namespaces.test("orders_eu"))).toEqual([true, true]);
    expect(grants.map(({ namespaces }) => namespaces.test("bills"))).toEqual([true, false]);
  });

  test.each([
    ["a token instead of its hash", "secret-token read", /64 hexadecimal digits/],
    ["a hash that is cut", `${good.slice(1)} read`, /64 hexadecimal digits/],
    ["no role", good, /roles worker, read, admin/],
    ["another role", `${good} secret-token`, /roles worker, read, admin/],
    ["another pattern", `${good} read secret-token[`, /letters, digits/],
    ["too much", `${good} read orders secret-token`, /and no more/],
  ])("with %s is refused by the number of the line, and nothing of it", (_, line, rule) => {
    const parse = (): unknown => parseTokens(`# one\n${good} read\n\n${line}\n`, "/etc/tokens");
    expect(parse).toThrow(expect.objectContaining({ code: "CONFIG_INVALID" }));
    expect(parse).toThrow(/^Expected line 4 of \/etc\/tokens to be /);
    expect(parse).toThrow(rule);
    expect(parse).not.toThrow(/secret-token/);
    expect(parse).not.toThrow(new RegExp(good.slice(1)));
  });

  test.each(["", "# nothing\n"])("without a token is refused: %j", (text) => {
    expect(() => parseTokens(text, "f")).toThrow(/has no token/);
  });

  test("that is missing, a folder or too long is refused", () => {
    const long = join(folder, "long");
    writeFileSync(long, "#".repeat(1024 * 1024 + 1), { mode: 0o600 });
    expect(() => tokenFile(join(folder, "none"), silent)).toThrow(/cannot be read \(ENOENT\)/);
    expect(() => tokenFile(folder, silent)).toThrow(/not a regular file/);
    expect(() => tokenFile(long, silent)).toThrow(/has 1048577 bytes/);
  });

  test("that every user can write is refused, and one that every user can read is logged", () => {
    const warned: string[] = [];
    const log = { ...silent, warn: (_: object, message: string) => void warned.push(message) };
    const path = written(["t read"]);
    for (const mode of [0o600, 0o640, 0o660]) {
      chmodSync(path, mode);
      tokenFile(path, log);
    }
    expect(warned).toEqual([]);
    chmodSync(path, 0o644);
    tokenFile(path, log);
    expect(warned).toEqual([`${path} can be read by every user; take that right away: chmod o-rwx`]);
    chmodSync(path, 0o602);
    expect(() => tokenFile(path, log)).toThrow(/can be written by every user/);
  });
});

describe("a daemon with tokens", () => {
  const open: Daemon[] = [];
  afterEach(async () => {
    for (const daemon of open.splice(0)) await daemon.close("now");
  });

  async function start(
    options: Partial<DaemonOptions> = {},
  ): Promise<{ daemon: Daemon; url: string; logged: object[] }> {
    const logged: object[] = [];
    const write =
      (level: string) =>
      (fields: object, message: string): void =>
        void logged.push({ level, message, ...fields });
    const log = { info: write("info"), warn: write("warn"), error: write("error") };
    const listen = { host: "127.0.0.1", port: 0 };
    const daemon = await startDaemon({ registry: await registryOf("orders"), listen, limits, clock, log, ...options });
    open.push(daemon);
    return { daemon, url: daemon.url ?? "", logged };
  }

  const status = async (url: string, token?: string): Promise<number> =>
    (await fetch(`${url}/v1/orders/workers`, { headers: token === undefined ? {} : bearer(token) })).status;

  test("takes a file that begins with a byte order mark, and refuses one in UTF-16", async () => {
    const path = written(["old read"]);
    writeFileSync(path, `\ufeff${readFileSync(path, "utf8")}`);
    const { url } = await start({ tokens: path });
    expect(await status(url, "old")).toBe(200);
    for (const mark of ["\ufeff", ""]) {
      writeFileSync(path, Buffer.from(mark + readFileSync(path, "utf8"), "utf16le"));
      await expect(start({ tokens: path })).rejects.toThrow(
        `The file ${path} of \`tokens\` is not UTF-8; save it as UTF-8.`,
      );
    }
  });

  test("reads its file again when told to, and keeps what it had when that cannot be used", async () => {
    const path = written(["old read"]);
    const { daemon, url, logged } = await start({ tokens: path });
    expect([await status(url), await status(url, "old"), await status(url, "new")]).toEqual([401, 200, 401]);
    written(["new read"], path);
    daemon.reload?.();
    expect([await status(url, "old"), await status(url, "new")]).toEqual([401, 200]);
    writeFileSync(path, "half-written-secret");
    daemon.reload?.();
    expect(await status(url, "new")).toBe(200);
    expect(logged.slice(2)).toMatchObject([
      { level: "info", event: "reloaded" },
      { level: "error", event: "not-reloaded", what: "tokens", err: { code: "CONFIG_INVALID" } },
    ]);
    const text = logged.map((line) => inspect(line, { depth: null })).join();
    expect(text).toContain(`line 1 of ${path}`);
    expect(text).not.toContain("half-written-secret");
  });

  test("ends the events of a reader whose token it no longer knows, and of nobody else", async () => {
    const path = written(["old read", "kept read orders"]);
    const { daemon, url } = await start({ tokens: path });
    const read = async (token: string): Promise<ReadableStreamDefaultReader<Uint8Array>> => {
      const reader = (await fetch(`${url}/v1/orders/events`, { headers: bearer(token) })).body?.getReader();
      if (reader === undefined) throw new Error("There are no events.");
      await reader.read();
      return reader;
    };
    // A mark, which has no event, may come at any time: a stream shows with it that it lives.
    const next = async (reader: ReadableStreamDefaultReader<Uint8Array>): Promise<{ done: boolean; text: string }> => {
      for (;;) {
        const { done, value } = await reader.read();
        const text = new TextDecoder().decode(value).replace(/^(?:id: \S+\n\n)+/, "");
        if (done || text !== "") return { done, text };
      }
    };
    const [old, kept] = [await read("old"), await read("kept")];
    written(["kept read orders", "new admin"], path);
    daemon.reload?.();
    const init = { method: "POST", headers: { ...bearer("new"), "content-type": "application/json" } };
    await fetch(`${url}/v1/orders/leases`, { ...init, body: JSON.stringify({ now: clock.now() }) });
    expect(await next(old)).toEqual({ done: true, text: "" });
    expect(await next(kept)).toEqual({
      done: false,
      text: expect.stringContaining("event: claimed") as string,
    });
    await kept.cancel();
  });

  test("asks for them on its socket, too, and has nothing to read again where there are none", async () => {
    const socket = join(folder, "s");
    await start({ tokens: written(["t worker"]), listen: undefined, socket });
    const registryWith = (token?: string): ReturnType<typeof daemonRegistry> =>
      daemonRegistry([`unix:${socket}`], { ...patient, token });
    await expect(registryWith().describe("orders")).rejects.toMatchObject({ code: "UNAUTHORIZED" });
    await expect(registryWith("u").describe("orders")).rejects.toMatchObject({ code: "UNAUTHORIZED" });
    expect(await registryWith("t").describe("orders")).toMatchObject({ layout: layouts.westid.fingerprint });
    await expect(registryWith("t").workers("orders")).rejects.toMatchObject({ code: "FORBIDDEN" });
    expect((await start()).daemon.reload).toBeUndefined();
  });

  test("takes one that stands in its URL, in any place of a login, before one that is given beside it", async () => {
    const { url } = await start({ tokens: written(["t worker"]) });
    for (const login of [":t", "t", "me:t", ":%74"]) {
      const registry = daemonRegistry([url.replace("//", `//${login}@`)], { ...patient, token: "another" });
      expect(await registry.describe("orders")).toBeDefined();
      await registry.close();
    }
  });

  test("that a wrong one is shown says so at once and without it", async () => {
    const { url } = await start({ tokens: written(["t worker"]) });
    const registry = daemonRegistry([url.replace("//", "//:s3cret@")], patient);
    const error = await registry.describe("orders").catch((error: unknown) => error);
    expect(error).toMatchObject({ code: "UNAUTHORIZED", retryable: false });
    expect(String(error) + JSON.stringify(error)).not.toContain("s3cret");
  });

  test.each(["0.0.0.0", "::", "192.0.2.1"])(
    "listens on %s only where it is told that this is insecure",
    async (host) => {
      const listen = { host, port: 0 };
      await expect(start({ listen })).rejects.toMatchObject({ code: "CONFIG_INVALID" });
      await expect(start({ listen, tokens: written(["t read"]) })).rejects.toMatchObject({ code: "CONFIG_INVALID" });
      if (host === "192.0.2.1") return;
      const { url } = await start({ listen, insecure: true });
      const at = `http://127.0.0.1:${new URL(url).port}`;
      expect((await fetch(`${at}/v1/orders/workers`)).status).toBe(200);
    },
  );

  test("that others can reach is called by any name with tokens, and else by none that can be registered", async () => {
    const ask = (tokens?: Tokens): Ask =>
      makeAsk({ tokens, hosts: { kind: tokens === undefined ? "private" : "any", names: [] } });
    const names = [
      "192.0.2.7:7070",
      "[2001:db8::1]:7070",
      "snowlease:7070",
      "localhost",
      "evil.example",
      "a_b",
      "1.2.3",
    ];
    const found = async (ask: Ask): Promise<number[]> =>
      Promise.all(names.map(async (host) => (await ask("GET /healthz", { host })).status));
    expect(await found(ask())).toEqual([200, 200, 200, 200, 403, 403, 403]);
    expect(await found(ask(tokenFile(written(["t read"]), silent)))).toEqual(Array(7).fill(200));
    const page = { host: "snowlease.example", origin: "http://evil.example" };
    expect((await ask(tokenFile(written(["t read"]), silent))("GET /healthz", page)).status).toBe(403);
  });

  test.each(["loopback", "private"] as const)(
    "is called by the names that an operator allows (%s), too",
    async (kind) => {
      const name = "snowlease.default.svc.cluster.local";
      const ask = makeAsk({ hosts: { kind, names: [name] } });
      for (const host of [name, `${name}:7070`, name.toUpperCase(), "localhost:7070"]) {
        for (const path of ["/healthz", "/v1/orders/workers"]) {
          expect((await ask(`GET ${path}`, { host })).status, `${host}${path}`).toBe(200);
          expect((await ask(`GET ${path}`, { host, origin: "http://evil.example" })).status).toBe(403);
        }
      }
      for (const host of [`a.${name}`, "svc.cluster.local", `${name}.evil.example`, `${name}.`, `${name}:x`]) {
        const { status, text } = await ask("GET /healthz", { host });
        expect(status, host).toBe(403);
        expect(JSON.parse(text)).toMatchObject({
          code: "FORBIDDEN",
          detail: expect.stringContaining("`--allow-host NAME`") as string,
        });
      }
    },
  );
});
