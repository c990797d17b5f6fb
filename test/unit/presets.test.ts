import { fc } from "../support/fast-check.ts";
import { describe, expect, it } from "vitest";
import { isSnowleaseError } from "../../src/id/errors.ts";
import { Layout, layouts } from "../../src/id/layout.ts";

const { discord, instagram, mastodon, rollback, safe53, scene, sonyflake, twitter, uid, westid } = layouts;
const year = 365.2425 * 24 * 3_600_000;

function refused(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (isSnowleaseError(error, "CONFIG_INVALID")) return error.message;
    throw error;
  }
  throw new Error("Expected a refusal, got none");
}

describe("IDs of other programs", () => {
  it("a tweet", () => {
    const parts = { timestamp: Date.parse("2022-06-28T16:07:40.105Z"), workerId: 378, sequence: 0 };
    expect(twitter.decompose(1541815603606036480n)).toEqual({ ...parts, fields: { datacenter: 11, worker: 26 } });
  });

  it("a westid", () => {
    const parts = { timestamp: Date.parse("2026-11-20T12:02:04.341Z"), workerId: 0, sequence: 0 };
    expect(westid.decompose(1278549019894743040n)).toEqual({ ...parts, fields: { worker: 0 } });
  });

  it("a uid", () => {
    const parts = { timestamp: Date.parse("2019-05-02T23:26:39+08:00"), workerId: 21, sequence: 1 };
    expect(uid.decompose(3200169789968523265n)).toEqual({ ...parts, fields: { worker: 21 } });
    expect(uid.compose(parts)).toBe(3200169789968523265n);
  });
});

describe("IDs of 64 bits, whose top bit is 0", () => {
  // As Discord's documentation takes it apart.
  it("a snowflake of Discord", () => {
    const parts = { timestamp: 1_462_015_105_796, workerId: 32, sequence: 7 };
    expect(discord.decompose(175928847299117063n)).toEqual({ ...parts, fields: { worker: 1, process: 0 } });
    expect(discord.compose(parts)).toBe(175928847299117063n);
  });

  // The example of the article that introduced them: user 31,341 of 2,000 shards, the 5,001st ID of its table.
  it("an ID of Instagram", () => {
    const id = (1_387_263_000n << 23n) | (1341n << 10n) | (5001n % 1024n);
    const parts = { timestamp: 1_314_220_021_721 + 1_387_263_000, workerId: 1341, sequence: 905 };
    expect(instagram.decompose(id)).toEqual({ ...parts, fields: { shard: 1341 } });
    expect(instagram.compose(parts)).toBe(id);
  });

  // The example in the documentation of its API, whose `created_at` is 52 ms later.
  it("a status of Mastodon, which has one worker ID", () => {
    const parts = { timestamp: Date.parse("2019-12-08T03:48:33.849Z"), workerId: 0 };
    const id = 103270115826048975n;
    expect(mastodon.decompose(id)).toEqual({ ...parts, sequence: Number(id & 0xffffn), fields: {} });
    expect(mastodon.compose({ ...parts, sequence: Number(id & 0xffffn) })).toBe(id);
    expect(mastodon.pool).toEqual({ first: 0, last: 0 });
  });

  it.each([
    [discord, "2084-09-06T15:47:35.552Z"],
    [instagram, "2046-06-27T17:00:49.497Z"],
    [mastodon, "6429-10-17T02:45:55.328Z"],
  ])("$name ends before the sign of a signed column is set", (layout, end) => {
    expect(new Date(layout.endOfLife).toISOString()).toBe(end);
    const last = layout.encode(layout.maxTick, layout.pool.last, layout.maxSequence);
    expect([last, layout.totalBits]).toEqual([2n ** 63n - 1n, 63]);
    expect(layout.decompose(last).timestamp).toBe(layout.endOfLife - 1);
    expect(refused(() => layout.decompose(last + 1n))).toContain("(63 bits)");
    expect(layout.refusalAt(layout.endOfLife)).toMatchObject({ code: "LAYOUT_EXPIRED" });
  });
});

