import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, test, vi } from "vitest";
import { layouts } from "../../src/id/layout.ts";
import { errorCodes, SnowleaseError } from "../../src/id/errors.ts";
import { problemParts } from "../../src/http/problem.ts";
import { fakeClock, memoryRegistry } from "../../src/testing.ts";
import { makeApi, type Api } from "../support/api.ts";
import { inlined } from "../support/described.ts";
import { version } from "../../src/assets.ts";

const leases = "/v1/orders/leases";
const token = "0123456789abcdef0123456789abcdef";

function claim({ call, clock }: Api, body: object = {}): ReturnType<Api["call"]> {
  return call("POST", leases, { now: clock.now(), host: "a", ip: "192.0.2.7", pid: 12, ...body });
}

describe("POST leases", () => {
  test("a claim of nothing but `now` gets a worker ID, a window and a token", async () => {
    const api = makeApi();
    const now = api.clock.now();
    const { status, body, headers } = await api.call("POST", leases, { now });
    expect(status).toBe(201);
    expect(headers.get("content-type")).toBe("application/json");
    expect(body).toEqual({
      workerId: 0,
      fence: 1,
      token: expect.stringMatching(/^[0-9a-f]{32}$/),
      from: now - 10_000,
      until: now + 60_000,
      clock: now,
      renewAfterMs: 20_000,
      layout: layouts.westid.fingerprint,
    });
  });

  test("the same token gets the same grant", async () => {
    const api = makeApi();
    const first = await claim(api, { token });
    await api.clock.advance(100);
    const second = await claim(api, { token });
    expect(first.body.token).toBe(token);
    expect({ ...second.body, clock: 0 }).toEqual({ ...first.body, clock: 0 });
  });

  test("two claims without a token get two worker IDs and two tokens", async () => {
    const api = makeApi();
    const [one, two] = [await claim(api), await claim(api)];
    expect([one.body.workerId, two.body.workerId]).toEqual([0, 1]);
    expect(one.body.token).not.toBe(two.body.token);
  });

  test("workerId, windowMs and lastWorkerId are heeded", async () => {
    const api = makeApi();
    const { body } = await claim(api, { workerId: 7, windowMs: 3000 });
    expect(body).toMatchObject({ workerId: 7, until: api.clock.now() + 3000, renewAfterMs: 1000 });
    expect((await claim(api, { lastWorkerId: 9 })).body.workerId).toBe(9);
  });

  test("layout, pool and window are the namespace's, else what the daemon is set to", async () => {
    const api = makeApi({ layout: layouts.twitter, pool: { first: 512, last: 513 }, window: 9000 });
    const first = await claim(api);
    expect(first.body).toMatchObject({ layout: layouts.twitter.fingerprint, workerId: 512, renewAfterMs: 3000 });
    await api.call("PUT", "/v1/other", { layout: "westid" });
    const other = await api.call("POST", "/v1/other/leases", { now: api.clock.now() });
    expect(other.body).toMatchObject({ layout: layouts.westid.fingerprint, workerId: 512 });
  });

  test("where a tick is long, the window holds four", async () => {
    const api = makeApi();
    const layout = "timestamp:30,worker:10,sequence:12@1490346283706/60000";
    expect((await claim(api, { layout, limits: { maxWindow: 240_000 } })).body).toMatchObject({
      layout,
      until: api.clock.now() + 240_000,
    });
  });

  test("a layout whose timestamp bits have run out is refused", async () => {
    const api = makeApi();
    api.clock.step(Date.parse("2026-11-20T00:00:00Z") - api.clock.now());
    const { status, body } = await claim(api, { layout: "uid" });
    expect([status, body.code]).toEqual([409, "LAYOUT_EXPIRED"]);
    expect(body.detail).toContain("ran out on 2024-11-20T13:24:16.000Z; move to another layout.");
  });

  test("a claim by a clock that shows a time before the layout's epoch is refused", async () => {
    const api = makeApi();
    api.clock.step(5000 - api.clock.now());
    const { status, body } = await claim(api, { layout: "rollback" });
    expect([status, body.code]).toEqual([503, "WINDOW_NOT_OPEN"]);
    expect(body.detail).toContain("begins at 2020-01-31T16:00:00.000Z, its epoch; set the clock if it is wrong");
  });

  test("a holder is told to renew within 40 s, however long its window is", async () => {
    const api = makeApi();
    const limits = { maxWindow: 600_000 };
    const { body } = await claim(api, { windowMs: 600_000, limits });
    expect(body).toMatchObject({ until: api.clock.now() + 600_000, renewAfterMs: 40_000 });
    const key = { token: body["token"], now: api.clock.now(), windowMs: 600_000 };
    const renewal = await api.call("PATCH", `/v1/orders/leases/${String(body["workerId"])}`, key);
    expect(renewal.body).toMatchObject({ renewAfterMs: 40_000 });
  });

  test("ticks of a minute fit into the window of a claim without one, but not into any that is asked for", async () => {
    const api = makeApi();
    const layout = "timestamp:31,worker:10,sequence:12@1463673600000/60000";
    expect((await claim(api, { layout })).body).toMatchObject({ until: api.clock.now() + 120_000 });
    const { body } = await claim(api, { layout, windowMs: 120_000 });
    expect(body.detail).toMatch(/`windowMs` to be at least 180000 ms/);
    await api.call("PUT", "/v1/short", { layout, maxWindow: 119_999 });
    const short = await api.call("POST", "/v1/short/leases", { now: api.clock.now() });
    expect(short.body.detail).toMatch(/`windowMs` to be at least 120000 ms \(2 ticks of the layout\), got `119999`/);
  });

  test("a window of half a wrap is refused", async () => {
    const { body } = await claim(makeApi(), { layout: "scene", windowMs: 2 ** 20, limits: { maxWindow: 2 ** 21 } });
    expect(body.detail).toMatch(/`windowMs` to be less than 1048576 ms/);
  });

  test("a window of less than 3 ticks is refused, since it may hold no whole one", async () => {
    const api = makeApi();
    const layout = "timestamp:31,worker:10,sequence:12@1463673600000/1000";
    const { status, body } = await claim(api, { layout, windowMs: 2999 });
    expect([status, body.code]).toEqual([400, "CONFIG_INVALID"]);
    expect(body.detail).toMatch(/`windowMs` to be at least 3000 ms \(3 ticks of the layout\), got `2999`/);
    expect((await claim(api, { layout, windowMs: 3000 })).status).toBe(201);
  });

  test("where the namespace allows no more, the window is shorter than what the daemon is set to", async () => {
    const api = makeApi();
    await api.call("PUT", "/v1/orders", { maxWindow: 5000 });
    for (const body of [{}, { layout: "westid" }]) {
      expect((await claim(api, body)).body).toMatchObject({ until: api.clock.now() + 5000 });
    }
    const limits = { maxWindow: 4000 };
    const { body } = await api.call("POST", "/v1/other/leases", { now: api.clock.now(), limits });
    expect(body).toMatchObject({ until: api.clock.now() + 4000 });
  });

  test("a worker ID that is held is a 503 that names its holder, with the refusal for the client", async () => {
    const api = makeApi();
    await claim(api, { workerId: 7 });
    const { status, body, headers } = await claim(api, { workerId: 7, host: "b" });
    expect(status).toBe(503);
    expect(headers.get("content-type")).toBe("application/problem+json");
    expect(headers.get("retry-after")).toBe("60");
    expect(body).toMatchObject({
      code: "WORKER_ID_HELD",
      status: 503,
      title: "Service Unavailable",
      retryAfterMs: 60_000,
    });
    expect(body.detail).toMatch(/held by a \(192\.0\.2\.7\), pid 12/);
    expect(body.details.refusal).toMatchObject({ outcome: "held", workerId: 7, live: true });
  });

  test.each(errorCodes)("%s has a status at which clients try again if and only if it passes by itself", (code) => {
    const { retryable } = new SnowleaseError(code, "No.");
    const error = new SnowleaseError(code, "No.", retryable ? { retryAfterMs: 1000 } : {});
    const { status, headers } = problemParts(error);
    expect(problemParts(new SnowleaseError("WORKER_ID_HELD", "It is pinned.")).status).toBe(409);
    expect([429, 503].includes(status)).toBe(error.retryable);
    expect(headers["retry-after"]).toBe(error.retryable ? "1" : undefined);
  });

  test("a pool without a free worker ID is a 503 with Retry-After", async () => {
    const api = makeApi();
    const pool = { first: 3, last: 3 };
    await claim(api, { pool });
    const { status, body, headers } = await claim(api, { pool, host: "b" });
    expect([status, body.code, headers.get("retry-after")]).toEqual([503, "POOL_EXHAUSTED", "60"]);
  });

  test.each([
    ["CLOCK_SKEW", 503, { now: 1_700_000_020_000 }],
    ["LAYOUT_MISMATCH", 409, { layout: "twitter" }],
    ["LAYOUT_MISMATCH", 409, { layout: "something newer" }],
    ["CONFIG_INVALID", 400, { workerId: 1024 }],
    ["CONFIG_INVALID", 400, { pool: { first: 0, last: 9999 } }],
    ["CONFIG_INVALID", 400, { pool: { first: 0, last: 9999 }, workerId: 5000 }],
    ["CONFIG_INVALID", 400, { pool: { first: 1024, last: 1024 }, layout: "westid" }],
    ["CONFIG_INVALID", 400, { windowMs: 2 }],
    ["CONFIG_INVALID", 400, { windowMs: 600_001 }],
    ["CONFIG_INVALID", 400, { limits: { maxWindow: 1000 } }],
  ])("%s is a %i: %j", async (code, status, body) => {
    const api = makeApi();
    await claim(api);
    const reply = await claim(api, body);
    expect([reply.status, reply.body.code]).toEqual([status, code]);
  });
});

