import { fc } from "../support/fast-check.ts";
import { describe, expect, it } from "vitest";
import { type ErrorCode, isSnowleaseError } from "../../src/id/errors.ts";
import { defaultLayout, Layout, layouts, type LayoutSpec } from "../../src/id/layout.ts";
import { formatPool, parsePool } from "../../src/id/notation.ts";

const { sonyflake, twitter, westid } = layouts;
const bothSides = Layout.parse("timestamp:32,site:3,rack:4,sequence:10,host:5,process:2@0/1000");

/** Any layout within the limits: identity fields above, below and on both sides of the sequence. */
const anyLayout = fc
  .record({
    timestamp: fc.integer({ min: 21, max: 48 }),
    sequence: fc.integer({ min: 1, max: 31 }),
    identity: fc.array(fc.integer({ min: 1, max: 31 }), { maxLength: 6 }),
    rollback: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 8 })),
    wraps: fc.boolean(),
    at: fc.nat(6),
    epoch: fc.oneof(fc.constant(0), fc.integer({ min: 4_102_444_801, max: 4_102_444_800_000 })),
    tick: fc.oneof(fc.constant(1), fc.constantFrom(10, 1000, 60_000), fc.integer({ min: 1, max: 60_000 })),
  })
  .filter(({ timestamp, sequence, identity, rollback, epoch, tick, wraps }) => {
    const workerBits = identity.reduce((sum, bits) => sum + bits, 0);
    const count = sequence + rollback;
    const width = timestamp + count + workerBits;
    const used = width === 64 ? timestamp - 1 : timestamp;
    const ends = epoch + 2 ** used * tick <= 8.64e15;
    return workerBits <= 31 && count <= 31 && width <= (wraps ? 63 : 64) && used >= 21 && used <= 47 && ends;
  })
  .map(({ timestamp, sequence, identity, rollback, at, epoch, tick, wraps }) => {
    const fields = identity.map((bits, index) => ({ name: `part${index}`, bits }));
    const count = [
      { name: "rollback", bits: rollback },
      { name: "sequence", bits: sequence },
    ];
    fields.splice(at, 0, ...count.filter(({ bits }) => bits > 0));
    return new Layout({ fields: [{ name: "timestamp", bits: timestamp }, ...fields], epoch, tick, wraps });
  });

/** 0 to `max`, the ends and the powers of two as often as the rest. */
const upTo = (max: number): fc.Arbitrary<number> =>
  fc.oneof(
    fc.maxSafeNat().map((value) => value % (max + 1)),
    fc.constantFrom(0, max),
    fc.nat(47).map((power) => Math.min(2 ** power, max)),
  );

const anyPlace = fc.oneof(anyLayout, fc.constantFrom(bothSides, ...Object.values(layouts))).chain((layout) =>
  fc.record({
    layout: fc.constant(layout),
    tick: upTo(layout.maxTick),
    workerId: upTo(layout.pool.last),
    sequence: upTo(layout.maxSequence),
    rollback: upTo(layout.maxRollback),
  }),
);

/** Field by field with BigInt: the definition, to hold against the fast way. */
function naive(layout: Layout, tick: number, workerId: number, sequence: number, rollback: number): bigint {
  let id = 0n;
  let left = layout.workerBits;
  const own: Record<string, number> = { timestamp: tick, rollback, sequence };
  for (const { name, bits } of layout.fields) {
    if (!Object.hasOwn(own, name)) left -= bits;
    const value = BigInt(own[name] ?? workerId) >> BigInt(Object.hasOwn(own, name) ? 0 : left);
    // What is above a field belongs to the one before it; above the timestamp, to the wrap.
    id = (id << BigInt(bits)) | (value & (2n ** BigInt(bits) - 1n));
  }
  return id;
}