describe("a preset", () => {
  it.each([
    ["westid", 63, 1, 1023, 4095, "2017-03-24T09:04:43.706Z", "2086-11-29T00:52:19.258Z"],
    ["twitter", 63, 1, 1023, 4095, "2010-11-04T01:42:54.657Z", "2080-07-10T17:30:30.209Z"],
    ["rollback", 63, 1, 255, 4095, "2020-01-31T16:00:00.000Z", "2089-10-07T07:47:35.552Z"],
    ["uid", 63, 1000, 4_194_303, 8191, "2016-05-19T16:00:00.000Z", "2024-11-20T13:24:16.000Z"],
    ["uid-datacenter", 63, 1000, 4_194_303, 8191, "2016-05-19T16:00:00.000Z", "2024-11-20T13:24:16.000Z"],
    ["sonyflake", 63, 10, 65_535, 255, "2014-09-01T00:00:00.000Z", "2188-11-16T03:28:58.880Z"],
    ["safe53", 53, 1, 31, 127, "2020-01-01T00:00:00.000Z", "2089-09-06T15:47:35.552Z"],
  ] as const)("%s has its sizes", (name, totalBits, tick, last, maxSequence, epoch, end) => {
    const layout = layouts[name];
    expect(layout).toMatchObject({ name, totalBits, tick, pool: { first: 0, last }, maxSequence, wrap: undefined });
    expect([layout.epoch, layout.endOfLife].map((ms) => new Date(ms).toISOString())).toEqual([epoch, end]);
    expect(Layout.parse(name)).toEqual(layout);
    expect(Layout.parse(layout.fingerprint)).toEqual(layout);
  });

  it("`uid` ends years before any other", () => {
    expect(uid.refusalAt(Date.parse("2024-11-20T13:24:15.999Z"))).toBeUndefined();
    expect(uid.refusalAt(Date.parse("2024-11-20T13:24:16Z"))).toMatchObject({
      code: "LAYOUT_EXPIRED",
      message: `The timestamp bits of the layout ${uid.fingerprint} ran out on 2024-11-20T13:24:16.000Z; move to another layout.`,
    });
    const others = Object.values(layouts).filter(({ name = "" }) => !name.startsWith("uid") && name !== "instagram");
    for (const layout of others) expect(layout.endOfLife).toBeGreaterThan(Date.parse("2026-01-01Z") + 50 * year);
  });

  it("of other bits, epoch, tick or order has another fingerprint", () => {
    const fingerprints = Object.values(layouts).map(({ fingerprint }) => fingerprint);
    expect(new Set(fingerprints).size).toBe(fingerprints.length);
    const swapped = [0, 2, 1, 3].map((i) => twitter.fields[i] ?? { name: "", bits: 0 });
    const other = new Layout({ fields: swapped, epoch: twitter.epoch });
    expect(other.fingerprint).not.toBe(twitter.fingerprint);
    expect(other.split(33)).toEqual({ worker: 1, datacenter: 1 });
  });

  it("safe53 fits a number of JavaScript, to its last ID", () => {
    const last = safe53.encode(safe53.maxTick, safe53.pool.last, safe53.maxSequence);
    expect(BigInt(Number(last))).toBe(last);
    expect(Number(last)).toBe(Number.MAX_SAFE_INTEGER);
  });
});

describe("fixed fields of a preset", () => {
  it("narrow its pool to the bits that remain", () => {
    expect(rollback.narrow({ machine: 5 })).toEqual({ first: 160, last: 191 });
    expect(rollback.narrow({ machine: 5, process: 3 })).toEqual({ first: 163, last: 163 });
    expect(layouts["uid-datacenter"].narrow({ datacenter: 2 })).toEqual({ first: 2 ** 18, last: 3 * 2 ** 17 - 1 });
    expect(rollback.split(163)).toEqual({ machine: 5, process: 3 });
    refused(() => rollback.narrow({ process: 3 }));
    refused(() => rollback.narrow({ machine: 8 }));
    refused(() => rollback.narrow({ rollback: 1 }));
  });
});

