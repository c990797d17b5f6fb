import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from "node:net";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { layouts } from "../../src/id/layout.ts";
import { RecentTicks } from "../../src/generator/recent-ticks.ts";
import type { ClaimRequest, Registry, WorkerRecord } from "../../src/rule/registry.ts";
import { startDaemon } from "../../src/daemon.ts";
import { daemonRegistry } from "../../src/registries/daemon/registry.ts";
import { fakeClock, memoryRegistry } from "../../src/testing.ts";
import { startNewerDaemon } from "../support/newer-daemon.ts";

const log = { info() {}, warn() {}, error() {} };
const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

const request: ClaimRequest = {
  namespace: "orders",
  token: "0123456789abcdef0123456789abcdef",
  pool: layouts.westid.pool,
  holder: { host: "a", ip: "192.0.2.7", pid: 12, instance: "" },
  get clock() {
    return Date.now();
  },
  window: 60_000,
  layout: layouts.westid.fingerprint,
};

/** A claim's answer that would be taken. */
const grant = {
  workerId: 7,
  fence: 1,
  token: request.token,
  from: 1,
  until: 2,
  clock: 1,
  renewAfterMs: 1,
  layout: "x",
};

async function daemonOf(registry: Registry, listen = { host: "127.0.0.1", port: 0 }): Promise<string> {
  const daemon = await startDaemon({ registry, listen, log });
  cleanups.push(() => daemon.close("now"));
  return daemon.url ?? "";
}

async function addressOf(server: Server): Promise<string> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  cleanups.push(() => new Promise((resolve) => server.close(resolve)));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** An HTTP server that is no daemon. */
async function impostor(listener: (...exchange: Parameters<RequestListener>) => unknown): Promise<string> {
  const server = createServer((request, response) => void listener(request, response));
  const address = await addressOf(server);
  cleanups.push(() => server.closeAllConnections());
  return address;
}

/** Something that listens and does this to each connection. */
async function listener(behave: (socket: Socket) => void): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createTcpServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    behave(socket);
  });
  const address = await addressOf(server);
  cleanups.push(() => sockets.forEach((socket) => socket.destroy()));
  return address;
}

/** An address at which nobody listens. */
async function nobody(): Promise<string> {
  const server = createTcpServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return `http://127.0.0.1:${port}`;
}

const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n";

/** Sends a text every few ms, until the connection ends. */
function repeat(socket: Socket, text: string): void {
  const timer = setInterval(() => socket.write(text), 20);
  socket.once("close", () => clearInterval(timer));
}

function connectTo(addresses: string[], operationTimeout = 60_000): Registry {
  const registry = daemonRegistry(addresses, { operationTimeout });
  cleanups.push(() => registry.close());
  return registry;
}

function problem(status: number, code: string, more: object = {}): RequestListener {
  return (_, response) => {
    response.writeHead(status, { "content-type": "application/problem+json", "retry-after": "1" });
    response.end(JSON.stringify({ title: "x", status, detail: "It is so.", code, ...more }));
  };
}

