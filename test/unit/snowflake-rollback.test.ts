import { describe, expect, it } from "vitest";
import type { LeaseEvents } from "../../src/lease/events.ts";
import type { ClaimRequest, Registry } from "../../src/rule/registry.ts";
import type { Snowflake } from "../../src/generator/snowflake.ts";
import { layouts } from "../../src/id/layout.ts";
import { coded, open, settled, start, thrown, westid } from "../support/generator.ts";

describe("a clock that goes back", () => {
  it("continues after the used sequences, without a wait", async () => {
    const { clock, next, rollbacks } = await open();
    expect([next(), next()]).toEqual([
      [start, 0],
      [start, 1],
    ]);
    await clock.advance(3);
    expect(next()).toEqual([start + 3, 0]);
    clock.step(-4);
    await clock.advance(1);
    expect(next()).toEqual([start, 2]);
    await clock.advance(1);
    expect(next()).toEqual([start + 1, 0]);
    await clock.advance(2);
    expect(next()).toEqual([start + 3, 1]);
    expect(rollbacks).toEqual([{ behind: 3, action: "continue" }]);
  });

  it("within the open tick goes unnoticed until that tick must have ended on the monotonic clock", async () => {
    const { clock, next, rollbacks } = await open();
    await clock.advance(0.9);
    expect([next(), next()]).toEqual([
      [start, 0],
      [start, 1],
    ]);
    await clock.advance(0.1);
    expect([next(), next()]).toEqual([
      [start + 1, 0],
      [start + 1, 1],
    ]);
    clock.step(-100);
    await clock.advance(0.5);
    expect(next()).toEqual([start + 1, 2]);
    await clock.advance(0.5);
    expect(next()).toEqual([start - 98, 0]);
    await clock.advance(0);
    expect(rollbacks).toEqual([{ behind: 99, action: "continue" }]);
  });

  it("behind the first ID of a tick is noticed by the second", async () => {
    const { clock, next, rollbacks } = await open();
    await clock.advance(5);
    expect(next()).toEqual([start + 5, 0]);
    clock.step(-3);
    expect(next()).toEqual([start + 2, 0]);
    clock.step(3);
    // The tick that was open is a used one now: the next ID comes after its IDs.
    expect(next()).toEqual([start + 5, 1]);
    clock.step(1);
    expect(next()).toEqual([start + 6, 0]);
    await clock.advance(0);
    expect(rollbacks).toEqual([{ behind: 3, action: "continue" }]);
  });

  it("is reported again if the clock passed its highest time in between", async () => {
    const { clock, next, rollbacks } = await open();
    await clock.advance(10);
    for (const by of [0, -3, 10, -5, 20, 1]) {
      clock.step(by);
      next();
    }
    await clock.advance(0);
    expect(rollbacks).toEqual([
      { behind: 3, action: "continue" },
      { behind: 5, action: "continue" },
    ]);
  });

  it("reports each rollback once", async () => {
    const { clock, next, rollbacks } = await open();
    await clock.advance(100);
    next();
    clock.step(-50);
    await clock.advance(10);
    expect(next()).toEqual([start + 60, 0]);
    await clock.advance(10);
    expect(next()).toEqual([start + 70, 0]);
    await clock.advance(30);
    expect(next()).toEqual([start + 100, 1]);
    clock.step(-20);
    await clock.advance(10);
    expect(next()).toEqual([start + 90, 0]);
    await clock.advance(0);
    expect(rollbacks).toEqual([
      { behind: 40, action: "continue" },
      { behind: 10, action: "continue" },
    ]);
  });

  it("reaches back 10 s from the highest used tick", async () => {
    const { clock, ids, next } = await open();
    await clock.advance(20_000);
    next();
    clock.step(-10_000);
    await clock.advance(1);
    expect(next()).toEqual([start + 10_001, 0]);
    clock.step(-2);
    await clock.advance(1);
    expect(next()).toEqual([start + 10_000, 0]);
    clock.step(-2);
    await clock.advance(1);
    expect(thrown(() => ids.next())).toEqual(coded("CLOCK_ROLLBACK", { retryAfterMs: 1, behindMs: 10_001 }));
  });

  it("by a little more makes the caller wait", async () => {
    const { clock, ids, rollbacks } = await open();
    ids.next();
    clock.step(-10_500);
    expect(thrown(() => ids.next())).toEqual(coded("CLOCK_ROLLBACK", { retryAfterMs: 500, behindMs: 10_500 }));
    const waiting = ids.nextAsync();
    await clock.advance(500);
    expect(westid.decompose(await waiting)).toMatchObject({ timestamp: start - 10_000, sequence: 0 });
    expect(rollbacks).toEqual([
      { behind: 10_500, action: "wait" },
      { behind: 10_000, action: "continue" },
    ]);
  });

  it("by more than that is an error, for nextAsync too", async () => {
    const { clock, ids, rollbacks } = await open();
    ids.next();
    clock.step(-60_000);
    const error = thrown(() => ids.next());
    expect(error).toEqual(coded("CLOCK_ROLLBACK", { retryAfterMs: 50_000, behindMs: 60_000 }));
    expect(error.retryable).toBe(true);
    await expect(ids.nextAsync()).rejects.toEqual(coded("CLOCK_ROLLBACK"));
    expect(rollbacks).toEqual([{ behind: 60_000, action: "tell" }]);
  });

  it("by more than a minute costs a lease of any worker ID its worker ID", async () => {
    const { clock, ids, lease, registry, rollbacks } = await open({ onLost: "switch", workerId: undefined });
    const switched: LeaseEvents["switched"][] = [];
    lease.on("switched", (event) => switched.push(event));
    const last = westid.decompose(ids.next());
    clock.step(-60_001);
    expect(thrown(() => ids.next())).toEqual(coded("CLOCK_ROLLBACK", { behindMs: 60_001 }));
    expect(lease.state).toBe("switching");
    expect(thrown(() => ids.next())).toEqual(coded("LEASE_EXPIRED"));
    expect(westid.decompose(await ids.nextAsync())).toMatchObject({ timestamp: start - 60_001, workerId: 1 });
    expect(rollbacks).toEqual([{ behind: 60_001, action: "switch" }]);
    expect(switched).toEqual([expect.objectContaining({ workerId: 1, previousWorkerId: last.workerId })]);
    expect(await registry.worker("default", last.workerId)).toMatchObject({ clean: true, until: start + 1 });
  });

  it("by more than a minute is waited out by nextAsync, with another worker ID", async () => {
    const { clock, ids, next } = await open({ onLost: "switch", workerId: undefined });
    next();
    clock.step(-60_001);
    expect(westid.decompose(await ids.nextAsync())).toMatchObject({ timestamp: start - 60_001, workerId: 1 });
  });

  it("by more than a minute, and corrected in time, leaves a lease of one worker ID with an error", async () => {
    const { clock, ids, lease } = await open({ onLost: "stop" });
    ids.next();
    clock.step(-60_001);
    await expect(ids.nextAsync()).rejects.toEqual(coded("CLOCK_ROLLBACK", { retryAfterMs: 50_001 }));
    expect(lease.state).toBe("held");
    clock.step(60_001);
    await clock.advance(1);
    expect(westid.decompose(ids.next())).toMatchObject({ timestamp: start + 1, sequence: 0 });
    await clock.advance(10_000);
    expect(lease.state).toBe("held");
    expect(lease.signal.aborted).toBe(false);
  });

  it("by years for 10 ms leaves a lease of one worker ID as it is, each time", async () => {
    const { clock, ids, lease, rollbacks } = await open({ onLost: "stop" });
    const years = 5 * 365 * 24 * 3_600_000;
    for (let times = 1; times <= 3; times++) {
      ids.next();
      clock.step(-years);
      expect(thrown(() => ids.next())).toEqual(coded("CLOCK_ROLLBACK"));
      await clock.advance(10);
      expect(thrown(() => ids.next())).toEqual(coded("CLOCK_ROLLBACK"));
      clock.step(years);
      await clock.advance(5000);
      ids.next();
      expect(lease.state).toBe("held");
      expect(rollbacks).toHaveLength(times);
    }
  });

  for (const mode of ["wall", "lead"] as const) {
    it(`by more than a minute for good ends a lease of one worker ID, in ${mode} mode`, async () => {
      const { clock, ids, lease, registry, rollbacks } = await open({ onLost: "stop", mode, window: 2000 });
      const lost: LeaseEvents["lost"][] = [];
      lease.on("lost", (event) => lost.push(event));
      const last = westid.decompose(mode === "lead" ? (ids.take(2 ** 24).at(-1) ?? 0n) : ids.next());
      clock.step(-3_600_000);
      expect(thrown(() => ids.next())).toEqual(coded("CLOCK_ROLLBACK", { behindMs: 3_600_000 }));
      expect(lease.state).toBe("held");
      await clock.advance(500);
      expect(lease.state).toBe("lost");
      const reason = coded("LEASE_LOST", { workerId: 7 });
      expect(lease.signal.reason).toEqual(reason);
      expect((lease.signal.reason as Error).message).toMatch(/clock was set back by 3600000 ms/);
      expect(lost).toEqual([expect.objectContaining({ workerId: 7, error: reason })]);
      expect(rollbacks).toEqual([{ behind: 3_600_000, action: "stop" }]);
      expect(thrown(() => ids.next())).toEqual(coded("LEASE_LOST"));
      // The worker ID is given back, with its usage.
      const record = await registry.worker("default", 7);
      expect(record).toMatchObject({ state: "free", clean: true, until: last.timestamp + 1 });
      await ids.close();
    });
  }

  it("is handled by the configured thresholds", async () => {
    const { clock, ids, rollbacks } = await open({ rollback: { maxWait: 100, maxTell: 11_000 } });
    for (const back of [10_100, 1, 899, 1]) {
      clock.step(-back);
      expect(thrown(() => ids.next()).code).toBe("CLOCK_ROLLBACK");
    }
    await clock.advance(0);
    expect(rollbacks).toEqual([
      { behind: 10_100, action: "wait" },
      { behind: 10_101, action: "tell" },
      { behind: 11_001, action: "stop" },
    ]);
  });
});

