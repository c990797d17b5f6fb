import { describe, expect, test } from "vitest";
import type { SnowleaseError } from "../../src/id/errors.ts";
import { Layout, layouts } from "../../src/id/layout.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { Ring } from "../../src/generator/ring.ts";
import { joinLease } from "../../src/sharing/joined-lease.ts";
import { SharedUsageTracker } from "../../src/sharing/usage-tracker.ts";
import { leaseServer } from "../../src/sharing/lease-server.ts";
import { snowlease, type SnowleaseOptions } from "../../src/snowlease.ts";
import { fakeClock, type FakeClock, memoryRegistry } from "../../src/testing.ts";
import { coded, open, type Setting, thrown, type Wish } from "../support/generator.ts";

/** Nothing is before 1970. */
const { mastodon: _, ...later } = layouts;
/** A bit of everything, and rollback bits besides. */
const cases: Readonly<Record<string, Layout>> = {
  ...later,
  "rollback bits and a wrap": Layout.parse("timestamp:30,worker:4,rollback:3,sequence:6@1580486400000/1/wraps"),
  "rollback bits and ticks of 1 s": Layout.parse("timestamp:34,worker:10,rollback:2,sequence:12@1580486400000/1000"),
};

/** Long enough for every layout's ticks, ms. */
const window = 10 * 60_000;
/** Before the epoch of any layout, Unix ms. */
const longAgo = 5000;

/** A registry that grants windows from before any epoch: only the generator checks the clock. */
function generousRegistry(clock: FakeClock): Registry {
  const registry = memoryRegistry({ clock });
  return {
    ...registry,
    async claim(request) {
      const answer = await registry.claim(request);
      return answer.outcome === "granted" ? { ...answer, from: 0 } : answer;
    },
  };
}

/** A clock that is right, for as long as it takes to claim something. */
function rightClock(layout: Layout): FakeClock {
  return fakeClock({ start: layout.epoch + 1000 * layout.tick });
}

interface Maker {
  readonly ids: () => Iterable<bigint | number | string>;
}

function openAt(layout: Layout, clock: FakeClock, wish: Wish = {}): Promise<Setting> {
  return open({
    layout,
    clock,
    registry: generousRegistry(clock),
    workerId: 1,
    window,
    limits: { maxWindow: window },
    ...wish,
  });
}

const opens: Readonly<Record<string, (layout: Layout, clock: FakeClock) => Promise<readonly Maker[]>>> = {
  async alone(layout, clock) {
    const { ids } = await openAt(layout, clock);
    return waysOf(ids, layout);
  },
  async "with a spread"(layout, clock) {
    const { ids } = await openAt(layout, clock, { spread: 4 });
    return waysOf(ids, layout);
  },
  async "in lead mode"(layout, clock) {
    const { ids } = await openAt(layout, clock, { mode: "lead" });
    return waysOf(ids, layout);
  },
  async "with a ring"(layout, clock) {
    const { ids } = await openAt(layout, clock, { mode: "lead" });
    clock.step(longAgo - clock.now());
    const ring = new Ring(ids, { boost: 0 });
    return [{ ids: () => [ring.next()] }];
  },
  async "as threads, and as a child that borrows"(layout, clock) {
    const options: SnowleaseOptions = { clock, layout: layout.fingerprint, window, maxWindow: window };
    const ids = await snowlease({ ...options, registry: generousRegistry(clock), workerId: 1, shared: true });
    if (!(ids.blocks instanceof SharedUsageTracker)) expect.fail("It is borrowed.");
    const child = await snowlease({ ...options, registry: leaseServer(ids.lease, ids.blocks), shared: true });
    const threads = [ids, child].map((each) => joinLease(each.share(), { clock }));
    return [ids, child, ...threads].flatMap((each) => waysOf(each, layout));
  },
};

/** Every way in which a generator makes IDs. */
function waysOf(ids: Awaited<ReturnType<typeof open>>["ids"] | ReturnType<typeof joinLease>, layout: Layout): Maker[] {
  const [array, text] = [new BigUint64Array(8), new Uint8Array(200)];
  return [
    { ids: () => [ids.next()] },
    { ids: () => [ids.nextString(), ids.nextString("base62")] },
    { ids: () => array.subarray(0, ids.fill(array)) },
    { ids: () => ids.take(8) },
    { ids: () => [new TextDecoder().decode(text.subarray(0, ids.fillText(text)))] },
    ...(layout.totalBits <= 53 ? [{ ids: () => [ids.nextNumber()] }] : []),
  ];
}

describe.each(Object.entries(cases))("before the epoch of %s", (_, layout) => {
  test.each(Object.entries(opens))("no ID is made %s", async (_way, makers) => {
    const clock = rightClock(layout);
    const ways = await makers(layout, clock);
    clock.step(longAgo - clock.now());
    const made: unknown[] = [];
    const refusals = (): SnowleaseError[] =>
      ways.map(({ ids }) =>
        thrown(() => {
          made.push(...ids());
          throw new Error("It was made.");
        }),
      );
    for (let round = 0; round < 5; round++) {
      for (const error of refusals()) {
        expect(error).toEqual(coded("WINDOW_NOT_OPEN", { retryAfterMs: layout.epoch - longAgo }));
      }
    }
    // Then a lease with a fixed worker ID ends, and a lease that may switch waits for the clock.
    for (let second = 0; second < 5; second++) {
      await clock.advance(1000);
      refusals();
    }
    expect(made).toEqual([]);
  });

  test("no claim is sent", async () => {
    const clock = fakeClock({ start: longAgo });
    const registry = memoryRegistry({ clock });
    const claims = [{}, { workerId: 1 }, { mode: "lead" }, { shared: true as const }] satisfies SnowleaseOptions[];
    for (const claim of claims) {
      await expect(
        snowlease({
          registry,
          clock,
          layout: layout.fingerprint,
          window,
          maxWindow: window,
          claimTimeout: 0,
          ...claim,
        }),
      ).rejects.toEqual(coded("WINDOW_NOT_OPEN", { retryAfterMs: layout.epoch - longAgo }));
    }
    expect(await registry.workers("default")).toEqual([]);
  });

  test("a claim that may wait goes on when the clock is set", async () => {
    const clock = fakeClock({ start: longAgo });
    const claim = snowlease({
      registry: memoryRegistry({ clock }),
      clock,
      layout: layout.fingerprint,
      window,
      maxWindow: window,
      claimTimeout: 60_000,
    });
    await clock.advance(10_000);
    clock.step(layout.epoch + 1000 * layout.tick - clock.now());
    await clock.advance(5000);
    await using ids = await claim;
    expect(layout.decompose(ids.next(), clock.now()).timestamp).toBeLessThanOrEqual(clock.now());
  });
});

test("a lease goes on with its worker ID when a clock that was set before the epoch is right again", async () => {
  const layout = layouts.rollback;
  const clock = rightClock(layout);
  const { ids, lease, rollbacks } = await open({ layout, clock, onLost: "switch" });
  const [{ workerId }, now] = [lease, clock.now()];
  const made = [...ids.take(3)];
  clock.step(longAgo - now);
  for (let i = 0; i < 5; i++) expect(thrown(() => ids.next()).code).toBe("WINDOW_NOT_OPEN");
  await clock.advance(0);
  expect(rollbacks).toEqual([{ behind: now - longAgo, action: "tell" }]);
  clock.step(now - longAgo);
  made.push(...ids.take(3));
  expect(lease.workerId).toBe(workerId);
  expect(new Set(made).size).toBe(6);
  expect(made.map((id) => layout.decompose(id).rollback)).toEqual([0, 0, 0, 0, 0, 0]);
});
