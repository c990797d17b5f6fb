import { describe, expect, it } from "vitest";
import type { LeaseEvents } from "../../src/core/events.ts";
import { coded, open, start, thrown, westid } from "../support/generator.ts";

describe("a clock that goes back", () => {
  it("is continued behind what was used, without a wait", async () => {
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

  it("within the open tick goes unnoticed until that is known to end on the monotonic clock", async () => {
    const { clock, next, rollbacks } = await open();
    await clock.advance(0.9);
    expect(next()).toEqual([start, 0]);
    await clock.advance(0.1);
    expect(next()).toEqual([start + 1, 0]);
    clock.step(-100);
    await clock.advance(0.5);
    expect(next()).toEqual([start + 1, 1]);
    await clock.advance(0.5);
    expect(next()).toEqual([start - 98, 0]);
    await clock.advance(0);
    expect(rollbacks).toEqual([{ behind: 99, action: "continue" }]);
  });

  it("tells of each rollback once", async () => {
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

  it("reaches back 10 s from the highest tick that was used", async () => {
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

  it("by a little more is waited for", async () => {
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

  it("by more than that is told, to nextAsync too", async () => {
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

  it("by more than a minute leaves a lease of one worker ID telling", async () => {
    const { clock, ids, lease } = await open({ onLost: "stop" });
    ids.next();
    clock.step(-60_001);
    await expect(ids.nextAsync()).rejects.toEqual(coded("CLOCK_ROLLBACK", { retryAfterMs: 50_001 }));
    expect(lease.state).toBe("held");
    clock.step(60_001);
    await clock.advance(1);
    expect(westid.decompose(ids.next())).toMatchObject({ timestamp: start + 1, sequence: 0 });
  });

  it("is judged by the thresholds that were set", async () => {
    const { clock, ids, rollbacks } = await open({ rollback: { maxWait: 100, maxTell: 11_000 } });
    for (const back of [10_100, 1, 899, 1]) {
      clock.step(-back);
      expect(thrown(() => ids.next()).code).toBe("CLOCK_ROLLBACK");
    }
    await clock.advance(0);
    expect(rollbacks).toEqual([
      { behind: 10_100, action: "wait" },
      { behind: 10_101, action: "tell" },
      { behind: 11_001, action: "switch" },
    ]);
  });
});
