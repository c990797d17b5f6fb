import { afterEach, describe, expect, test } from "vitest";
import { isSnowleaseError } from "../../src/id/errors.ts";
import { defaultLayout, layouts } from "../../src/id/layout.ts";
import { fakeClock, type FakeClock, memoryRegistry } from "../../src/testing.ts";
import { SharedUsageTracker } from "../../src/sharing/usage-tracker.ts";
import { leaseServer } from "../../src/sharing/lease-server.ts";
import { joinLease } from "../../src/sharing/joined-lease.ts";
import type { SharedSnowflake } from "../../src/sharing/shared-snowflake.ts";
import { snowlease } from "../../src/snowlease.ts";

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
});

async function share(options: object = {}): Promise<{ ids: SharedSnowflake; clock: FakeClock }> {
  const clock = fakeClock({ start: Date.UTC(2026, 0, 1) });
  const ids = await snowlease({ registry: memoryRegistry({ clock }), clock, ...options, shared: true });
  open.push(ids);
  return { ids, clock };
}

const mostInTick = 4096;

/** How many IDs are available now, without a repeat. */
function drain(...makers: readonly { next(): bigint }[]): number {
  return drained(...makers).length;
}

/** All IDs that are available now, without a repeat. */
function drained(...makers: readonly { next(): bigint }[]): bigint[] {
  const made: bigint[] = [];
  for (let left = [...makers]; left.length > 0;) {
    if (made.length > mostInTick) expect.fail(`More IDs than a tick has: ${made.slice(-3).join(", ")}`);
    left = left.filter((maker) => {
      try {
        made.push(maker.next());
        return true;
      } catch (error) {
        if (isSnowleaseError(error, "SEQUENCE_EXHAUSTED")) return false;
        throw error;
      }
    });
  }
  expect(new Set(made).size).toBe(made.length);
  return made;
}

