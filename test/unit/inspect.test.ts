import { expect, test } from "vitest";
import { encodings, type EncodingName } from "../../src/id/encodings.ts";
import { defaultLayout, layouts } from "../../src/id/layout.ts";
import { inspect } from "../../src/ops/inspect.ts";

const parts = { timestamp: 1_700_000_000_123, workerId: 101, sequence: 7 };
const id = defaultLayout.compose(parts);

test.each(Object.keys(encodings) as EncodingName[])("takes apart an ID in %s", (format) => {
  const text = encodings[format].encodeFixed(id);
  if (!format.endsWith("sort")) expect(inspect(text, defaultLayout)).toMatchObject({ id, format, parts });
  expect(inspect(text, defaultLayout, { format })).toMatchObject({ id, format, parts });
});

test.each(Object.keys(encodings) as EncodingName[])(
  "takes apart an ID of fewer bits, as wide as these, in %s",
  (format) => {
    const { safe53, scene } = layouts;
    const at = parts.timestamp + 1000;
    for (const layout of [safe53, scene]) {
      const id = layout.compose({ ...parts, workerId: 7 });
      const text = encodings[format].encodeFixed(id, layout.totalBits);
      expect(inspect(text, layout, { format, at })).toMatchObject({ id, parts: { ...parts, workerId: 7 } });
    }
  },
);

test("asks for a time where the timestamp wraps", () => {
  const id = layouts.scene.compose({ ...parts, workerId: 7 });
  expect(() => inspect(String(id), layouts.scene)).toThrow("starts again every 2097152 ms; tell a time near");
  expect(inspect(String(id), layouts.scene, { at: parts.timestamp - 1_000_000 })).toMatchObject({
    parts: { ...parts, workerId: 7 },
  });
});

test("tells the rollback bits", () => {
  const id = layouts.rollback.compose({ ...parts, rollback: 2 });
  expect(inspect(String(id), layouts.rollback).parts).toMatchObject({
    rollback: 2,
    fields: { machine: 3, process: 5 },
  });
});

test("goes by the layout that it is given", () => {
  const { parts } = inspect(
    String(layouts.twitter.compose({ timestamp: 1_700_000_000_123, datacenter: 3, worker: 5, sequence: 7 })),
    layouts.twitter,
  );
  expect(parts.fields).toEqual({ datacenter: 3, worker: 5 });
});

test.each(["", "-1", "1.5", "zzz!", "9".repeat(20), "9223372036854775808"])("refuses %j", (text) => {
  expect(() => inspect(text, defaultLayout)).toThrow(expect.objectContaining({ code: "CONFIG_INVALID" }));
});

test("marks an ID that looks rounded to 53 bits, and no other one of a thousand but a few", () => {
  for (const rounded of [String(Number(id)), "1278549019894740000"]) {
    expect(inspect(rounded, defaultLayout).rounded, rounded).toBe(true);
  }
  const all = Array.from({ length: 1000 }, (_, i) => defaultLayout.compose({ ...parts, sequence: i * 4 + (i % 4) }));
  expect(all.filter((one) => inspect(String(one), defaultLayout).rounded).length).toBeLessThan(20);
  expect(inspect(encodings.hex.encodeFixed(BigInt(Number(id))), defaultLayout).rounded).toBeUndefined();
  expect(inspect("9007199254740991", layouts.safe53).rounded).toBeUndefined();
});

test.each([
  ["1.27854901989474E+18", "such as a spreadsheet, seems to have rounded it"],
  ["1.27854901989474e18", "seems to have rounded it"],
  ["1278549019894743040.0", "seems to have rounded it"],
  ["1,27854901989474E+18", "seems to have rounded it"],
  ["-1278549019894743040", "an ID is never negative"],
])("says what probably happened to %s", (text, what) => {
  expect(() => inspect(text, defaultLayout)).toThrow(what);
});
