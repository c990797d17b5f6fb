import { createHash } from "node:crypto";
import { beforeEach, describe, expect, test } from "vitest";
import { claimWorkerId } from "../../src/lease/claim.ts";
import { SnowleaseError } from "../../src/id/errors.ts";
import { layouts } from "../../src/id/layout.ts";
import { Lease, type LeaseHost, type LeaseOptions } from "../../src/lease/lease.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { type FakeClock, fakeClock, memoryRegistry } from "../../src/testing.ts";

const window = 60_000;
const holders = 50;

const options: LeaseOptions = {
  namespace: "orders",
  layout: layouts.westid,
  pool: { first: 0, last: holders - 1 },
  window,
  claimTimeout: 0,
  maxWait: 500,
  operationTimeout: 1000,
  reuse: "any",
  onLost: "switch",
  holder: { host: "alpha", ip: "192.0.2.1", pid: 1, instance: "" },
};

let clock: FakeClock;
let host: LeaseHost;
/** The times of claims and renewals, Unix ms. */
let asked: number[];
/** The end of the quarantine, Unix ms. */
let end: number;

beforeEach(() => {
  clock = fakeClock();
  [asked, end] = [[], 0];
  const registry = memoryRegistry({ clock });
  const unlessQuarantine = <Request, Answer>(call: (request: Request) => Promise<Answer>) => {
    return async (request: Request): Promise<Answer> => {
      const now = clock.now();
      asked.push(now);
      if (now >= end) return call(request);
      throw new SnowleaseError("QUARANTINE", "It may have forgotten windows.", { retryAfterMs: end - now });
    };
  };
  const guarded: Registry = {
    ...registry,
    claim: unlessQuarantine(registry.claim),
    renew: unlessQuarantine(registry.renew),
  };
  let tokens = 0;
  // Random, but the same ones each time.
  const makeToken = (): string => createHash("md5").update(String(tokens++)).digest("hex");
  host = { registry: guarded, clock, makeToken };
});

/** The highest number of requests in one second. */
function busiestSecond(): number {
  return Math.max(...asked.map((at) => asked.filter((other) => other >= at && other < at + 1000).length));
}

async function leases(): Promise<Lease[]> {
  const made = await Promise.all(Array.from({ length: holders }, () => Lease.claim(host, options)));
  asked = [];
  return made;
}

describe("holders in a quarantine", () => {
  test("ask some four times a window, but not all at the same time", async () => {
    const held = await leases();
    end = clock.now() + 10 * window;
    await clock.advance(5 * window);
    expect(asked.length).toBeGreaterThan(holders * 5 * 3);
    expect(asked.length).toBeLessThan(holders * 5 * 7);
    asked = asked.filter((at) => at > end - 8 * window);
    // Their windows begin at one moment, and so do the first refused renewals.
    expect(busiestSecond()).toBeLessThan(holders / 3);
    await Promise.all(held.map((lease) => lease.orphan()));
  });

  test("ask right after its announced end, spread over a twentieth of the window", async () => {
    const held = await leases();
    const ids = held.map(({ workerId }) => workerId);
    end = clock.now() + 152_000;
    await clock.advance(152_000);
    asked = [];
    await clock.advance(window / 20);
    expect(asked).toHaveLength(holders);
    expect(busiestSecond()).toBeLessThan(holders * 0.6);
    expect(held.map(({ workerId, state }) => [workerId, state])).toEqual(ids.map((id) => [id, "held"]));
    expect(Math.min(...held.map(({ until }) => until))).toBeGreaterThan(clock.now() + window * 0.9);
    await Promise.all(held.map((lease) => lease.orphan()));
  });

  test.each([0.4, 0.5, 0.6, 0.7])(
    "that ends earlier than announced, after %f of a window, renew before that is over",
    async (share) => {
      const held = await leases();
      const closes = held.map(({ until }) => until);
      end = clock.now() + 10 * window;
      await clock.advance(window * share);
      end = clock.now();
      await clock.advance(window * (1 - share) - 1);
      expect(held.filter(({ until }, i) => until === closes[i])).toEqual([]);
      await Promise.all(held.map((lease) => lease.orphan()));
    },
  );

  test("that have lost their leases claim others a few times a window", async () => {
    const held = await leases();
    for (const { workerId } of held) {
      await host.registry.pin("orders", workerId, "taken away");
      await host.registry.forceRelease({ namespace: "orders", workerId, force: true });
    }
    await Promise.all(held.map((lease) => lease.renew()));
    expect(held.every(({ state }) => state === "switching")).toBe(true);
    end = clock.now() + 10 * window;
    await clock.advance(2000);
    asked = [];
    await clock.advance(5 * window);
    expect(asked.length).toBeLessThan(holders * 5 * 7);
    for (let workerId = 0; workerId < holders; workerId++) await host.registry.unpin("orders", workerId);
    end = clock.now();
    await clock.advance(window / 4);
    expect(held.every(({ state }) => state === "held")).toBe(true);
    await Promise.all(held.map((lease) => lease.orphan()));
  });
});

test("claims that may wait for its end ask a few times a window, and right after it", async () => {
  end = clock.now() + 152_000;
  const claims = Array.from({ length: holders }, () => claimWorkerId(host, { ...options, claimTimeout: 200_000 }));
  await clock.advance(152_000);
  expect(asked.length).toBeLessThan(holders * 3 * 7);
  await clock.advance(window / 20);
  const granted = await Promise.all(claims);
  expect(new Set(granted.map(({ grant }) => grant.workerId)).size).toBe(holders);
});

test("a claim that may not wait until a quarantine ends asks once more when its time is over", async () => {
  end = clock.now() + 152_000;
  const claim = claimWorkerId(host, { ...options, claimTimeout: 5000 });
  await clock.advance(4999);
  end = clock.now();
  await clock.advance(1);
  expect((await claim).grant.workerId).toBe(0);
});
