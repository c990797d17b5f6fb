import { createHmac } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { parseReceiptKeys } from "../../src/http/access/receipt-keys.ts";
import { startDaemon } from "../../src/daemon.ts";
import { SnowleaseError } from "../../src/id/errors.ts";
import { layouts } from "../../src/id/layout.ts";
import { daemonRegistry } from "../../src/registries/daemon/registry.ts";
import { recalling } from "../../src/registries/recall.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { defaultLimits } from "../../src/rule/limits.ts";
import { storedToken } from "../../src/rule/token.ts";
import { type FakeClock, fakeClock, memoryRegistry } from "../../src/testing.ts";
import { askedBy } from "../support/asked.ts";

const listen = { host: "127.0.0.1", port: 0 };
const header = "snowlease-receipt";
const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

/** The order of a receipt's parts, after its version. */
const names = ["id", "era", "workerId", "fence", "token", "renewals", "until", "maxWindow", "maxClockSkew"] as const;

/** A receipt with other content and the same signature. */
function edited(
  receipt: string,
  changes: Partial<Record<(typeof names)[number] | "key" | "signature", string | number>>,
): string {
  const [version, ...parts] = receipt.split(".");
  return [version, ...parts.map((part, i) => changes[[...names, "key", "signature"][i] as "id"] ?? part)].join(".");
}

/** A receipt that is signed as a daemon signs it. */
function signed(receipt: string, namespace: string, [name, key]: readonly [string, string]): string {
  const text = [...receipt.split(".").slice(0, 1 + names.length), name].join(".");
  const hmac = createHmac("sha256", Buffer.from(key, "hex")).update(`${namespace} ${text}`);
  return `${text}.${hmac.digest("base64url")}`;
}

const [keyA, keyB] = [
  ["a", "00112233445566778899aabbccddeeff"],
  ["b", "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100"],
] as const;

interface Setting {
  readonly clock: FakeClock;
  readonly store: Registry;
  readonly url: string;
  readonly lines: string[];
  readonly client: Registry;
  /** Writes the keys and has the daemon read them. */
  useKeys(...keys: (readonly [string, string])[]): void;
  send(method: string, path: string, body: object, receipt?: string): Promise<Answer>;
  claim(namespace?: string, recall?: string): Promise<Held>;
  renew(held: Held, receipt: string | undefined, more?: object): Promise<Answer>;
}

interface Answer {
  readonly status: number;
  readonly receipt: string | undefined;
  // oxlint-disable-next-line typescript/no-explicit-any -- what it is made of is what tests are about.
  readonly body: any;
}

interface Held {
  readonly namespace: string;
  readonly workerId: number;
  readonly fence: number;
  readonly token: string;
  readonly receipt: string;
}

/** A daemon, over a registry in memory if no other is given. `keys`: its configured ones. */
async function daemonWith(
  keys: readonly (readonly [string, string])[] = [],
  { clock = fakeClock(), registry }: { readonly clock?: FakeClock; readonly registry?: Registry } = {},
): Promise<Setting> {
  const store = registry ?? memoryRegistry({ clock });
  const lines: string[] = [];
  const write = (...line: unknown[]): void => void lines.push(JSON.stringify(line));
  const log = { info: write, warn: write, error: write };
  const folder = mkdtempSync(join(tmpdir(), "snowlease-"));
  cleanups.push(() => rmSync(folder, { recursive: true }));
  const receiptKeys = keys.length === 0 ? undefined : join(folder, "keys");
  const save = (...keys: (readonly [string, string])[]): void => {
    const text = keys.map((key) => `${key.join(" ")} # of a test\n`).join("");
    if (receiptKeys !== undefined) writeFileSync(receiptKeys, text, { mode: 0o600 });
  };
  save(...keys);
  const daemon = await startDaemon({ registry: store, clock, log, listen, receiptKeys });
  cleanups.push(() => daemon.close("now"));
  const url = daemon.url ?? "";

  async function send(method: string, path: string, body: object, receipt?: string): Promise<Answer> {
    const response = await fetch(url + path, {
      method,
      headers: { "content-type": "application/json", ...(receipt !== undefined && { [header]: receipt }) },
      body: JSON.stringify(body),
    });
    const text = await response.text();
    return {
      status: response.status,
      receipt: response.headers.get(header) ?? undefined,
      body: text === "" ? undefined : JSON.parse(text),
    };
  }

  return {
    clock,
    store,
    url,
    lines,
    client: daemonRegistry([url]),
    send,
    useKeys(...keys) {
      save(...keys);
      daemon.reload?.();
    },
    async claim(namespace = "orders", recall) {
      const {
        status,
        body,
        receipt = "",
      } = await send("POST", `/v1/${namespace}/leases`, { now: clock.now() }, recall);
      expect([status, body.detail]).toEqual([201, undefined]);
      const { workerId, fence, token } = body;
      return { namespace, workerId, fence, token, receipt };
    },
    async renew({ namespace, workerId, fence, token }, receipt, more = {}) {
      const body = { token, fence, now: clock.now(), ...more };
      return send("PATCH", `/v1/${namespace}/leases/${workerId}`, body, receipt);
    },
  };
}