describe("PATCH leases", () => {
  test("a renewal of nothing but token and now raises `until` by the window that was claimed", async () => {
    const api = makeApi();
    const { body: lease } = await claim(api, { windowMs: 3000 });
    await api.clock.advance(1000);
    const now = api.clock.now();
    const { status, body } = await api.call("PATCH", `${leases}/0`, { token: lease.token, now });
    expect(status).toBe(200);
    expect(body).toEqual({ from: lease.from, until: now + 3000, clock: now, renewAfterMs: 1000 });
  });

  describe("by a daemon that knows nothing of the claim", () => {
    test("go by the window that was claimed", async () => {
      const api = makeApi();
      const { body: lease } = await claim(api, { windowMs: 3000 });
      const restarted = makeApi({ registry: api.registry, clock: api.clock });
      for (let i = 0; i < 3; i++) {
        await api.clock.advance(1000);
        const now = api.clock.now();
        const { body } = await restarted.call("PATCH", `${leases}/0`, { token: lease.token, now });
        expect(body).toMatchObject({ until: now + 3000, renewAfterMs: 1000 });
      }
    });

    test("never exceed what the namespace allows, nor grow from one to the next where the holder's clock is behind", async () => {
      const api = makeApi();
      await api.call("PUT", "/v1/orders", { maxWindow: 5000 });
      const { body: lease } = await claim(api, { now: api.clock.now() - 1000, windowMs: 3000 });
      const [one, two] = [1, 2].map(() => makeApi({ registry: api.registry, clock: api.clock }));
      for (const daemon of [one, one, one, two, two, api, two, api, one]) {
        await api.clock.advance(500);
        const now = api.clock.now() - 1000;
        const { status, body } = (await daemon?.call("PATCH", `${leases}/0`, { token: lease.token, now })) ?? {};
        expect(status).toBe(200);
        expect(body.until).toBeLessThanOrEqual(api.clock.now() + 5000);
      }
      await api.clock.advance(5000);
      const renewal = { token: lease.token, now: api.clock.now() - 1000 };
      const { body } = (await one?.call("PATCH", `${leases}/0`, renewal)) ?? {};
      expect(body.until).toBe(api.clock.now() + 4000);
    });
  });

  test("the checkpoint is stored; without a sequence all of its tick counts as used", async () => {
    const api = makeApi();
    const { body: lease } = await claim(api);
    const now = api.clock.now();
    await api.call("PATCH", `${leases}/0`, { token: lease.token, now, lastTimestamp: now - 5, lastSequence: 17 });
    expect((await api.registry.worker("orders", 0))?.checkpoint).toEqual({ timestamp: now - 5, sequence: 17 });
    await api.call("PATCH", `${leases}/0`, { token: lease.token, now, lastTimestamp: now });
    expect((await api.registry.worker("orders", 0))?.checkpoint).toEqual({ timestamp: now, sequence: 4095 });
  });

  test.each([
    ["a wrong token", { token: "nope" }],
    ["a wrong fence", { fence: 9 }],
  ])("%s is LEASE_LOST, 410", async (_, wrong) => {
    const api = makeApi();
    const { body: lease } = await claim(api);
    const { status, body } = await api.call("PATCH", `${leases}/0`, {
      token: lease.token,
      now: api.clock.now(),
      ...wrong,
    });
    expect([status, body.code]).toEqual([410, "LEASE_LOST"]);
    expect(JSON.stringify(body)).not.toContain("nope");
  });

  test("a worker ID that nobody ever used, or a namespace that does not exist, is LEASE_LOST", async () => {
    const api = makeApi();
    const { status, body } = await api.call("PATCH", `${leases}/3`, { token, now: api.clock.now() });
    expect([status, body.code]).toEqual([410, "LEASE_LOST"]);
  });
});