function refused(run: () => unknown, code: ErrorCode = "CONFIG_INVALID"): string {
  try {
    run();
  } catch (error) {
    if (!isSnowleaseError(error, code)) throw error;
    expect(error.message).toMatch(/^Expected `[^\r\n]+ to [^\r\n]+, got `[^\r\n]*$/);
    return error.message;
  }
  throw new Error("Expected a refusal, got none");
}

function build(spec: unknown): string {
  return refused(() => new Layout(spec as LayoutSpec));
}

function notation(text: string): string {
  return refused(() => Layout.parse(text));
}

describe("presets", () => {
  it("takes a tweet of 2022 apart", () => {
    expect(twitter.decompose(1541815603606036480n)).toEqual({
      timestamp: Date.parse("2022-06-28T16:07:40.105Z"),
      workerId: 378,
      sequence: 0,
      fields: { datacenter: 11, worker: 26 },
    });
  });

  it("takes a westid of 2026 apart", () => {
    expect(westid.decompose(1278549019894743040n)).toEqual({
      timestamp: Date.parse("2026-11-20T12:02:04.341Z"),
      workerId: 0,
      sequence: 0,
      fields: { worker: 0 },
    });
  });

  it("composes both again", () => {
    const timestamp = Date.parse("2022-06-28T16:07:40.105Z");
    expect(twitter.compose({ timestamp, workerId: 378, sequence: 0 })).toBe(1541815603606036480n);
    expect(twitter.compose({ timestamp, datacenter: 11, worker: 26, sequence: 0 })).toBe(1541815603606036480n);
    const later = Date.parse("2026-11-20T12:02:04.341Z");
    expect(westid.compose({ timestamp: later, workerId: 0, sequence: 0 })).toBe(1278549019894743040n);
  });

  it("are known by name, and westid is the default", () => {
    expect(Layout.parse("twitter")).toEqual(twitter);
    expect(Object.values(layouts).map(({ name }) => name)).toEqual(Object.keys(layouts));
    expect(defaultLayout).toBe(westid);
    expect(new Layout({ fields: twitter.fields, epoch: twitter.epoch }).name).toBe("twitter");
    expect(new Layout({ fields: twitter.fields, epoch: twitter.epoch + 1 }).name).toBeUndefined();
  });

  it("tell their sizes", () => {
    expect(twitter).toMatchObject({
      name: "twitter",
      fields: [
        { name: "timestamp", bits: 41 },
        { name: "datacenter", bits: 5 },
        { name: "worker", bits: 5 },
        { name: "sequence", bits: 12 },
      ],
      epoch: Date.parse("2010-11-04T01:42:54.657Z"),
      tick: 1,
      fingerprint: "timestamp:41,datacenter:5,worker:5,sequence:12@1288834974657/1",
      totalBits: 63,
      sequenceBits: 12,
      maxSequence: 4095,
      workerBits: 10,
      maxTick: 2 ** 41 - 1,
      pool: { first: 0, last: 1023 },
      endOfLife: Date.parse("2080-07-10T17:30:30.209Z"),
    });
    expect(westid.fingerprint).toBe("timestamp:41,worker:10,sequence:12@1490346283706/1");
    expect(westid.epoch).toBe(Date.parse("2017-03-24T09:04:43.706Z"));
  });

  it("cannot be changed", () => {
    expect(Object.isFrozen(westid)).toBe(true);
    expect(Object.isFrozen(westid.pool)).toBe(true);
    expect(Object.isFrozen(westid.fields) && westid.fields.every(Object.isFrozen)).toBe(true);
  });
});

