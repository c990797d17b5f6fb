import { createHash } from "node:crypto";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect as connectSecurely } from "node:tls";
import { afterEach, describe, expect, test } from "vitest";
import type { Registry } from "../../src/rule/registry.ts";
import { type Daemon, type DaemonOptions, startDaemon } from "../../src/daemon.ts";
import { memoryRegistry } from "../../src/testing.ts";
import { makeCertificates } from "../support/certificates.ts";

const token = "a-worker";
const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

interface Started {
  readonly port: number;
  readonly warnings: { readonly event?: string; readonly reason?: string; readonly message: string }[];
}

async function start(options: Partial<DaemonOptions> = {}): Promise<Started> {
  const warnings: Started["warnings"] = [];
  const log = {
    info() {},
    warn: (fields: object, message: string) => void warnings.push({ ...fields, message }),
    error() {},
  };
  const listen = { host: "127.0.0.1", port: 0 };
  const daemon: Daemon = await startDaemon({ registry: memoryRegistry(), log, listen, ...options });
  cleanups.push(() => daemon.close("now"));
  return { port: Number(new URL(daemon.url ?? "").port), warnings };
}

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "snowlease-"));
  cleanups.push(() => rmSync(path, { recursive: true }));
  return path;
}

function tokens(): string {
  const path = join(folder(), "tokens");
  writeFileSync(path, `${createHash("sha256").update(token).digest("hex")} admin\n`, { mode: 0o600 });
  return path;
}

/** A client that keeps its connection, and all answers to it. */
class Client {
  readonly socket: Socket;
  heard = "";

  constructor(socket: Socket) {
    this.socket = socket;
    socket.setEncoding("utf8").on("data", (text: string) => (this.heard += text));
    socket.on("error", () => undefined);
    cleanups.push(() => socket.destroy());
  }

  static async on(port: number): Promise<Client> {
    const client = new Client(connect(port, "127.0.0.1"));
    await once(client.socket, "connect");
    return client;
  }

  ask(path: string, ...headers: string[]): void {
    this.socket.write(`${[`GET ${path} HTTP/1.1`, "Host: localhost", ...headers].join("\r\n")}\r\n\r\n`);
  }

  /** The status of an answer, `ended`, or nothing yet. */
  get state(): string | undefined {
    const [, status] = /^HTTP\/1\.1 (\d{3})/.exec(this.heard) ?? [];
    return this.socket.destroyed ? `${status ?? ""} ended`.trim() : status;
  }

  async becomes(state: string): Promise<void> {
    await expect.poll(() => this.state, { timeout: 10_000 }).toBe(state);
  }
}

const bearer = `Authorization: Bearer ${token}`;

async function served(port: number, ...headers: string[]): Promise<Client> {
  const client = await Client.on(port);
  client.ask(headers.length > 0 ? "/readyz" : "/openapi.json", ...headers);
  await client.becomes("200");
  return client;
}

