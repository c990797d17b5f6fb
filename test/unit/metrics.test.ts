import { expect, test } from "vitest";
import { SnowleaseError } from "../../src/id/errors.ts";
import { defaultLayout } from "../../src/id/layout.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { ownLeases } from "../../src/ops/ids.ts";
import { parseExposition, valueOf } from "../support/exposition.ts";
import { makeObserved, type ObservedApi } from "../support/observed.ts";

let served = 0;
const makeToken = (): string => (++served).toString(16).padStart(32, "0");

async function claim({ send, clock }: ObservedApi, namespace = "orders", more: object = {}): Promise<string> {
  const token = makeToken();
  const response = await send("POST", `/v1/${namespace}/leases`, { token, now: clock.now(), ...more });
  expect(response.status).toBe(201);
  return token;
}

/** The losses of a namespace, of all reasons. */
function lossesIn(text: string, namespace: string): number {
  const samples = parseExposition(text).get("snowlease_leases_lost_total")?.samples ?? [];
  const own = samples.filter(({ labels }) => labels["namespace"] === namespace);
  expect(own.map(({ labels }) => labels["reason"])).toEqual(["taken", "released", "forgotten", "cloned"]);
  return own.reduce((sum, { value }) => sum + value, 0);
}

/** A function that tells by how much figures have risen since it was made. */
async function rises({
  figures,
}: ObservedApi): Promise<(name: string, labels?: Record<string, string>) => Promise<number>> {
  const before = await figures();
  return async (name, labels) => (valueOf(await figures(), name, labels) ?? NaN) - (valueOf(before, name, labels) ?? 0);
}

test("claims, renewals, give-backs, losses and forced ends are counted once each, by namespace", async () => {
  const observed = makeObserved();
  const { send, clock } = observed;
  const orders = { namespace: "orders" };
  const first = await claim(observed);
  const more = await rises(observed);
  const second = await claim(observed);
  await claim(observed, "other");
  const now = clock.now();
  expect((await send("POST", "/v1/orders/leases", { token: second, now })).status).toBe(201);
  for (let i = 0; i < 3; i++) {
    expect((await send("PATCH", "/v1/orders/leases/0", { token: first, now })).status).toBe(200);
  }
  for (let i = 0; i < 2; i++) {
    expect((await send("DELETE", "/v1/orders/leases/0", { token: first, fence: 1, now })).status).toBe(204);
  }
  expect((await send("POST", "/v1/orders/workers/1/release", { force: true })).status).toBe(200);
  for (let i = 0; i < 2; i++) {
    expect((await send("PATCH", "/v1/orders/leases/1", { token: second, now })).status).toBe(410);
  }
  expect(await more("snowlease_claims_total", orders)).toBe(1);
  expect(await more("snowlease_claims_total", { namespace: "other" })).toBe(1);
  expect(await more("snowlease_renewals_total", orders)).toBe(3);
  expect(await more("snowlease_releases_total", orders)).toBe(1);
  expect(await more("snowlease_forced_releases_total", orders)).toBe(1);
  expect(lossesIn(await observed.figures(), "orders")).toBe(1);
  expect(await more("snowlease_take_overs_total", orders)).toBe(0);
  expect(await more("snowlease_errors_total", { code: "LEASE_LOST" })).toBe(2);
});

test("losses are counted by their reason", async () => {
  const observed = makeObserved();
  await claim(observed);
  const { journal } = observed;
  for (const [fence, reason] of ["cloned", "forgotten", "cloned", "taken", "released", "odd", undefined].entries()) {
    journal.warn({ event: "lost", namespace: "orders", workerId: 0, fence, reason }, "lost");
  }
  const text = await observed.figures();
  for (const [reason, count] of Object.entries({ taken: 3, released: 1, forgotten: 1, cloned: 2 })) {
    expect(valueOf(text, "snowlease_leases_lost_total", { namespace: "orders", reason })).toBe(count);
  }
  expect(lossesIn(text, "orders")).toBe(7);
  expect(lossesIn(text, "_other")).toBe(0);
});

test("a take-over is counted", async () => {
  const observed = makeObserved();
  await claim(observed, "orders", { workerId: 3, windowMs: 1000 });
  await observed.clock.advance(1001);
  await claim(observed, "orders", { workerId: 3 });
  expect(valueOf(await observed.figures(), "snowlease_take_overs_total", { namespace: "orders" })).toBe(1);
});

test("a namespace that somebody only asks for has no figures", async () => {
  const observed = makeObserved();
  const { send, clock, figures } = observed;
  const token = makeToken();
  for (let i = 0; i < 20; i++) {
    await send("GET", `/v1/guess_${i}/workers`);
    await send("GET", `/v1/guess_${i}/events`);
    await send("PATCH", `/v1/guess_${i}/leases/0`, { token, fence: 1, now: clock.now() });
    await send("DELETE", `/v1/guess_${i}/leases/0`, { token, fence: 1, now: clock.now() });
    await send("PUT", `/v1/guess_${i}/workers/0/pin`, { reason: "none" });
  }
  const text = await figures();
  expect(text).not.toContain("guess_");
  expect(lossesIn(text, "_other")).toBe(20);
});

