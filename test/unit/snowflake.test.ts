import { getEventListeners } from "node:events";
import { fc } from "../support/fast-check.ts";
import { describe, expect, it } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { encodings, type EncodingName } from "../../src/id/encodings.ts";
import { isSnowleaseError } from "../../src/id/errors.ts";
import { Layout } from "../../src/id/layout.ts";
import { Lease } from "../../src/lease/lease.ts";
import { listRecents } from "../../src/generator/recent-ticks.ts";
import type { RenewRequest } from "../../src/rule/registry.ts";
import { Snowflake } from "../../src/generator/snowflake.ts";
import { fakeClock, type FakeClock, lossyRegistry, memoryRegistry } from "../../src/testing.ts";
import {
  coded,
  defaults,
  makeToken,
  open,
  seconds,
  type Setting,
  settled,
  sonyflake,
  start,
  thrown,
  westid,
} from "../support/generator.ts";

/** Four IDs a tick. */
const small = Layout.parse("timestamp:41,worker:10,sequence:2@1490346283706/1");

describe("an ID", () => {
  // Computed outside of this code: ((ms - epoch) / tick) << ..., bit by bit.
  it.each([
    ["westid", 7, 879351421382717440n, 1n],
    ["twitter", 33, 1724551110972280832n, 1n],
    ["timestamp:41,worker:5,sequence:7@1577836800000/1", 7, 500380467704704n, 1n],
    [sonyflake.fingerprint, 515, 487328464441967107n, 65536n],
    [seconds.fingerprint, 70_000, 8120113274024755200n, 1n],
    // The sequence ends at bit 32, and at bit 33: one word of an ID, and more than one.
    ["timestamp:31,sequence:21,worker:11@1699999000000/1", 7, (1_000_123n << 32n) + 7n, 2048n],
    ["timestamp:30,sequence:22,worker:11@1699999000000/1", 7, (1_000_123n << 33n) + 7n, 2048n],
  ])("in %s is its tick, worker ID and sequence", async (layout, workerId, first, step) => {
    const { ids, clock } = await open({ layout: Layout.parse(layout), workerId });
    clock.step(123);
    expect([ids.next(), ids.next(), ids.next()]).toEqual([first, first + step, first + 2n * step]);
  });

  it("has its number's text in every form", async () => {
    const { ids } = await open();
    const first = ids.next();
    expect(ids.nextString()).toBe(String(first + 1n));
    const names = Object.keys(encodings) as EncodingName[];
    for (const [i, name] of names.entries())
      expect(ids.nextString(name)).toBe(encodings[name].encode(first + 2n + BigInt(i)));
  });

  it.each([
    ["westid", start],
    // IDs of one digit, then of two.
    [`timestamp:41,worker:10,sequence:12@${start}/1`, start],
    [sonyflake.fingerprint, start],
    ["timestamp:30,sequence:22,worker:11@1699999000000/1", start],
  ])("in %s has the text of its number, whatever stood before it", async (notation, at) => {
    const layout = Layout.parse(notation);
    const setting = (): Promise<Setting> => open({ layout, workerId: 0, clock: fakeClock({ start: at }) });
    const [one, other] = [await setting(), await setting()];
    // A reading late in a millisecond: from then on a tick is opened once, and not again for each ID.
    for (const ms of [0.9, 0.1]) {
      await Promise.all([one, other].map(({ clock }) => clock.advance(ms)));
      expect(one.ids.nextString("base62")).toBe(encodings.base62.encode(other.ids.next()));
    }
    const names = Object.keys(encodings) as EncodingName[];
    const runs: EncodingName[] = [
      ...Array.from({ length: 130 }, (): EncodingName => "base62"),
      ...Array.from({ length: 40 }, (): EncodingName => "base64url"),
      ...Array.from({ length: 30 }, (_, i) => names[i % names.length] ?? "hex"),
      ...Array.from({ length: 30 }, (_, i): EncodingName => (i % 3 === 0 ? "base62" : "base64url")),
    ];
    for (let tick = 0; tick < 3; tick++) {
      for (const name of runs) expect(one.ids.nextString(name)).toBe(encodings[name].encode(other.ids.next()));
      await Promise.all([one, other].map(({ clock }) => clock.advance(layout.tick)));
    }
    // What was learned in the tick before is of no use in this one.
    for (let tick = 0; tick < 2; tick++) {
      for (const name of [...runs.slice(0, 40).map((): EncodingName => "hex"), "base62", "base62"] as const) {
        expect(one.ids.nextString(name)).toBe(encodings[name].encode(other.ids.next()));
      }
      await Promise.all([one, other].map(({ clock }) => clock.advance(layout.tick)));
    }
  });

  it("is made by functions that are passed on without their generator", async () => {
    const { next, close } = (await open()).ids;
    expect(next()).toBeLessThan(next());
    await close();
    expect(thrown(next).code).toBe("LEASE_LOST");
    const { nextNumber } = (await open({ layout: Layout.parse("safe53") })).ids;
    expect(nextNumber()).toBeLessThan(nextNumber());
  });

  it("is its text, too, where a caller waits for it", async () => {
    const { ids } = await open();
    const first = ids.next();
    expect(await ids.nextStringAsync()).toBe(String(first + 1n));
    expect(await ids.nextStringAsync("hex")).toBe((first + 2n).toString(16));
    await ids.close();
    await expect(ids.nextStringAsync()).rejects.toEqual(coded("LEASE_LOST"));
  });

  it("is not spent on a form that does not exist", async () => {
    const { ids, next } = await open();
    for (const name of ["base63", "constructor", "toString", "__proto__", "", null]) {
      expect(thrown(() => ids.nextString(name as EncodingName)).code).toBe("CONFIG_INVALID");
      await expect(ids.nextStringAsync(name as EncodingName)).rejects.toEqual(coded("CONFIG_INVALID"));
    }
    expect(next()).toEqual([start, 0]);
  });

  it("carries the millisecond that the wall clock shows when it is made", async () => {
    const tick = fc.oneof(fc.double({ min: 0.001, max: 3, noNaN: true }), fc.integer({ min: 1, max: 40 }));
    const history = fc.array(fc.tuple(tick, fc.integer({ min: 1, max: 3 })), { maxLength: 40 });
    await fc.assert(
      fc.asyncProperty(history, async (steps) => {
        const { clock, next } = await open();
        for (const [ms, count] of steps) {
          await clock.advance(ms);
          for (let i = 0; i < count; i++) expect(next()[0]).toBe(clock.now());
        }
      }),
      { numRuns: 50 },
    );
  });
});