describe.each([
  ["the namespace's own key", []],
  ["a configured key", [keyA]],
] as const)("with %s", (_, keys) => {
  test("claims and renewals answer receipts, which renewals and releases send back", async () => {
    const { claim, renew, send, store } = await daemonWith(keys);
    const held = await claim();
    const receipts = [held.receipt];
    for (let i = 0; i < 3; i++) {
      const { status, receipt } = await renew(held, receipts.at(-1));
      expect(status).toBe(200);
      receipts.push(receipt ?? "");
    }
    expect(receipts.map((receipt) => receipt.split(".")[1 + names.indexOf("renewals")])).toEqual(["0", "1", "2", "3"]);
    for (const receipt of receipts) expect(receipt).toMatch(/^1\.[\w.-]{150,300}$/);
    const { token } = held;
    const path = `/v1/orders/leases/${held.workerId}`;
    expect(await send("DELETE", path, { token }, receipts.at(-1))).toMatchObject({ status: 204, receipt: undefined });
    expect(await store.worker("orders", held.workerId)).toMatchObject({ state: "resting" });
  });

  test("a receipt that a client makes up begins no quarantine", async () => {
    const { claim, renew, clock, client } = await daemonWith(keys);
    const held = await claim();
    const [first, second, third] = [held, await claim(), await claim("users")];
    const { receipt = "" } = await renew(held, held.receipt);
    const before = [await client.describe("orders"), await client.describe("users")];
    const own = [
      edited(receipt, { renewals: 9 }),
      edited(receipt, { until: clock.now() + 9e9 }),
      edited(receipt, { era: `${clock.now() + 1}-00` }),
      edited(receipt, { fence: 9 }),
      edited(receipt, { workerId: 500, renewals: 9 }),
      edited(receipt, { maxWindow: 9e9, renewals: 9 }),
      edited(receipt, { token: storedToken("0".repeat(32)) }),
      edited(receipt, { key: "b" }),
      edited(receipt, { signature: "A".repeat(43) }),
      signed(edited(receipt, { renewals: 9 }), "orders", ["-", "00".repeat(32)]),
      signed(edited(receipt, { renewals: 9 }), "orders", ["a", "00".repeat(32)]),
      receipt.split(".").slice(0, -2).join("."),
      edited(receipt, { renewals: 9 }).split(".").slice(0, -2).join("."),
      `2${receipt.slice(1)}`,
      "1",
      "x".repeat(1000),
      // Of another worker, and old ones of this one.
      second.receipt,
      first.receipt,
      receipt,
    ];
    for (const sent of own) {
      const answer = await renew(held, sent);
      expect([sent, answer.status, answer.body.detail]).toEqual([sent, 200, undefined]);
      await claim("orders", sent);
    }
    for (const sent of [edited(receipt, { id: "0".repeat(32) }), third.receipt]) {
      const answer = await renew(held, sent);
      expect([sent, answer.status, answer.body.code]).toEqual([sent, 409, "OTHER_REGISTRY"]);
      // The claim of a worker of that namespace, with its own token.
      const { token, workerId, fence } = third;
      expect((await renew({ ...held, token, workerId, fence }, sent)).body.code).toBe("OTHER_REGISTRY");
      const claimed = await client.claim({
        namespace: "orders",
        token: "1".repeat(32),
        pool: layouts.westid.pool,
        holder: { host: "a", ip: "192.0.2.7", pid: 12, instance: "" },
        clock: clock.now(),
        window: 60_000,
        layout: layouts.westid.fingerprint,
        recall: sent,
      });
      expect(claimed).toMatchObject({ outcome: "granted" });
    }
    expect([await client.describe("orders"), await client.describe("users")]).toEqual(before);
    expect((await renew(held, receipt)).status).toBe(200);
  });

  test("a receipt of an ended lease begins no quarantine", async () => {
    const { claim, renew, send, client } = await daemonWith(keys);
    const held = await claim();
    const before = await client.describe("orders");
    const { token, workerId } = held;
    expect((await send("DELETE", `/v1/orders/leases/${workerId}`, { token }, held.receipt)).status).toBe(204);
    expect((await send("DELETE", `/v1/orders/leases/${workerId}`, { token }, held.receipt)).status).toBe(204);
    expect((await renew(held, held.receipt)).body).toMatchObject({
      code: "LEASE_LOST",
      details: { reason: "released" },
    });
    await claim("orders", held.receipt);
    expect(await client.describe("orders")).toEqual(before);
  });

  test("receipts, even forged ones, cost no question to the registry beside the renewal", async () => {
    const clock = fakeClock();
    const { registry, asked } = askedBy(memoryRegistry({ clock }));
    const { claim, renew } = await daemonWith(keys, { clock, registry });
    const held = await claim();
    let { receipt } = await renew(held, held.receipt);
    asked.length = 0;
    for (let i = 0; i < 20; i++) ({ receipt } = await renew(held, receipt));
    for (let i = 0; i < 20; i++) await renew(held, edited(receipt ?? "", { renewals: 99, until: 9e12 }));
    expect(asked.filter((name) => name === "renew")).toHaveLength(40);
    // A daemon that signs with a configured key asks for the namespace's own one if a receipt does not fit.
    expect(asked.filter((name) => name !== "renew")).toEqual(keys.length === 0 ? [] : ["describe", "receiptKey"]);
    asked.length = 0;
    for (let i = 0; i < 20; i++) await renew(held, edited(receipt ?? "", { id: String(i).padStart(32, "0") }));
    // No renewal, and at most one look at the namespace.
    expect([[], ["describe", "receiptKey"]]).toContainEqual(asked);
    asked.length = 0;
    for (let i = 0; i < 3; i++) {
      await clock.advance(1001);
      await renew(held, edited(receipt ?? "", { id: "0".repeat(32) }));
    }
    expect(asked).toEqual(Array.from({ length: 3 }, () => ["describe", "receiptKey"]).flat());
  });

  test("a look at the namespace that failed, or found none, is not remembered", async () => {
    const clock = fakeClock();
    const store = memoryRegistry({ clock });
    let isDown = true;
    const registry: Registry = {
      ...store,
      async describe(name) {
        if (isDown) throw new SnowleaseError("REGISTRY_UNAVAILABLE", "The test has it down; try again.");
        return store.describe(name);
      },
    };
    const elsewhere = await (await daemonWith([], { clock })).claim();
    const { renew } = await daemonWith(keys, { clock, registry });
    const codeOf = async (): Promise<string> => (await renew(elsewhere, elsewhere.receipt)).body.code;
    expect(await codeOf()).toBe("REGISTRY_UNAVAILABLE");
    isDown = false;
    expect(await codeOf()).toBe("OTHER_REGISTRY");
    await store.init({ namespace: "orders", layout: layouts.westid.fingerprint });
    const receiptKey = (await store.receiptKey?.("orders")) ?? "";
    const { id = "" } = (await store.describe("orders")) ?? {};
    const evidence = signed(edited(elsewhere.receipt, { id }), "orders", ["-", receiptKey]);
    expect((await renew(elsewhere, evidence)).body.code).toBe("QUARANTINE");
  });

  test("the receipt in a body of unknown length counts, too", async () => {
    const { claim, url, clock } = await daemonWith(keys);
    const held = await claim();
    const { workerId, token } = held;
    const body = new Blob([JSON.stringify({ token, now: clock.now() })]).stream();
    const headers = { "content-type": "application/json", [header]: edited(held.receipt, { id: "0".repeat(32) }) };
    const asked = { method: "PATCH", headers, body, duplex: "half" } as RequestInit;
    expect((await fetch(`${url}/v1/orders/leases/${workerId}`, asked)).status).toBe(409);
    const again = new Blob([JSON.stringify({ token, now: clock.now() })]).stream();
    const usual = { ...asked, headers: { ...headers, [header]: held.receipt }, body: again };
    const answer = await fetch(`${url}/v1/orders/leases/${workerId}`, usual);
    expect([answer.status, answer.headers.get(header)]).toEqual([200, expect.stringMatching(/^1\./)]);
  });

  test("no key is shown in an answer, the log or the figures", async () => {
    const { claim, renew, store, lines, url, client } = await daemonWith(keys);
    const held = await claim();
    const own = (await store.receiptKey?.("orders")) ?? "";
    const answers: unknown[] = [held, await renew(held, held.receipt), await client.describe("orders")];
    answers.push(await renew(held, edited(held.receipt, { id: "0".repeat(32) })));
    for (const path of ["/metrics", "/openapi.json", "/v1/orders", "/v1/orders/workers", "/readyz"]) {
      answers.push(await (await fetch(url + path)).text());
    }
    const all = JSON.stringify([answers, lines]);
    expect(own).toMatch(/^[\da-f]{64}$/);
    for (const key of [own, ...keys.map(([, key]) => key)]) expect(all).not.toContain(key);
  });
});