describe("any layout", () => {
  it("encodes by the definition", () => {
    fc.assert(
      fc.property(anyPlace, ({ layout, tick, workerId, sequence, rollback }) => {
        expect(layout.encode(tick, workerId, sequence, rollback)).toBe(
          naive(layout, tick, workerId, sequence, rollback),
        );
      }),
      { numRuns: 3000 },
    );
  });

  it("decomposes what it composes, by worker ID and by identity fields, at any ms of the tick", () => {
    const place = fc.tuple(anyPlace, fc.nat());
    fc.assert(
      fc.property(place, ([{ layout, tick, workerId, sequence, rollback }, late]) => {
        const start = layout.timeOf(tick);
        const timestamp = start + (late % layout.tick);
        const id = layout.compose({ timestamp, workerId, sequence, rollback });
        const fields = layout.split(workerId);
        const counted = layout.maxRollback > 0 ? { rollback } : {};
        expect(id).toBe(layout.encode(tick, workerId, sequence, rollback));
        expect(layout.decompose(id, timestamp)).toEqual({ timestamp: start, workerId, sequence, fields, ...counted });
        expect(layout.compose({ timestamp, ...fields, sequence, rollback })).toBe(id);
        expect(layout.join(fields)).toBe(workerId);
        expect(layout.tickOf(timestamp)).toBe(tick);
      }),
      { numRuns: 3000 },
    );
  });

  it("decomposes every ID of its bits, and refuses others", () => {
    fc.assert(
      fc.property(anyLayout, fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }), (layout, random) => {
        const end = 2n ** BigInt(layout.totalBits);
        for (const id of [random % end, 0n, end - 1n]) expect(layout.compose(placeOf(layout, id))).toBe(id);
        for (const id of [end, end + random, -1n, -1n - random]) refused(() => layout.decompose(id, layout.epoch));
      }),
    );
  });

  it("sorts IDs by tick", () => {
    fc.assert(
      fc.property(anyPlace, ({ layout, tick, workerId, sequence }) => {
        fc.pre(tick < layout.maxTick && layout.wrap === undefined);
        const next = layout.encode(tick + 1, 0, 0);
        expect(layout.encode(tick, workerId, sequence) < next).toBe(true);
      }),
    );
  });

  it("reads its fingerprint back", () => {
    fc.assert(
      fc.property(anyLayout, (layout) => {
        expect(Layout.parse(layout.fingerprint)).toEqual(layout);
      }),
    );
  });

  it("ends where its ticks end", () => {
    fc.assert(
      fc.property(anyLayout, (layout) => {
        const last = { timestamp: layout.endOfLife - 1, workerId: 0, sequence: 0 };
        const { timestamp } = layout.decompose(layout.compose(last), layout.endOfLife - 1);
        expect(timestamp).toBe(layout.timeOf(layout.maxTick));
        expect(layout.refusalAt(layout.endOfLife - 1)).toBeUndefined();
        expect(layout.refusalAt(layout.endOfLife)).toMatchObject({ code: "LAYOUT_EXPIRED", retryable: false });
        refused(() => layout.compose({ ...last, timestamp: layout.endOfLife }), "LAYOUT_EXPIRED");
        expect(layout.refusalAt(layout.epoch)).toBeUndefined();
        expect(layout.refusalAt(layout.epoch - 1)).toMatchObject({ code: "WINDOW_NOT_OPEN", retryable: true });
        expect(layout.tickOf(layout.endOfLife)).toBe(layout.maxTick + 1);
        expect(layout.tickOf(layout.epoch - 1)).toBe(-1);
      }),
    );
  });

  it("shifts fields to where shiftOf says", () => {
    fc.assert(
      fc.property(anyPlace, ({ layout, tick, workerId, sequence }) => {
        const id = layout.encode(tick, workerId, sequence);
        fc.pre(layout.wrap === undefined);
        const values: Record<string, number> = { timestamp: tick, rollback: 0, sequence, ...layout.split(workerId) };
        for (const { name, bits } of layout.fields) {
          const value = (id >> BigInt(layout.shiftOf(name))) & (2n ** BigInt(bits) - 1n);
          expect(value).toBe(BigInt(values[name] ?? NaN));
        }
      }),
    );
  });

  it("narrows to exactly the worker IDs that have the fixed fields", () => {
    fc.assert(
      fc.property(anyPlace, fc.nat(), ({ layout, workerId }, count) => {
        const entries = Object.entries(layout.split(workerId));
        const fixed = Object.fromEntries(entries.slice(0, count % (entries.length + 1)));
        const { first, last } = layout.narrow(fixed);
        const has = (id: number): boolean =>
          Object.entries(fixed).every(([name, value]) => layout.split(id)[name] === value);
        expect(first <= workerId && workerId <= last).toBe(true);
        expect([first, last].every(has)).toBe(true);
        for (const out of [first - 1, last + 1]) if (out >= 0 && out <= layout.pool.last) expect(has(out)).toBe(false);
      }),
    );
  });
});

