import { describe, expect, it, onTestFinished } from "vitest";
import { Layout, layouts } from "../../src/id/layout.ts";
import { Lease } from "../../src/lease/lease.ts";
import { snowlease } from "../../src/snowlease.ts";
import { fakeClock, memoryRegistry } from "../../src/testing.ts";
import { coded, defaults, makeToken, open, seconds, sonyflake, start, thrown } from "../support/generator.ts";

// `start` is the beginning of a second.
const small = Layout.parse("timestamp:31,worker:5,sequence:2@1463673600000/1000");

describe.each([
  ["1 s", seconds],
  ["10 ms", sonyflake],
])("a window that begins and ends inside a tick of %s", (_, layout) => {
  const { tick } = layout;
  const inside = tick / 10;

  it("holds whole ticks only", async () => {
    const clock = fakeClock({ start: start + inside });
    const registry = memoryRegistry({ clock });
    const first = await open({ layout, clock, registry, window: 4 * tick });
    expect(first.lease.until).toBe(start + inside + 4 * tick);
    await first.lease.orphan();
    await clock.advance(4 * tick);

    const { lease, wire, ids, next } = await open({ layout, clock, registry, window: 4 * tick });
    expect([lease.from, lease.until]).toEqual([start + inside + 4 * tick, start + inside + 8 * tick]);
    wire.cut = true;
    // The window contains only a part of its first and of its last tick.
    expect(thrown(() => ids.next())).toEqual(coded("WINDOW_NOT_OPEN", { retryAfterMs: tick - inside }));
    await clock.advance(tick - inside - 1);
    expect(thrown(() => ids.next())).toEqual(coded("WINDOW_NOT_OPEN", { retryAfterMs: 1 }));
    await clock.advance(1);
    expect(next()).toEqual([start + 5 * tick, 0]);
    await clock.advance(3 * tick - 1);
    expect(next()).toEqual([start + 7 * tick, 0]);
    await clock.advance(1);
    expect(thrown(() => ids.next())).toEqual(coded("LEASE_EXPIRED", { until: start + inside + 8 * tick }));
  });
});

describe("a claim after a crash", () => {
  async function crashed(claimTimeout: number) {
    const clock = fakeClock({ start: start + 300 });
    const registry = memoryRegistry({ clock });
    const first = await open({ layout: seconds, clock, registry, window: 4000 });
    const { until } = first.lease;
    expect(until).toBe(start + 4300);
    await first.lease.orphan();
    await clock.advance(4000);
    const claiming = open({ layout: seconds, clock, registry, window: 4000, claimTimeout });
    return { clock, claiming };
  }

  it("inside the tick in which the window ended opens with the next tick", async () => {
    const { clock, claiming } = await crashed(0);
    const { ids, lease } = await claiming;
    expect(lease.from).toBe(start + 4300);
    expect(thrown(() => ids.next())).toEqual(coded("WINDOW_NOT_OPEN", { retryAfterMs: 700, from: start + 5000 }));
    const waiting = ids.nextAsync();
    await clock.advance(700);
    expect(seconds.decompose(await waiting)).toMatchObject({ timestamp: start + 5000, sequence: 0 });
  });

  it("waits for its window to open, if it may", async () => {
    const { clock, claiming } = await crashed(700);
    let claimed = false;
    void claiming.then(() => (claimed = true));
    await clock.advance(699);
    expect(claimed).toBe(false);
    await clock.advance(1);
    const { next } = await claiming;
    expect(next()).toEqual([start + 5000, 0]);
  });
});