describe("a receipt of an earlier registry with the same name", () => {
  /** A lease of one registry, and a daemon of another one, where the namespace exists or not. */
  async function moved(there: readonly (readonly [string, string])[], exists = true) {
    const clock = fakeClock();
    const before = await daemonWith([keyA], { clock });
    const held = await before.claim();
    const after = await daemonWith(there, { clock });
    if (exists) await after.store.init({ namespace: "orders", layout: layouts.westid.fingerprint });
    return { held, after };
  }

  test.each([true, false])("is OTHER_REGISTRY without its key; whether the namespace exists: %s", async (exists) => {
    for (const keys of [[], [keyB]]) {
      const { held, after } = await moved(keys, exists);
      const before = await after.client.describe("orders");
      expect((await after.renew(held, held.receipt)).body).toMatchObject({ code: "OTHER_REGISTRY", status: 409 });
      const path = `/v1/orders/leases/${held.workerId}`;
      expect((await after.send("DELETE", path, { token: held.token }, held.receipt)).body.code).toBe("OTHER_REGISTRY");
      const claim = await after.send("POST", "/v1/orders/leases", { now: after.clock.now() }, held.receipt);
      expect(claim.body.code).toBe("OTHER_REGISTRY");
      expect(await after.client.describe("orders")).toEqual(before);
    }
  });

  test("begins a quarantine where the key is configured, also as a second one while keys are rotated", async () => {
    for (const keys of [[keyA], [keyB, keyA]]) {
      const { held, after } = await moved(keys);
      expect((await after.renew(held, held.receipt)).body.code).toBe("QUARANTINE");
      expect(await after.client.describe("orders")).toHaveProperty("quarantineUntil");
    }
    const { held, after } = await moved([keyA], false);
    expect((await after.renew(held, held.receipt)).body.code).toBe("QUARANTINE");
    expect(await after.client.describe("orders")).toBeUndefined();
    // Without a fence, too: the receipt names it.
    expect((await after.renew(held, held.receipt, { fence: undefined })).body.code).toBe("QUARANTINE");
  });

  test("is judged by the keys of the last reading", async () => {
    const { held, after } = await moved([keyB]);
    expect((await after.renew(held, held.receipt)).body.code).toBe("OTHER_REGISTRY");
    after.useKeys(keyA, keyB);
    expect((await after.claim()).receipt).toMatch(/\.a\.[\w-]{43}$/);
    after.useKeys(keyB, keyA);
    expect((await after.claim()).receipt).toMatch(/\.b\.[\w-]{43}$/);
    after.useKeys();
    // A file without a key: the daemon keeps the keys from before.
    expect((await after.claim()).receipt).toMatch(/\.b\.[\w-]{43}$/);
    after.useKeys(keyB);
    expect((await after.renew(held, held.receipt)).body.code).toBe("OTHER_REGISTRY");
    after.useKeys(keyB, keyA);
    // The worker ID has another holder here.
    const { body } = await after.renew(held, held.receipt);
    expect([body.code, body.details.reason]).toEqual(["LEASE_LOST", "forgotten"]);
    expect(await after.client.describe("orders")).toHaveProperty("quarantineUntil");
  });

  test("is ignored once its key is rotated out, where the registry is the same", async () => {
    const { claim, renew, useKeys, client } = await daemonWith([keyA]);
    const held = await claim();
    const before = await client.describe("orders");
    useKeys(keyB);
    const lie = signed(edited(held.receipt, { renewals: 9 }), "orders", keyA);
    const { status, receipt } = await renew(held, lie);
    expect([status, receipt?.split(".").at(-2)]).toEqual([200, "b"]);
    expect(await client.describe("orders")).toEqual(before);
    useKeys(keyB, keyA);
    expect((await renew(held, lie)).body.code).toBe("QUARANTINE");
  });

  test("is ignored if its key's name means another key now, even by the daemon that signed it", async () => {
    const clock = fakeClock();
    const store = memoryRegistry({ clock });
    const heeded: boolean[] = [];
    const registry: Registry = {
      ...store,
      renew(request) {
        heeded.push(request.receipt !== undefined);
        return store.renew(request);
      },
    };
    const { claim, renew, useKeys } = await daemonWith([keyA], { clock, registry });
    const held = await claim();
    useKeys([keyA[0], keyB[1]]);
    expect((await renew(held, held.receipt)).status).toBe(200);
    useKeys(keyA);
    expect((await renew(held, held.receipt)).status).toBe(200);
    expect(heeded).toEqual([false, true]);
  });

  test("with an outdated id is judged by the present id a second later, and signed at once", async () => {
    const clock = fakeClock();
    let store = memoryRegistry({ clock });
    const registry: Registry = {
      ...store,
      claim: (request) => store.claim(request),
      renew: (request) => store.renew(request),
      describe: (name) => store.describe(name),
      receiptKey: async (name) => store.receiptKey?.(name),
    };
    const { claim, renew } = await daemonWith([], { clock, registry });
    const held = await claim();
    const stranger = edited(held.receipt, { id: "0".repeat(32) });
    expect((await renew(held, stranger)).body.code).toBe("OTHER_REGISTRY");
    store = memoryRegistry({ clock });
    const others = await (await daemonWith([], { clock, registry: store })).claim();
    expect((await renew(others, others.receipt)).body.code).toBe("OTHER_REGISTRY");
    await clock.advance(1001);
    expect((await renew(others, others.receipt)).status).toBe(200);

    await store.init({ namespace: "users", layout: layouts.westid.fingerprint });
    expect((await renew({ ...held, namespace: "users" }, stranger)).body.code).toBe("OTHER_REGISTRY");
    store = memoryRegistry({ clock });
    expect((await claim("users")).receipt).toMatch(/\.-\.[\w-]{43}$/);
  });

  test("in a namespace whose id the daemon knew is evidence", async () => {
    const clock = fakeClock();
    let store = memoryRegistry({ clock });
    const registry: Registry = {
      ...store,
      renew: (request) => store.renew(request),
      describe: (name) => store.describe(name),
      receiptKey: async (name) => store.receiptKey?.(name),
    };
    const { claim, renew } = await daemonWith([], { clock, registry });
    const held = await claim();
    store = memoryRegistry({ clock });
    await store.init({ namespace: "orders", layout: layouts.westid.fingerprint });
    expect((await renew(held, held.receipt)).body.code).toBe("QUARANTINE");
  });
});