function placeOf(
  layout: Layout,
  id: bigint,
): { timestamp: number; workerId: number; sequence: number; rollback: number } {
  const { timestamp, workerId, sequence, rollback = 0 } = layout.decompose(id, layout.epoch);
  return { timestamp, workerId, sequence, rollback };
}

describe("field order", () => {
  it("keeps the worker ID in one piece when the sequence is above the worker", () => {
    expect(sonyflake.encode(1, 0xabcd, 0xff)).toBe((1n << 24n) | (0xffn << 16n) | 0xabcdn);
    expect(sonyflake.workerBits).toBe(16);
  });

  it("concatenates identity fields on both sides of the sequence, from the top down", () => {
    const workerId = bothSides.join({ site: 5, rack: 9, host: 17, process: 2 });
    expect(workerId).toBe(0b101_1001_10001_10);
    const id = bothSides.encode(7, workerId, 1000);
    expect(id.toString(2)).toBe(["111", "101", "1001", "1111101000", "10001", "10"].join(""));
    expect(bothSides.decompose(id)).toEqual({
      timestamp: 7000,
      workerId,
      sequence: 1000,
      fields: { site: 5, rack: 9, host: 17, process: 2 },
    });
  });

  it("maps worker ID 33 of 5 + 5 bits to datacenter 1, worker 1", () => {
    expect(twitter.split(33)).toEqual({ datacenter: 1, worker: 1 });
    expect(twitter.join({ worker: 1, datacenter: 1 })).toBe(33);
    expect(Object.keys(twitter.split(33))).toEqual(["datacenter", "worker"]);
  });

  it("holds at the limits of every width", () => {
    const widest = Layout.parse("timestamp:21,worker:31,sequence:11@0/60000");
    expect(widest.encode(2 ** 21 - 1, 2 ** 31 - 1, 2 ** 11 - 1)).toBe(2n ** 63n - 1n);
    const low = Layout.parse("timestamp:21,sequence:11,worker:31@0");
    expect(low.encode(0, 2 ** 31 - 1, 1)).toBe(2n ** 32n - 1n);
    const smallest = Layout.parse("timestamp:21,worker:1,sequence:1@0");
    expect([smallest.totalBits, smallest.encode(2 ** 21 - 1, 1, 1)]).toEqual([23, 2n ** 23n - 1n]);
    expect(Layout.parse("timestamp:31,sequence:31,worker:1@0").maxSequence).toBe(2 ** 31 - 1);
  });
});

