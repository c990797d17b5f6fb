import { fc } from "../support/fast-check.ts";
import { describe, expect, it } from "vitest";
import { isSnowleaseError, SnowleaseError } from "../../src/id/errors.ts";
import { Layout } from "../../src/id/layout.ts";
import { Ring, type RingOptions } from "../../src/generator/ring.ts";
import { fakeClock, memoryRegistry } from "../../src/testing.ts";
import { coded, open, type Setting, start, thrown, type Wish } from "../support/generator.ts";

/** Four IDs a tick. */
const layout = Layout.parse("timestamp:41,worker:10,sequence:2@1490346283706/1");

interface RingSetting extends Setting {
  readonly ring: Ring;
  /** Timestamp, ms after `start`, and sequence of the next ID of the ring. */
  readonly take: () => readonly [number, number];
}

async function openRing(options: RingOptions = {}, wish: Wish = {}): Promise<RingSetting> {
  const setting = await open({ mode: "lead", layout, ...wish });
  const ring = new Ring(setting.ids, options);
  const take = (): readonly [number, number] => {
    const { timestamp, sequence } = layout.decompose(ring.next());
    return [timestamp - start, sequence];
  };
  return { ...setting, ring, take };
}

describe("a ring", () => {
  it("holds the IDs of 2^boost ticks, prepared from the start", async () => {
    const { ring } = await openRing({ boost: 2 });
    expect([ring.size, ring.left]).toEqual([16, 16]);
    expect((await openRing()).ring.size).toBe(32);
  });

  it("that cannot be filled at first is filled as soon as possible, even where a taker is refused", async () => {
    const { ids, clock } = await open({ mode: "lead", layout });
    const now = clock.now();
    clock.step(layout.epoch - 1 - now);
    const refusal = new Error("none left");
    const ring = new Ring(ids, {
      onEmpty: () => {
        throw refusal;
      },
    });
    expect(ring.left).toBe(0);
    expect(() => ring.next()).toThrow(refusal);
    await clock.advance(0);
    clock.step(now - clock.now());
    expect(() => ring.next()).toThrow(refusal);
    await clock.advance(0);
    expect(ring.left).toBe(ring.size);
    expect(layout.decompose(ring.next()).timestamp).toBe(start);
  });

  it("gives the generator's IDs in order, past the end of its array", async () => {
    const { ring, clock, take } = await openRing({ boost: 1 });
    const made: (readonly [number, number])[] = [];
    for (let i = 0; i < 30; i++) {
      for (let j = 0; j <= i % 7; j++) made.push(take());
      if (i % 3 === 0) await clock.advance(0);
    }
    expect(made).toEqual(made.map((_, i) => [i >> 2, i % 4]));
    expect(ring.left).toBeLessThanOrEqual(8);
  });

  it("hands out no prepared ID behind the clock once its holder was told of a quarantine", async () => {
    const clock = fakeClock({ start });
    const memory = memoryRegistry({ clock });
    const renew = (): Promise<never> => Promise.reject(new SnowleaseError("QUARANTINE", "It went back in time."));
    const { ring, lease } = await openRing({ boost: 2 }, { clock, registry: { ...memory, renew } });
    ring.next();
    await clock.advance(5000);
    expect(layout.decompose(ring.next()).timestamp).toBe(start);
    await lease.renew();
    for (let i = 0; i < 20; i++) expect(layout.decompose(ring.next()).timestamp).toBeGreaterThanOrEqual(clock.now());
  });

  it("is refilled when paddingFactor percent are left, not before", async () => {
    const { ring, clock } = await openRing({ boost: 1, paddingFactor: 25 });
    await clock.advance(0);
    for (let i = 0; i < 5; i++) ring.next();
    await clock.advance(0);
    expect(ring.left).toBe(3);
    ring.next();
    expect(ring.left).toBe(2);
    await clock.advance(0);
    expect(ring.left).toBe(8);
  });

  it("calls onEmpty when it is empty, and is filled for the taker", async () => {
    let empty = 0;
    const { ring } = await openRing({ boost: 0, onEmpty: () => void empty++ });
    for (let i = 0; i < 9; i++) ring.next();
    expect(empty).toBe(2);
    const refusal = new Error("none left");
    const throws = (): never => {
      throw refusal;
    };
    const { ring: strict, clock } = await openRing({ boost: 0, onEmpty: throws });
    for (let round = 0; round < 3; round++) {
      for (let i = 0; i < 4; i++) strict.next();
      expect(() => strict.next()).toThrow(refusal);
      await clock.advance(0);
    }
  });

  it("is filled on schedule, calls onFull when it is full, and drops IDs older than the clock", async () => {
    let full = 0;
    const { ring, clock, take } = await openRing({ boost: 1, scheduleInterval: "10ms", onFull: () => void full++ });
    await clock.advance(0);
    expect(take()).toEqual([0, 0]);
    await clock.advance(9);
    expect([ring.left, full]).toEqual([7, 0]);
    await clock.advance(1);
    expect([ring.left, full]).toEqual([8, 0]);
    expect(take()).toEqual([10, 0]);
    clock.step(-1000);
    ring.ids.take(400);
    await clock.advance(10);
    expect([ring.left, full]).toEqual([8, 0]);
    await clock.advance(10);
    expect([ring.left, full]).toEqual([8, 1]);
    expect(take()).toEqual([10, 1]);
  });

  it("gives the prepared IDs after the window has passed, and then the error", async () => {
    const { ring, clock, wire } = await openRing({ boost: 1 }, { window: 6 });
    await clock.advance(0);
    wire.cut = true;
    clock.step(6);
    for (let i = 0; i < 8; i++) ring.next();
    expect(thrown(() => ring.next())).toEqual(coded("LEASE_EXPIRED"));
  });

  it("gives the last IDs of a window, then an error, and more after a renewal", async () => {
    const { ring, clock, lease, wire, take } = await openRing({ boost: 1 }, { window: 5 });
    wire.cut = true;
    for (let i = 0; i < 20; i++) expect(take()).toEqual([i >> 2, i % 4]);
    expect(thrown(() => ring.next())).toEqual(coded("SEQUENCE_EXHAUSTED"));
    wire.cut = false;
    await clock.advance(2);
    await lease.renew();
    await clock.advance(0);
    expect(ring.left).toBe(8);
    expect(take()).toEqual([5, 0]);
  });

  it("drops prepared IDs when the lease ends, and stops its timers", async () => {
    const { ring, clock, ids } = await openRing({ boost: 1, scheduleInterval: 10 });
    await clock.advance(0);
    const closing = ring.close();
    expect(ring.left).toBe(0);
    expect(thrown(() => ring.next())).toEqual(coded("LEASE_LOST"));
    await closing;
    await clock.advance(1000);
    expect([ring.left, ids.lease.state]).toEqual([0, "closed"]);
  });

  it("goes on with the new worker ID, and no other, after a switch", async () => {
    const { ring, clock, lease, registry } = await openRing(
      { boost: 1 },
      { onLost: "switch", workerId: undefined, pool: { first: 7, last: 8 } },
    );
    await clock.advance(0);
    expect(layout.decompose(ring.next()).workerId).toBe(7);
    await registry.forceRelease({ namespace: "default", workerId: 7, force: true });
    await lease.renew();
    await clock.advance(100);
    expect(lease.workerId).toBe(8);
    expect(layout.decompose(ring.next()).workerId).toBe(8);
  });

  it("on a lease that has ended is empty, and stays so", async () => {
    const { ids, clock } = await open({ mode: "lead", layout });
    await ids.close();
    let full = 0;
    const ring = new Ring(ids, { scheduleInterval: 1, onFull: () => void full++ });
    await clock.advance(100);
    expect([ring.left, full]).toEqual([0, 0]);
    expect(thrown(() => ring.next())).toEqual(coded("LEASE_LOST"));
  });

  it("refuses a generator in wall mode, and invalid options", async () => {
    const { ids } = await open({ layout });
    expect(thrown(() => new Ring(ids)).code).toBe("CONFIG_INVALID");
    const bad: RingOptions[] = [
      { boost: -1 },
      { boost: 23 },
      { boost: 1.5 },
      { paddingFactor: 101 },
      { paddingFactor: -1 },
      { scheduleInterval: 0 },
      { scheduleInterval: Number.NaN },
      { scheduleInterval: "10" },
      { scheduleInterval: "600h" },
    ];
    const lead = await open({ layout, mode: "lead" });
    for (const options of bad) expect(thrown(() => new Ring(lead.ids, options)).code).toBe("CONFIG_INVALID");
  });
});