describe("a client of several addresses", () => {
  const renewal = ({ namespace, workerId, fence, token, receipt }: Held, { clock }: Setting) => ({
    namespace,
    workerId,
    fence,
    token,
    receipt,
    clock: clock.now(),
    window: 60_000,
  });

  test("asks the next one if a daemon has another registry", async () => {
    const clock = fakeClock();
    const [other, right] = [await daemonWith([], { clock }), await daemonWith([], { clock })];
    await other.claim();
    const held = await right.claim();
    const client = daemonRegistry([other.url, right.url]);
    expect(await client.renew(renewal(held, right))).toMatchObject({ outcome: "renewed", receipt: expect.any(String) });
    expect(await client.release(renewal(held, right))).toEqual({ outcome: "released" });
  });

  test("has lost the lease only if each daemon answers so", async () => {
    const clock = fakeClock();
    const [other, second] = [await daemonWith([], { clock }), await daemonWith([], { clock })];
    await other.claim();
    const held = await (await daemonWith([], { clock })).claim();
    const client = daemonRegistry([other.url, second.url]);
    expect(await client.renew(renewal(held, other))).toMatchObject({ outcome: "lost", reason: "forgotten" });
    expect(await client.release(renewal(held, other))).toMatchObject({ outcome: "lost", reason: "forgotten" });
    for (const urls of [
      [other.url, "http://127.0.0.1:9"],
      ["http://127.0.0.1:9", other.url],
    ]) {
      const partly = daemonRegistry(urls, { operationTimeout: 200 });
      await expect(partly.renew(renewal(held, other))).rejects.toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
      await expect(partly.release(renewal(held, other))).rejects.toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
    }
  });
});