describe("a clock that goes back, with rollback bits", () => {
  const layout = layouts.rollback;
  /** Timestamp, rollback bits and sequence of the next ID. */
  const teller = (ids: Snowflake) => () => {
    const { timestamp, rollback, sequence } = layout.decompose(ids.next());
    return [timestamp, rollback, sequence];
  };

  it("is continued within the memory, and counted below it", async () => {
    const { clock, ids, rollbacks } = await open({ layout });
    const next = teller(ids);
    await clock.advance(20_000);
    expect([next(), next()]).toEqual([
      [start + 20_000, 0, 0],
      [start + 20_000, 0, 1],
    ]);
    clock.step(-10_000);
    expect(next()).toEqual([start + 10_000, 0, 0]);
    clock.step(-1);
    expect([next(), next()]).toEqual([
      [start + 9_999, 1, 0],
      [start + 9_999, 1, 1],
    ]);
    // With the next value, earlier ticks are unused, and stay so when the clock comes back to them.
    await clock.advance(1);
    expect(next()).toEqual([start + 10_000, 1, 0]);
    await clock.advance(10_000);
    expect(next()).toEqual([start + 20_000, 1, 0]);
    expect(rollbacks).toEqual([
      { behind: 10_000, action: "continue" },
      { behind: 10_001, action: "count" },
    ]);
  });

  it("makes the caller wait when all values are used up", async () => {
    const { clock, ids, lease, rollbacks } = await open({ layout });
    const next = teller(ids);
    for (let value = 0; value <= 3; value++) {
      await clock.advance(30_000);
      await lease.renew();
      expect(next()[1]).toBe(value);
      if (value < 3) clock.step(-20_000);
      if (value < 3) expect(next()[1]).toBe(value + 1);
    }
    clock.step(-10_400);
    expect(thrown(() => ids.next())).toEqual(coded("CLOCK_ROLLBACK", { retryAfterMs: 400, behindMs: 10_400 }));
    await settled();
    expect(rollbacks.map(({ action }) => action)).toEqual(["count", "count", "count", "wait"]);
  });

  it("is not counted if the window has not begun: no value is spent", async () => {
    const { clock, ids, lease, rollbacks } = await open({ layout });
    const next = teller(ids);
    expect(next()).toEqual([start, 0, 0]);
    clock.step(lease.from - start - 300);
    expect(thrown(() => ids.next())).toEqual(coded("CLOCK_ROLLBACK", { retryAfterMs: 300 }));
    await clock.advance(300);
    expect(next()).toEqual([lease.from, 0, 0]);
    await settled();
    expect(rollbacks.map(({ action }) => action)).toEqual(["wait", "continue"]);
  });

  it("is given back with the newest tick of any value, and without recents", async () => {
    const { clock, ids, registry } = await open({ layout });
    await clock.advance(20_000);
    ids.next();
    clock.step(-15_000);
    expect(layout.decompose(ids.next()).rollback).toBe(1);
    expect(ids.checkpoint()).toEqual({ timestamp: start + 20_000, sequence: 0 });
    await ids.close();
    const record = await registry.worker("default", 7);
    expect(record).toMatchObject({ clean: true, until: start + 20_001 });
    expect(record?.recents).toBeUndefined();
    expect(record?.checkpoint).toEqual({ timestamp: start + 20_000, sequence: 0 });
  });

  it("starts to count from 0 with each lease, after the last one's window", async () => {
    const { clock, ids, registry, lease } = await open({ layout });
    await clock.advance(20_000);
    ids.next();
    clock.step(-15_000);
    ids.next();
    await ids.close();
    await expect(open({ layout, clock, registry })).rejects.toEqual(coded("WORKER_ID_HELD"));
    await clock.advance(15_001);
    const second = await open({ layout, clock, registry });
    expect(second.lease.from).toBe(start + 20_001);
    expect(second.lease.fence).toBe(lease.fence + 1);
    expect(teller(second.ids)()).toEqual([start + 20_001, 0, 0]);
  });

  it("starts to count from 0 with each worker ID that a lease switches to", async () => {
    const { clock, ids, lease, registry, rollbacks } = await open({
      layout,
      onLost: "switch",
      workerId: undefined,
      pool: { first: 7, last: 12 },
    });
    const next = teller(ids);
    const made: bigint[] = [];
    for (let turn = 0; turn < 3; turn++) {
      const { workerId } = lease;
      await clock.advance(100_000);
      await lease.renew();
      made.push(ids.next());
      for (let value = 1; value <= 3; value++) {
        clock.step(-20_000);
        const [, rollback] = next();
        expect(rollback).toBe(value);
      }
      await registry.forceRelease({ namespace: "default", workerId, force: true });
      await lease.renew();
      await clock.advance(100);
      expect(lease.workerId).not.toBe(workerId);
      made.push(ids.next());
      expect(layout.decompose(made.at(-1) ?? 0n)).toMatchObject({ workerId: lease.workerId, rollback: 0 });
    }
    expect(rollbacks.filter(({ action }) => action === "count")).toHaveLength(9);
    expect(new Set(made).size).toBe(made.length);
  });

  it("is never continued by a lease, even with recents of another holder", async () => {
    const { clock, ids, registry } = await open({ layout });
    ids.next();
    await ids.close();
    await clock.advance(1);
    let claim: ClaimRequest | undefined;
    const spied: Registry = {
      ...registry,
      claim: (request) => registry.claim((claim = request)),
    };
    const { lease } = await open({ layout, clock, registry: spied });
    expect(claim?.continues).toBe(false);
    const key = { namespace: "default", workerId: 7, fence: lease.fence, token: claim?.token ?? "" };
    const used = { until: start + 5, recents: { from: start + 1, bytes: Uint8Array.of(1) } };
    await registry.release({ ...key, clock: clock.now(), used });
    await clock.advance(2);
    await expect(open({ layout, clock, registry })).rejects.toEqual(coded("WORKER_ID_HELD"));
    await clock.advance(2);
    const third = await open({ layout, clock, registry });
    expect(third.lease.snapshot).toMatchObject({ knownFrom: start + 5, from: start + 5 });
    expect(third.lease.snapshot?.recents).toBeUndefined();
  });
});