describe("compose refuses", () => {
  const timestamp = Date.parse("2026-01-01T00:00:00Z");
  const good = { timestamp, workerId: 1, sequence: 1 };

  it.each([1024, -1, 1.5, NaN, Infinity, 2 ** 32, "7", 7n, null])("the worker ID %s", (workerId) => {
    const message = refused(() => westid.compose({ ...good, workerId: workerId as number }));
    expect(message).toContain("Expected `workerId` to be an integer from 0 to 1023 (10 bits), got ");
  });

  it.each([4096, -1, 0.5, NaN, "1", 1n, undefined, null])("the sequence %s", (sequence) => {
    const message = refused(() => westid.compose({ ...good, sequence: sequence as number }));
    expect(message).toContain("Expected `sequence` to be an integer from 0 to 4095 (12 bits), got ");
  });

  it.each([westid.epoch - 1, 0, -1, timestamp + 0.5, NaN, Infinity, "0", undefined, 2 ** 53])(
    "the timestamp %s",
    (at) => {
      const message = refused(() => westid.compose({ ...good, timestamp: at as number }));
      expect(message).toContain("Expected `timestamp` to be an integer from 1490346283706 to ");
    },
  );

  it("a timestamp at and past the end of life, with another code", () => {
    for (const at of [westid.endOfLife, westid.endOfLife + 1, Number.MAX_SAFE_INTEGER]) {
      expect(refused(() => westid.compose({ ...good, timestamp: at }), "LAYOUT_EXPIRED")).toBe(
        `Expected \`timestamp\` to be before 3689369539258 (2086-11-29T00:52:19.258Z, the layout's end of life), got \`${at}\` (number)`,
      );
    }
  });

  it("a missing, unknown, doubled or unfit identity field", () => {
    const rest = { timestamp, sequence: 0 };
    expect(refused(() => twitter.compose(rest))).toContain(
      "`identity fields` to be exactly datacenter, worker, got `{}`",
    );
    refused(() => twitter.compose({ ...rest, worker: 1 }));
    refused(() => twitter.compose({ ...rest, datacenter: 1, worker: undefined }));
    refused(() => twitter.compose({ ...rest, datacenter: 1, worker: 1, rack: 1 }));
    refused(() => twitter.compose({ ...rest, datacenter: 1, toString: 1 }));
    refused(() => twitter.compose({ ...rest, workerId: 33, datacenter: 1, worker: 1 }));
    refused(() => twitter.compose({ ...rest, workerId: 33, rack: 1 }));
    expect(refused(() => twitter.compose({ ...rest, datacenter: 1, worker: 32 }))).toBe(
      "Expected `worker` to be an integer from 0 to 31 (5 bits), got `32` (number)",
    );
  });
});

describe("a layout refuses", () => {
  it.each([-1n, 2n ** 63n, 2n ** 64n + 1n, 5, "5", null, undefined])("to decompose %s", (id) => {
    const message = refused(() => westid.decompose(id as bigint));
    expect(message).toContain("Expected `id` to be a bigint from 0 to 9223372036854775807 (63 bits), got ");
  });

  it("IDs above a layout's own bits", () => {
    const short = Layout.parse("timestamp:21,worker:5,sequence:5@0");
    expect(refused(() => short.decompose(2n ** 31n))).toContain(
      "from 0 to 2147483647 (31 bits), got `2147483648n` (bigint)",
    );
  });

  it.each([1024, -1, 0.5, NaN, "1", null, undefined])("to split %s", (workerId) => {
    refused(() => twitter.split(workerId as number));
  });

  it("to join fields that are missing, unknown or unfit", () => {
    refused(() => twitter.join({}));
    refused(() => twitter.join({ datacenter: 1 }));
    refused(() => twitter.join({ datacenter: 1, rack: 1 }));
    refused(() => twitter.join({ datacenter: 1, worker: 1, rack: 1 }));
    refused(() => twitter.join({ datacenter: 32, worker: 1 }));
    refused(() => twitter.join({ datacenter: 1, worker: "1" as never }));
  });

  it("a shift of no field", () => {
    expect(refused(() => westid.shiftOf("datacenter"))).toContain(
      "`field` to be one of timestamp, worker, sequence, got",
    );
  });
});

