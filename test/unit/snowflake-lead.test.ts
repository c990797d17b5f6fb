import { describe, expect, it } from "vitest";
import { Layout, layouts } from "../../src/id/layout.ts";
import { Lease } from "../../src/lease/lease.ts";
import { listRecents } from "../../src/generator/recent-ticks.ts";
import { Snowflake } from "../../src/generator/snowflake.ts";
import type { Mode } from "../../src/generator/tick-allocator.ts";
import { snowlease } from "../../src/snowlease.ts";
import { fakeClock, memoryRegistry } from "../../src/testing.ts";
import {
  coded,
  defaults,
  makeToken,
  open as openAny,
  seconds,
  type Setting,
  sonyflake,
  start,
  thrown,
  type Wish,
} from "../support/generator.ts";

/** Four IDs a tick. */
const small = Layout.parse("timestamp:41,worker:10,sequence:2@1490346283706/1");

const open = (wish: Wish = {}): Promise<Setting> => openAny({ mode: "lead", layout: small, ...wish });

/** The next IDs as pairs: ms after `start`, sequence. */
function pairs({ next }: Setting, count: number): (readonly [number, number])[] {
  return Array.from({ length: count }, () => {
    const [timestamp, sequence] = next();
    return [timestamp - start, sequence] as const;
  });
}