describe.each([
  ["DELETE leases", "DELETE", ""],
  ["POST leases/0/release", "POST", "/release"],
])("%s", (_, method, path) => {
  test("without a last timestamp the window stays closed, twice 204", async () => {
    const api = makeApi();
    const { body: lease } = await claim(api);
    for (let i = 0; i < 2; i++) {
      const { status, body } = await api.call(method, `${leases}/0${path}`, { token: lease.token });
      expect([status, body]).toEqual([204, undefined]);
    }
    expect(await api.registry.worker("orders", 0)).toMatchObject({
      state: "resting",
      until: lease.until,
      clean: false,
    });
  });

  test("with a last timestamp the window closes behind its tick", async () => {
    const api = makeApi();
    const { body: lease } = await claim(api);
    const last = api.clock.now();
    await api.call(method, `${leases}/0${path}`, { token: lease.token, lastTimestamp: last });
    expect(await api.registry.worker("orders", 0)).toMatchObject({ until: last + 1, clean: true });
  });

  test("in a layout of long ticks it closes behind the whole tick", async () => {
    const api = makeApi();
    const layout = "timestamp:39,sequence:8,worker:16@1409529600000/10";
    const { body: lease } = await claim(api, { layout });
    const last = api.clock.now() + 7;
    await api.call(method, `${leases}/0${path}`, { token: lease.token, lastTimestamp: last });
    expect((await api.registry.worker("orders", 0))?.until).toBe(api.clock.now() + 10);
  });

  test("a renewal for less than three ticks is refused, as a claim is", async () => {
    const api = makeApi();
    const { body: lease } = await claim(api);
    const renewal = { token: lease.token, now: api.clock.now() };
    for (const windowMs of [1, 2]) {
      const { status, body } = await api.call("PATCH", `${leases}/0`, { ...renewal, windowMs });
      expect([status, body["code"]]).toEqual([400, "CONFIG_INVALID"]);
    }
    const { status, body } = await api.call("PATCH", `${leases}/0`, { ...renewal, windowMs: 3 });
    expect([status, body["renewAfterMs"]]).toEqual([200, 1]);
  });

  test("with a sequence that the layout does not have it is refused, and so is a renewal", async () => {
    const api = makeApi();
    const { body: lease } = await claim(api);
    const told = { token: lease.token, lastTimestamp: api.clock.now(), lastSequence: 4096 };
    for (const [method, body] of [
      ["PATCH", { ...told, now: api.clock.now() }],
      ["DELETE", told],
    ] as const) {
      const { status, body: problem } = await api.call(method, `${leases}/0`, body);
      expect([status, problem["code"]]).toEqual([400, "CONFIG_INVALID"]);
    }
    await api.call(method, `${leases}/0${path}`, { ...told, lastSequence: 4095 });
    expect(await api.registry.worker("orders", 0)).toMatchObject({ clean: true, checkpoint: { sequence: 4095 } });
  });

  test("in another unit, or before what was told at a renewal, it is refused: the next holder would make those IDs again", async () => {
    const api = makeApi();
    const { body: lease } = await claim(api);
    const { token } = lease;
    const last = api.clock.now();
    await api.call("PATCH", `${leases}/0`, { token, now: last, lastTimestamp: last, lastSequence: 5 });
    const before = await api.registry.worker("orders", 0);
    for (const wrong of [Math.floor(last / 1000), last * 1000, last - 1]) {
      const { status, body } = await api.call(method, `${leases}/0${path}`, { token, lastTimestamp: wrong });
      expect([status, body["code"]]).toEqual([400, "CONFIG_INVALID"]);
    }
    expect(await api.registry.worker("orders", 0)).toEqual(before);
    await api.call(method, `${leases}/0${path}`, { token, lastTimestamp: last });
    expect(await api.registry.worker("orders", 0)).toMatchObject({ until: last + 1, clean: true });
  });

  test("recents go to the next holder as they were, from the begin of the window", async () => {
    const api = makeApi();
    const { body: lease } = await claim(api);
    const last = api.clock.now() + 50;
    const given = { token: lease.token, lastTimestamp: last, lastSequence: 3, recent: "AQID" };
    expect((await api.call(method, `${leases}/0${path}`, given)).status).toBe(204);
    const { body } = await claim(api);
    expect(body).toMatchObject({ workerId: 0, from: last + 1, recent: "AQID", recentFrom: lease.from });
  });

  test.each([
    ["that are cut off", [1, 2, 3, 4]],
    ["of nothing at all", []],
    ["of another version", [2, 0, 0]],
    ["with a sequence that the layout does not have", [1, 0, 128, 32]],
    ["that list a tick behind the window", [1, 51, 0]],
    ["that list a tick in a million years", [1, 255, 255, 255, 255, 255, 63, 0]],
  ])("recents %s are CONFIG_INVALID, and the lease goes on", async (_, bytes) => {
    const api = makeApi();
    const { body: lease } = await claim(api);
    const recent = Buffer.from(bytes).toString("base64");
    const given = { token: lease.token, lastTimestamp: lease.from + 50, recent };
    const { status, body } = await api.call(method, `${leases}/0${path}`, given);
    expect([status, body.code]).toEqual([400, "CONFIG_INVALID"]);
    expect(body.detail).toMatch(/^Expected `recent` /);
    expect((await api.registry.worker("orders", 0))?.state).toBe("live");
    const last = { ...given, recent: Buffer.from([1, 50, 0]).toString("base64") };
    expect((await api.call(method, `${leases}/0${path}`, last)).status).toBe(204);
  });

  test("a last timestamp outside the window is CONFIG_INVALID, and the lease goes on", async () => {
    const api = makeApi();
    const { body: lease } = await claim(api);
    const { status } = await api.call(method, `${leases}/0${path}`, { token: lease.token, lastTimestamp: lease.until });
    expect(status).toBe(400);
    expect((await api.registry.worker("orders", 0))?.state).toBe("live");
  });

  test("a wrong token is LEASE_LOST", async () => {
    const api = makeApi();
    await claim(api);
    const { status, body } = await api.call(method, `${leases}/0${path}`, { token });
    expect([status, body.code]).toEqual([410, "LEASE_LOST"]);
  });
});

