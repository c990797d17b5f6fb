import { expect, test } from "vitest";
import { BoundedMap } from "../../src/registries/bounded-map.ts";

test("the least recently used entry is forgotten", () => {
  const map = new BoundedMap<string, number>(2);
  map.set("a", 1);
  map.set("b", 2);
  expect(map.get("a")).toBe(1);
  map.set("c", 3);
  expect(["a", "b", "c"].map((key) => map.get(key))).toEqual([1, undefined, 3]);
  expect(map.size).toBe(2);
});

test("an entry that is set again or deleted counts once", () => {
  const map = new BoundedMap<string, number>(2);
  map.set("a", 1);
  map.set("a", 2);
  map.set("b", 3);
  expect([map.get("a"), map.size]).toEqual([2, 2]);
  map.delete("a");
  expect([map.get("a"), map.size]).toEqual([undefined, 1]);
});
