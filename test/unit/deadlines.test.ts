import { expect, test } from "vitest";
import { Deadlines } from "../../src/registries/deadlines.ts";
import { fakeClock } from "../../src/testing.ts";

test("each deadline fires at its own time, in any order of setting, and a met deadline does not fire", async () => {
  const clock = fakeClock();
  const deadlines = new Deadlines(clock);
  const late: string[] = [];
  deadlines.within(1000, () => late.push("long"));
  deadlines.within(100, () => late.push("short"));
  const met = deadlines.within(200, () => late.push("met"));
  deadlines.within(300, () => late.push("middle"));
  await clock.advance(99);
  expect(late).toEqual([]);
  await clock.advance(1);
  expect(late).toEqual(["short"]);
  met();
  await clock.advance(200);
  expect(late).toEqual(["short", "middle"]);
  await clock.advance(700);
  deadlines.within(10, () => late.push("later"));
  await clock.advance(10);
  expect(late).toEqual(["short", "middle", "long", "later"]);
});