describe("ids", () => {
  test("IDs come from the daemon's own lease, in the format asked for", async () => {
    const api = makeApi();
    const { status, body } = await api.call("POST", "/v1/orders/ids", { count: 3 });
    expect(status).toBe(200);
    const parts = body.ids.map((id: string) => layouts.westid.decompose(BigInt(id)));
    const expected = { timestamp: api.clock.now(), workerId: 0 };
    expect(parts).toMatchObject([0, 1, 2].map((sequence) => ({ ...expected, sequence })));
    const { body: hex } = await api.call("POST", "/v1/orders/ids", { format: "hex" });
    expect(BigInt(`0x${hex.ids[0]}`)).toBe(BigInt(body.ids[2]) + 1n);
  });

  test("no body at all is one ID", async () => {
    const { status, body } = await makeApi().call("POST", "/v1/orders/ids");
    expect([status, body.ids.length]).toEqual([200, 1]);
  });

  test("more than a tick holds waits for the next ones, and no ID comes twice", async () => {
    const api = makeApi();
    const asked = Promise.all([
      api.call("POST", "/v1/orders/ids", { count: 10_000 }),
      api.call("POST", "/v1/orders/ids", { count: 5000 }),
    ]);
    for (let i = 0; i < 10; i++) await api.clock.advance(1);
    const ids = (await asked).flatMap(({ body }) => body.ids);
    expect(ids.length).toBe(15_000);
    expect(new Set(ids).size).toBe(15_000);
  });

  test("first requests at once claim one worker ID a namespace", async () => {
    const api = makeApi();
    const paths = ["/v1/orders/ids", "/v1/orders/ids", "/v1/orders/ids", "/v1/users/ids"];
    await Promise.all(paths.map((path) => api.call("POST", path)));
    expect((await api.registry.workers("orders")).length).toBe(1);
    expect((await api.registry.workers("users")).length).toBe(1);
  });

  test("a claim that failed is asked again by the next request", async () => {
    const api = makeApi();
    let down = true;
    const registry = { ...api.registry };
    registry.describe = async (namespace) => {
      if (down) throw new SnowleaseError("QUARANTINE", "Not now.", { retryAfterMs: 2500 });
      return api.registry.describe(namespace);
    };
    const { call } = makeApi({ registry });
    const refused = await call("POST", "/v1/orders/ids");
    expect([refused.status, refused.body.code, refused.headers.get("retry-after")]).toEqual([503, "QUARANTINE", "3"]);
    down = false;
    expect((await call("POST", "/v1/orders/ids")).status).toBe(200);
  });

  test("a lease that was lost is replaced by another", async () => {
    const api = makeApi();
    await api.call("POST", "/v1/orders/ids");
    await api.registry.forceRelease({ namespace: "orders", workerId: 0, force: true });
    await api.clock.advance(30_000);
    const { body } = await api.call("POST", "/v1/orders/ids");
    expect(layouts.westid.decompose(BigInt(body.ids[0])).workerId).toBe(1);
  });

  test("without a source of IDs there is no such route", async () => {
    const { status, body } = await makeApi({ ids: undefined }).call("POST", "/v1/orders/ids");
    expect([status, body.code]).toEqual([404, "NOT_FOUND"]);
  });
});

describe("GET ids/{id}", () => {
  test("says who held the worker ID at that time, in any text form", async () => {
    const api = makeApi();
    await claim(api, { instance: "blue" });
    const id = layouts.westid.compose({ timestamp: api.clock.now(), workerId: 0, sequence: 5 });
    const { status, body } = await api.call("GET", `/v1/orders/ids/${id}`);
    expect(status).toBe(200);
    expect(body).toMatchObject({
      id: String(id),
      format: "decimal",
      layout: layouts.westid.fingerprint,
      timestamp: api.clock.now(),
      time: "2023-11-14T22:13:20.000Z",
      workerId: 0,
      sequence: 5,
      fields: { worker: 0 },
      holders: [{ workerId: 0, fence: 1, host: "a", ip: "192.0.2.7", pid: 12, instance: "blue" }],
    });
    const hex = await api.call("GET", `/v1/orders/ids/${id.toString(16)}?format=hex`);
    expect(hex.body).toEqual({ ...(body as object), format: "hex" });
  });

  test("says that nobody held it", async () => {
    const api = makeApi();
    const { body: lease } = await claim(api);
    const before = layouts.westid.compose({ timestamp: lease.from - 1, workerId: 0, sequence: 0 });
    const after = layouts.westid.compose({ timestamp: lease.until, workerId: 0, sequence: 0 });
    for (const id of [before, after]) expect((await api.call("GET", `/v1/orders/ids/${id}`)).body.holders).toEqual([]);
  });

  test("asks for a time where the timestamp wraps, and tells the rollback bits", async () => {
    const api = makeApi();
    const { body: lease } = await claim(api, { layout: "scene" });
    const timestamp = api.clock.now();
    const id = layouts.scene.compose({ timestamp, workerId: 0, sequence: 1 });
    const untold = await api.call("GET", `/v1/orders/ids/${id}`);
    expect(untold).toMatchObject({ status: 400, body: { code: "CONFIG_INVALID" } });
    expect(untold.body.detail).toContain(
      "starts again every 2097152 ms; tell a time near the ID's making (`at`, Unix ms)",
    );
    const { body } = await api.call("GET", `/v1/orders/ids/${id}?at=${timestamp + 60_000}`);
    expect(body).toMatchObject({ timestamp, workerId: 0, sequence: 1, holders: [{ fence: lease.fence }] });
    expect((await api.call("GET", `/v1/orders/ids/${id}?at=soon`)).status).toBe(400);

    await api.call("POST", "/v1/other/leases", { now: timestamp, layout: "rollback" });
    const other = layouts.rollback.compose({ timestamp, workerId: 163, sequence: 1, rollback: 2 });
    const told = await api.call("GET", `/v1/other/ids/${other}`);
    expect(told.body).toMatchObject({ rollback: 2, fields: { machine: 5, process: 3 } });
  });

  test("a tick that is not wholly in the window was nobody's", async () => {
    const api = makeApi();
    const layout = "timestamp:39,sequence:8,worker:16@1409529600000/10";
    const { body: lease } = await claim(api, { layout, windowMs: 1005 });
    expect(lease.until % 10).toBe(5);
    const explain = async (timestamp: number): Promise<number> => {
      const { body } = await api.call("GET", `/v1/orders/ids/${BigInt((timestamp - 1409529600000) / 10) << 24n}`);
      return body.holders.length;
    };
    expect([await explain(lease.until - 15), await explain(lease.until - 5)]).toEqual([1, 0]);
  });

  test("names both where one holder continued behind another", async () => {
    const api = makeApi();
    const { body: lease } = await claim(api);
    const last = api.clock.now();
    await api.call("DELETE", `${leases}/0`, {
      token: lease.token,
      lastTimestamp: last,
      recent: "AQ==",
      recentFrom: last,
    });
    await claim(api, { host: "b", workerId: 0 });
    const id = layouts.westid.compose({ timestamp: last, workerId: 0, sequence: 1 });
    const { body } = await api.call("GET", `/v1/orders/ids/${id}`);
    expect(body.holders.map(({ host, fence }: { host: string; fence: number }) => [host, fence])).toEqual([
      ["a", 1],
      ["b", 2],
    ]);
  });

  test.each([
    ["/v1/nowhere/ids/1", 404, "NOT_FOUND"],
    ["/v1/orders/ids/no!", 400, "CONFIG_INVALID"],
    ["/v1/orders/ids/12?format=roman", 400, "CONFIG_INVALID"],
    ["/v1/orders/ids/xyz?format=hex", 400, "CONFIG_INVALID"],
    ["/v1/orders/ids/9223372036854775808", 400, "CONFIG_INVALID"],
  ])("%s is %i %s", async (path, status, code) => {
    const api = makeApi();
    await claim(api);
    const reply = await api.call("GET", path);
    expect([reply.status, reply.body.code]).toEqual([status, code]);
  });
});