describe("a prepared ID", () => {
  it("is part of the usage that is given back, taken or not", async () => {
    const { ring, registry, clock } = await openRing({ boost: 4 });
    await clock.advance(0);
    ring.next();
    expect(ring.left).toBe(63);
    await ring.close();
    expect(await registry.worker("default", 7)).toMatchObject({ clean: true, until: start + 16 });
  });

  it("is part of a renewal's checkpoint", async () => {
    const { lease, registry, clock } = await openRing({ boost: 4 });
    await clock.advance(0);
    await lease.renew();
    const { checkpoint } = (await registry.worker("default", 7)) ?? {};
    expect(checkpoint).toEqual({ timestamp: start + 15, sequence: 3 });
  });

  it("is made only once, for any clock and any next holder", async () => {
    const command = fc.oneof(
      fc.record({ does: fc.constant("take" as const), amount: fc.integer({ min: 1, max: 50 }) }),
      fc.record({ does: fc.constant("advance" as const), amount: fc.constantFrom(0, 1, 3, 50, 21_000) }),
      fc.record({ does: fc.constant("step" as const), amount: fc.constantFrom(-9_000, -3, -1, 2, 500) }),
      fc.record({ does: fc.constantFrom("close" as const, "renew" as const), amount: fc.constant(0) }),
    );
    let total = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(command, { minLength: 5, maxLength: 60, size: "max" }),
        fc.integer({ min: 0, max: 3 }),
        async (commands, boost) => {
          const made = new Set<bigint>();
          const wish = { workerId: undefined, pool: { first: 0, last: 31 } };
          let setting = await openRing({ boost, scheduleInterval: 20 }, wish);
          const { clock, registry } = setting;
          let last = -1n;
          for (const { does, amount } of commands) {
            if (does === "advance") await clock.advance(amount);
            else if (does === "step") clock.step(amount);
            else if (does === "renew") await setting.lease.renew();
            else if (does === "close") {
              await setting.ring.close();
              setting = await openRing({ boost, scheduleInterval: 20 }, { ...wish, clock, registry });
              last = -1n;
            } else {
              try {
                for (let i = 0; i < amount; i++) {
                  const id = setting.ring.next();
                  expect(made.has(id)).toBe(false);
                  expect(id > last).toBe(true);
                  made.add(id);
                  last = id;
                }
              } catch (error) {
                if (!isSnowleaseError(error)) throw error;
              }
            }
          }
          total += made.size;
          await setting.ring.close();
        },
      ),
      { numRuns: 60 },
    );
    expect(total).toBeGreaterThan(1000);
  });
});