describe("what is not a daemon is REGISTRY_UNAVAILABLE, with its address", () => {
  test.each<[string, () => Promise<string>]>([
    ["nobody", nobody],
    ["somebody who says nothing", () => listener(() => {})],
    ["somebody who hangs up", () => listener((socket) => socket.destroy())],
    [
      "somebody who hangs up after the request",
      () => listener((socket) => socket.once("data", () => socket.destroy())),
    ],
    ["another protocol", () => listener((socket) => socket.end("220 smtp ready\r\n"))],
    ["half an answer", () => listener((socket) => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"))],
    [
      "an answer that never ends",
      () => listener((socket) => socket.write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")),
    ],
    ["another protocol to switch to", () => listener((socket) => socket.once("data", () => socket.write(switching)))],
    [
      "another protocol to switch to, and hangs up",
      () => listener((socket) => socket.once("data", () => socket.end(switching))),
    ],
    [
      "a request to go on, again and again",
      () => listener((socket) => socket.on("data", () => repeat(socket, "HTTP/1.1 100 Continue\r\n\r\n"))),
    ],
    [
      "an answer that drips",
      () =>
        listener((socket) => {
          socket.write("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
          repeat(socket, " ");
        }),
    ],
    ["a page", () => impostor((_, response) => response.end("<html>Welcome</html>"))],
    ["a page that is missing", () => impostor((_, response) => response.writeHead(404).end("<html>404</html>"))],
    ["a redirection", () => impostor((_, response) => response.writeHead(302, { location: "/" }).end())],
    ["a gateway without a daemon", () => impostor((_, response) => response.writeHead(502).end("Bad Gateway"))],
    ["nothing", () => impostor((_, response) => response.end())],
    ["other JSON", () => impostor((_, response) => response.end('{"workerId":"7"}'))],
    ["a grant without a fence", () => impostor((_, response) => response.end('{"workerId":7,"from":1,"until":2}'))],
    [
      "more than anybody asked for",
      () => impostor((_, response) => response.end(JSON.stringify(grant).padEnd(4 * 1024 * 1024 + 1))),
    ],
  ])("%s", async (_, make) => {
    const address = await make();
    const error = await connectTo([address], 300)
      .claim(request)
      .catch((error: unknown) => error);
    expect(error).toMatchObject({ code: "REGISTRY_UNAVAILABLE", message: expect.stringContaining(address) });
    expect((error as Error).message).not.toMatch(/\n|0123456789abcdef/);
  });
});

test.each([
  [400, "CONFIG_INVALID"],
  [401, "UNAUTHORIZED"],
  [403, "FORBIDDEN"],
  [404, "NOT_FOUND"],
  [409, "CONFIG_INVALID"],
  [410, "LEASE_LOST"],
  [418, "CONFIG_INVALID"],
  [429, "RATE_LIMITED"],
  [500, "SCHEMA_INCOMPATIBLE"],
  [503, "REGISTRY_UNAVAILABLE"],
] as const)("a code of status %i that only a newer daemon has counts as %s", async (status, code) => {
  const address = await impostor(problem(status, "OUT_OF_COFFEE"));
  // What may pass by itself is asked for again until the time is over.
  const error = await connectTo([address], status === 429 || status === 503 ? 3000 : undefined)
    .claim(request)
    .catch((error: unknown) => error);
  expect(error).toMatchObject({ code, message: expect.stringMatching(/^It is so\. .*OUT_OF_COFFEE/) });
  expect((error as Error).message).toContain(address);
});

describe("a lease that is lost", () => {
  const key = { namespace: "orders", workerId: 7, fence: 1, token: request.token };
  const renewal = { ...key, clock: 0, window: 60_000 };

  test.each([
    [{ reason: "cloned" }, { reason: "cloned" }],
    [
      { reason: "forgotten", doubt: { from: 1, until: 2 } },
      { reason: "forgotten", doubt: { from: 1, until: 2 } },
    ],
    [{ reason: "forgotten", doubt: "all" }, { reason: "forgotten" }],
    [{ reason: "out-of-coffee" }, { reason: "taken" }],
    [{ reason: 7 }, {}],
    [{}, {}],
  ])("with the details %j is so with %j", async (details, lost) => {
    const registry = connectTo([await impostor(problem(410, "LEASE_LOST", { details }))]);
    expect(await registry.renew(renewal)).toEqual({ outcome: "lost", ...lost });
    expect(await registry.release(renewal)).toEqual({ outcome: "lost", ...lost });
  });

  test("as a claim is so where the daemon says why, and else an error", async () => {
    const told = connectTo([await impostor(problem(410, "LEASE_LOST", { details: { reason: "cloned" } }))]);
    expect(await told.claim(request)).toEqual({ outcome: "lost", reason: "cloned" });
    const untold = connectTo([await impostor(problem(410, "LEASE_LOST"))]);
    await expect(untold.claim(request)).rejects.toMatchObject({ code: "LEASE_LOST" });
  });
});

describe("of several addresses", () => {
  test.each<[string, () => Promise<string>]>([
    ["nobody answers at", nobody],
    ["somebody keeps silent at", () => listener(() => {})],
    ["a connection breaks at", () => listener((socket) => socket.once("data", () => socket.destroy()))],
    ["a page comes from", () => impostor((_, response) => response.end("<html>"))],
    ["a registry is unavailable at", () => impostor(problem(503, "REGISTRY_UNAVAILABLE"))],
    ["a request came in too slowly at", () => impostor(problem(408, "REGISTRY_UNAVAILABLE"))],
    ["there is too much to do at", () => impostor(problem(429, "RATE_LIMITED", { retryAfterMs: 60_000 }))],
    ["a quarantine is on at", () => impostor(problem(503, "QUARANTINE", { retryAfterMs: 60_000 }))],
    ["the token is not known at", () => impostor(problem(401, "UNAUTHORIZED"))],
    ["the token is not enough at", () => impostor(problem(403, "FORBIDDEN"))],
    ["the schema is too new for", () => impostor(problem(500, "SCHEMA_INCOMPATIBLE"))],
  ])("the next one is asked when %s the first", async (_, make) => {
    const registry = connectTo([await make(), await daemonOf(memoryRegistry())], 6000);
    expect(await registry.claim(request)).toMatchObject({ outcome: "granted", workerId: 0 });
  });

  test("the one that answered last is asked first", async () => {
    let asked = 0;
    const first = await impostor((incoming, response) => {
      asked++;
      problem(503, "REGISTRY_UNAVAILABLE")(incoming, response);
    });
    const registry = connectTo([first, await daemonOf(memoryRegistry())]);
    for (let i = 0; i < 5; i++) await registry.ping();
    expect(asked).toBe(1);
  });

  test("a refusal of one counts more than the silence of another", async () => {
    const quarantine = await impostor(problem(503, "QUARANTINE", { retryAfterMs: 60_000 }));
    for (const addresses of [
      [quarantine, await nobody()],
      [await nobody(), quarantine],
    ]) {
      await expect(connectTo(addresses).claim(request)).rejects.toMatchObject({
        code: "QUARANTINE",
        message: "It is so.",
        retryable: true,
        details: { retryAfterMs: 60_000 },
      });
    }
  });

  test("of one that does not know the token and one that is started just now, the second one answers", async () => {
    const later = await nobody();
    const registry = connectTo([await impostor(problem(401, "UNAUTHORIZED")), later]);
    const claimed = registry.claim(request);
    await daemonOf(memoryRegistry(), { host: "127.0.0.1", port: Number(new URL(later).port) });
    expect(await claimed).toMatchObject({ outcome: "granted" });
  });

  test("what a daemon says of its registry is told, though nobody answers any more later", async () => {
    let asked = 0;
    const address = await impostor((incoming, response) => {
      if (asked++ === 0) problem(503, "REGISTRY_UNAVAILABLE")(incoming, response);
    });
    await expect(connectTo([address], 3000).ping()).rejects.toMatchObject({
      code: "REGISTRY_UNAVAILABLE",
      message: "It is so.",
    });
    expect(asked).toBeGreaterThan(1);
  });

  test("a token that none of them knows is told at once", async () => {
    let asked = 0;
    const address = await impostor((incoming, response) => {
      asked++;
      problem(401, "UNAUTHORIZED")(incoming, response);
    });
    await expect(connectTo([address, address], 60_000).ping()).rejects.toMatchObject({ code: "UNAUTHORIZED" });
    expect(asked).toBe(2);
  });

  test("one that tells to wait for long does not keep from asking one that comes back", async () => {
    const later = await nobody();
    const busy = await impostor(problem(429, "RATE_LIMITED", { retryAfterMs: 60_000 }));
    const claimed = connectTo([busy, later]).claim(request);
    await daemonOf(memoryRegistry(), { host: "127.0.0.1", port: Number(new URL(later).port) });
    expect(await claimed).toMatchObject({ outcome: "granted" });
  });

  test("a refusal that no other would answer otherwise is final", async () => {
    let asked = 0;
    const second = await impostor((incoming, response) => {
      // Beside a claim, each address is asked for the id of the namespace.
      if (incoming.method !== "GET") asked++;
      problem(503, "REGISTRY_UNAVAILABLE")(incoming, response);
    });
    const registry = connectTo([await impostor(problem(503, "CLOCK_SKEW", { details: { maxClockSkew: 5 } })), second]);
    await expect(registry.claim(request)).rejects.toMatchObject({ code: "CLOCK_SKEW", details: { maxClockSkew: 5 } });
    expect(asked).toBe(0);
  });
});

describe("an answer that was lost", () => {
  /** A daemon behind a wire that hangs up instead of answering, the first time. */
  async function losingOnce(registry: Registry): Promise<{ address: string; asked: () => number }> {
    let asked = 0;
    const daemon = await daemonOf(registry);
    const address = await impostor(async (incoming, response) => {
      asked++;
      const chunks: Buffer[] = [];
      for await (const chunk of incoming) chunks.push(chunk as Buffer);
      const { method = "", headers } = incoming;
      const body = chunks.length > 0 ? { body: Buffer.concat(chunks) } : {};
      const type = { "content-type": headers["content-type"] ?? "application/json" };
      const answer = await fetch(daemon + incoming.url, { method, headers: type, ...body });
      const text = await answer.text();
      if (asked === 1) return void response.destroy();
      response.writeHead(answer.status, { "content-type": answer.headers.get("content-type") ?? "" }).end(text);
    });
    return { address, asked: () => asked };
  }

  test("is asked for again by a claim, which was applied once", async () => {
    const memory = memoryRegistry();
    const { address, asked } = await losingOnce(memory);
    expect(await connectTo([address]).claim(request)).toMatchObject({ workerId: 0, fence: 1 });
    expect(asked()).toBe(2);
    expect((await memory.workers("orders")).length).toBe(1);
  });

  test("is asked for again by a renewal and a release", async () => {
    const memory = memoryRegistry();
    await memory.claim(request);
    const key = { namespace: "orders", workerId: 0, fence: 1, token: request.token, clock: Date.now() };
    const renewing = connectTo([(await losingOnce(memory)).address]);
    expect(await renewing.renew({ ...key, window: 60_000 })).toMatchObject({ outcome: "renewed" });
    const releasing = connectTo([(await losingOnce(memory)).address]);
    expect(await releasing.release(key)).toEqual({ outcome: "released" });
  });

  test("leaves a forced release, an unpinning and a pruning unknown: doing it twice could hit somebody else", async () => {
    const memory = memoryRegistry();
    await memory.claim(request);
    const calls: ((registry: Registry) => Promise<unknown>)[] = [
      (registry) => registry.forceRelease({ namespace: "orders", workerId: 0, force: true }),
      (registry) => registry.unpin("orders", 0),
      (registry) => registry.prune("orders", 0),
    ];
    for (const call of calls) {
      const { address, asked } = await losingOnce(memory);
      const other = await losingOnce(memory);
      const registry = connectTo([address, other.address]);
      await expect(call(registry)).rejects.toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
      expect([asked(), other.asked()]).toEqual([1, 0]);
    }
  });
});

describe("a daemon with a bug", () => {
  /** One that answers everything with status 500, and counts what changes something. */
  async function broken(code: string): Promise<{ readonly address: string; readonly asked: () => number }> {
    let asked = 0;
    const address = await impostor((incoming, response) => {
      if (incoming.method !== "GET") asked++;
      problem(500, code)(incoming, response);
    });
    return { address, asked: () => asked };
  }

  test.each(["DEFECT", "A_NEWER_CODE"])(
    "leaves unknown whether it did what may not be done twice: %s",
    async (code) => {
      const [first, second] = [await broken(code), await broken(code)];
      const registry = connectTo([first.address, second.address]);
      const released = registry.forceRelease({ namespace: "orders", workerId: 0, force: true });
      await expect(released).rejects.toMatchObject({ retryable: false });
      expect([first.asked(), second.asked()]).toEqual([1, 0]);
    },
  );

  test("leaves the answer to the next one", async () => {
    const bad = await broken("DEFECT");
    const good = await daemonOf(memoryRegistry());
    expect(await connectTo([bad.address, good]).claim(request)).toMatchObject({ workerId: 0 });
    expect(bad.asked()).toBe(1);
  });

  test.each([
    ["DEFECT", 500],
    ["A_NEWER_CODE", 500],
  ])("does not keep others from being asked again: %s", async (code) => {
    const memory = memoryRegistry();
    const daemon = await daemonOf(memory);
    let asked = 0;
    const second = await impostor(async (incoming, response) => {
      if (incoming.method !== "GET" && ++asked < 3) return problem(503, "REGISTRY_UNAVAILABLE")(incoming, response);
      const chunks: Buffer[] = [];
      for await (const chunk of incoming) chunks.push(chunk as Buffer);
      const body = chunks.length > 0 ? { body: Buffer.concat(chunks) } : {};
      const { method = "", headers } = incoming;
      const type = { "content-type": headers["content-type"] ?? "application/json" };
      const answer = await fetch(daemon + incoming.url, { method, headers: type, ...body });
      response.writeHead(answer.status, { "content-type": "application/json" }).end(await answer.text());
    });
    const first = await broken(code);
    expect(await connectTo([first.address, second], 60_000).claim(request)).toMatchObject({ workerId: 0 });
    expect([first.asked(), asked]).toEqual([3, 3]);
  });
});

test("what never arrived is sent again until a daemon is there", async () => {
  const address = await nobody();
  const registry = connectTo([address]);
  const released = registry.forceRelease({ namespace: "orders", workerId: 0, force: true });
  await daemonOf(memoryRegistry(), { host: "127.0.0.1", port: Number(new URL(address).port) });
  expect(await released).toEqual({ outcome: "absent" });
});

test("renewals go on with the next daemon of the same registry", async () => {
  const memory = memoryRegistry();
  const listen = { host: "127.0.0.1", port: 0 };
  const first = await startDaemon({ registry: { ...memory, close: async () => {} }, listen, log });
  const registry = connectTo([first.url ?? ""]);
  await registry.claim(request);
  await first.close("now");
  await daemonOf(memory, { ...listen, port: Number(new URL(first.url ?? "").port) });
  const key = { namespace: "orders", workerId: 0, fence: 1, token: request.token };
  expect(await registry.renew({ ...key, clock: Date.now(), window: 60_000 })).toMatchObject({ outcome: "renewed" });
});

test("many pages of large recents are one list", async () => {
  const memory = memoryRegistry();
  for (let workerId = 0; workerId < 60; workerId++) {
    const token = workerId.toString(16).padStart(32, "0");
    const grant = await memory.claim({ ...request, token, workerId });
    if (grant.outcome !== "granted") throw new Error("Expected a grant.");
    const recents = { from: grant.from, bytes: new Uint8Array(44_000).fill(workerId) };
    const key = { namespace: "orders", workerId, fence: grant.fence, token, clock: request.clock };
    await memory.release({ ...key, used: { until: grant.until, recents } });
  }
  const registry = connectTo([await daemonOf(memory)]);
  // Digests: to compare, or to print, this many bytes takes a matcher seconds.
  const digested = (records: readonly WorkerRecord[]): unknown[] =>
    records.map(({ recents, ...rest }) => {
      return {
        ...rest,
        from: recents?.from,
        bytes: createHash("sha256")
          .update(recents?.bytes ?? "")
          .digest("hex"),
      };
    });
  expect(digested(await registry.workers("orders"))).toEqual(digested(await memory.workers("orders")));
  expect((await registry.workers("orders", { limit: 50, after: 5 })).map(({ workerId }) => workerId)).toEqual(
    Array.from({ length: 50 }, (_, i) => i + 6),
  );
});

test("many pages of history with long labels are one list, oldest first", async () => {
  const memory = memoryRegistry();
  const label = "\u5170".repeat(255);
  const holder = { host: label, ip: "192.0.2.7", pid: 12, instance: label };
  for (let i = 0; i < 2500; i++) {
    const token = i.toString(16).padStart(32, "0");
    const grant = await memory.claim({ ...request, token, holder, workerId: 0 });
    if (grant.outcome !== "granted") throw new Error("Expected a grant.");
    const key = { namespace: "orders", workerId: 0, fence: grant.fence, token, clock: request.clock };
    await memory.release({ ...key, used: { until: grant.from } });
  }
  const registry = connectTo([await daemonOf(memory)]);
  for (const limit of [10_000, 2450, 1]) {
    const rows = await registry.history("orders", 0, { limit });
    const count = Math.min(limit, 2500);
    expect(rows.map(({ fence }) => fence)).toEqual(Array.from({ length: count }, (_, i) => 2500 - count + i + 1));
  }
  const [first] = await registry.history("orders", 0, { limit: 1 });
  expect(first).toEqual((await memory.history("orders", 0, { limit: 1 }))[0]);
});

test("a page of nothing is the last one, whatever it says", async () => {
  const address = await impostor((_, response) => response.end('{"workers":[],"rows":[],"next":7}'));
  const registry = connectTo([address]);
  expect([await registry.workers("orders"), await registry.history("orders", 0)]).toEqual([[], []]);
});

test("recents as large as they get are given back over the wire", async () => {
  const memory = memoryRegistry();
  const registry = connectTo([await daemonOf(memory)]);
  const grant = await registry.claim(request);
  if (grant.outcome !== "granted") throw new Error("Expected a grant.");
  const { until } = grant;
  const layout = layouts.westid;
  const [end, count] = [layout.tickOf(until), 14_666];
  const ticks = new RecentTicks(layout, until - count, undefined, count);
  for (let tick = end - count; tick < end; tick++) ticks.raise(tick, 4095);
  const recents = ticks.handOver(until);
  expect(recents.bytes.length).toBe(1 + 3 * count);
  const key = { namespace: "orders", workerId: 0, fence: 1, token: request.token, clock: request.clock };
  expect(await registry.release({ ...key, used: { until, recents } })).toEqual({ outcome: "released" });
  const stored = (await memory.worker("orders", 0))?.recents;
  expect(stored?.from).toBe(recents.from);
  expect(Buffer.compare(stored?.bytes ?? Buffer.alloc(0), recents.bytes)).toBe(0);
});

test("a Unix socket is an address", async () => {
  const folder = mkdtempSync(join(tmpdir(), "snowlease-"));
  cleanups.push(() => rmSync(folder, { recursive: true }));
  const socket = join(folder, "s");
  const daemon = await startDaemon({ registry: memoryRegistry(), socket, log });
  cleanups.push(() => daemon.close("now"));
  const registry = connectTo([`unix:${socket}`]);
  expect(await registry.claim(request)).toMatchObject({ outcome: "granted" });
  expect((await registry.ping()).durability).toContain("Nothing survives");
});

test("user and password go along, and are in no message", async () => {
  let authorization: string | undefined;
  const address = await impostor((incoming, response) => {
    authorization = incoming.headers.authorization;
    response.end("no");
  });
  const error = await connectTo([address.replace("http://", "http://me:s%3Acret@")], 1000)
    .ping()
    .catch((error: unknown) => error);
  expect(authorization).toBe(`Basic ${Buffer.from("me:s:cret").toString("base64")}`);
  expect(JSON.stringify([error, (error as Error).message])).not.toMatch(/cret/);
});

test.each([[[]], [["redis://localhost"]], [["localhost:7070"]], [["http://localhost:7070/v1"]]])(
  "%j is no address",
  (addresses: string[]) => {
    expect(() => daemonRegistry(addresses)).toThrow(expect.objectContaining({ code: "CONFIG_INVALID" }));
  },
);

test("a registry that was closed refuses, also what is under way", async () => {
  const registry = connectTo([await listener(() => {})], 60_000);
  const asked = registry.ping();
  asked.catch(() => {});
  await registry.close();
  await expect(asked).rejects.toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
  await expect(registry.ping()).rejects.toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
  await registry.close();
});

test("fields and headers that this client does not know, in answers and problems of a newer daemon, are left out", async () => {
  const clock = fakeClock();
  const listen = { host: "127.0.0.1", port: 0 };

  /** Does everything that a client can ask for. Returns what it was answered, with each id and era of the namespace in its place. */
  async function tour(url: string): Promise<unknown> {
    const registry = connectTo([url]);
    const asked = { ...request, pool: { first: 0, last: 0 }, clock: clock.now() };
    const key = { namespace: "orders", workerId: 0, fence: 1, token: asked.token };
    const answers = [await registry.init({ namespace: "orders", layout: request.layout })];
    const steps: (() => Promise<unknown>)[] = [
      () => registry.describe("orders"),
      () => registry.describe("nosuch"),
      () => registry.claim(asked),
      () => registry.claim({ ...asked, token: "f".repeat(32) }),
      () => registry.claim({ ...asked, token: "f".repeat(32), workerId: 0 }),
      () => registry.renew({ ...key, clock: clock.now(), window: 60_000 }),
      () => registry.renew({ ...key, fence: 9, clock: clock.now(), window: 60_000 }),
      () => registry.forceRelease({ namespace: "orders", workerId: 0, force: false }),
      () => registry.forceRelease({ namespace: "orders", workerId: 0, fence: 9, force: true }),
      () => registry.release({ ...key, clock: clock.now(), used: { until: clock.now() + 1 } }),
      () => registry.forceRelease({ namespace: "orders", workerId: 0, force: true }),
      () => registry.pin("orders", 1, "kept"),
      () => registry.claim({ ...asked, token: "e".repeat(32), pool: { first: 1, last: 1 }, workerId: 1 }),
      () => registry.unpin("orders", 1),
      () => registry.pinAll?.("orders", [{ workerId: 2, reason: "kept" }]) ?? Promise.resolve(),
      () => registry.worker("orders", 2),
      () => registry.workers("orders"),
      () => registry.history("orders", 0),
      () => registry.unpinAll?.("orders", [2, 3]) ?? Promise.resolve(),
      () => registry.prune("orders", 1),
      () => registry.ping(),
    ];
    for (const step of steps) answers.push((await step()) as (typeof answers)[number]);
    const [info] = answers as { id?: string; era?: string }[];
    const text = JSON.stringify(answers, (_, value: unknown) => (value === undefined ? "absent" : value));
    const named = text.replaceAll(info?.id ?? "", "ID").replaceAll(info?.era ?? "", "ERA");
    return JSON.parse(named.replace(/\.-\.[\w-]{43}"/g, '.SIGNATURE"'));
  }

  async function daemonAt(): Promise<string> {
    const daemon = await startDaemon({ registry: memoryRegistry({ clock }), listen, clock, log });
    cleanups.push(() => daemon.close("now"));
    return daemon.url ?? "";
  }

  const plain = await tour(await daemonAt());
  const newer = await startNewerDaemon(await daemonAt());
  cleanups.push(() => newer.close());
  expect(await tour(newer.url)).toStrictEqual(plain);
  expect(plain).toContainEqual(expect.objectContaining({ outcome: "held" }));
});