describe("workers", () => {
  test("are listed a page at a time, by state, and never with a token", async () => {
    const api = makeApi();
    const { body: lease } = await claim(api);
    for (let i = 1; i < 5; i++) await claim(api);
    await api.call("DELETE", `${leases}/0`, { token: lease.token });

    const numbers = (reply: { body: { workers: { workerId: number }[] } }): number[] =>
      reply.body.workers.map(({ workerId }) => workerId);
    const first = await api.call("GET", "/v1/orders/workers?limit=2");
    expect([numbers(first), first.body.next]).toEqual([[0, 1], 1]);
    const last = await api.call("GET", "/v1/orders/workers?limit=9&after=1");
    expect([numbers(last), last.body.next]).toEqual([[2, 3, 4], undefined]);
    expect(numbers(await api.call("GET", "/v1/orders/workers?state=resting"))).toEqual([0]);
    expect(numbers(await api.call("GET", "/v1/orders/workers?state=pinned"))).toEqual([]);
    expect(JSON.stringify((await api.call("GET", "/v1/orders/workers")).body)).not.toMatch(/token|[0-9a-f]{32}/);
  });

  test.each([
    ["GET", ""],
    ["GET", "/workers"],
    ["GET", "/workers/0"],
    ["GET", "/workers/0/history"],
    ["GET", "/ids/1"],
    ["POST", "/workers/0/release", { force: true }],
    ["PUT", "/workers/0/pin", { reason: "kept" }],
    ["DELETE", "/workers/0/pin"],
    ["PUT", "/pins", { pins: [{ workerId: 0, reason: "kept" }] }],
    ["DELETE", "/pins", { workerIds: [0] }],
    ["POST", "/prune", { before: 0 }],
  ])(
    "%s /v1/nowhere%s is 404 where there is no such namespace, and makes none",
    async (method, what, body?: object) => {
      const { call, registry } = makeApi();
      expect(await call(method, `/v1/nowhere${what}`, body)).toMatchObject({
        status: 404,
        body: { code: "NOT_FOUND", detail: expect.stringContaining("no namespace `nowhere`") as string },
      });
      expect(await registry.describe("nowhere")).toBeUndefined();
    },
  );

  test("a page of large recents is cut short, and goes on where it ended", async () => {
    const api = makeApi();
    const { clock } = api;
    // Each of 10,000 ticks, up to its highest sequence.
    const recent = Buffer.from([1, ...Array.from({ length: 10_000 }, () => [0, 255, 31]).flat()]).toString("base64");
    for (let workerId = 0; workerId < 60; workerId++) {
      const { body: lease } = await claim(api, { workerId });
      const used = { token: lease.token, lastTimestamp: clock.now(), recent };
      expect((await api.call("DELETE", `${leases}/${workerId}`, used)).status).toBe(204);
    }
    const seen: number[] = [];
    for (let after: number | undefined = -1; after !== undefined;) {
      const { body } = await api.call("GET", `/v1/orders/workers?after=${after}`);
      expect(JSON.stringify(body).length).toBeLessThan(2 ** 21);
      seen.push(...body.workers.map(({ workerId }: { workerId: number }) => workerId));
      after = body.next;
    }
    expect(seen).toEqual(Array.from({ length: 60 }, (_, i) => i));
  });

  test("one worker ID is shown flat; one that was never used is 404", async () => {
    const api = makeApi();
    const { body: lease } = await claim(api);
    const { status, body } = await api.call("GET", "/v1/orders/workers/0");
    expect(status).toBe(200);
    expect(body).toMatchObject({
      workerId: 0,
      state: "live",
      fence: 1,
      until: lease.until,
      host: "a",
      pid: 12,
      clean: false,
    });
    const missing = await api.call("GET", "/v1/orders/workers/9");
    expect([missing.status, missing.body.code]).toEqual([404, "NOT_FOUND"]);
  });

  test("history is a row a claim, oldest first, and can be limited to a span", async () => {
    const api = makeApi();
    const { body: first } = await claim(api, { workerId: 0 });
    await api.call("DELETE", `${leases}/0`, { token: first.token, lastTimestamp: api.clock.now() });
    await api.clock.advance(20_000);
    await claim(api, { workerId: 0, host: "b" });

    const { body } = await api.call("GET", "/v1/orders/workers/0/history");
    expect(body.rows).toMatchObject([
      { fence: 1, host: "a", end: "released" },
      { fence: 2, host: "b" },
    ]);
    const { body: old } = await api.call("GET", `/v1/orders/workers/0/history?until=${body.rows[1].from}`);
    expect(old.rows.map(({ fence }: { fence: number }) => fence)).toEqual([1]);
    const { body: one } = await api.call("GET", "/v1/orders/workers/0/history?limit=1");
    expect(one.rows.map(({ fence }: { fence: number }) => fence)).toEqual([2]);
  });

  test("a history too long for one answer comes in pages, the newest first", async () => {
    const api = makeApi();
    const host = "x".repeat(255);
    const holder = { host, ip: "", pid: 1, instance: host };
    const pool = { first: 0, last: 0 };
    for (let i = 0; i < 2500; i++) {
      const token = i.toString(16).padStart(32, "0");
      const clock = api.clock.now();
      const terms = { clock, window: 1000, layout: layouts.westid.fingerprint };
      const answer = await api.registry.claim({ namespace: "orders", token, pool, holder, ...terms });
      if (answer.outcome !== "granted") throw new Error(JSON.stringify(answer));
      const { workerId, fence, from } = answer;
      await api.registry.release({ namespace: "orders", workerId, fence, token, clock, used: { until: from } });
    }
    const seen: number[] = [];
    let pages = 0;
    for (let before = 1e6; before !== undefined; pages++) {
      const { body } = await api.call("GET", `/v1/orders/workers/0/history?limit=10000&before=${before}`);
      expect(JSON.stringify(body).length).toBeLessThan(2 ** 21);
      seen.unshift(...body.rows.map(({ fence }: { fence: number }) => fence));
      before = body.next;
    }
    expect(seen).toEqual(Array.from({ length: 2500 }, (_, i) => i + 1));
    expect(pages).toBeGreaterThan(1);
    const { body } = await api.call("GET", "/v1/orders/workers/0/history?limit=2&before=11");
    expect(body).toMatchObject({ rows: [{ fence: 9 }, { fence: 10 }], next: 9 });
  });

  test("a live holder is only released by force", async () => {
    const api = makeApi();
    const { body: lease } = await claim(api);
    const path = "/v1/orders/workers/0/release";
    const refused = await api.call("POST", path);
    expect([refused.status, refused.body.code]).toEqual([409, "WORKER_ID_HELD"]);
    expect(refused.body.detail).toMatch(/a \(192\.0\.2\.7\), pid 12/);
    const forced = await api.call("POST", path, { force: true });
    expect([forced.status, forced.body]).toEqual([200, { until: lease.until }]);
    const absent = await api.call("POST", "/v1/orders/workers/9/release", { force: true });
    expect([absent.status, absent.body.code]).toEqual([404, "NOT_FOUND"]);
  });

  test("a window is reset only for somebody who knows", async () => {
    const api = makeApi();
    await claim(api);
    const path = "/v1/orders/workers/0/release";
    const fence = 1;
    for (const lacking of [{ fence }, { iKnow: true }]) {
      const refused = await api.call("POST", path, { force: true, resetWindow: true, ...lacking });
      expect([refused.status, refused.body.code]).toEqual([400, "CONFIG_INVALID"]);
    }
    const late = await api.call("POST", path, { force: true, resetWindow: true, iKnow: true, fence: fence + 1 });
    expect([late.status, late.body.code]).toEqual([409, "WORKER_ID_HELD"]);
    expect(late.body.detail).toContain("with the fence 1, so nothing was changed");
    const { body } = await api.call("POST", path, { force: true, resetWindow: true, iKnow: true, fence });
    expect(body).toEqual({ until: api.clock.now() });
  });

  test("pin keeps a worker ID out of the pool, and unpin puts it back", async () => {
    const api = makeApi();
    await api.call("PUT", "/v1/orders");
    expect((await api.call("PUT", "/v1/orders/workers/0/pin", { reason: "old host" })).status).toBe(204);
    expect((await claim(api)).body.workerId).toBe(1);
    expect((await api.call("GET", "/v1/orders/workers/0")).body).toMatchObject({ state: "pinned", pinned: "old host" });
    // Nobody ever had it: there is no window to tell of.
    expect((await api.call("GET", "/v1/orders/workers/0")).body).toMatchObject({ fence: 0, from: null, until: null });
    expect((await api.call("DELETE", "/v1/orders/workers/0/pin")).status).toBe(204);
    expect((await api.call("DELETE", "/v1/orders/workers/0/pin")).status).toBe(404);
    expect((await api.call("PUT", "/v1/nowhere/workers/0/pin", { reason: "x" })).body.code).toBe("NOT_FOUND");
  });

  test("several worker IDs are pinned, and put back, by one request", async () => {
    const api = makeApi();
    await api.call("PUT", "/v1/orders");
    const pins = [
      { workerId: 0, reason: "old host" },
      { workerId: 1, reason: "older host", owner: "10.0.0.7" },
    ];
    expect((await api.call("PUT", "/v1/orders/pins", { pins })).status).toBe(204);
    expect((await claim(api)).body.workerId).toBe(2);
    const { body } = await api.call("GET", "/v1/orders/workers?state=pinned");
    expect(body.workers).toMatchObject([{ pinned: "old host" }, { pinned: "older host", owner: "10.0.0.7" }]);
    const back = await api.call("DELETE", "/v1/orders/pins", { workerIds: [0, 1, 1, 7] });
    expect([back.status, back.body]).toEqual([200, { unpinned: [0, 1] }]);
    expect((await api.call("DELETE", "/v1/nowhere/pins", { workerIds: [0] })).body.code).toBe("NOT_FOUND");
    expect((await api.call("PUT", "/v1/nowhere/pins", { pins })).body.code).toBe("NOT_FOUND");
    const many = Array.from({ length: 65 }, (_, workerId) => ({ workerId, reason: "x" }));
    for (const wrong of [{ pins: many }, { pins: [] }, { pins: [{ workerId: 0, reason: " " }] }, {}]) {
      expect((await api.call("PUT", "/v1/orders/pins", wrong)).body.code).toBe("CONFIG_INVALID");
    }
    expect((await api.call("GET", "/v1/orders/workers?state=pinned")).body.workers).toEqual([]);
    const told = api.lines.map((line) => JSON.stringify((line as [string, object])[1]));
    for (const event of ["pinned", "unpinned"]) {
      for (const workerId of [0, 1]) {
        const start = JSON.stringify({ event, namespace: "orders", workerId }).slice(0, -1);
        expect(told.filter((line) => line.startsWith(start))).toHaveLength(1);
      }
    }
  });
});