describe("a daemon behind a daemon", () => {
  test("passes receipts through, and OTHER_REGISTRY", async () => {
    const far = await daemonWith();
    const near = await daemonWith([], { clock: far.clock, registry: daemonRegistry([far.url]) });
    const held = await near.claim();
    const { receipt } = await near.renew(held, held.receipt);
    expect((await far.renew(held, receipt)).status).toBe(200);
    for (const changes of [{ id: "0".repeat(32) }, { renewals: 9 }]) {
      const forged = edited(receipt ?? "", changes);
      const [there, here] = [await far.renew(held, forged), await near.renew(held, forged)];
      expect([here.status, here.body.code]).toEqual([there.status, there.body.code]);
      expect(here.status).toBe("id" in changes ? 409 : 200);
    }
    const recall = edited(receipt ?? "", { id: "0".repeat(32) });
    await near.claim("orders", recall);
  });
});

test("a registry without a key of its own, such as a lent lease, gets and gives receipts unchanged", async () => {
  const clock = fakeClock();
  const { receiptKey: _, ...memory } = memoryRegistry({ clock });
  const seen: unknown[] = [];
  const registry: Registry = {
    ...memory,
    async claim(request) {
      seen.push(request.recall);
      return { ...(await memory.claim(request)), receipt: "of-another.daemon/1" };
    },
    async renew(request) {
      seen.push(request.receipt);
      return { ...(await memory.renew(request)), receipt: "of-another.daemon/2" };
    },
    release(request) {
      seen.push(request.receipt);
      return memory.release(request);
    },
  };
  const { claim, renew, send } = await daemonWith([], { clock, registry });
  const held = await claim("orders", "a.b.c");
  const { receipt } = await renew(held, held.receipt);
  await send("DELETE", `/v1/orders/leases/${held.workerId}`, { token: held.token }, receipt);
  expect(seen).toEqual(["a.b.c", "of-another.daemon/1", "of-another.daemon/2"]);
});