describe("a restart within one tick", () => {
  it("goes on after the times used in it", async () => {
    const { clock, registry, ids, next } = await open({ layout: seconds });
    await clock.advance(100);
    expect([next(), next()]).toEqual([
      [start, 0],
      [start, 1],
    ]);
    await ids.close();
    const second = await open({ layout: seconds, clock, registry });
    expect(second.lease.from).toBe(start + 1000);
    expect(second.next()).toEqual([start, 2]);
    await second.ids.close();
    const third = await open({ layout: seconds, clock, registry });
    expect(third.next()).toEqual([start, 3]);
    await clock.advance(900);
    expect(third.next()).toEqual([start + 1000, 0]);
  });

  it("that was full waits for the next one", async () => {
    const { clock, registry, ids } = await open({ layout: small });
    expect(ids.fill(new BigUint64Array(9))).toBe(4);
    await ids.close();
    const second = await open({ layout: small, clock, registry });
    expect(thrown(() => second.ids.next())).toEqual(coded("SEQUENCE_EXHAUSTED", { retryAfterMs: 1000 }));
    await clock.advance(1000);
    expect(second.next()).toEqual([start + 1000, 0]);
  });

  it("hands over at most the ticks of 10 s, and the clock may go back in them", async () => {
    const { clock, registry, ids, next } = await open({ layout: seconds });
    for (let i = 0; i < 15; i++) {
      expect(next()).toEqual([start + i * 1000, 0]);
      await clock.advance(1000);
    }
    await ids.close();
    clock.step(-11_000);
    const second = await open({ layout: seconds, clock, registry });
    expect(second.lease.snapshot?.knownFrom).toBe(start + 4000);
    expect(second.next()).toEqual([start + 4000, 1]);
    await second.ids.close();
    clock.step(-1);
    await expect(open({ layout: seconds, clock, registry })).rejects.toEqual(coded("WORKER_ID_HELD"));
  });
});

describe("a full tick", () => {
  it("of 1 s is SEQUENCE_EXHAUSTED for the rest of it", async () => {
    const { clock, ids } = await open({ layout: small });
    await clock.advance(250);
    expect(ids.fill(new BigUint64Array(9))).toBe(4);
    expect(thrown(() => ids.next())).toEqual(coded("SEQUENCE_EXHAUSTED", { retryAfterMs: 750 }));
    expect(thrown(() => ids.fill(new BigUint64Array(1)))).toEqual(coded("SEQUENCE_EXHAUSTED", { retryAfterMs: 750 }));
  });

  it("gives waiting callers the rest of the last few ticks, newest first, and only since the claim", async () => {
    const { clock, ids, next } = await open({ layout: small, window: 20_000 });
    await clock.advance(6000);
    expect(next()).toEqual([start + 6000, 0]);
    await clock.advance(1000);
    expect(ids.fill(new BigUint64Array(9))).toBe(4);
    const made: (readonly number[])[] = [];
    for (let i = 0; i < 15; i++) {
      const { timestamp, sequence } = small.decompose(await ids.nextAsync());
      made.push([timestamp - start, sequence]);
    }
    const ticks = [6000, 6000, 6000, 5000, 5000, 5000, 5000, 4000, 4000, 4000, 4000, 3000, 3000, 3000, 3000];
    expect(made.map(([ms]) => ms)).toEqual(ticks);
    expect(made.slice(0, 4)).toEqual([
      [6000, 1],
      [6000, 2],
      [6000, 3],
      [5000, 0],
    ]);
    await expect(ids.nextAsync({ timeout: 0 })).rejects.toEqual(coded("SEQUENCE_EXHAUSTED", { retryAfterMs: 1000 }));
    const waiting = ids.nextAsync();
    await clock.advance(1000);
    expect(small.decompose(await waiting)).toMatchObject({ timestamp: start + 8000, sequence: 0 });
  });

  it("right after the claim leaves waiting callers only the next tick", async () => {
    const { clock, ids } = await open({ layout: small });
    ids.fill(new BigUint64Array(4));
    await expect(ids.nextAsync({ timeout: 0 })).rejects.toEqual(coded("SEQUENCE_EXHAUSTED"));
    await clock.advance(1000);
    expect(small.decompose(await ids.nextAsync()).timestamp).toBe(start + 1000);
  });
});

describe("ticks of a minute", () => {
  it("are made without a break in the longest window of a namespace without limits", async () => {
    const layout = Layout.parse("timestamp:30,worker:10,sequence:12@1490346283706/60000");
    const clock = fakeClock({ start: start + 1 });
    const ids = await snowlease({ registry: memoryRegistry({ clock }), clock, layout: layout.fingerprint });
    onTestFinished(() => ids.close());
    expect(ids.lease.until - clock.now()).toBe(120_000);
    // The first tick is complete within a minute.
    await clock.advance(60_000);
    for (let second = 0; second < 600; second++) {
      const { timestamp } = layout.decompose(ids.next(), clock.now());
      expect(timestamp).toBeGreaterThan(clock.now() - 60_000);
      await clock.advance(1000);
    }
  });
});