test("namespaces beyond the 200th share one name", async () => {
  const observed = makeObserved();
  for (let i = 0; i < 205; i++) await claim(observed, `space_${i}`);
  const families = parseExposition(await observed.figures());
  const claims = families.get("snowlease_claims_total")?.samples ?? [];
  expect(claims.length).toBe(201);
  expect(claims.find(({ labels }) => labels["namespace"] === "_other")?.value).toBe(5);
});

test("the pool by state, and when the layout ends", async () => {
  const observed = makeObserved();
  await claim(observed);
  await claim(observed);
  const text = await observed.figures();
  const states = { live: 2, resting: 0, free: 0, pinned: 0, foreign: 0, unused: 1022 };
  for (const [state, count] of Object.entries(states)) {
    expect(valueOf(text, "snowlease_worker_ids", { namespace: "orders", state })).toBe(count);
  }
  expect(valueOf(text, "snowlease_layout_end_timestamp_seconds")).toBe(defaultLayout.endOfLife / 1000);
});

test("a layout that wraps has no end", async () => {
  const observed = makeObserved();
  await claim(observed, "orders", { layout: "scene" });
  const text = await observed.figures();
  expect(valueOf(text, "snowlease_worker_ids", { state: "live" })).toBe(1);
  expect(valueOf(text, "snowlease_layout_end_timestamp_seconds")).toBeUndefined();
});

test("a registry that fails is seen as down, with its errors by operation, and the figures come all the same", async () => {
  let down = false;
  const observed = makeObserved({
    change: (memory) => ({
      ...memory,
      ping: async () => {
        if (down) throw new SnowleaseError("REGISTRY_UNAVAILABLE", "no");
        return memory.ping();
      },
    }),
  });
  const before = await observed.figures();
  expect(valueOf(before, "snowlease_registry_up")).toBe(1);
  expect(valueOf(before, "snowlease_clock_offset_seconds")).toBe(0);
  down = true;
  const text = await observed.figures();
  expect(valueOf(text, "snowlease_registry_up")).toBe(0);
  expect(valueOf(text, "snowlease_clock_offset_seconds")).toBeNaN();
  expect(valueOf(text, "snowlease_registry_errors_total", { operation: "ping", code: "REGISTRY_UNAVAILABLE" })).toBe(1);
  down = false;
  expect(valueOf(await observed.figures(), "snowlease_registry_up")).toBe(1);
});

test("a registry that no longer answers is seen as down after 2 s, and is not asked again by everybody who reads", async () => {
  let asked = 0;
  const observed = makeObserved({
    change: (memory) => ({
      ...memory,
      ping() {
        asked++;
        return asked === 1 ? memory.ping() : new Promise(() => {});
      },
    }),
  });
  expect(valueOf(await observed.figures(), "snowlease_registry_up")).toBe(1);
  await observed.clock.advance(1000);
  for (let i = 0; i < 3; i++) {
    const reading = Promise.all([observed.metrics.text(), observed.metrics.text()]);
    await observed.clock.advance(2000);
    for (const text of await reading) expect(valueOf(text, "snowlease_registry_up")).toBe(0);
  }
  expect(asked).toBe(2);
});

test("however many read the figures, the registry is asked once a second", async () => {
  let asked = 0;
  const observed = makeObserved({
    change: (memory) => ({
      ...memory,
      ping() {
        asked++;
        return memory.ping();
      },
    }),
  });
  await Promise.all(Array.from({ length: 10 }, () => observed.metrics.text()));
  for (let i = 0; i < 10; i++) await observed.metrics.text();
  expect(asked).toBe(1);
  await observed.figures();
  expect(asked).toBe(2);
});

test("the clock's offset against the registry, and its steps", async () => {
  const observed = makeObserved({
    change: (memory, clock) => {
      const ahead: Registry["ping"] = async () => ({ ...(await memory.ping()), clock: clock.now() + 1500 });
      return { ...memory, ping: ahead };
    },
  });
  expect(valueOf(await observed.figures(), "snowlease_clock_offset_seconds")).toBe(-1.5);
  observed.clock.step(3000);
  await observed.figures();
  observed.clock.step(-400);
  observed.clock.step(-100);
  await observed.figures();
  observed.clock.step(200);
  const text = await observed.figures();
  expect(valueOf(text, "snowlease_clock_steps_total", { direction: "forward" })).toBe(1);
  expect(valueOf(text, "snowlease_clock_steps_total", { direction: "back" })).toBe(1);
});