describe("a daemon without room for another connection", () => {
  test("ends the idle connection that was used the longest ago, and reports that once", async () => {
    const { port, warnings } = await start({ maxConnections: 3 });
    const silent = await Client.on(port);
    const first = await served(port);
    const second = await served(port);
    await served(port);
    await silent.becomes("ended");
    await served(port);
    await first.becomes("200 ended");
    expect(second.state).toBe("200");
    expect(warnings).toMatchObject([{ event: "connections-ended", reason: "idle", count: 1, open: 2, most: 3 }]);
  });

  test("ends no connection that waits for an answer: the new one may only read the daemon's health", async () => {
    const { registry, asked } = stuck();
    const { port } = await start({ maxConnections: 1, registry });
    const busy = await Client.on(port);
    busy.ask("/v1/orders/workers");
    await asked;
    const other = await Client.on(port);
    other.ask("/openapi.json");
    await other.becomes("503 ended");
    for (const path of ["/healthz", "/metrics"]) {
      const probe = await Client.on(port);
      probe.ask(path);
      await probe.becomes("200 ended");
      if (path === "/metrics") expect(probe.heard).toMatch(/^snowlease_connections_limit 1$/m);
    }
    expect(busy.state).toBeUndefined();
  });

  test("has room again when one ends", async () => {
    const { registry, asked } = stuck();
    const { port } = await start({ maxConnections: 1, registry });
    const busy = await Client.on(port);
    busy.ask("/v1/orders/workers");
    await asked;
    busy.socket.destroy();
    const retry = async (): Promise<string | undefined> => {
      const client = await Client.on(port);
      client.ask("/openapi.json");
      await expect.poll(() => client.state).toBeDefined();
      return client.state;
    };
    await expect.poll(retry, { timeout: 10_000 }).toBe("200");
  });

  test("counts the ended ones, by the reason", async () => {
    const { port } = await start({ maxConnections: 2 });
    await Client.on(port);
    await Client.on(port);
    const last = await Client.on(port);
    const eager = await Client.on(port);
    eager.socket.write("GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(500));
    await expect.poll(() => eager.socket.destroyed).toBe(true);
    last.ask("/metrics");
    await last.becomes("200");
    expect(last.heard).toMatch(/^snowlease_connections_ended_total\{reason="idle"\} 2$/m);
    expect(last.heard).toMatch(/^snowlease_connections_ended_total\{reason="ahead"\} 1$/m);
    expect(last.heard).toMatch(/^snowlease_connections 1$/m);
  });

  test("keeps an idle client with a token, and ends one without", async () => {
    const { port } = await start({ maxConnections: 8, tokens: tokens() });
    const known: Client[] = [];
    while (known.length < 7) known.push(await served(port, bearer));
    const unknown = await served(port);
    const another = await served(port, bearer);
    await unknown.becomes("200 ended");
    expect([...known, another].map(({ state }) => state)).toEqual(Array.from({ length: 8 }, () => "200"));
  });
});

test("an address may use a quarter of the connections before it shows a token, and all of them afterwards", async () => {
  const { port } = await start({ maxConnections: 8, tokens: tokens() });
  const [first, second, third] = [await served(port), await served(port), await served(port)];
  await first.becomes("200 ended");
  for (const client of [second, third]) {
    client.heard = "";
    client.ask("/readyz", bearer);
    await client.becomes("200");
  }
  await served(port);
  await served(port);
  expect([second.state, third.state]).toEqual(["200", "200"]);
});

test("a wrong token counts as none", async () => {
  const { port } = await start({ maxConnections: 4, tokens: tokens() });
  const first = await Client.on(port);
  first.ask("/readyz", "Authorization: Bearer another");
  await first.becomes("401");
  await served(port);
  await first.becomes("401 ended");
});

test("connections over TLS are ended, too: during the handshake, and after it", async () => {
  const path = folder();
  const { authority, certificate, key } = makeCertificates(path);
  chmodSync(key, 0o600);
  const { port } = await start({ maxConnections: 2, tls: { cert: certificate, key } });
  const secure = async (): Promise<Client> => {
    const client = new Client(connectSecurely({ port, host: "127.0.0.1", ca: readFileSync(authority) }));
    await once(client.socket, "secureConnect");
    client.ask("/openapi.json");
    await client.becomes("200");
    return client;
  };
  const plain = await Client.on(port);
  const first = await secure();
  const second = await secure();
  await plain.becomes("ended");
  await secure();
  await first.becomes("200 ended");
  expect(second.state).toBe("200");
});

test("a client may send 100 requests ahead, and gets the answers in their order", async () => {
  const { port } = await start();
  const client = await Client.on(port);
  for (let i = 0; i < 100; i++) client.socket.write(`GET /path-${i} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
  await expect.poll(() => client.heard.match(/no `GET \/path-99`/g)?.length, { timeout: 10_000 }).toBe(1);
  const paths = [...client.heard.matchAll(/no `GET \/path-(\d+)`/g)].map(([, path]) => Number(path));
  expect(paths).toEqual(Array.from({ length: 100 }, (_, i) => i));
});

test.each(["", "Expect: nothing\r\n"])(
  "Node makes objects of no more requests than may wait, however many it reads at once (%j)",
  async (header) => {
    const { port } = await start();
    let made = 0;
    const count = (): void => void made++;
    subscribe("http.server.request.start", count);
    cleanups.push(() => unsubscribe("http.server.request.start", count));
    const client = await Client.on(port);
    client.socket.pause().write(`GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n${header}\r\n`.repeat(2000));
    await expect.poll(() => made).toBeGreaterThan(0);
    client.socket.resume();
    await expect.poll(() => client.socket.destroyed, { timeout: 10_000 }).toBe(true);
    expect(made).toBe(101);
  },
);

test("large answers that clients do not read take bounded memory; a client that reads gets its IDs again when they are gone", async () => {
  const { port } = await start();
  const ids = JSON.stringify({ count: 100_000 });
  const request = `POST /v1/orders/ids HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${ids.length}\r\n\r\n${ids}`;
  const deaf = await Promise.all(Array.from({ length: 12 }, () => Client.on(port)));
  for (const { socket } of deaf) socket.pause().write(request.repeat(9));
  const ask = async (): Promise<string> => {
    const client = await Client.on(port);
    client.socket.write(request);
    await expect.poll(() => client.state, { timeout: 10_000 }).toBeDefined();
    return `${client.state} ${/"code":"(\w+)"/.exec(client.heard)?.[1]}`;
  };
  await expect.poll(ask, { timeout: 10_000 }).toBe("429 RATE_LIMITED");
  for (const { socket } of deaf) socket.destroy();
  await expect.poll(ask, { timeout: 10_000 }).toBe("200 undefined");
});

/** A registry that never answers a look at its workers. */
function stuck(): { readonly registry: Registry; readonly asked: Promise<void> } {
  let tell: () => void;
  const asked = new Promise<void>((resolve) => (tell = resolve));
  const look = (): Promise<never> => {
    tell();
    return new Promise(() => undefined);
  };
  return { registry: { ...memoryRegistry(), describe: look }, asked };
}