describe("lead mode", () => {
  it("goes on with the next tick if one is full, and takes the clock's tick if that is later", async () => {
    const setting = await open();
    expect(pairs(setting, 9)).toEqual([
      ...[0, 1, 2, 3].map((sequence) => [0, sequence]),
      ...[0, 1, 2, 3].map((sequence) => [1, sequence]),
      [2, 0],
    ]);
    await setting.clock.advance(1);
    expect(pairs(setting, 2)).toEqual([
      [2, 1],
      [2, 2],
    ]);
    await setting.clock.advance(4);
    expect(pairs(setting, 1)).toEqual([[5, 0]]);
  });

  it("never goes back when the clock does, and reports the rollback", async () => {
    const setting = await open();
    const { clock, ids, rollbacks } = setting;
    pairs(setting, 3);
    clock.step(-3_600_000);
    expect(pairs(setting, 2)).toEqual([
      [0, 3],
      [1, 0],
    ]);
    await clock.advance(5);
    expect(pairs(setting, 1)).toEqual([[1, 1]]);
    expect(small.decompose(await ids.nextAsync({ timeout: 0 })).timestamp).toBe(start + 1);
    expect(rollbacks).toEqual([{ behind: 3_600_000, action: "continue" }]);
  });

  it.each([
    ["1 ms", small, 4],
    ["10 ms", sonyflake, 256],
    ["1 s", seconds, 8192],
  ])("with ticks of %s uses the window to its end, and goes on when it is renewed", async (_, layout, perTick) => {
    const { tick } = layout;
    const clock = fakeClock({ start: start + 300 });
    const setting = await open({ layout, clock, window: 10 * tick + 5 });
    const { ids, lease, wire, next } = setting;
    wire.cut = true;
    const begin = layout.timeOf(layout.tickOf(start + 300));
    const wholeTicks = Math.floor((lease.until - begin) / tick);
    const target = new BigUint64Array(20 * perTick);
    const count = ids.fill(target);
    expect(count).toBe(wholeTicks * perTick);
    expect(new Set(target.subarray(0, count)).size).toBe(count);
    expect(layout.decompose(target[count - 1] ?? 0n).timestamp).toBe(begin + (wholeTicks - 1) * tick);

    const used = { until: lease.until, clock: clock.now(), retryAfterMs: lease.renewsIn };
    expect(thrown(() => ids.next())).toEqual(coded("SEQUENCE_EXHAUSTED", used));
    expect(thrown(() => ids.fill(target))).toEqual(coded("SEQUENCE_EXHAUSTED", used));
    expect(lease.renewsIn).toBeGreaterThan(1);
    await expect(ids.nextAsync({ timeout: 0 })).rejects.toEqual(coded("SEQUENCE_EXHAUSTED"));

    const waiting = ids.nextAsync({ timeout: 1_000_000 });
    await clock.advance(tick);
    wire.cut = false;
    await lease.renew();
    expect(layout.decompose(await waiting)).toMatchObject({ timestamp: begin + wholeTicks * tick, sequence: 0 });
    expect(next()).toEqual([begin + wholeTicks * tick, 1]);
  });

  it("is LEASE_EXPIRED when the clock has passed the window, too", async () => {
    const { clock, ids, wire } = await open();
    wire.cut = true;
    clock.step(60_000);
    expect(thrown(() => ids.next())).toEqual(coded("LEASE_EXPIRED", { until: start + 60_000 }));
  });

  it("ends with the last tick of the layout", async () => {
    const clock = fakeClock({ start: small.endOfLife - 2 });
    const { ids } = await open({ clock });
    expect(ids.take(100).length).toBe(8);
    expect(thrown(() => ids.next())).toEqual(coded("LAYOUT_EXPIRED"));
  });

  it("begins at the raised begin of its window after a quarantine", async () => {
    const registry = memoryRegistry({ clock: fakeClock({ start }) });
    const setting = await open({
      registry: {
        ...registry,
        async renew(request) {
          const answer = await registry.renew(request);
          return answer.outcome === "renewed" ? { ...answer, from: start + 30_000 } : answer;
        },
      },
    });
    pairs(setting, 1);
    await setting.lease.renew();
    setting.clock.step(1);
    expect(pairs(setting, 1)).toEqual([[30_000, 0]]);
  });

  it("does not use rollback bits: the counter does not go back", async () => {
    const layout = Layout.parse("timestamp:41,machine:3,process:5,rollback:2,sequence:2@1580486400000");
    const setting = await open({ layout });
    const first = setting.ids.next();
    await setting.clock.advance(30_000);
    setting.ids.next();
    setting.clock.step(-30_000);
    const last = setting.ids.next();
    expect(layout.decompose(last)).toMatchObject({ rollback: 0, timestamp: start + 30_000, sequence: 1 });
    expect(last > first).toBe(true);
  });

  it("is given back without a rest: the next holder begins after it at once, and hands on the recents of both", async () => {
    const clock = fakeClock({ start });
    const registry = memoryRegistry({ clock });
    const first = await open({ clock, registry });
    expect(first.ids.take(4000).length).toBe(4000);
    await first.ids.close();
    expect(await registry.worker("default", 7)).toMatchObject({ clean: true, until: start + 1000 });

    const second = await open({ clock, registry });
    expect(second.lease.from).toBe(start + 1000);
    expect(pairs(second, 1)).toEqual([[1000, 0]]);
    await second.ids.close();
    const record = await registry.worker("default", 7);
    expect(record?.until).toBe(start + 1001);
    const recents = record?.recents ?? { from: 0, bytes: Uint8Array.of(1) };
    expect(listRecents(small, recents).length).toBe(1001);

    const other = await open({ clock, registry, mode: "wall" });
    // Every tick up to the last is full: the refusal says when that will be over.
    expect(thrown(() => other.ids.next())).toEqual(coded("SEQUENCE_EXHAUSTED", { retryAfterMs: 1000 }));
    await clock.advance(1000);
    expect(pairs(other, 1)).toEqual([[1000, 1]]);
  });

  it("is given back without a rest beyond the reach of recents, too, one lead after the other to the end of the window", async () => {
    const clock = fakeClock({ start });
    const registry = memoryRegistry({ clock });
    const all = new Set<bigint>();
    for (const [from, ms] of [
      [0, 12_000],
      [12_000, 40_000],
      [52_000, 7997],
      [59_997, 3],
    ] as const) {
      const { ids, lease } = await open({ clock, registry });
      expect(lease.until).toBe(start + 60_000);
      const made = ids.take(4 * ms);
      expect(made.length).toBe(4 * ms);
      expect(small.decompose(made[0] ?? 0n)).toMatchObject({ timestamp: start + from, sequence: 0 });
      for (const id of made) all.add(id);
      await ids.close();
    }
    expect(all.size).toBe(4 * 60_000);
    // The window cannot reach further.
    await expect(open({ clock, registry })).rejects.toEqual(coded("WORKER_ID_HELD"));
    await clock.advance(3);
    expect(pairs(await open({ clock, registry }), 1)).toEqual([[60_000, 0]]);
  });

  it("lets a holder that follows the clock rest if it led further than recents reach", async () => {
    const clock = fakeClock({ start });
    const registry = memoryRegistry({ clock });
    const first = await open({ clock, registry });
    first.ids.take(4 * 12_000);
    await first.ids.close();
    await expect(open({ clock, registry, mode: "wall" })).rejects.toEqual(coded("WORKER_ID_HELD"));
    await clock.advance(2000);
    const second = await open({ clock, registry, mode: "wall" });
    expect(thrown(() => second.ids.next())).toEqual(coded("SEQUENCE_EXHAUSTED", { retryAfterMs: 10_000 }));
    await clock.advance(10_000);
    expect(pairs(second, 1)).toEqual([[12_000, 0]]);
  });

  it("does not wait if its window begins ahead of the clock", async () => {
    const clock = fakeClock({ start });
    const registry = memoryRegistry({ clock });
    const claimTimeout = 60_000;
    const first = await open({ clock, registry, claimTimeout });
    first.ids.take(4 * 30_000);
    await first.ids.close();
    // No clock moves here: it would wait for ever.
    expect(pairs(await open({ clock, registry, claimTimeout }), 1)).toEqual([[30_000, 0]]);
  });

  it("gets a worker ID that the registry picks only if half of the window is left", async () => {
    const clock = fakeClock({ start });
    const registry = memoryRegistry({ clock });
    const any = { clock, registry, workerId: undefined };
    for (const [ms, next] of [
      [30_000, 0],
      [1, 1],
    ] as const) {
      const { ids } = await open(any);
      ids.take(4 * ms);
      await ids.close();
      const { lease } = await open(any);
      expect(lease.workerId).toBe(next);
      await lease.close();
    }
  });

  it("fills across ticks what next would make, in every width", async () => {
    for (const notation of [
      small.fingerprint,
      "westid",
      "safe53",
      "scene",
      "timestamp:31,sequence:4,worker:11@1699999000000",
    ]) {
      const layout = Layout.parse(notation);
      const [one, other] = [await open({ layout, workerId: 0 }), await open({ layout, workerId: 0 })];
      const count = Math.min(10_000, 5 * (layout.maxSequence + 1) + 3);
      expect(Array.from(one.ids.take(count))).toEqual(Array.from({ length: count }, () => other.ids.next()));
      expect(one.ids.next()).toBe(other.ids.next());
    }
  });

  it("is an option of snowlease(), and so is spread", async () => {
    const clock = fakeClock({ start });
    const registry = memoryRegistry({ clock });
    await expect(snowlease({ registry, clock, workerId: 7, spread: 3 })).rejects.toEqual(coded("CONFIG_INVALID"));
    // It makes no claim.
    expect(await registry.describe("default")).toBeUndefined();
    const ids = await snowlease({ registry, clock, workerId: 7, mode: "lead", spread: "4" });
    const made = ids.take(10 * 4096);
    expect(made.length).toBe(10 * 4096);
    const begins = Array.from(made, (id) => layouts.westid.decompose(id)).filter(({ sequence }) => sequence < 4);
    expect(new Set(begins.map(({ timestamp }) => timestamp)).size).toBeGreaterThan(9);
    expect(begins.length).toBeLessThan(40);
    await ids.close();
  });

  it("is refused by any other name, and then the lease is free for another generator", async () => {
    const clock = fakeClock({ start });
    const lease = await Lease.claim(
      { registry: memoryRegistry({ clock }), clock, makeToken },
      { ...defaults, layout: small, pool: small.pool },
    );
    for (const mode of ["Lead", "", null, 1]) {
      expect(thrown(() => new Snowflake(lease, { mode: mode as unknown as Mode })).code).toBe("CONFIG_INVALID");
    }
    expect(new Snowflake(lease).mode).toBe("wall");
  });
});