describe("a tick that is full", () => {
  it("is SEQUENCE_EXHAUSTED until the next one begins", async () => {
    const { ids, clock, next } = await open();
    const made = new Set(Array.from({ length: 4096 }, () => ids.next()));
    expect(made.size).toBe(4096);
    expect(thrown(() => ids.next())).toEqual(coded("SEQUENCE_EXHAUSTED", { retryAfterMs: 1 }));
    expect(thrown(() => ids.fill(new BigUint64Array(1)))).toEqual(coded("SEQUENCE_EXHAUSTED", { retryAfterMs: 1 }));
    await clock.advance(1);
    expect(next()).toEqual([start + 1, 0]);
  });

  it("says how much of a long tick is left", async () => {
    const { ids, clock } = await open({ layout: seconds });
    await clock.advance(250);
    expect(ids.fill(new BigUint64Array(10_000))).toBe(8192);
    expect(thrown(() => ids.next())).toEqual(coded("SEQUENCE_EXHAUSTED", { retryAfterMs: 750 }));
  });

  it("is waited out by spinning where it is 1 ms long", async () => {
    const lease = await Lease.claim(
      { registry: memoryRegistry(), clock: systemClock, makeToken },
      { ...defaults, layout: small, pool: small.pool, limits: { maxClockSkew: 600_000 } },
    );
    const ids = new Snowflake(lease);
    const made = Array.from({ length: 100 }, () => ids.next());
    expect(new Set(made).size).toBe(made.length);
    await lease.close();
  });

  it("is not waited out by spinning where it is longer, nor for ever where the clock stands still", async () => {
    const spins: number[] = [];
    const clock = { ...fakeClock({ start }), spin: (wall: number) => void spins.push(wall) };
    const long = await open({ clock, layout: sonyflake, workerId: 1 });
    long.ids.fill(new BigUint64Array(256));
    expect(thrown(() => long.ids.next()).code).toBe("SEQUENCE_EXHAUSTED");
    expect(spins).toEqual([]);
    const short = await open({ clock, layout: small, workerId: 2 });
    short.ids.fill(new BigUint64Array(4));
    expect(thrown(() => short.ids.next()).code).toBe("SEQUENCE_EXHAUSTED");
    expect(spins).toEqual([start + 1]);
  });
});