test("of two clients with one token and the same turns, the second one to renew is lost", async () => {
  const { claim, clock, client, url } = await daemonWith();
  const { namespace, workerId, fence, token, receipt } = await claim();
  const first = { namespace, workerId, fence, token, receipt, clock: clock.now(), window: 60_000 };
  const renewal = await client.renew({ ...first, nextTurn: "shared" });
  if (renewal.outcome !== "renewed") throw new Error(renewal.outcome);
  const state = { ...first, receipt: renewal.receipt, turn: renewal.turn };
  const copy = daemonRegistry([url]);
  expect(await copy.renew({ ...state, nextTurn: "copy" })).toMatchObject({ outcome: "renewed", turn: "copy" });
  expect(await client.renew({ ...state, nextTurn: "first" })).toMatchObject({ outcome: "lost", reason: "cloned" });
  expect(await client.release(state)).toMatchObject({ outcome: "lost", reason: "cloned" });
  // A client that sends no turns, and one that repeats the claim.
  expect(await client.renew(first)).toMatchObject({ outcome: "lost", reason: "cloned" });
  const { pool, fingerprint: layout } = layouts.westid;
  const holder = { host: "a", ip: "192.0.2.7", pid: 12, instance: "" };
  const again = { namespace, token, pool, holder, layout, clock: clock.now(), window: 60_000 };
  expect(await client.claim(again)).toMatchObject({ outcome: "lost", reason: "cloned" });
  expect(await copy.renew({ ...state, turn: "copy", nextTurn: "next" })).toMatchObject({ outcome: "renewed" });
});

describe("a lost lease", () => {
  test("tells a hand-written client why, and what to do", async () => {
    const { claim, renew, clock, client, store } = await daemonWith();
    const told = async (held: Held, more: object = {}) => {
      const { status, body } = await renew(held, undefined, more);
      return [status, body.code, body.details.reason, body.detail];
    };
    const cloned = await claim();
    await renew(cloned, undefined, { nextTurn: "a" });
    expect(await told(cloned, { turn: "b", nextTurn: "c" })).toEqual([
      410,
      "LEASE_LOST",
      "cloned",
      "Worker 0 of namespace `orders` is not held with this token: a copy of this client has renewed it, or this request names no present turn; make no more IDs with it, and claim again.",
    ]);
    const forced = await claim();
    await store.forceRelease({ namespace: "orders", workerId: forced.workerId, force: true });
    expect(await told(forced)).toEqual([
      410,
      "LEASE_LOST",
      "released",
      expect.stringContaining("operator released it"),
    ]);
    const taken = await claim();
    await clock.advance(60_001);
    const next = await client.claim({
      namespace: "orders",
      token: "1".repeat(32),
      workerId: taken.workerId,
      pool: layouts.westid.pool,
      holder: { host: "a", ip: "192.0.2.7", pid: 12, instance: "" },
      clock: clock.now(),
      window: 60_000,
      layout: layouts.westid.fingerprint,
    });
    expect(next.outcome).toBe("granted");
    expect(await told(taken)).toEqual([
      410,
      "LEASE_LOST",
      "taken",
      expect.stringContaining("another holder claimed it"),
    ]);
  });

  test("shows the times in doubt", async () => {
    const { claim, send, clock, client, store } = await daemonWith([keyA]);
    const held = await claim();
    const token = "7".repeat(32);
    const forgotten = signed(edited(held.receipt, { token: storedToken(token) }), "orders", keyA);
    const path = `/v1/orders/leases/${held.workerId}`;
    const { status, body } = await send("PATCH", path, { token, fence: held.fence, now: clock.now() }, forgotten);
    const { until = 0 } = (await store.worker("orders", held.workerId)) ?? {};
    const from = until - defaultLimits.maxWindow - defaultLimits.maxClockSkew;
    expect([status, body.details]).toMatchObject([410, { reason: "forgotten", doubt: { from, until } }]);
    expect(body.detail).toContain(`its IDs from ${new Date(from).toISOString()} to ${new Date(until).toISOString()}`);
    const { namespace, workerId, fence } = held;
    const renewal = { namespace, workerId, fence, token, clock: clock.now(), window: 60_000, receipt: forgotten };
    expect(await client.renew(renewal)).toEqual({ outcome: "lost", reason: "forgotten", doubt: { from, until } });
  });
});