describe("a worker ID that the namespace's layout does not have", () => {
  test.each([
    ["GET", "workers/1024"],
    ["GET", "workers/1024/history"],
    ["POST", "workers/1024/release", { force: true }],
    ["PUT", "workers/1024/pin", { reason: "a test" }],
    ["DELETE", "workers/1024/pin"],
    ["PATCH", "leases/1024", { token, now: 1_700_000_000_000 }],
    ["PATCH", "leases/1024", { token, now: 1_700_000_000_000, fence: 1 }],
    ["DELETE", "leases/1024", { token }],
    ["DELETE", "leases/1024", { token, fence: 1 }],
  ])("is refused by %s %s", async (method, path, body?: object) => {
    const api = makeApi();
    await api.call("PUT", "/v1/orders");
    const reply = await api.call(method, `/v1/orders/${path}`, body);
    expect([reply.status, reply.body.code]).toEqual([400, "CONFIG_INVALID"]);
    expect(reply.body.detail).toMatch(/`workerId` to be an integer from 0 to 1023 \(10 bits\), got `1024` \(number\)/);
    expect(await api.registry.workers("orders")).toEqual([]);
    expect(api.lines).toEqual([]);
  });

  test("is there where the layout has more of them", async () => {
    const api = makeApi();
    await api.call("PUT", "/v1/orders", { layout: "timestamp:39,sequence:8,worker:16@1409529600000/10" });
    expect((await api.call("PUT", "/v1/orders/workers/65535/pin", { reason: "a test" })).status).toBe(204);
    expect((await api.call("GET", "/v1/orders/workers/65535")).body).toMatchObject({ pinned: "a test" });
    expect((await api.call("GET", "/v1/orders/workers/65536")).status).toBe(400);
  });

  test("is never granted, however much it is preferred", async () => {
    const { body } = await claim(makeApi(), { lastWorkerId: 1024, preferred: [5555, 3] });
    expect(body.workerId).toBe(3);
  });
});

describe("namespaces", () => {
  test("are created once, then checked", async () => {
    const { call } = makeApi();
    expect((await call("GET", "/v1/orders")).status).toBe(404);
    const asked = { layout: "twitter", maxWindow: 30_000 };
    const made = await call("PUT", "/v1/orders", asked);
    const info = {
      layout: layouts.twitter.fingerprint,
      maxWindow: 30_000,
      maxClockSkew: 10_000,
      id: expect.stringMatching(/^[\da-f]{32}$/),
      era: expect.stringMatching(/^\d+-[\da-f]+$/),
    };
    expect([made.status, made.body]).toEqual([200, info]);
    expect((await call("PUT", "/v1/orders", asked)).body).toEqual(info);
    expect((await call("GET", "/v1/orders")).body).toEqual(info);
    expect((await call("PUT", "/v1/orders")).body.code).toBe("LAYOUT_MISMATCH");
    expect((await call("PUT", "/v1/orders", { ...asked, maxWindow: 1 })).body.code).toBe("CONFIG_INVALID");
    expect((await call("PUT", "/v1/users", { layout: "nonsense" })).body.code).toBe("CONFIG_INVALID");
  });

  test("have the daemon's limits where it made them and nobody asked for others", async () => {
    const limits = { maxWindow: 30_000, maxClockSkew: 500 };
    const api = makeApi({ limits });
    const { call, clock } = api;
    await call("PUT", "/v1/made", {});
    await call("PUT", "/v1/asked", { maxWindow: 20_000 });
    await call("POST", "/v1/claimed/leases", { now: clock.now() });
    await call("POST", "/v1/named/leases", { now: clock.now(), layout: "westid", windowMs: 1000, limits: {} });
    await call("POST", "/v1/bespoke/leases", { now: clock.now(), limits: { maxClockSkew: 700 } });
    for (const name of ["made", "claimed", "named"])
      expect((await call("GET", `/v1/${name}`)).body).toMatchObject(limits);
    expect((await call("GET", "/v1/asked")).body).toMatchObject({ ...limits, maxWindow: 20_000 });
    expect((await call("GET", "/v1/bespoke")).body).toMatchObject({ ...limits, maxClockSkew: 700 });

    // One that exists has its own.
    const loose = makeApi({ registry: api.registry, clock });
    await loose.call("PUT", "/v1/loose", {});
    expect((await call("PUT", "/v1/loose", {})).status).toBe(200);
    expect((await call("POST", "/v1/loose/leases", { now: clock.now() })).status).toBe(201);
  });

  test("prune says how much went", async () => {
    const api = makeApi();
    await claim(api, { workerId: 0 });
    await api.clock.advance(100_000);
    await claim(api, { workerId: 0 });
    expect((await api.call("POST", "/v1/orders/prune", { before: api.clock.now() })).body).toEqual({ pruned: 1 });
  });
});