describe("fill", () => {
  const ofLength = (length: number): BigUint64Array => new BigUint64Array(length);

  it.each([
    ["westid", start],
    // Below 2^52 a float64 is subnormal.
    ["timestamp:41,worker:5,sequence:7@1577836800000/1", start],
    ["timestamp:21,worker:2,sequence:12@1699999998000/1", start],
    [sonyflake.fingerprint, start],
    ["timestamp:31,sequence:21,worker:11@1699999000000/1", start],
    ["timestamp:30,sequence:22,worker:11@1699999000000/1", start],
    // The last ticks of 63 bits: as float64 these IDs are no numbers.
    ["westid", westid.endOfLife - 100_000],
    ["timestamp:41,worker:5,sequence:17@1490346283706/1", westid.endOfLife - 100_000],
  ])("makes the same IDs as next, in %s at %i", async (name, at) => {
    const layout = Layout.parse(name);
    for (const length of [1, 2, 3, 7, 8, 9, 15, 16, 17, 120]) {
      const [one, other] = [
        await open({ layout, workerId: 3, clock: fakeClock({ start: at }) }),
        await open({ layout, workerId: 3, clock: fakeClock({ start: at }) }),
      ];
      expect([one.ids.next(), one.ids.next()]).toEqual([other.ids.next(), other.ids.next()]);
      const target = ofLength(length);
      expect(one.ids.fill(target)).toBe(length);
      expect(Array.from(target)).toEqual(Array.from({ length }, () => other.ids.next()));
      expect(one.ids.next()).toBe(other.ids.next());
    }
  });

  it.each(["timestamp:31,sequence:21,worker:11@1699999000000/1", "timestamp:30,sequence:22,worker:11@1699999000000/1"])(
    "leaves the sequences behind it to next, to the end of %s",
    async (notation) => {
      const layout = Layout.parse(notation);
      const { ids, next } = await open({ layout });
      const most = layout.maxSequence;
      expect(ids.fill(ofLength(most - 1))).toBe(most - 1);
      expect([next(), next()]).toEqual([
        [start, most - 1],
        [start, most],
      ]);
      expect(thrown(() => ids.next()).code).toBe("SEQUENCE_EXHAUSTED");
    },
  );

  it("gives the rest of the tick", async () => {
    const { ids, next } = await open();
    expect(next()).toEqual([start, 0]);
    const target = ofLength(5000);
    expect(ids.fill(target)).toBe(4095);
    expect(westid.decompose(target[4094] ?? 0n)).toMatchObject({ timestamp: start, sequence: 4095 });
    expect(Array.from(target.subarray(4095))).toEqual(Array.from({ length: 905 }, () => 0n));
    expect(new Set(target.subarray(0, 4095)).size).toBe(4095);
  });

  it("opens the next tick when it is called in it", async () => {
    const { ids, clock, next } = await open();
    ids.fill(ofLength(10));
    await clock.advance(1);
    const target = ofLength(2);
    ids.fill(target);
    expect(westid.decompose(target[0] ?? 0n)).toMatchObject({ timestamp: start + 1, sequence: 0 });
    expect(next()).toEqual([start + 1, 2]);
  });

  it("writes into its part of a shared buffer only", async () => {
    const { ids } = await open();
    const whole = ofLength(40);
    expect(ids.fill(whole.subarray(10, 30))).toBe(20);
    expect(whole.findIndex((id) => id !== 0n)).toBe(10);
    expect(whole.findLastIndex((id) => id !== 0n)).toBe(29);
    expect(new Set(whole).size).toBe(21);
  });

  it("uses no ID for an empty array or a wrong target", async () => {
    const { ids, next } = await open();
    expect(ids.fill(ofLength(0))).toBe(0);
    for (const target of [[0n, 0n], new BigInt64Array(2), new Float64Array(2), 3, undefined]) {
      expect(thrown(() => ids.fill(target as unknown as BigUint64Array)).code).toBe("CONFIG_INVALID");
    }
    expect(next()).toEqual([start, 0]);
  });
});