describe("narrow", () => {
  it("leaves the worker IDs of a datacenter", () => {
    expect(twitter.narrow({ datacenter: 3 })).toEqual({ first: 96, last: 127 });
    expect(twitter.narrow({ datacenter: 3, worker: 4 })).toEqual({ first: 100, last: 100 });
    expect(twitter.narrow({ worker: 4, datacenter: 3 })).toEqual({ first: 100, last: 100 });
    expect(twitter.narrow({})).toEqual({ first: 0, last: 1023 });
    const first = 0b001_0010_00011_00;
    expect(bothSides.narrow({ site: 1, rack: 2, host: 3 })).toEqual({ first, last: first + 3 });
  });

  it("intersects with a pool", () => {
    expect(twitter.narrow({}, { first: 512, last: 1023 })).toEqual({ first: 512, last: 1023 });
    expect(twitter.narrow({ datacenter: 3 }, { first: 0, last: 99 })).toEqual({ first: 96, last: 99 });
    expect(twitter.narrow({ datacenter: 3 }, { first: 127, last: 1023 })).toEqual({ first: 127, last: 127 });
  });

  it("refuses an empty intersection", () => {
    const rule = "`pool` to overlap with 96-127";
    expect(refused(() => twitter.narrow({ datacenter: 3 }, { first: 0, last: 95 }))).toContain(rule);
    expect(refused(() => twitter.narrow({ datacenter: 3 }, { first: 128, last: 1023 }))).toContain(rule);
  });

  it("refuses a field below an open one, an unknown field, a value that does not fit", () => {
    const rule = "`fixed fields` to be the topmost of datacenter, worker, without a gap";
    expect(refused(() => twitter.narrow({ worker: 3 }))).toContain(rule);
    for (const fixed of [{ rack: 3 }, { datacenter: 3, rack: 3 }, { datacenter: 1, worker: 1, rack: 1 }]) {
      expect(refused(() => twitter.narrow(fixed))).toContain("which has datacenter, worker and no rack, got ");
    }
    refused(() => bothSides.narrow({ site: 1, host: 1 }));
    refused(() => twitter.narrow({ timestamp: 1 }));
    refused(() => twitter.narrow({ sequence: 1 }));
    for (const value of [32, -1, 0.5, NaN, "3", undefined])
      refused(() => twitter.narrow({ datacenter: value as number }));
  });

  it("refuses a pool that the layout does not have", () => {
    refused(() => twitter.narrow({}, { first: 0, last: 1024 }));
    refused(() => twitter.narrow({}, { first: -1, last: 5 }));
    refused(() => twitter.narrow({}, { first: 6, last: 5 }));
    refused(() => twitter.narrow({}, { first: 0, last: NaN }));
    refused(() => twitter.narrow({}, { last: 5 } as never));
  });
});