describe("the turns of a renewal", () => {
  test.each([
    ["turn", "x".repeat(65)],
    ["nextTurn", 7],
    ["nextTurn", "a\nb"],
    ["sentTurns", "a"],
    ["sentTurns", ["x".repeat(65)]],
    ["sentTurns", Array.from({ length: 9 }, String)],
  ])("are refused with %s %j", async (name, value) => {
    const { claim, renew, send } = await daemonWith();
    const held = await claim();
    const { body } = await renew(held, undefined, { [name]: value });
    expect([body.code, body.detail]).toEqual(["CONFIG_INVALID", expect.stringContaining(`\`${name}`)]);
    const { workerId, token } = held;
    const release = await send("DELETE", `/v1/orders/leases/${workerId}`, { token, [name]: value });
    expect(release.body.code).toBe("CONFIG_INVALID");
  });

  test("come back as the registry stored them", async () => {
    const { claim, renew } = await daemonWith();
    const held = await claim();
    expect((await renew(held, undefined)).body).not.toHaveProperty("turn");
    expect((await renew(held, undefined, { nextTurn: "one" })).body.turn).toBe("one");
    expect((await renew(held, undefined, { turn: "none", nextTurn: "two", sentTurns: ["one"] })).body.turn).toBe("two");
  });
});

describe("an operator ends a quarantine", () => {
  test("by its era, and no other one", async () => {
    const { claim, renew, client, send, clock, lines } = await daemonWith([keyA]);
    const held = await claim();
    const lie = signed(edited(held.receipt, { renewals: 9 }), "orders", keyA);
    const before = await client.describe("orders");
    expect((await renew(held, lie)).body.code).toBe("QUARANTINE");
    const info = await client.describe("orders");
    expect(info).toMatchObject({
      id: before?.id,
      quarantineUntil: expect.any(Number),
      quarantineEnd: expect.any(Number),
    });
    const path = "/v1/orders/quarantine/end";
    expect((await send("POST", path, { era: before?.era })).body.code).toBe("CONFIG_INVALID");
    expect((await send("POST", "/v1/users/quarantine/end", { era: info?.era })).body.code).toBe("NOT_FOUND");
    expect(await client.describe("orders")).toEqual(info);
    const ended = await client.endQuarantine?.({ namespace: "orders", era: info?.era ?? "" });
    expect(ended).toMatchObject({ era: info?.era, quarantineEnd: info?.quarantineEnd });
    expect(ended?.quarantineUntil).toBeLessThan(info?.quarantineUntil ?? 0);
    expect(lines.join("\n")).toContain("quarantine-ended");
    await clock.advance(2 * defaultLimits.maxClockSkew + 2);
    expect((await renew(held, lie)).status).toBe(200);
  });
});

describe("below a daemon, a store that is separated from its original", () => {
  test("is known to a daemon that signed for it before: holders renew after the quarantine", async () => {
    const { claim, renew, clock, store } = await daemonWith();
    const held = await claim();
    const { id, era = "" } = (await store.describe("orders")) ?? {};
    const info = await store.separate?.({ namespace: "orders", era });
    expect((await renew(held, held.receipt)).body.code).toBe("QUARANTINE");
    await clock.advance((info?.quarantineUntil ?? 0) - clock.now());
    const renewal = await renew(held, held.receipt);
    expect(renewal).toMatchObject({ status: 200, receipt: expect.stringMatching(`^1\\.${info?.id}\\.`) as string });
    expect(info?.id).not.toBe(id);
    expect((await renew(held, renewal.receipt)).status).toBe(200);
    expect(await store.describe("orders")).toMatchObject({ id: info?.id, era: info?.era });
  });

  test("is another registry to a daemon that starts later: holders lose their leases, and claim anew after the quarantine", async () => {
    const clock = fakeClock();
    const registry = memoryRegistry({ clock });
    const held = await (await daemonWith([], { clock, registry })).claim();
    const { era = "" } = (await registry.describe("orders")) ?? {};
    const info = await registry.separate?.({ namespace: "orders", era });
    const { client, renew } = await daemonWith([], { clock, registry });
    expect((await renew(held, held.receipt)).body.code).toBe("OTHER_REGISTRY");
    const { namespace, workerId, fence, token, receipt } = held;
    const renewal = { namespace, workerId, fence, token, receipt, clock: clock.now(), window: 60_000 };
    expect(await client.renew(renewal)).toMatchObject({ outcome: "lost", reason: "forgotten" });
    const claim = () =>
      client.claim({
        namespace,
        token: "f".repeat(32),
        pool: layouts.westid.pool,
        holder: { host: "a", ip: "192.0.2.7", pid: 12, instance: "" },
        layout: layouts.westid.fingerprint,
        clock: clock.now(),
        window: 60_000,
        recall: receipt,
      });
    await expect(claim()).rejects.toMatchObject({ code: "QUARANTINE" });
    await clock.advance((info?.quarantineUntil ?? 0) - clock.now());
    expect(await claim()).toMatchObject({ outcome: "granted", from: info?.quarantineEnd });
    expect(await registry.describe("orders")).toMatchObject({ id: info?.id, era: info?.era });
  });

  test("takes a configured key for its own, whatever the id: the copy's daemons need another one", async () => {
    const clock = fakeClock();
    const registry = memoryRegistry({ clock });
    const first = await daemonWith([keyA], { clock, registry });
    const held = await first.claim();
    const { era = "" } = (await registry.describe("orders")) ?? {};
    const info = await registry.separate?.({ namespace: "orders", era });
    await clock.advance((info?.quarantineUntil ?? 0) - clock.now());
    const later = edited(held.receipt, { until: (info?.quarantineUntil ?? 0) + 60_000 });
    const sharing = await daemonWith([keyA], { clock, registry });
    const other = await daemonWith([keyB], { clock, registry });
    expect((await other.renew(held, signed(later, "orders", keyA))).body.code).toBe("OTHER_REGISTRY");
    expect(await registry.describe("orders")).toMatchObject({ era: info?.era });
    expect((await sharing.renew(held, signed(later, "orders", keyA))).body.code).toBe("QUARANTINE");
    expect((await registry.describe("orders"))?.era).not.toBe(info?.era);
  });
});

