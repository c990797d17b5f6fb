import { describe, expect, test } from "vitest";
import {
  foreignHolder,
  historyRowOf,
  lossOf,
  recordOf,
  stateOf,
  workerOf,
} from "../../src/registries/redis/records.ts";
import type { AnswerFields } from "../../src/registries/redis/answers.ts";
import { thrown } from "../support/generator.ts";

const fieldsOf = (fields: Readonly<Record<string, string | number>>): AnswerFields =>
  new Map(Object.entries(fields).map(([name, value]) => [name, Buffer.from(String(value))]));

const stored = {
  workerId: 7,
  fence: 3,
  token: "f".repeat(32),
  from: 1000,
  until: 2000,
  seenClock: 1500,
  clean: "0",
  knownFrom: 900,
  host: "alpha",
  ip: "10.0.0.1",
  pid: 4711,
  instance: "",
  claimedAt: 1001,
};

describe("a record of Redis", () => {
  test("is read with every field in its place", () => {
    expect(
      recordOf(fieldsOf({ ...stored, recentFrom: 900, recent: "ab", lastTimestamp: 1400, lastSequence: 5 })),
    ).toEqual({
      ...stored,
      clean: false,
      knownFrom: 900,
      recents: { from: 900, bytes: Uint8Array.from([97, 98]) },
      checkpoint: { timestamp: 1400, sequence: 5 },
      holder: { host: "alpha", ip: "10.0.0.1", pid: 4711, instance: "" },
      releasedAt: undefined,
      pinned: undefined,
      host: undefined,
      ip: undefined,
      pid: undefined,
      instance: undefined,
    });
  });

  test("shows its state by the registry's clock, and never its token", () => {
    expect(workerOf(fieldsOf(stored), 1999)).toMatchObject({ state: "live" });
    expect(workerOf(fieldsOf(stored), 2000)).toMatchObject({ state: "free" });
    const { token: _, ...given } = stored;
    expect(workerOf(fieldsOf(given), 1999)).toMatchObject({ state: "resting" });
    expect(workerOf(fieldsOf({ ...given, clean: "1" }), 1999)).toMatchObject({ state: "free", clean: true });
    expect(workerOf(fieldsOf({ ...given, pinned: "broken" }), 1999)).toMatchObject({
      state: "pinned",
      pinned: "broken",
    });
    expect(workerOf(fieldsOf({ workerId: 9, until: 0, use: "1x192.0.2.1xold" }), 5)).toMatchObject({
      state: "foreign",
    });
    expect(JSON.stringify(workerOf(fieldsOf(stored), 1999))).not.toContain(stored.token);
  });

  test.each(["1.5", "abc", "1e3", "9".repeat(17), "NaN", " 1"])(
    "with %j as a number is SCHEMA_INCOMPATIBLE",
    (value) => {
      for (const name of ["until", "fence", "from", "claimedAt", "lastTimestamp", "pid"]) {
        const error = thrown(() => recordOf(fieldsOf({ ...stored, [name]: value })));
        expect(error).toMatchObject({ code: "SCHEMA_INCOMPATIBLE" });
        expect(error.message).toContain(`\`${name}\``);
      }
    },
  );

  test("without its end is SCHEMA_INCOMPATIBLE", () => {
    const { until: _, ...endless } = stored;
    expect(thrown(() => recordOf(fieldsOf(endless)))).toMatchObject({ code: "SCHEMA_INCOMPATIBLE" });
    expect(thrown(() => stateOf(fieldsOf({ layout: "x" })))).toMatchObject({ code: "SCHEMA_INCOMPATIBLE" });
  });
});

test.each([
  [{ reason: "taken" }, { outcome: "lost", reason: "taken" }],
  [
    { reason: "forgotten", doubtFrom: 5, doubtUntil: 9 },
    { outcome: "lost", reason: "forgotten", doubt: { from: 5, until: 9 } },
  ],
])("a loss of %j", (fields, loss) => {
  expect(lossOf(fieldsOf(fields))).toEqual(loss);
});

test("a namespace, and its era", () => {
  const fields = {
    id: "ab",
    layout: "x",
    maxWindow: 1,
    maxClockSkew: 2,
    era: "3-cd",
    quarantineEnd: 9,
    opensAt: 8,
    clock: 7,
  };
  const { id, layout, maxWindow, maxClockSkew, ...era } = fields;
  expect(stateOf(fieldsOf(fields))).toEqual({ info: { id, layout, maxWindow, maxClockSkew }, ...era });
});

test("a row of the history", () => {
  const row = { ...stored, worker: 7, endedAt: 1999, end: "taken-over", continuedFrom: 900 };
  expect(historyRowOf(fieldsOf(row))).toEqual({
    workerId: 7,
    fence: 3,
    from: 1000,
    until: 2000,
    continuedFrom: 900,
    holder: { host: "alpha", ip: "10.0.0.1", pid: 4711, instance: "" },
    claimedAt: 1001,
    endedAt: 1999,
    end: "taken-over",
  });
});

test.each([
  ["815x192.0.2.7xold-app-3", { pid: 815, ip: "192.0.2.7", host: "old-app-3" }],
  ["1xx", { pid: 1, ip: "", host: "" }],
  // Host names may hold the separator of the parts.
  ["1x10.0.0.1xlinux-box-x", { pid: 1, ip: "10.0.0.1", host: "linux-box-x" }],
  ["1xfe80::1xsix", { pid: 1, ip: "fe80::1", host: "six" }],
  ["nonsense", { pid: 0, ip: "", host: "nonsense" }],
  ["", { pid: 0, ip: "", host: "" }],
  ["x".repeat(300), { pid: 0, host: "x".repeat(255) }],
  ["99999999999x1x2", { pid: 0, host: "99999999999x1x2" }],
])("the holder at `use:N`: %j", (use, holder) => {
  expect(foreignHolder(use)).toMatchObject(holder);
});