describe("generators that share a lease", () => {
  test("have all of a tick together, and a single one has all of it", async () => {
    const { ids, clock } = await share();
    expect(drain(ids)).toBe(4096);
    await clock.advance(64);
    const joined = joinLease(ids.share(), { clock });
    expect(drain(joined, ids)).toBe(4096);
    await clock.advance(1);
    expect(drain(joined, ids)).toBe(4096);
  });

  test("try again if the lender claims another worker ID while they look", async () => {
    const { ids, clock } = await share();
    const joined = joinLease(ids.share(), { clock });
    open.push(joined);
    /** Lets the lease answer, this many times, as between the end of one claim and the begin of the next. */
    const interrupt = (looks: number): void => {
      const get = (): undefined => {
        if (--looks === 0) Reflect.deleteProperty(joined.lease, "snapshot");
      };
      Object.defineProperty(joined.lease, "snapshot", { get, configurable: true });
    };
    interrupt(3);
    expect(() => joined.next()).toThrow(
      expect.objectContaining({ code: "LEASE_EXPIRED", retryable: true, details: { retryAfterMs: 0 } }),
    );
    expect(joined.next()).toBeGreaterThan(0n);
    await clock.advance(1);
    interrupt(3);
    const id = joined.nextAsync();
    await clock.advance(0);
    expect(await id).toBeGreaterThan(0n);
  });

  test("end together if the clock is set back too far for a fixed worker ID", async () => {
    const { ids, clock } = await share({ workerId: 7 });
    const joined = joinLease(ids.share(), { clock });
    const setBack = expect.objectContaining({ code: "CLOCK_ROLLBACK" }) as Error;
    joined.next();
    clock.step(-3_600_000);
    expect(() => joined.next()).toThrow(setBack);
    await clock.advance(10);
    clock.step(3_600_000);
    await clock.advance(5000);
    joined.next();
    expect(ids.lease.state).toBe("held");
    clock.step(-3_600_000);
    expect(() => joined.next()).toThrow(setBack);
    await clock.advance(1000);
    expect(ids.lease.signal.reason).toMatchObject({ code: "LEASE_LOST" });
    expect(() => joined.next()).toThrow(expect.objectContaining({ code: "LEASE_LOST" }));
  });

  test("leave a block for a late one", async () => {
    const { ids, clock } = await share();
    const joined = joinLease(ids.share(), { clock });
    expect(drain(ids)).toBe(4096 - 128);
    expect(drain(joined)).toBe(128);
    await joined.close();
    await clock.advance(64);
    expect(drain(ids)).toBe(4096);
  });

  test("leave a block for an idle one, and none for one that ended without close()", async () => {
    const { ids, clock } = await share({ window: 60_000 });
    const quiet = joinLease(ids.share(), { clock });
    quiet.next();
    // A thread that crashes or is terminated closes nothing.
    const crashed = joinLease(ids.share(), { clock });
    crashed.next();
    await clock.advance(15_000);
    expect(drain(ids)).toBe(4096 - 2 * 128);
    expect(drain(quiet)).toBe(128);
    await clock.advance(2000);
    expect(drain(ids)).toBe(4096 - 128);
    expect(drain(quiet)).toBe(128);
  });

  test("fill arrays and texts with the rest of the tick", async () => {
    const { ids, clock } = await share();
    const target = new BigUint64Array(5000);
    expect(ids.fill(target)).toBe(4096);
    expect(new Set(target.subarray(0, 4096)).size).toBe(4096);
    await clock.advance(1);
    const text = new Uint8Array(5000 * 20);
    const lines = new TextDecoder()
      .decode(text.subarray(0, ids.fillText(text)))
      .trimEnd()
      .split("\n");
    expect(new Set(lines).size).toBe(4096);
  });

  test("continue after their own used sequences when the clock goes back", async () => {
    const { ids, clock } = await share();
    const joined = joinLease(ids.share(), { clock });
    const made = [...ids.take(10), ...joined.take(10)];
    await clock.advance(5000);
    made.push(...ids.take(10), ...joined.take(10));
    clock.step(-5000);
    made.push(...ids.take(10), ...joined.take(10));
    expect(new Set(made).size).toBe(60);
    const again = made.slice(40).map((id) => defaultLayout.decompose(id).timestamp);
    expect(new Set(again)).toEqual(new Set([Date.UTC(2026, 0, 1)]));
  });

  test("give up a worker ID if the clock of one of them is behind its window", async () => {
    const { ids, clock } = await share({ pool: "0-1" });
    const joined = joinLease(ids.share(), { clock });
    await clock.advance(100_000);
    joined.next();
    const { workerId } = joined.lease;
    clock.step(-90_000);
    expect(() => joined.next()).toThrow(expect.objectContaining({ code: "CLOCK_ROLLBACK" }));
    await clock.advance(1000);
    expect(joined.lease.workerId).not.toBe(workerId);
    expect(defaultLayout.decompose(joined.next()).workerId).toBe(ids.lease.workerId);
  });

  const year = 365.25 * 86_400_000;

  test.each([[5], [50], [-5], [5, -5], [-8, 20, -9]])(
    "go on when the clock moves by %i years, %i and %i",
    async (...steps) => {
      const { ids, clock } = await share({ pool: "0-7", onLost: "switch" });
      const joined = joinLease(ids.share(), { clock });
      const made = drained(ids, joined);
      for (const years of steps) {
        clock.step(years * year);
        // The generators, not the lease, find out how far a clock went back.
        for (const maker of [ids, joined])
          expect(() => maker.next()).toThrow(expect.objectContaining({ retryable: true }));
        await clock.advance(5000);
        const now = drained(ids, joined);
        expect(now).toHaveLength(4096);
        made.push(...now);
      }
      expect(new Set(made).size).toBe(made.length);
    },
  );

  test("go on in a process that borrows when the clock moves by years", async () => {
    const { ids, clock } = await share({ pool: "0-7", onLost: "switch" });
    if (!(ids.blocks instanceof SharedUsageTracker)) expect.fail("It is borrowed.");
    const registry = leaseServer(ids.lease, ids.blocks);
    const child = await snowlease({ registry, clock, borrow: true, shared: true, onLost: "switch" });
    open.unshift(child);
    const joined = joinLease(child.share(), { clock });
    const makers = [child, joined, ids];
    // Until there is a prefetched block for the thread, too.
    await clock.advance(7000);
    const made = makers.map((maker) => maker.next());
    for (const years of [5, -5, 8]) {
      clock.step(years * year);
      for (const maker of makers) expect(() => maker.next()).toThrow(expect.objectContaining({ retryable: true }));
      await clock.advance(30_000);
      for (const maker of makers) made.push(...drained(maker));
    }
    expect(made.length).toBeGreaterThan(3 * 3000);
    expect(new Set(made).size).toBe(made.length);
  });

  const wrap = layouts.scene.wrap ?? 0;
  /** The time when the timestamp of `scene` starts again at 0. */
  const wraps = layouts.scene.epoch + Math.ceil((Date.UTC(2026, 0, 1) - layouts.scene.epoch) / wrap) * wrap;

  test.each([1, 2, 5, 6])(
    "skip the ID 0 of a tick of %i sequence bits, and touch no block of another",
    async (bits) => {
      const layout = `timestamp:21,worker:5,sequence:${bits}@${layouts.scene.epoch}/1/wraps`;
      const clock = fakeClock({ start: wraps - 1 });
      const ids = await snowlease({ registry: memoryRegistry({ clock }), clock, layout, workerId: 0, shared: true });
      open.push(ids);
      const joined = joinLease(ids.share(), { clock });
      const made = drained(ids, joined);
      await clock.advance(1);
      const first = drained(ids, joined);
      expect(first).toHaveLength(2 ** bits - 1);
      await clock.advance(1);
      made.push(...first, ...drained(joined, ids));
      expect(new Set(made).size).toBe(made.length);
      expect(made).not.toContain(0n);
    },
  );

  test("get LEASE_LOST after the window has passed, when the lender's thread ended without close()", async () => {
    const { ids } = await share({ window: 30_000 });
    // The lender's clock stands still, as if its thread had been terminated.
    const clock = fakeClock({ start: ids.lease.clock.now() });
    const joined = joinLease(ids.share(), { clock });
    await clock.advance(29_000);
    joined.next();
    expect(joined.lease.state).toBe("held");
    await clock.advance(1000);
    await expect(joined.nextAsync({ timeout: 0 })).rejects.toMatchObject({ code: "LEASE_LOST", retryable: false });
    expect(joined.lease.state).toBe("lost");
  });

  test("get no LEASE_LOST while their lender renews, nor after it was away for a while", async () => {
    const { ids, clock: lenders } = await share({ window: 30_000 });
    const clock = fakeClock({ start: lenders.now() });
    const joined = joinLease(ids.share(), { clock });
    await clock.advance(40_000);
    expect(() => joined.next()).toThrow(expect.objectContaining({ code: "LEASE_LOST" }));
    await lenders.advance(40_000);
    for (let second = 0; second < 100; second++) {
      await Promise.all([clock.advance(1000), lenders.advance(1000)]);
      joined.next();
    }
  });

  test("get LEASE_LOST when the lease has ended", async () => {
    const { ids, clock } = await share();
    const joined = joinLease(ids.share(), { clock });
    joined.next();
    await ids.close();
    await clock.advance(1);
    expect(() => joined.next()).toThrow(expect.objectContaining({ code: "LEASE_LOST" }));
    expect(joined.lease.state).toBe("lost");
  });

  test.each([{ mode: "lead" }, { spread: 8 }] as const)("do not accept %o", async (option) => {
    await expect(share(option)).rejects.toMatchObject({ code: "CONFIG_INVALID" });
  });

  test.each([undefined, null, 7, {}, { buffer: new ArrayBuffer(8) }])("are not made of %o", (shared) => {
    expect(() => joinLease(shared as never)).toThrow(expect.objectContaining({ code: "CONFIG_INVALID" }));
  });
});