describe("a window", () => {
  it("ends with its last millisecond, and opens again when a renewal succeeds", async () => {
    const { clock, lease, ids, next, wire } = await open();
    wire.cut = true;
    await clock.advance(59_999);
    expect(lease.until).toBe(start + 60_000);
    expect(next()).toEqual([start + 59_999, 0]);
    await clock.advance(1);
    expect(thrown(() => ids.next())).toEqual(coded("LEASE_EXPIRED", { until: start + 60_000, clock: start + 60_000 }));
    expect(thrown(() => ids.fill(new BigUint64Array(1))).code).toBe("LEASE_EXPIRED");
    wire.cut = false;
    await lease.renew();
    expect(next()).toEqual([start + 60_000, 0]);
  });

  it.each([
    // Windows of 100.003 s from a millisecond within a tick: the tick that holds `until` is not wholly in it.
    [sonyflake, 4, 60_003, 60_000],
    [seconds, 400, 60_003, 60_000],
    [seconds, 400, 60_600, 61_000],
  ])("ends with its last whole tick", async (layout, into, window, usable) => {
    const clock = fakeClock({ start: start + into });
    const { lease, ids, next, wire } = await open({ clock, layout, window });
    wire.cut = true;
    expect(lease.until).toBe(start + into + window);
    await clock.advance(usable - into - 0.5);
    expect(next()).toEqual([start + usable - layout.tick, 0]);
    await clock.advance(0.5);
    expect(thrown(() => ids.next()).code).toBe("LEASE_EXPIRED");
  });

  it.each([
    [westid, 0, 0],
    [sonyflake, 4, 10],
    [seconds, 400, 1000],
  ])("begins with its first whole tick", async (layout, into, usable) => {
    const clock = fakeClock({ start: start + into });
    const { lease, ids, next } = await open({ clock, layout, onLost: "stop" });
    expect(lease.from).toBe(start + into - 10_000);
    clock.step(usable - into - 10_001);
    expect(thrown(() => ids.next())).toEqual(coded("CLOCK_ROLLBACK", { retryAfterMs: 1 }));
    await clock.advance(1);
    expect(next()).toEqual([start + usable - 10_000, 0]);
  });

  it("that a quarantine has raised is WINDOW_NOT_OPEN until its first whole tick", async () => {
    const clock = fakeClock({ start });
    const { registry, lease, ids, next } = await quarantined(clock, start + 4300, seconds);
    await lease.renew();
    expect(lease.from).toBe(start + 4300);
    await clock.advance(4999);
    expect(thrown(() => ids.next())).toEqual(coded("WINDOW_NOT_OPEN", { from: start + 5000, retryAfterMs: 1 }));
    await clock.advance(1);
    expect(next()).toEqual([start + 5000, 0]);
    await ids.close();
    expect((await registry.worker("default", 7))?.recents).toBeUndefined();
  });

  it("that a quarantine raises among IDs closes the ticks before its new begin, though the old window had them", async () => {
    const clock = fakeClock({ start });
    const { lease, ids, next } = await quarantined(clock, start + 20);
    expect(next()).toEqual([start, 0]);
    await clock.advance(1);
    expect(next()).toEqual([start + 1, 0]);
    await lease.renew();
    for (const at of [2, 3, 19]) {
      await clock.advance(start + at - clock.now());
      expect(thrown(() => ids.next())).toEqual(coded("WINDOW_NOT_OPEN", { from: start + 20, retryAfterMs: 20 - at }));
    }
    await clock.advance(1);
    expect(next()).toEqual([start + 20, 0]);
  });

  it("has no tick past the end of the layout", async () => {
    const clock = fakeClock({ start: westid.endOfLife - 1 });
    const { ids, next } = await open({ clock });
    expect(next()).toEqual([westid.endOfLife - 1, 0]);
    await clock.advance(1);
    expect(thrown(() => ids.next()).code).toBe("LAYOUT_EXPIRED");
  });
});

