import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { isSnowleaseError } from "../../src/id/errors.ts";
import { defaultLayout, layouts } from "../../src/id/layout.ts";
import type { BlocksTaken, Lost, Registry } from "../../src/rule/registry.ts";
import { lendLease } from "../../src/lend.ts";
import { leaseServer } from "../../src/sharing/lease-server.ts";
import { SharedUsageTracker } from "../../src/sharing/usage-tracker.ts";
import { joinLease } from "../../src/sharing/joined-lease.ts";
import type { SharedSnowflake } from "../../src/sharing/shared-snowflake.ts";
import { snowlease, type SnowleaseOptions } from "../../src/snowlease.ts";
import { fakeClock, type FakeClock, memoryRegistry } from "../../src/testing.ts";
import { settled } from "../support/generator.ts";

const block = 128;

let clock: FakeClock;
let registry: Registry;
let lender: SharedSnowflake;
let lent: Registry;
const open: { close(): Promise<void> }[] = [];

beforeEach(async () => {
  clock = fakeClock({ start: Date.UTC(2026, 0, 1) });
  registry = memoryRegistry({ clock });
  lender = await share({ registry, pool: "0-3" });
  if (!(lender.blocks instanceof SharedUsageTracker)) expect.fail("It is borrowed.");
  lent = leaseServer(lender.lease, lender.blocks);
});

afterEach(async () => {
  for (const each of open.splice(0).toReversed()) await each.close();
});

async function share(options: SnowleaseOptions): Promise<SharedSnowflake> {
  const ids = await snowlease({ clock, ...options, shared: true });
  open.push(ids);
  return ids;
}

/** All IDs that are available now. */
function drain(maker: { next(): bigint }): bigint[] {
  const made: bigint[] = [];
  for (;;) {
    if (made.length > 32 * block) expect.fail(`More IDs than a tick has: ${made.slice(-3).join(", ")}`);
    try {
      made.push(maker.next());
    } catch (error) {
      if (isSnowleaseError(error, "SEQUENCE_EXHAUSTED")) return made;
      throw error;
    }
  }
}

function expectDistinct(ids: readonly bigint[]): void {
  expect(new Set(ids).size).toBe(ids.length);
}

describe("a lease client that threads share", () => {
  test("has a block for each thread, and more on request, and no block twice", async () => {
    const child = await share({ registry: lent, borrow: true });
    const other = await share({ registry: lent, borrow: true });
    const threads = [joinLease(child.share(), { clock }), joinLease(child.share(), { clock })];
    const makers = [child, other, lender, ...threads];
    // Until the prefetched blocks are from a time when the number of threads was known.
    for (let second = 0; second < 7; second++) {
      await clock.advance(1000);
      for (const maker of makers) await maker.nextAsync();
    }
    const all: bigint[] = [];
    for (const maker of makers) {
      const made = drain(maker);
      expect(made.length).toBeGreaterThanOrEqual(block - 1);
      all.push(...made);
    }
    for (let ms = 0; ms < 60; ms++) {
      await clock.advance(1);
      for (const maker of makers) all.push(...drain(maker));
    }
    expectDistinct(all);
    const last = all
      .map((id) => defaultLayout.decompose(id).timestamp)
      .filter((timestamp) => timestamp === clock.now());
    expect(last.length).toBe(4096);
  });

  test("gives a single thread nearly all of a tick", async () => {
    const child = await share({ registry: lent, borrow: true });
    const thread = joinLease(child.share(), { clock });
    await clock.advance(30_000);
    const made: number[] = [];
    for (let ms = 0; ms < 200; ms++) {
      await clock.advance(1);
      made.push(drain(thread).length);
    }
    expect(Math.max(...made)).toBeGreaterThan(4096 * 0.7);
  });

  test("ends for all threads when its owner closes it, or when its lender's lease ends", async () => {
    const [one, other] = [await share({ registry: lent, borrow: true }), await share({ registry: lent, borrow: true })];
    const threads = [one, other].map((child) => joinLease(child.share(), { clock }));
    await clock.advance(5000);
    for (const thread of threads) thread.next();
    await one.close();
    await clock.advance(1);
    expect(() => threads[0]?.next()).toThrow(expect.objectContaining({ code: "LEASE_LOST" }));
    threads[1]?.next();
    await lender.close();
    await clock.advance(60_001);
    expect(() => threads[1]?.next()).toThrow(expect.objectContaining({ code: "LEASE_LOST" }));
  });

  test("goes on with its lender's next worker ID, without late blocks of the last one", async () => {
    let hold = false;
    let letGo: () => void = () => undefined;
    const held = new Promise<void>((resolve) => (letGo = resolve));
    const slow: Registry = {
      ...lent,
      async takeBlocks(request): Promise<BlocksTaken | Lost> {
        const isLate = hold;
        hold = false;
        const answer = (await lent.takeBlocks?.(request)) ?? { outcome: "lost" };
        if (isLate) await held;
        return answer;
      },
    };
    const child = await share({ registry: slow, borrow: true });
    const thread = joinLease(child.share(), { clock });
    const { workerId, fence } = child.lease;
    await clock.advance(5000);
    hold = true;
    const all = [...drain(child), ...drain(thread)];
    await clock.advance(5);
    expect(hold).toBe(false);

    await registry.forceRelease({ namespace: "default", workerId, force: true });
    await lender.lease.renew();
    await settled();
    await child.lease.renew();
    await settled();
    expect([child.lease.fence, child.lease.state]).toEqual([fence, "held"]);
    expect(child.lease.workerId).not.toBe(workerId);
    letGo();
    await settled();
    const other = await share({ registry: lent, borrow: true });
    for (let ms = 0; ms < 200; ms++) {
      for (const maker of [child, thread, other, lender]) all.push(...drain(maker));
      await clock.advance(1);
    }
    expectDistinct(all);
    expect(all.length).toBeGreaterThan(200 * 2048);
  });

  test("skips the ID 0, and uses no block of another thread", async () => {
    const { epoch, wrap = 0 } = layouts.scene;
    const start = epoch + Math.ceil((Date.UTC(2026, 0, 1) - epoch) / wrap) * wrap;
    clock = fakeClock({ start: start - 1 });
    const parent = await share({ registry: memoryRegistry({ clock }), layout: "scene", workerId: 0 });
    if (!(parent.blocks instanceof SharedUsageTracker)) expect.fail("It is borrowed.");
    const child = await share({ registry: leaseServer(parent.lease, parent.blocks), borrow: true, layout: "scene" });
    const thread = joinLease(child.share(), { clock });
    const all: bigint[] = [];
    for (let ms = 0; ms < 20; ms++) {
      await clock.advance(1);
      for (const maker of [child, thread, parent]) all.push(...drain(maker));
    }
    expectDistinct(all);
    expect(all).not.toContain(0n);
    expect(all.length).toBeGreaterThan(20 * 16);
  });

  test("is not lent on if the environment does not name its lender", async () => {
    const child = await share({ registry: lent, borrow: true });
    await expect(lendLease(child)).rejects.toMatchObject({ code: "CONFIG_INVALID" });
  });
});