describe("the last tick of a layout", () => {
  it.each([
    ["1 ms", Layout.parse("timestamp:21,worker:5,sequence:3@1699998000000")],
    ["1 s", Layout.parse("timestamp:21,worker:5,sequence:3@1600000000000/1000")],
  ])("of %s is used to its end, and is the last one", async (_, layout) => {
    const clock = fakeClock({ start: layout.endOfLife - 1 });
    const { ids, lease, registry } = await open({ layout, clock });
    const id = ids.next();
    expect(id).toBe(layout.encode(layout.maxTick, 7, 0));
    expect(lease.until).toBeGreaterThan(layout.endOfLife);
    await clock.advance(1);
    expect(thrown(() => ids.next())).toMatchObject({ code: "LAYOUT_EXPIRED", retryable: false });
    await expect(ids.nextAsync()).rejects.toEqual(coded("LAYOUT_EXPIRED"));
    await ids.close();
    expect(await registry.worker("default", 7)).toMatchObject({ clean: true, until: layout.endOfLife });
    await expect(open({ layout, clock, registry })).rejects.toEqual(coded("LAYOUT_EXPIRED"));
  });

  it("ends claims, too: the registry gets no request", async () => {
    const clock = fakeClock({ start: Date.parse("2026-11-20T00:00:00Z") });
    const registry = memoryRegistry({ clock });
    const host = { registry, clock, makeToken };
    const options = { ...defaults, layout: layouts.uid, pool: layouts.uid.pool };
    await expect(Lease.claim(host, options)).rejects.toEqual(coded("LAYOUT_EXPIRED"));
    expect(await registry.describe("default")).toBeUndefined();
  });
});

describe("numbers", () => {
  it.each([layouts.safe53, layouts.scene])("of $name are the IDs, exactly", async (layout) => {
    const { clock, ids } = await open({ layout });
    for (let tick = 0; tick < 3; tick++) {
      const made = [BigInt(ids.nextNumber()), ids.next(), BigInt(ids.nextNumber())];
      expect(made).toEqual([0, 1, 2].map((sequence) => layout.encode(layout.tickOf(start) + tick, 7, sequence)));
      await clock.advance(1);
    }
    ids.fill(new BigUint64Array(layout.maxSequence + 1));
    expect(thrown(() => ids.nextNumber())).toEqual(coded("SEQUENCE_EXHAUSTED"));
    await ids.close();
    expect(thrown(() => ids.nextNumber())).toEqual(coded("LEASE_LOST"));
  });

  it("of more bits than a number has are refused, even while a tick is open", async () => {
    const { clock, ids } = await open();
    expect(thrown(() => ids.nextNumber())).toEqual(coded("CONFIG_INVALID"));
    await clock.advance(0.9);
    ids.next();
    await clock.advance(0.1);
    ids.next();
    expect(thrown(() => ids.nextNumber()).message).toContain("Expected `layout` to have at most 53 bits, got ");
  });
});

describe("scene", () => {
  it("never makes 0", async () => {
    const { scene } = layouts;
    const begin = scene.epoch + 2 ** 21 * 100_000;
    const clock = fakeClock({ start: begin });
    const { ids } = await open({ layout: scene, clock, workerId: 0 });
    expect(scene.encode(scene.tickOf(begin), 0, 0)).toBe(0n);
    expect(ids.next()).toBe(1n);
    const rest = new BigUint64Array(40);
    expect(ids.fill(rest)).toBe(30);
    expect(rest[29]).toBe(31n);
    const other = await open({ layout: scene, clock, workerId: 1 });
    expect(other.ids.next()).toBe(32n);
  });

  it("makes the same again only after a wrap", async () => {
    const { scene } = layouts;
    const { clock, ids, lease } = await open({ layout: scene });
    const id = ids.next();
    clock.step(2 ** 21);
    await lease.renew();
    expect(ids.next()).toBe(id);
    expect(scene.decompose(id, start + 1000).timestamp).toBe(start);
    expect(scene.decompose(id, clock.now()).timestamp).toBe(start + 2 ** 21);
  });
});
