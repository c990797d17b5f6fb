import { expect, test } from "vitest";
import { encodings, type EncodingName } from "../../src/core/encoding.ts";
import { defaultLayout, layouts } from "../../src/core/layout.ts";
import { inspect } from "../../src/ops/inspect.ts";

const parts = { timestamp: 1_700_000_000_123, workerId: 101, sequence: 7 };
const id = defaultLayout.compose(parts);

test.each(Object.keys(encodings) as EncodingName[])("takes apart an ID in %s", (format) => {
  const text = encodings[format].encodeFixed(id);
  expect(inspect(text, defaultLayout)).toMatchObject({ id, format, parts });
  expect(inspect(text, defaultLayout, format)).toMatchObject({ id, format, parts });
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