test("the daemon's own leases: IDs made, and how long their windows last", async () => {
  const observed = makeObserved();
  const { registry, clock, metrics, figures } = observed;
  const source = ownLeases(
    { registry, clock, makeToken },
    {
      layout: defaultLayout,
      window: 60_000,
      operationTimeout: 1000,
      claimTimeout: 0,
      maxWait: 500,
      reuse: "any",
      holder: { host: "here", ip: "127.0.0.1", pid: 1, instance: "daemon" },
      onLease: (lease) => metrics.owns(lease),
      onMade: (namespace, count) => metrics.made(namespace, count),
    },
  );
  const orders = { namespace: "orders" };
  await source.take("orders", 10);
  await source.take("orders", 5);
  const before = await figures();
  expect(valueOf(before, "snowlease_ids_made_total", orders)).toBe(15);
  expect(valueOf(before, "snowlease_own_window_left_seconds", orders)).toBe(59);
  expect(valueOf(before, "snowlease_own_window_seconds", orders)).toBe(60);
  await clock.advance(20_000);
  const after = await figures();
  expect(valueOf(after, "snowlease_renewals_total", orders)).toBe(1);
  expect(valueOf(after, "snowlease_own_window_left_seconds", orders)).toBeGreaterThan(55);
  await source.close();
  expect(valueOf(await figures(), "snowlease_own_window_left_seconds", orders)).toBeUndefined();
});

test("a quarantine is told once, however many ask while it lasts", async () => {
  const observed = makeObserved({
    change: (memory, clock) => {
      const ends = clock.now() + 60_000;
      const claim: Registry["claim"] = async (request) => {
        if (clock.now() >= ends) return memory.claim(request);
        throw new SnowleaseError("QUARANTINE", "wait", { retryAfterMs: ends - clock.now() });
      };
      return { ...memory, claim };
    },
  });
  for (let i = 0; i < 5; i++) {
    const response = await observed.send("POST", "/v1/orders/leases", { now: observed.clock.now() });
    expect(response.status).toBe(503);
    await observed.clock.advance(5000);
  }
  expect(observed.lines.map(({ event }) => event)).toEqual(["quarantine"]);
  expect(valueOf(await observed.figures(), "snowlease_quarantines_total", { namespace: "_other" })).toBe(1);
});

test("a quarantine that an operator ends sooner is the same one, and a later one is another", async () => {
  let ends = 0;
  const observed = makeObserved({
    change: (memory, clock) => ({
      ...memory,
      async claim(request) {
        if (clock.now() >= ends) return memory.claim(request);
        throw new SnowleaseError("QUARANTINE", "wait", { retryAfterMs: ends - clock.now() });
      },
    }),
  });
  const { clock, send } = observed;
  const ask = (): Promise<Response> => send("POST", "/v1/orders/leases", { now: clock.now() });
  const began = clock.now();
  for (const [at, end, count] of [
    [0, 60_000, 1],
    [5000, 10_000, 1],
    [6000, 10_000, 1],
    [20_000, 80_000, 2],
    [30_000, 95_000, 3],
  ] as const) {
    await clock.advance(began + at - clock.now());
    ends = began + end;
    expect((await ask()).status).toBe(503);
    expect([at, observed.lines.filter(({ event }) => event === "quarantine").length]).toEqual([at, count]);
  }
});

test("build info, in Prometheus' text format", async () => {
  const observed = makeObserved();
  const response = await observed.send("GET", "/metrics");
  expect(response.status).toBe(200);
  expect(response.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
  const labels = { version: "1.2.3", registry: "memory", node: process.version };
  expect(valueOf(await response.text(), "snowlease_build_info", labels)).toBe(1);
});

test("refused claims are counted by namespace and code, those of unknown namespaces together", async () => {
  const observed = makeObserved();
  const { send, clock } = observed;
  await claim(observed, "orders", { workerId: 7 });
  const more = await rises(observed);
  for (let i = 0; i < 2; i++) {
    const body = { token: makeToken(), now: clock.now(), workerId: 7, host: "b" };
    expect((await send("POST", "/v1/orders/leases", body)).status).toBe(503);
  }
  const late = { token: makeToken(), now: clock.now() - 60_000 };
  expect((await send("POST", "/v1/orders/leases", late)).status).toBe(503);
  expect((await send("POST", "/v1/guess/leases", late)).status).toBe(503);
  const refused = (namespace: string, code: string) => more("snowlease_refused_claims_total", { namespace, code });
  expect(await refused("orders", "WORKER_ID_HELD")).toBe(2);
  expect(await refused("orders", "CLOCK_SKEW")).toBe(1);
  expect(await refused("orders", "POOL_EXHAUSTED")).toBe(0);
  expect(await refused("_other", "CLOCK_SKEW")).toBe(1);
});

test("holders that are late with their renewals are counted, and no longer once they have renewed", async () => {
  const observed = makeObserved();
  const { send, clock } = observed;
  const [first] = [await claim(observed), await claim(observed)];
  const overdue = async (): Promise<number | undefined> =>
    valueOf(await observed.figures(), "snowlease_overdue_renewals", { namespace: "orders" });
  await clock.advance(25_000);
  expect(await overdue()).toBe(0);
  await clock.advance(20_000);
  expect(await overdue()).toBe(2);
  expect((await send("PATCH", "/v1/orders/leases/0", { token: first, now: clock.now() })).status).toBe(200);
  await clock.advance(1000);
  expect(await overdue()).toBe(1);
});