describe("the daemon itself", () => {
  test("is alive, and ready when its registry is", async () => {
    const api = makeApi();
    expect((await api.call("GET", "/healthz")).body).toEqual({ status: "ok" });
    const { status, body } = await api.call("GET", "/readyz");
    expect([status, body]).toEqual([
      200,
      { registry: "memory", clock: api.clock.now(), durability: expect.any(String), lossy: true },
    ]);
  });

  test("is not ready with a registry whose clock is far off, whatever it is set to tolerate", async () => {
    const skewed = makeApi({
      registry: memoryRegistry({ clock: { ...makeApi().clock, now: () => 1_600_000_000_000 } }),
    });
    const late = makeApi({ limits: { maxClockSkew: 100 }, clock: { ...fakeClock(), now: () => 1_700_000_000_101 } });
    for (const api of [skewed, late]) {
      const { status, body, headers } = await api.call("GET", "/readyz");
      expect([status, body.status, body.code, headers.get("retry-after")]).toEqual([503, 503, "CLOCK_SKEW", "1"]);
      expect(headers.get("content-type")).toBe("application/problem+json");
      expect(body.details).toHaveProperty("registryClock");
    }
  });

  test.each(["REGISTRY_UNAVAILABLE", "CONFIG_INVALID", "SCHEMA_INCOMPATIBLE", "QUARANTINE"] as const)(
    "is not ready with a registry that refuses with %s",
    async (code) => {
      const ping = (): Promise<never> => Promise.reject(new SnowleaseError(code, "Gone.", { retryAfterMs: 1500 }));
      const broken = makeApi({ registry: { ...memoryRegistry(), ping } });
      const { status, body, headers } = await broken.call("GET", "/readyz");
      expect([status, body.code, body.detail]).toEqual([503, code, "Gone."]);
      expect(headers.get("retry-after")).toBe("2");
    },
  );

  test("is not ready with a registry that does not answer in time", async () => {
    const api = makeApi({ registry: { ...memoryRegistry(), ping: () => new Promise(() => {}) } });
    const asked = api.call("GET", "/readyz");
    await api.clock.advance(3000);
    const { status, body } = await asked;
    expect([status, body.code]).toEqual([503, "REGISTRY_UNAVAILABLE"]);
    expect(body.detail).toMatch(/within 3000 ms/);
  });

  test("tells nobody but its log what went wrong inside", async () => {
    const worker = (): Promise<never> => Promise.reject(new TypeError("password=hunter2 at /etc/secret"));
    const api = makeApi({ registry: { ...memoryRegistry(), worker } });
    const { status, body } = await api.call("GET", "/v1/orders/workers/0");
    expect([status, body.code]).toEqual([500, "DEFECT"]);
    expect(JSON.stringify(body)).not.toMatch(/hunter2|secret/);
    expect(api.lines).toMatchObject([["error", { err: { message: "password=hunter2 at /etc/secret" } }, body.detail]]);
  });

  test.each([
    ["a program error", new TypeError("x at /etc/secret"), "DEFECT"],
    ["an error of a driver", new Error("socket hang up at /etc/secret"), "REGISTRY_UNAVAILABLE"],
  ])("is not ready after %s, and tells it to its log alone", async (_, cause, code) => {
    const api = makeApi({ registry: { ...memoryRegistry(), ping: () => Promise.reject(cause) } });
    const { status, body, headers } = await api.call("GET", "/readyz");
    expect([status, body.code, headers.get("retry-after")]).toEqual([503, code, "1"]);
    expect(JSON.stringify(body)).not.toContain("secret");
    expect(api.lines).toMatchObject([["error", {}, body.detail]]);
  });

  test("a program error in a claim for its own lease is not told either", async () => {
    const broken = (): Promise<never> => Promise.reject(new TypeError("x at /etc/secret"));
    const api = makeApi({ registry: { ...memoryRegistry(), claim: broken } });
    let isAnswered = false;
    const asked = api.call("POST", "/v1/orders/ids", {}).finally(() => (isAnswered = true));
    while (!isAnswered) await api.clock.advance(1000);
    const { status, body } = await asked;
    expect([status, body.code]).toEqual([500, "DEFECT"]);
    expect(JSON.stringify(body)).not.toContain("secret");
  });

  test("logs claims, releases and losses with worker ID, fence and namespace, and never a token", async () => {
    const api = makeApi();
    const { body: lease } = await claim(api);
    await api.call("PATCH", `${leases}/0`, { token: lease.token, now: api.clock.now() });
    await api.call("DELETE", `${leases}/0`, { token: lease.token });
    await api.call("PATCH", `${leases}/0`, { token: lease.token, now: api.clock.now() });
    const facts = { namespace: "orders", workerId: 0, fence: 1 };
    expect(api.lines).toMatchObject([
      ["info", { event: "claimed", ...facts, host: "a" }, "claimed"],
      ["info", { event: "released", ...facts }, "released"],
      ["warn", { event: "lost", ...facts }, expect.any(String)],
    ]);
    expect(JSON.stringify(api.lines)).not.toContain(lease.token);
  });

  test("logs no loss where nothing can have been lost", async () => {
    const api = makeApi();
    await api.call("PUT", "/v1/orders");
    const renewal = { token: "0".repeat(32), fence: 0, now: api.clock.now(), windowMs: 1000 };
    expect((await api.call("PATCH", `${leases}/0`, renewal)).body.code).toBe("LEASE_LOST");
    expect(api.lines).toEqual([]);
  });

  test("is made once, and not sent to a client that has it", async () => {
    const api = makeApi();
    const first = await api.call("GET", "/openapi.json");
    const etag = first.headers.get("etag") ?? "";
    expect(etag).toMatch(/^"[0-9a-f]{32}"$/);
    const stringify = vi.spyOn(JSON, "stringify");
    try {
      for (const tag of [etag, `W/${etag}`]) {
        const again = await api.call("GET", "/openapi.json", undefined, { "if-none-match": tag });
        expect([again.status, again.body, again.headers.get("etag")]).toEqual([304, undefined, etag]);
      }
      const other = await api.call("GET", "/openapi.json", undefined, { "if-none-match": '"another"' });
      expect([other.status, other.body]).toEqual([200, first.body]);
      expect(stringify).not.toHaveBeenCalled();
    } finally {
      stringify.mockRestore();
    }
  });

  test("describes every route as OpenAPI 3.1", async () => {
    const { call } = makeApi();
    const { body } = await call("GET", "/openapi.json");
    expect(body.openapi).toBe("3.1.0");
    const operations = Object.entries<object>(body.paths).flatMap(([path, item]) =>
      Object.keys(item).map((method) => `${method.toUpperCase()} ${path}`),
    );
    expect(operations.toSorted()).toEqual(
      [
        "POST /v1/{namespace}/leases",
        "PATCH /v1/{namespace}/leases/{workerId}",
        "DELETE /v1/{namespace}/leases/{workerId}",
        "POST /v1/{namespace}/leases/{workerId}/release",
        "POST /v1/{namespace}/ids",
        "GET /v1/{namespace}/ids/{id}",
        "GET /v1/{namespace}/workers",
        "GET /v1/{namespace}/workers/{workerId}",
        "GET /v1/{namespace}/workers/{workerId}/history",
        "POST /v1/{namespace}/workers/{workerId}/release",
        "PUT /v1/{namespace}/workers/{workerId}/pin",
        "DELETE /v1/{namespace}/workers/{workerId}/pin",
        "PUT /v1/{namespace}/pins",
        "DELETE /v1/{namespace}/pins",
        "GET /v1/{namespace}",
        "GET /v1/{namespace}/scope",
        "PUT /v1/{namespace}",
        "POST /v1/{namespace}/prune",
        "POST /v1/{namespace}/quarantine/end",
        "POST /v1/{namespace}/remove",
        "GET /healthz",
        "GET /readyz",
        "GET /openapi.json",
      ].toSorted(),
    );
    const { requestBody, responses } = inlined(body).paths["/v1/{namespace}/leases"].post;
    const { schema } = requestBody.content["application/json"];
    expect(requestBody.required).toBe(true);
    expect(schema.required).toEqual(["now"]);
    // Fields of newer versions may come in, and go out.
    expect(JSON.stringify(body)).not.toContain('"additionalProperties":false');
    // Of the request, a client would send nothing of it.
    expect(JSON.stringify(body)).not.toContain('"readOnly"');
    expect(schema.properties.workerId).toMatchObject({ type: "integer", minimum: 0, maximum: 2 ** 31 - 1 });
    expect(Object.keys(responses)).toEqual(["201", "400", "403", "409", "410", "413", "415", "429", "500", "503"]);
    for (const [path, method, status] of [
      ["/v1/{namespace}/leases", "post", 201],
      ["/v1/{namespace}/leases/{workerId}", "patch", 200],
    ] as const) {
      const { parameters, responses } = body.paths[path][method];
      expect(parameters.at(-1)).toMatchObject({ in: "header", name: "snowlease-receipt", required: false });
      expect(responses[status].headers).toHaveProperty("snowlease-receipt");
    }
    const { delete: release } = body.paths["/v1/{namespace}/leases/{workerId}"];
    expect(release.parameters.at(-1)).toMatchObject({ name: "snowlease-receipt" });
    expect(body.paths["/v1/{namespace}/workers"].get.responses).not.toHaveProperty("413");
  });

  test("names each operation, body and answer, has a tag for each, and examples that fit", async () => {
    const { body } = await makeApi().call("GET", "/openapi.json");
    interface Part {
      readonly content?: Record<string, { readonly schema: { $ref?: string }; readonly example?: unknown }>;
    }
    interface Operation {
      readonly operationId: string;
      readonly tags: readonly string[];
      readonly requestBody?: Part;
      readonly responses: Record<string, Part>;
    }
    const operations = Object.values<Record<string, Operation>>(body.paths).flatMap((item) => Object.values(item));
    const names = operations.map(({ operationId }) => operationId);
    expect(new Set(names).size).toBe(names.length);
    expect(names.filter((name) => !/^[a-z]+[A-Za-z]*$/.test(name))).toEqual([]);
    const tags = body.tags.map(({ name }: { name: string }) => name);
    expect(new Set(operations.flatMap((operation) => operation.tags))).toEqual(new Set(tags));
    const contents = operations.flatMap(({ requestBody = {}, responses }) =>
      [requestBody, ...Object.values(responses)].flatMap(({ content = {} }) => Object.entries(content)),
    );
    const json = contents.filter(([media]) => media.endsWith("json"));
    expect(json.filter(([, { schema }]) => schema.$ref === undefined)).toEqual([]);
    const used = new Set(JSON.stringify(body).match(/#\/components\/schemas\/\w+/g));
    expect([...used].toSorted()).toEqual(
      Object.keys(body.components.schemas)
        .map((name) => `#/components/schemas/${name}`)
        .toSorted(),
    );
    const ajv = new Ajv2020({ strict: false, validateFormats: false }).addSchema({ $id: "api", ...body });
    const examples = contents.filter(([, { example }]) => example !== undefined);
    expect(examples).toHaveLength(8);
    for (const [, { schema, example }] of examples) {
      const fits = ajv.compile({ $ref: `api${schema.$ref}` });
      expect({ example, errors: fits(example) ? null : fits.errors }).toEqual({ example, errors: null });
    }
  });

  test("lists Retry-After where the daemon sends it, and the codes of each status", async () => {
    const { body } = await makeApi().call("GET", "/openapi.json");
    expect(body.info.version).toBe(version());
    const { responses } = body.paths["/v1/{namespace}/leases"].post;
    const waits = Object.keys(responses).filter((status) => "retry-after" in (responses[status].headers ?? {}));
    expect(waits).toEqual(["429", "503"]);
    expect(responses["410"]["x-codes"]).toEqual(["LEASE_LOST"]);
  });

  test("describes each body as required where nothing can be left out of it, and no other", async () => {
    const { call } = makeApi();
    await call("PUT", "/v1/orders");
    const { body } = await call("GET", "/openapi.json");
    const described: Record<string, boolean> = {};
    const found: Record<string, boolean> = {};
    for (const [path, item] of Object.entries<Record<string, { requestBody?: { required: boolean } }>>(body.paths)) {
      for (const [method, { requestBody }] of Object.entries(item)) {
        if (requestBody === undefined) continue;
        const operation = `${method.toUpperCase()} ${path}`;
        described[operation] = requestBody.required;
        const reply = await call(
          method.toUpperCase(),
          path.replace("{namespace}", "orders").replace("{workerId}", "0"),
        );
        found[operation] = reply.status === 400;
      }
    }
    expect(Object.values(described)).toContain(true);
    expect(described).toEqual(found);
  });
});