test.each<[string, RegExp]>([
  ["", /has no key/],
  ["# a b\n\n", /has no key/],
  ["a", /line 1 .* hexadecimal/],
  [`a ${"0".repeat(31)}`, /line 1 .* hexadecimal/],
  [`a ${"0".repeat(33)}`, /line 1 .* hexadecimal/],
  [`a ${"0".repeat(130)}`, /line 1 .* hexadecimal/],
  [`a ${"g".repeat(32)}`, /line 1 .* hexadecimal/],
  [`- ${"0".repeat(32)}`, /line 1 .* letters/],
  [`${"a".repeat(33)} ${"0".repeat(32)}`, /line 1 .* letters/],
  [`a ${"0".repeat(32)} x`, /line 1 .* no more/],
  [`a ${"0".repeat(32)}\n\na ${"1".repeat(32)}`, /line 3 .* once/],
])("keys of the form %j are refused, without a word of them", (text, rule) => {
  expect(() => parseReceiptKeys(text, "/etc/keys")).toThrow(
    expect.objectContaining({ code: "CONFIG_INVALID", message: expect.stringMatching(rule) }),
  );
  expect(() => parseReceiptKeys(text, "/etc/keys")).not.toThrow(/000000|gggggg|aaaaaa/);
});

describe("a registry that recalls", () => {
  /** Claims of a registry in memory beneath it: the recalls of each. */
  function recalled() {
    const clock = fakeClock();
    const memory = memoryRegistry({ clock });
    const recalls: (string | undefined)[] = [];
    const registry = recalling({
      ...memory,
      claim(request) {
        recalls.push(request.recall);
        return memory.claim(request);
      },
    });
    const claim = async (namespace = "orders", recall?: string) => {
      const token = crypto.randomUUID().replaceAll("-", "");
      const { pool, fingerprint: layout } = layouts.westid;
      const holder = { host: "a", ip: "192.0.2.7", pid: 12, instance: "" };
      const terms = { namespace, token, pool, holder, layout, clock: clock.now(), window: 60_000, recall };
      const grant = await registry.claim(terms);
      if (grant.outcome !== "granted") throw new Error(grant.outcome);
      return { key: { namespace, token, workerId: grant.workerId, fence: grant.fence }, grant };
    };
    return { clock, registry, recalls, claim };
  }

  test("sends a receipt of a lease that was not given back, once in a second", async () => {
    const { clock, registry, recalls, claim } = recalled();
    const first = await claim();
    const second = await claim();
    expect(recalls).toEqual([undefined, first.grant.receipt]);
    const renewed = await registry.renew({ ...second.key, clock: clock.now(), window: 60_000 });
    for (let i = 0; i < 300; i++) await claim();
    expect(new Set(recalls.slice(2))).toEqual(new Set([undefined]));
    await clock.advance(1000);
    // Of the claim that carried the last recall: each later claim may meet an older copy already.
    const third = await claim();
    expect(recalls.at(-1)).toBe("receipt" in renewed ? renewed.receipt : "");
    await registry.release({ ...second.key, clock: clock.now() });
    await claim();
    await clock.advance(1000);
    await claim();
    expect(recalls.at(-1)).toBe(third.grant.receipt);
    await clock.advance(120_000);
    await claim();
    // All windows have passed.
    expect(recalls.at(-1)).toBeUndefined();
    await clock.advance(1000);
    await claim("users");
    expect(recalls.at(-1)).toBeUndefined();
    await claim("orders", "mine");
    expect(recalls.at(-1)).toBe("mine");
  });

  test("forgets what was given back", async () => {
    const { clock, registry, recalls, claim } = recalled();
    const [kept, given] = [await claim(), await claim()];
    expect(recalls).toEqual([undefined, kept.grant.receipt]);
    await registry.release({ ...given.key, clock: clock.now() });
    await clock.advance(1000);
    await claim();
    expect(recalls.at(-1)).toBe(kept.grant.receipt);
  });
});