/** A holder whose next renewals answer with a window that begins later. */
async function quarantined(clock: FakeClock, from: number, layout: Layout = westid): Promise<Setting> {
  const registry = memoryRegistry({ clock });
  return open({
    clock,
    layout,
    registry: {
      ...registry,
      async renew(request: RenewRequest) {
        const answer = await registry.renew(request);
        return answer.outcome === "renewed" ? { ...answer, from } : answer;
      },
    },
  });
}

describe("nextAsync", () => {
  it("gives the next ID at once when there is one", async () => {
    const { ids, next } = await open();
    expect(westid.decompose(await ids.nextAsync())).toMatchObject({ timestamp: start, sequence: 0 });
    expect(westid.decompose(await ids.nextAsync())).toMatchObject({ timestamp: start, sequence: 1 });
    expect(next()).toEqual([start, 2]);
  });

  it("waits for the next tick, and gives each of many waiters its own ID", async () => {
    const { ids, clock } = await open({ layout: small });
    const waiting = Array.from({ length: 10 }, () => ids.nextAsync());
    await clock.advance(10);
    const made = (await Promise.all(waiting)).map((id) => small.decompose(id));
    const ticks = made.map(({ timestamp, sequence }) => (timestamp - start) * 4 + sequence);
    expect(ticks.toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });

  it("serves waiting callers in order of arrival, before callers that never pause", async () => {
    const { ids, clock } = await open({ layout: small });
    let greedy = 0;
    let closed = false;
    const rush = async (): Promise<void> => {
      for (; !closed; greedy++) await ids.nextAsync({ timeout: 60_000 });
    };
    const rushing = Array.from({ length: 6 }, rush);
    await settled();
    const served: number[] = [];
    const patient = Array.from({ length: 8 }, async (_, i) => {
      await ids.nextAsync();
      served.push(i);
    });
    await clock.advance(10);
    expect(served).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    await Promise.all(patient);
    expect(greedy).toBeGreaterThan(8);
    closed = true;
    await clock.advance(10);
    await Promise.all(rushing);
  });

  it("lets no caller overtake waiting ones, also where a timer is late", async () => {
    const { ids, clock } = await open({ layout: small });
    ids.fill(new BigUint64Array(4));
    const first = ids.nextAsync();
    await settled();
    clock.step(1);
    const second = ids.nextAsync();
    await clock.advance(1);
    expect(await first).toBeLessThan(await second);
  });

  it("rejects a queued caller after its own timeout", async () => {
    const layout = Layout.parse("timestamp:41,worker:10,sequence:1@1490346283706/50");
    const { ids, clock } = await open({ layout });
    ids.fill(new BigUint64Array(2));
    await clock.advance(50 - ((start - layout.epoch) % 50));
    ids.fill(new BigUint64Array(2));
    const states = watch(...[5000, 120, 5000, 60, 5000, 30].map((timeout) => ids.nextAsync({ timeout })));
    await clock.advance(29);
    expect(states).toEqual(["pending", "pending", "pending", "pending", "pending", "pending"]);
    await clock.advance(2);
    expect(states).toEqual(["pending", "pending", "pending", "pending", "pending", "SEQUENCE_EXHAUSTED"]);
    await clock.advance(20);
    expect(states.slice(0, 5)).toEqual(["resolved", "resolved", "pending", "pending", "pending"]);
    await clock.advance(11);
    expect(states.slice(2, 5)).toEqual(["pending", "SEQUENCE_EXHAUSTED", "pending"]);
    await clock.advance(40);
    expect(states.slice(2, 5)).toEqual(["resolved", "SEQUENCE_EXHAUSTED", "resolved"]);
  });

  it("refuses all waiting callers when the lease is given back", async () => {
    const { ids, clock } = await open({ layout: small });
    ids.fill(new BigUint64Array(4));
    const states = watch(...Array.from({ length: 3 }, () => ids.nextAsync()));
    await settled();
    await ids.close();
    await clock.advance(2);
    expect(states).toEqual(["LEASE_LOST", "LEASE_LOST", "LEASE_LOST"]);
  });

  it("waits for the window to open", async () => {
    const clock = fakeClock({ start });
    const { ids, lease } = await quarantined(clock, start + 3000);
    await lease.renew();
    const waiting = ids.nextAsync();
    await clock.advance(3000);
    expect(westid.decompose(await waiting).timestamp).toBe(start + 3000);
  });

  it("waits for a renewal, and wakes with it", async () => {
    const { ids, clock, lease, wire } = await open();
    wire.cut = true;
    await clock.advance(60_000);
    const waiting = ids.nextAsync();
    await settled();
    wire.cut = false;
    await lease.renew();
    expect(westid.decompose(await waiting).timestamp).toBe(start + 60_000);
  });

  it("rejects after the timeout with the error that it waited to pass", async () => {
    const { ids, clock, wire } = await open();
    wire.cut = true;
    await clock.advance(60_000);
    const [short, standard] = [ids.nextAsync({ timeout: 100 }), ids.nextAsync()];
    const states = watch(short, standard);
    await clock.advance(99.9);
    expect(states).toEqual(["pending", "pending"]);
    await clock.advance(0.2);
    expect(states).toEqual(["LEASE_EXPIRED", "pending"]);
    await clock.advance(4899);
    expect(states).toEqual(["LEASE_EXPIRED", "pending"]);
    await clock.advance(2);
    expect(states).toEqual(["LEASE_EXPIRED", "LEASE_EXPIRED"]);
    await expect(ids.nextAsync({ timeout: 0 })).rejects.toEqual(coded("LEASE_EXPIRED"));
    for (const timeout of ["0", "0ms"]) {
      await expect(ids.nextStringAsync("hex", { timeout })).rejects.toEqual(coded("LEASE_EXPIRED"));
    }
  });

  it("rejects with the signal's reason when it is aborted, before and while it waits", async () => {
    const { ids, clock, next, wire } = await open();
    const reason = new Error("enough");
    await expect(ids.nextAsync({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect(next()).toEqual([start, 0]);
    ids.fill(new BigUint64Array(4096));
    const stop = new AbortController();
    const forTick = ids.nextAsync({ signal: stop.signal });
    await settled();
    stop.abort(reason);
    await expect(forTick).rejects.toBe(reason);
    wire.cut = true;
    await clock.advance(60_000);
    const again = new AbortController();
    const forRenewal = ids.nextAsync({ signal: again.signal });
    await settled();
    again.abort(reason);
    await expect(forRenewal).rejects.toBe(reason);
  });

  it("leaves no listener behind when it has waited", async () => {
    const { ids, clock, lease, wire } = await open();
    const onChange = lease.onChange.bind(lease);
    let listeners = 0;
    lease.onChange = (listener) => {
      const remove = onChange(listener);
      listeners++;
      return () => {
        listeners--;
        return remove();
      };
    };
    wire.cut = true;
    await clock.advance(60_000);
    const { signal } = new AbortController();
    const waiting = expect(ids.nextAsync({ signal, timeout: 50 })).rejects.toEqual(coded("LEASE_EXPIRED"));
    await settled();
    expect([listeners, getEventListeners(signal, "abort").length]).toEqual([1, 1]);
    await clock.advance(50);
    await waiting;
    expect([listeners, getEventListeners(signal, "abort").length]).toEqual([0, 0]);
  });

  it("is refused when the lease is given back while it waits", async () => {
    const { ids, clock, wire } = await open();
    wire.cut = true;
    await clock.advance(60_000);
    const states = watch(ids.nextAsync());
    await settled();
    await ids.close();
    await settled();
    expect(states).toEqual(["LEASE_LOST"]);
  });

  it("refuses an invalid timeout", async () => {
    const { ids } = await open();
    for (const timeout of [Number.NaN, -1, "abc" as unknown as number]) {
      await expect(ids.nextAsync({ timeout })).rejects.toEqual(coded("CONFIG_INVALID"));
    }
  });
});

/** What has become of each so far. */
function watch(...promises: readonly Promise<unknown>[]): string[] {
  const states = promises.map(() => "pending");
  for (const [i, promise] of promises.entries()) {
    promise.then(
      () => (states[i] = "resolved"),
      (error: unknown) => (states[i] = isSnowleaseError(error) ? error.code : String(error)),
    );
  }
  return states;
}

describe("the usage sent to the registry", () => {
  it("at a renewal is the newest tick and its highest sequence", async () => {
    const { clock, ids, lease, registry } = await open();
    await lease.renew();
    expect((await registry.worker("default", 7))?.checkpoint).toBeUndefined();
    ids.fill(new BigUint64Array(5));
    await lease.renew();
    expect((await registry.worker("default", 7))?.checkpoint).toEqual({ timestamp: start, sequence: 4 });
    await clock.advance(7);
    ids.next();
    clock.step(-3);
    await clock.advance(1);
    ids.next();
    await lease.renew();
    expect((await registry.worker("default", 7))?.checkpoint).toEqual({ timestamp: start + 7, sequence: 0 });
  });

  it.each([
    [westid, start + 8, start],
    [sonyflake, start + 10, start],
    [seconds, start + 1000, start],
  ])("at the end has the end of the window, and every used tick", async (layout, until, first) => {
    const { clock, ids, registry } = await open({ layout });
    ids.fill(new BigUint64Array(3));
    await clock.advance(7);
    ids.next();
    await ids.close();
    const record = await registry.worker("default", 7);
    expect(record).toMatchObject({ clean: true, until, checkpoint: { timestamp: until - layout.tick } });
    const listed = listRecents(layout, record?.recents ?? { from: 0, bytes: new Uint8Array() });
    const used =
      layout === westid
        ? [
            [first, 2],
            [first + 7, 0],
          ]
        : [[first, 3]];
    expect(listed.map(([tick, sequence]) => [layout.timeOf(tick), sequence])).toEqual(used);
    expect(record?.recents?.from).toBe(until - layout.tick - 10_000);
  });

  it("at the end of a lease without IDs has no ticks", async () => {
    const { ids, lease, registry } = await open();
    await ids.close();
    expect(await registry.worker("default", 7)).toMatchObject({
      clean: true,
      until: lease.from,
      recents: { from: lease.from },
    });
  });

  it("lets the next holder continue, in the tick that the last one was in", async () => {
    const clock = fakeClock({ start });
    const registry = memoryRegistry({ clock });
    const one = await open({ clock, registry });
    expect([one.next(), one.next()]).toEqual([
      [start, 0],
      [start, 1],
    ]);
    await one.ids.close();
    const two = await open({ clock, registry });
    expect(two.lease.from).toBe(start + 1);
    expect([two.next(), two.next()]).toEqual([
      [start, 2],
      [start, 3],
    ]);
    await two.ids.close();
    const recents = (await registry.worker("default", 7))?.recents;
    expect(recents && listRecents(westid, recents)).toEqual([[westid.tickOf(start), 3]]);
  });
});

describe("a generator's end", () => {
  it("comes with close: every way to an ID is LEASE_LOST", async () => {
    const { ids, clock, lease } = await open();
    ids.next();
    const closing = ids.close();
    // At once, and not only when the registry has answered.
    expect(thrown(() => ids.next()).code).toBe("LEASE_LOST");
    await closing;
    await clock.advance(5);
    expect(thrown(() => ids.next()).code).toBe("LEASE_LOST");
    expect(thrown(() => ids.nextString()).code).toBe("LEASE_LOST");
    expect(thrown(() => ids.fill(new BigUint64Array(1))).code).toBe("LEASE_LOST");
    await expect(ids.nextAsync()).rejects.toEqual(coded("LEASE_LOST"));
    expect(lease.signal.aborted).toBe(false);
    await ids.close();
  });

  it("comes with close even when the registry does not answer", async () => {
    const clock = fakeClock({ start });
    const registry = lossyRegistry(memoryRegistry({ clock }), {
      lose: ({ method }) => (method === "release" ? "request" : undefined),
    });
    const { ids } = await open({ clock, registry });
    ids.next();
    await expect(ids.close()).rejects.toEqual(coded("REGISTRY_UNAVAILABLE"));
    expect(thrown(() => ids.next()).code).toBe("LEASE_LOST");
  });

  it("comes in the middle of an open tick when the registry says that the lease is lost", async () => {
    const { ids, lease, registry } = await open();
    ids.next();
    await registry.forceRelease({ namespace: "default", workerId: 7, force: true });
    await lease.renew();
    expect(lease.signal.reason).toEqual(coded("LEASE_LOST"));
    expect(thrown(() => ids.next()).code).toBe("LEASE_LOST");
  });

  it("is not the end of a lease that may switch: it goes on with another worker ID", async () => {
    const { ids, lease, registry, clock } = await open({ onLost: "switch", workerId: undefined });
    expect(westid.decompose(ids.next()).workerId).toBe(0);
    await registry.pin("default", 0, "wanted elsewhere");
    await registry.forceRelease({ namespace: "default", workerId: 0, force: true });
    await lease.renew();
    await clock.advance(1);
    expect(westid.decompose(ids.next())).toMatchObject({ workerId: 1, timestamp: start + 1, sequence: 0 });
    await ids.close();
    expect(await registry.worker("default", 1)).toMatchObject({ clean: true, until: start + 2 });
  });

  it("is not the end of such a lease, and the new worker ID's usage has nothing of the old one", async () => {
    const { lease, registry, clock, ids } = await open({ onLost: "switch", workerId: undefined });
    await clock.advance(5);
    ids.next();
    await registry.pin("default", 0, "wanted elsewhere");
    await registry.forceRelease({ namespace: "default", workerId: 0, force: true });
    await lease.renew();
    await clock.advance(1);
    await lease.renew();
    expect(await registry.worker("default", 1)).toMatchObject({ state: "live", checkpoint: undefined });
    await ids.close();
    expect(await registry.worker("default", 1)).toMatchObject({
      clean: true,
      until: lease.from,
      checkpoint: undefined,
    });
  });

  it("comes with seal()", async () => {
    const { ids } = await open();
    ids.next();
    expect(ids.seal()).toMatchObject({ until: start + 1, checkpoint: { timestamp: start, sequence: 0 } });
    expect(thrown(() => ids.next()).code).toBe("LEASE_LOST");
    expect(thrown(() => ids.fill(new BigUint64Array(1))).code).toBe("LEASE_LOST");
  });

  it("is also the end of `await using`", async () => {
    const { ids } = await open();
    await ids[Symbol.asyncDispose]();
    expect(thrown(() => ids.next()).code).toBe("LEASE_LOST");
  });
});

describe("two generators", () => {
  it("are refused on one lease, and the first goes on", async () => {
    const { ids, lease, next } = await open();
    next();
    expect(thrown(() => new Snowflake(lease)).code).toBe("CONFIG_INVALID");
    expect(next()).toEqual([start, 1]);
    expect(ids.lease).toBe(lease);
  });
});