describe("a spec is refused", () => {
  const fields = [
    { name: "timestamp", bits: 41 },
    { name: "worker", bits: 10 },
    { name: "sequence", bits: 12 },
  ];

  it.each([undefined, null, {}, { fields: "timestamp" }, { fields: {} }, 5])("that has no fields: %o", (spec) => {
    expect(build(spec)).toContain("`fields` to be a list");
  });

  it.each([undefined, null, {}, { name: 5 }, "worker", { name: "", bits: 1 }])("with a field such as %o", (field) => {
    expect(build({ fields: [...fields, field], epoch: 0 })).toContain("`field name` to match ^[a-z][a-z0-9]{0,15}$");
  });

  it("with a hole among its fields", () => {
    build({ fields: fields.slice(0, 2).concat(new Array(1)), epoch: 0 });
  });

  it.each(["Worker", "1a", "a-b", "a_b", "a b", "ä", "__proto__", "worker\n", "abcdefghijklmnopq"])(
    "with the name %o",
    (name) => {
      build({ fields: [...fields.slice(0, 1), { name, bits: 1 }, ...fields.slice(2)], epoch: 0 });
    },
  );

  it.each([0, -1, 1.5, NaN, 64, Infinity, "5", undefined, 5n])("with a field of %s bits", (bits) => {
    expect(build({ fields: [...fields, { name: "rack", bits }], epoch: 0 })).toContain(
      "`rack bits` to be an integer from 1 to 63",
    );
  });

  it.each([946_684_800, 1_577_836_800, 4_102_444_800])("with an epoch in seconds, %i", (epoch) => {
    const { fields } = layouts.twitter;
    expect(() => new Layout({ fields, epoch })).toThrow(`write ${epoch}000.`);
    expect(() => Layout.parse(`timestamp:41,worker:10,sequence:12@${epoch}`)).toThrow(/in seconds it would be 2/);
    expect(new Layout({ fields, epoch: epoch * 1000 }).epoch).toBe(epoch * 1000);
  });

  it.each([-1, 0.5, NaN, 4_102_444_800_001, "0", undefined, null, 0n])("with the epoch %s", (epoch) => {
    expect(build({ fields, epoch })).toContain("`epoch` to be an integer from 0 to 4102444800000 (Unix ms");
  });

  it.each([0, -1, 0.5, NaN, 60_001, "1", 1n])("with the tick %s", (tick) => {
    expect(build({ fields, epoch: 0, tick })).toContain("`tick` to be an integer from 1 to 60000 (ms)");
  });

  it.each([
    ["timestamp missing", "worker:10,sequence:12@0", "to start with `timestamp`"],
    ["timestamp not on top", "worker:10,timestamp:41,sequence:12@0", "to start with `timestamp`"],
    ["sequence missing", "timestamp:41,worker:10@0", "to have a `sequence`"],
    ["timestamp twice", "timestamp:21,timestamp:21,worker:5,sequence:5@0", "to have every name once"],
    ["sequence twice", "timestamp:21,sequence:5,worker:5,sequence:5@0", "to have every name once"],
    ["worker twice", "timestamp:41,worker:5,worker:5,sequence:12@0", "to have every name once"],
    ["rollback elsewhere", "timestamp:41,rollback:2,worker:8,sequence:12@0", "`rollback` directly above `sequence`"],
    ["much rollback", "timestamp:41,worker:8,rollback:9,sequence:5@0", "`rollback bits` to be an integer from 0 to 8"],
    ["a long count", "timestamp:21,worker:5,rollback:2,sequence:30@0", "`sequence bits` to be an integer from 1 to 29"],
    ["much identity", "timestamp:21,worker:16,host:16,sequence:5@0", "`identity bits` to be an integer from 0 to"],
    ["a long sequence", "timestamp:21,worker:5,sequence:32@0", "`sequence bits` to be an integer from 1 to"],
    ["a short timestamp", "timestamp:20,worker:5,sequence:5@0", "`timestamp bits` to be an integer from 21 to 47"],
    ["a long timestamp", "timestamp:48,worker:5,sequence:5@0", "`timestamp bits` to be an integer from 21 to 47"],
    [
      "a long timestamp of 64",
      "timestamp:49,sequence:15@0",
      "`timestamp bits` to be an integer from 22 to 48, got `49`",
    ],
    [
      "a short one of 64",
      "timestamp:21,worker:31,sequence:12@0",
      "`timestamp bits` to be an integer from 22 to 48, got",
    ],
    ["65 bits", "timestamp:42,worker:11,sequence:12@0", "`total bits` to be an integer from 1 to 64, got `65`"],
    ["64 that wrap", "timestamp:41,worker:11,sequence:12@0/1/wraps", "`total bits` to be an integer from 1 to 63"],
    ["no bits", "timestamp:41,worker:0,sequence:12@0", "`worker bits` to be an integer from 1 to 63, got `0`"],
    ["no date for its end", "timestamp:45,worker:5,sequence:5@0/60000", "`end of life` to be an integer from 1 to "],
    ["tick 0", "timestamp:41,worker:10,sequence:12@0/0", "`tick` to be an integer from 1 to 60000"],
  ])("with %s", (_, text, rule) => expect(notation(text)).toContain(rule));

  it.each([
    ..."nope TWITTER constructor westid,twitter @ :@0".split(" "),
    ...[
      "",
      "@",
      "@-1",
      "@1e3",
      "@007",
      "@0/",
      "@0/01",
      "@0/1/1",
      "@0@0",
      "@0 ",
      "@0\n",
      ",@0",
      "@0/wrap",
      "@0wraps",
    ].map((end) => `timestamp:41,worker:10,sequence:12${end}`),
    ...["worker:010", "worker:+10", "worker:0x5", "worker", "", ":10", "a:1,:1"].map(
      (field) => `timestamp:41,${field},sequence:12@0`,
    ),
    `timestamp:41${",worker:1".repeat(120)},sequence:1@0`,
    "9".repeat(100_000),
    "",
    " twitter",
    undefined,
    null,
    5,
    ["westid"],
  ])("when it is written %j", (text) => {
    const example = "timestamp:41,worker:10,sequence:12@1490346283706/1";
    const message = notation(text as string);
    expect(message).toContain(
      `Expected \`layout\` to be a preset (${Object.keys(layouts).join(", ")}) or a notation like \`${example}\`, got `,
    );
  });

  it.each([
    ["Twiter", "which resembles `twitter`"],
    ["ts=41,worker=10,seq=12", "where `ts=41` is not a field and its bits, such as `worker:10`"],
    ["41:10:12", "where `41:10:12` is not a field and its bits, such as `worker:10`"],
    ["timestamp:41,worker:010@0", "where `worker:010` is not a field and its bits, such as `worker:10`"],
    ["timestamp:41,worker:10,sequence:12", "which lacks `@` and the epoch in Unix ms"],
    ["timestamp:41,worker:10@2020-01-01", "where `2020-01-01` is not an epoch in Unix ms, such as `1490346283706`"],
    ["timestamp:41,worker:10@0/1ms", "where `1ms` is not a tick in ms, such as `1`"],
    ["timestamp:41,worker:10@0/1/wrap", "where `wrap` follows the tick, and only `wraps` may"],
    ["42-10-12", "got `42-10-12` (string)"],
    ["redis://user:s3cret@db:6379/0", "got `redis://***@db:6379/0` (string)"],
    ["redis://db:6379?password=s3cret", "got `redis://db:6379?password=***` (string)"],
  ])("and says what is wrong with %s", (text, flaw) => {
    expect(notation(text).endsWith(flaw)).toBe(true);
  });

  it("but not when only the tick of 1 ms is left out", () => {
    expect(Layout.parse("timestamp:41,worker:10,sequence:12@1490346283706")).toEqual(westid);
  });

  it("and names that objects inherit are ordinary names", () => {
    const layout = Layout.parse("timestamp:41,constructor:5,worker:5,sequence:12@0");
    expect(layout.split(33)).toEqual({ constructor: 1, worker: 1 });
    refused(() => layout.join({ worker: 1 }));
    refused(() => layout.narrow({ worker: 1 }));
    expect(layout.narrow({ constructor: 1 })).toEqual({ first: 32, last: 63 });
  });

  it("and the layout keeps no reference to the spec", () => {
    const given = fields.map((field) => ({ ...field }));
    const layout = new Layout({ fields: given, epoch: 0 });
    given.forEach((field) => (field.bits = 1));
    expect(layout.fields).toEqual(fields);
  });
});

describe("pools as text", () => {
  it.each([
    ["512-1023", { first: 512, last: 1023 }],
    ["7", { first: 7, last: 7 }],
    ["0", { first: 0, last: 0 }],
    ["0-2147483647", { first: 0, last: 2 ** 31 - 1 }],
  ])("%s is read and written", (text, pool) => {
    expect(parsePool(text)).toEqual(pool);
    expect(formatPool(pool)).toBe(text);
  });

  it("reads a range of one", () => expect(parsePool("7-7")).toEqual({ first: 7, last: 7 }));

  it.each([
    ..."- 7- -7 7-6 07 0-07 1-2-3 1,2 +7 1e3 0x7 a ٣ 1.5".split(" "),
    ..."2147483648 0-2147483648 9999999999999999".split(" "),
    ..."| |1 - 2|7 |7\n".split("|"),
    "9".repeat(100_000),
    undefined,
    null,
    7,
    [7],
  ])("%j is refused", (text) => {
    expect(refused(() => parsePool(text as string))).toContain("`pool` to be a range of worker IDs such as `512-1023`");
  });
});