describe("take", () => {
  it("makes all available IDs, up to the requested number", async () => {
    const { ids, next } = await open({ mode: "wall" });
    expect(ids.take(0).length).toBe(0);
    expect(Array.from(ids.take(2), (id) => small.decompose(id).sequence)).toEqual([0, 1]);
    expect(Array.from(ids.take(2 ** 24), (id) => small.decompose(id).sequence)).toEqual([2, 3]);
    expect(thrown(() => ids.take(1))).toEqual(coded("SEQUENCE_EXHAUSTED"));
    for (const count of [-1, 1.5, 2 ** 24 + 1, Number.NaN, "3", undefined]) {
      expect(thrown(() => ids.take(count as number)).code).toBe("CONFIG_INVALID");
    }
    expect(thrown(() => next())).toEqual(coded("SEQUENCE_EXHAUSTED"));
  });
});

describe("spread", () => {
  const spread = 8;
  const layout = Layout.parse("timestamp:41,worker:10,sequence:4@1490346283706/1");

  it.each([1, 2, 7, 1000])("gives each shard its share of an ID every %i ms", async (ms) => {
    const { clock, ids } = await open({ mode: "wall", layout, spread });
    const shards = Array.from({ length: spread }, () => 0);
    for (let i = 0; i < 800; i++) {
      const shard = Number(ids.next() % BigInt(spread));
      shards[shard] = (shards[shard] ?? 0) + 1;
      await clock.advance(ms);
    }
    for (const count of shards) expect(Math.abs(count - 100)).toBeLessThanOrEqual(5);
  });

  it("lets sequences only rise in a tick, to its end, and continues after the highest", async () => {
    const clock = fakeClock({ start });
    const registry = memoryRegistry({ clock });
    const begins = new Set<number>();
    for (let tick = 0; tick < 50; tick++) {
      const first = await open({ mode: "wall", layout, spread, clock, registry });
      const [[, begin]] = pairs(first, 1) as [readonly [number, number]];
      begins.add(begin);
      expect(pairs(first, 2)).toEqual([
        [tick, begin + 1],
        [tick, begin + 2],
      ]);
      await first.ids.close();
      const second = await open({ mode: "wall", layout, spread, clock, registry });
      const rest = Array.from({ length: 13 - begin }, (_, i) => [tick, begin + 3 + i]);
      expect(pairs(second, rest.length)).toEqual(rest);
      expect(thrown(() => second.ids.next())).toEqual(coded("SEQUENCE_EXHAUSTED"));
      await second.ids.close();
      await clock.advance(1);
    }
    expect(begins.size).toBe(spread);
    expect(Math.max(...begins)).toBe(spread - 1);
  });

  it("varies the begin of each tick in lead mode, too", async () => {
    const { ids } = await open({ layout, spread });
    const begins = new Map<number, number>();
    for (const id of ids.take(400)) {
      const { timestamp, sequence } = layout.decompose(id);
      begins.set(timestamp, Math.min(sequence, begins.get(timestamp) ?? 16));
    }
    expect(new Set(begins.values()).size).toBe(spread);
  });

  it("must be a power of two, up to the sequences of a tick", async () => {
    for (const spread of [0, 3, 32, -2, 1.5, Number.NaN, "2" as unknown as number]) {
      await expect(open({ layout, spread })).rejects.toEqual(coded("CONFIG_INVALID"));
    }
    await open({ layout, spread: 16 });
  });
});