describe("rollback bits", () => {
  const parts = { timestamp: 1_700_000_000_000, sequence: 9 };

  it("lie above the sequence, outside the worker ID", () => {
    const id = rollback.compose({ ...parts, machine: 5, process: 3, rollback: 2 });
    const tick = BigInt(parts.timestamp - rollback.epoch);
    expect(id).toBe((tick << 22n) | (5n << 19n) | (3n << 14n) | (2n << 12n) | 9n);
    const fields = { machine: 5, process: 3 };
    expect(rollback.decompose(id)).toEqual({ ...parts, workerId: 163, fields, rollback: 2 });
    expect(rollback).toMatchObject({ maxRollback: 3, workerBits: 8, maxSequence: 4095 });
    expect(westid).toMatchObject({ maxRollback: 0 });
    expect(westid.decompose(1278549019894743040n)).not.toHaveProperty("rollback");
  });

  it("are refused where they do not fit, or are missing", () => {
    expect(refused(() => rollback.compose({ ...parts, workerId: 1, rollback: 4 }))).toContain("`rollback`");
    refused(() => rollback.compose({ ...parts, workerId: 1, rollback: -1 }));
    refused(() => westid.compose({ ...parts, workerId: 1, rollback: 1 }));
    expect(rollback.compose({ ...parts, workerId: 1 })).toBe(rollback.compose({ ...parts, workerId: 1, rollback: 0 }));
  });
});

describe("scene", () => {
  const wrap = 2 ** 21;
  const made = 1_700_000_000_123;

  it("wraps after 34.95 minutes", () => {
    expect(scene).toMatchObject({ wrap, totalBits: 31, pool: { first: 0, last: 31 }, maxSequence: 31 });
    expect((wrap / 60_000).toFixed(2)).toBe("34.95");
    const id = scene.compose({ timestamp: made, workerId: 7, sequence: 3 });
    expect(id).toBe(((BigInt(made - scene.epoch) % 2n ** 21n) << 10n) | (7n << 5n) | 3n);
    expect(scene.compose({ timestamp: made + wrap, workerId: 7, sequence: 3 })).toBe(id);
  });

  it("never ends", () => {
    expect(scene.refusalAt(Date.parse("9999-12-31T23:59:59Z"))).toBeUndefined();
    const far = { timestamp: Date.parse("9999-12-31T23:59:59.999Z"), workerId: 1, sequence: 1 };
    expect(scene.decompose(scene.compose(far), far.timestamp)).toMatchObject(far);
  });

  it("returns the time nearest to the given one", () => {
    const place = fc.record({
      timestamp: fc.integer({ min: scene.epoch + wrap, max: 4_000_000_000_000 }),
      workerId: fc.nat(31),
      sequence: fc.nat(31),
    });
    fc.assert(
      fc.property(place, fc.integer({ min: -wrap / 2 + 1, max: wrap / 2 - 1 }), (parts, off) => {
        expect(scene.decompose(scene.compose(parts), parts.timestamp + off)).toMatchObject(parts);
      }),
    );
    const parts = { timestamp: scene.epoch + 5, workerId: 0, sequence: 0 };
    expect(scene.decompose(scene.compose(parts), scene.epoch).timestamp).toBe(scene.epoch + 5);
  });

  it("requires a time", () => {
    expect(refused(() => scene.decompose(5n))).toBe(
      `The timestamp of the layout ${scene.fingerprint} starts again every 2097152 ms; tell a time near the ID's making (\`at\`, Unix ms).`,
    );
    for (const at of [NaN, 0.5, scene.epoch - 1, "0"])
      expect(refused(() => scene.decompose(5n, at as number))).toContain(", which `");
    expect(westid.decompose(5n, NaN)).toEqual(westid.decompose(5n));
  });

  it("differs from a layout of the same bits that does not wrap", () => {
    const notation = "timestamp:21,worker:5,sequence:5@1490346283706/1";
    expect(scene.fingerprint).toBe(`${notation}/wraps`);
    expect(Layout.parse(notation)).toMatchObject({ wrap: undefined, name: undefined });
    refused(() => new Layout({ fields: scene.fields, epoch: scene.epoch, wraps: 1 as never }));
  });
});

