import { once } from "node:events";
import { createServer, type IncomingMessage, request as send, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { afterEach, describe, expect, test } from "vitest";
import { startDaemon } from "../../src/daemon.ts";
import { defaultLayout, layouts } from "../../src/id/layout.ts";
import { Lease } from "../../src/lease/lease.ts";
import { systemClock } from "../../src/clock.ts";
import { examine } from "../../src/ops/doctor/doctor.ts";
import { listOf, parseAddress } from "../../src/registries/index.ts";
import { lazyRegistry } from "../../src/registries/lazy.ts";
import type { ClaimRequest, Registry } from "../../src/rule/registry.ts";
import { memoryRegistry } from "../../src/testing.ts";

const log = { info() {}, warn() {}, error() {} };
const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

const namespace = "orders";
const layout = layouts.westid.fingerprint;

function claimRequest(): ClaimRequest {
  return {
    namespace,
    token: crypto.randomUUID().replaceAll("-", ""),
    pool: layouts.westid.pool,
    holder: { host: "a", ip: "192.0.2.7", pid: 12, instance: "" },
    clock: Date.now(),
    window: 60_000,
    layout,
  };
}

async function daemonOf(registry: Registry): Promise<string> {
  const daemon = await startDaemon({ registry, listen: { host: "127.0.0.1", port: 0 }, log });
  cleanups.push(() => daemon.close("now"));
  return daemon.url ?? "";
}

/** A daemon of a registry of its own, in which the namespace exists. */
async function another(): Promise<{ url: string; store: Registry }> {
  const store = memoryRegistry();
  await store.init({ namespace, layout });
  return { url: await daemonOf(store), store };
}

function connectTo(...addresses: string[]): Registry {
  const registry = lazyRegistry(parseAddress(addresses.join()), { operationTimeout: 2000 });
  cleanups.push(() => registry.close());
  return registry;
}

/** Stands before a daemon, and keeps answers to GET back until `release` is called. */
async function slowReads(url: string): Promise<{ url: string; release: () => void }> {
  let release = (): void => {};
  const released = new Promise<void>((resolve) => (release = resolve));
  const pass = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await text(incoming);
    if (incoming.method === "GET") await released;
    const sent = send(url + (incoming.url ?? ""), { method: incoming.method, headers: incoming.headers, agent: false });
    sent.end(body);
    const [answer] = (await once(sent, "response")) as [IncomingMessage];
    response.writeHead(answer.statusCode ?? 0, answer.headers);
    answer.pipe(response);
  };
  const server = createServer((incoming, response) => void pass(incoming, response).catch(() => response.destroy()));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  cleanups.push(() => {
    release();
    server.close();
    server.closeAllConnections();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, release };
}

/** An address that takes connections and never answers. */
async function silent(): Promise<string> {
  const server = createServer(() => {});
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  cleanups.push(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const nobody = "http://127.0.0.1:9";

async function stateOf(store: Registry): Promise<unknown[]> {
  return (await store.workers(namespace)).map(({ workerId, state }) => [workerId, state]);
}

describe("daemons of two registries in one list", () => {
  test("are refused by their addresses, and the lease that one granted is given back", async () => {
    const [a, b] = [await another(), await another()];
    for (const [first, second] of [
      [a, b],
      [b, a],
    ] as const) {
      await expect(connectTo(first.url, second.url).claim(claimRequest())).rejects.toMatchObject({
        code: "CONFIG_INVALID",
        message: expect.stringMatching(
          new RegExp(`${first.url} and ${second.url} .*name only daemons of one registry`),
        ),
      });
    }
    // A claim that used nothing leaves its worker ID free at once, or as soon as the clock has passed its begin.
    for (const { store } of [a, b]) {
      expect(await stateOf(store)).toEqual([[0, expect.stringMatching(/free|resting/)]]);
      expect(await store.worker(namespace, 0)).toMatchObject({ clean: true });
    }
  });

  test("are refused also where the namespace exists at one of them only", async () => {
    const [a, b] = [await another(), { url: await daemonOf(memoryRegistry()) }];
    const message = /does not exist at the second one/;
    await expect(connectTo(a.url, b.url).claim(claimRequest())).rejects.toMatchObject({
      code: "CONFIG_INVALID",
      message: expect.stringMatching(message),
    });
    // The claim at the other daemon makes the namespace there.
    await expect(connectTo(b.url, a.url).claim(claimRequest())).rejects.toMatchObject({ code: "CONFIG_INVALID" });
  });

  test("are refused where the namespace does not exist at any of them yet", async () => {
    const urls = [await daemonOf(memoryRegistry()), await daemonOf(memoryRegistry())];
    await expect(connectTo(...urls).claim(claimRequest())).rejects.toMatchObject({ code: "CONFIG_INVALID" });
  });

  test("are refused by a process at its start", async () => {
    const [a, b] = [await another(), await another()];
    const registry = connectTo(a.url, b.url);
    const { pool, holder } = claimRequest();
    const host = { registry, clock: systemClock, makeToken: () => crypto.randomUUID().replaceAll("-", "") };
    const options = {
      claimTimeout: 2000,
      maxWait: 100,
      operationTimeout: 2000,
      reuse: "any",
      onLost: "switch",
    } as const;
    const claimed = Lease.claim(host, { namespace, layout: layouts.westid, pool, holder, window: 60_000, ...options });
    await expect(claimed).rejects.toMatchObject({ code: "CONFIG_INVALID" });
  });

  test("are found by a late answer, too: the next renewal is lost", async () => {
    const [a, b] = [await another(), await another()];
    const late = await slowReads(b.url);
    const registry = connectTo(a.url, late.url);
    const request = claimRequest();
    const grant = await registry.claim(request);
    if (grant.outcome !== "granted") throw new Error(grant.outcome);
    const key = { namespace, workerId: grant.workerId, fence: grant.fence, token: request.token };
    const renewal = () => ({ ...key, clock: Date.now(), window: 60_000 });
    expect(await registry.renew(renewal())).toMatchObject({ outcome: "renewed" });
    const warned = once(process, "warning");
    late.release();
    const [warning] = (await warned) as [Error & { code?: string }];
    expect([warning.code, warning.message]).toEqual([
      "SNOWLEASE_MIXED_LIST",
      expect.stringContaining(`${a.url} and ${late.url}`),
    ]);
    expect(await registry.renew(renewal())).toEqual({ outcome: "lost", reason: "forgotten" });
    await expect(registry.claim(claimRequest())).rejects.toMatchObject({ code: "CONFIG_INVALID" });
  });
});

describe("daemons of one registry", () => {
  test("grant, whatever else is in the list", async () => {
    const store = memoryRegistry();
    const urls = [await daemonOf(store), await daemonOf(store)];
    for (const more of [[], [nobody], [await silent()]]) {
      for (const list of [
        [...urls, ...more],
        [...more, ...urls],
      ]) {
        const registry = connectTo(...list);
        for (let i = 0; i < 3; i++) expect(await registry.claim(claimRequest())).toMatchObject({ outcome: "granted" });
      }
    }
  });

  test("grant where the claim makes the namespace", async () => {
    const store = memoryRegistry();
    const registry = connectTo(await daemonOf(store), await daemonOf(store));
    expect(await registry.claim(claimRequest())).toMatchObject({ outcome: "granted" });
  });

  test("refuse as before", async () => {
    const store = memoryRegistry();
    const registry = connectTo(await daemonOf(store), await daemonOf(store));
    await registry.claim({ ...claimRequest(), pool: { first: 0, last: 0 } });
    const answer = await registry.claim({ ...claimRequest(), pool: { first: 0, last: 0 } });
    expect(answer).toMatchObject({ outcome: "exhausted" });
    const claim = registry.claim({ ...claimRequest(), layout: "twitter" });
    await expect(claim).rejects.toMatchObject({ code: "LAYOUT_MISMATCH" });
  });
});

describe("the doctor", () => {
  async function findings(...urls: string[]) {
    const found = await examine({
      open: async () => connectTo(...urls),
      list: listOf(parseAddress(urls.join()), { operationTimeout: 2000 }),
      namespace,
      layout: defaultLayout,
      named: true,
      now: Date.now,
    });
    return found.filter(({ check }) => check === "addresses").map(({ status, detail }) => [status, detail]);
  }

  test("finds daemons of two registries in one list", async () => {
    const [a, b, none] = [await another(), await another(), await daemonOf(memoryRegistry())];
    expect(await findings(a.url, b.url)).toEqual([["fail", expect.stringContaining(`${a.url} and ${b.url}`)]]);
    expect(await findings(none, b.url)).toEqual([["fail", expect.stringContaining(`${b.url} and ${none}`)]]);
    expect(await findings(a.url, await daemonOf(a.store))).toEqual([["ok", expect.any(String)]]);
    expect(await findings(a.url, nobody)).toEqual([["warn", expect.stringContaining(nobody)]]);
    expect(await findings(a.url)).toEqual([]);
  });
});