describe("the range of a span", () => {
  const endless = Object.values(layouts).filter(({ wrap }) => wrap === undefined);

  it.each(endless.map((layout) => [layout.name, layout] as const))(
    "%s: holds exactly the IDs of its ticks",
    (_, layout) => {
      const time = fc.integer({ min: layout.epoch - 5000, max: layout.endOfLife + 5000 });
      const length = fc.oneof(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 100_000 }));
      const workerId = fc.nat(layout.pool.last);
      fc.assert(
        fc.property(time, length, workerId, (from, length, workerId) => {
          const to = from + length;
          fc.pre(to > layout.epoch && from < layout.endOfLife);
          const { first, last } = layout.rangeOf(from, to);
          const [head, tail] = [layout.decompose(first), layout.decompose(last)];
          expect(first).toBe(layout.compose({ timestamp: head.timestamp, workerId: 0, sequence: 0 }));
          const end = layout.tickOf(tail.timestamp);
          expect(last).toBe(layout.encode(end, layout.pool.last, layout.maxSequence, layout.maxRollback));
          // Every ms of the span that the layout has is inside, and the ticks before and after it are outside.
          for (const ms of [from, to - 1, from + Math.floor(length / 2)]) {
            if (ms < layout.epoch || ms >= layout.endOfLife) continue;
            const id = layout.compose({ timestamp: ms, workerId, sequence: layout.maxSequence });
            expect(id >= first && id <= last).toBe(true);
          }
          const sequence = layout.maxSequence;
          const before = head.timestamp - 1;
          if (before >= layout.epoch) {
            expect(before).toBeLessThan(from);
            expect(layout.compose({ timestamp: before, workerId, sequence }) < first).toBe(true);
          }
          const after = tail.timestamp + layout.tick;
          if (after < layout.endOfLife) {
            expect(after).toBeGreaterThanOrEqual(to);
            expect(layout.compose({ timestamp: after, workerId, sequence: 0 }) > last).toBe(true);
          }
        }),
      );
    },
  );

  it("of all time has every possible ID", () => {
    expect(westid.rangeOf(0, Infinity)).toEqual({ first: 0n, last: 2n ** 63n - 1n });
    expect(uid.rangeOf(-Infinity, Infinity)).toEqual({ first: 0n, last: 2n ** 63n - 1n });
  });

  it("includes long ticks that it overlaps in part", () => {
    const at = Date.parse("2019-05-02T23:26:39+08:00");
    const whole = uid.rangeOf(at, at + 1000);
    expect(uid.rangeOf(at + 999, at + 1000)).toEqual(whole);
    expect(uid.rangeOf(at + 10.5, at + 11)).toEqual(whole);
    expect(uid.rangeOf(at + 999, at + 1001).last).toBeGreaterThan(whole.last);
  });

  it.each([
    [5, 5],
    [6, 5],
    [NaN, 5],
    [5, NaN],
    [0, 1_490_346_283_706],
    [4_000_000_000_000, 5_000_000_000_000],
  ])("from %s to %s is refused, and so is a layout that wraps", (from, to) => {
    expect(refused(() => westid.rangeOf(from, to))).toContain("Expected `fromTime` to be a time before `toTime`");
    expect(refused(() => scene.rangeOf(1_700_000_000_000, 1_700_000_000_001))).toContain("does not wrap");
  });
});

it("sonyflake maps onto its one field", () => expect(sonyflake.split(0xabcd)).toEqual({ worker: 0xabcd }));
