import { describe, expect, test } from "vitest";
import {
  checkpointIn,
  claimIn,
  type Era,
  firstEra,
  nextEra,
  openedEra,
  recordIn,
  renewalIn,
  usageIn,
} from "../../src/rule/era.ts";
import type { Receipt } from "../../src/rule/receipt.ts";
import type { Stored } from "../../src/rule/window.ts";

const limits = { maxWindow: 1000, maxClockSkew: 100 };
const mark = (): string => "aa";
const first: Era = { era: "4000-ff", quarantineEnd: 0, opensAt: 0 };
const now: Era = { era: "5000-aa", quarantineEnd: 6200, opensAt: 6200 };
const recents = { from: 3000, bytes: Uint8Array.of(1) };
/** A record of an older era. */
const record: Stored = {
  workerId: 7,
  fence: 1,
  token: "a",
  from: 3000,
  until: 4000,
  seenClock: 3000,
  clean: true,
  knownFrom: 3000,
  recents,
  era: first.era,
};
/** The same, written in this one. */
const present: Stored = { ...record, era: now.era };

function receipt(options: Partial<Receipt>): Receipt {
  const claim = { namespaceId: "0", era: first.era, workerId: 7, fence: 1, token: "a", renewals: 0, until: 4000 };
  return { ...claim, ...limits, ...options };
}

describe("an era", () => {
  test("that is the first one has no quarantine, and begins at the clock", () => {
    expect(firstEra(4000, () => "ff")).toEqual(first);
  });

  test("begins when every window has passed that may have been granted, and bears a number of its own", () => {
    expect(nextEra(first, 5000, limits, mark)).toEqual(now);
    // A server whose clock is behind takes the place of another one.
    expect(nextEra(now, 4990, limits, mark)).toEqual({ ...now, era: "5001-aa" });
  });

  test("is told apart by its mark from that of another copy which begins in the same ms", () => {
    const [one, other] = [nextEra(first, 5000, limits, () => "1"), nextEra(first, 5000, limits, () => "2")];
    expect(one.era).not.toBe(other.era);
    expect({ ...one, era: "" }).toEqual({ ...other, era: "" });
  });

  test("waits for the largest limits that are known, and for the window of the receipt", () => {
    const end = (options: Partial<Receipt>): number =>
      nextEra(first, 5000, limits, mark, receipt(options)).quarantineEnd;
    expect(end({})).toBe(6200);
    expect(end({ maxWindow: 1, maxClockSkew: 1 })).toBe(6200);
    expect(end({ maxWindow: 3000 })).toBe(8200);
    expect(end({ maxClockSkew: 500 })).toBe(7000);
    expect(end({ maxWindow: 3000, maxClockSkew: 500 })).toBe(9000);
    expect(end({ until: 6200 })).toBe(6200);
    expect(end({ until: 6201 })).toBe(6201);
  });

  test("never shortens the quarantine before it", () => {
    const longer = { era: "5000-aa", quarantineEnd: 9000, opensAt: 9000 };
    expect(nextEra(longer, 5010, limits, mark)).toMatchObject({ quarantineEnd: 9000, opensAt: 9000 });
  });

  test("lasts as long as any where an operator ended the one before", () => {
    const ended = { ...now, quarantineEnd: 1_000_000, opensAt: 5300 };
    expect(nextEra(ended, 5310, limits, mark)).toMatchObject({ quarantineEnd: 1_000_000, opensAt: 6510 });
  });

  test("is opened behind every time that a holder may have used, and keeps its end", () => {
    const info = { layout: "a", ...limits };
    expect(openedEra({ ...now, info, clock: 5500 })).toEqual({ ...now, opensAt: 5701 });
    // Never later than it would open by itself.
    expect(openedEra({ ...now, info, clock: 6150 })).toEqual(now);
    expect(openedEra({ ...now, info, clock: 9000 })).toEqual(now);
  });

  test("lets no holder continue behind a record of an older one", () => {
    expect(recordIn(now, record)).toMatchObject({ clean: false, recents: undefined, until: 4000 });
    expect(recordIn(now, present)).toBe(present);
    expect(recordIn(now, { ...record, era: undefined })).toMatchObject({ clean: false, recents: undefined });
  });

  test("grants nothing that begins before it, under a fence that no holder had", () => {
    const claimed = { ...record, from: 4000, until: 7000, recents: undefined };
    const granted = { era: now.era, from: 6200, knownFrom: 6200, fence: 6201 };
    expect(claimIn(now, claimed, record)).toMatchObject(granted);
    expect(claimIn(now, claimed, undefined)).toMatchObject(granted);
    expect(claimIn(now, claimed, { ...record, fence: 9000 })).toMatchObject({ fence: 9001 });
    expect(claimIn(now, { ...claimed, from: 6500, recents }, record)).toMatchObject({ from: 6500, knownFrom: 3000 });
  });

  test("that an operator opened early grants behind that time, under fences above it", () => {
    const opened = { ...now, opensAt: 5600 };
    const claimed = { ...record, from: 4000, until: 7000, recents: undefined };
    expect(claimIn(opened, claimed, record)).toMatchObject({ from: 5600, knownFrom: 5600, fence: 5601 });
    expect(renewalIn(opened, record)).toMatchObject({ from: 5600, knownFrom: 5600 });
  });

  test("grants no fence again where the store forgot an operator's end, too", () => {
    const info = { layout: "a", ...limits };
    const claimed = { ...record, from: 4000, until: 7000, recents: undefined };
    const long = { ...now, quarantineEnd: 1_000_000, opensAt: 1_000_000 };
    const fenceIn = (era: Era): number => claimIn(era, claimed, record).fence;
    const forgotten = fenceIn(openedEra({ ...long, info, clock: 5300 }));
    const later = nextEra(long, 5600, limits, mark);
    expect(fenceIn(openedEra({ ...long, info, clock: 5600 }))).toBeGreaterThan(forgotten);
    expect(fenceIn(openedEra({ ...later, info, clock: 5700 }))).toBeGreaterThan(forgotten);
    expect(fenceIn(later)).toBeGreaterThan(forgotten);
  });

  test("lets a holder from before it go on behind its begin", () => {
    const renewed = renewalIn(now, record);
    expect(renewed).toMatchObject({ era: now.era, from: 6200, knownFrom: 6200, began: record.knownFrom });
    expect(renewalIn({ ...now, era: "9-a", opensAt: 9000 }, renewed)).toMatchObject({
      from: 9000,
      began: record.knownFrom,
    });
    expect(renewalIn(now, { ...record, from: 6500 })).toMatchObject({ from: 6500, knownFrom: 6500 });
    expect(renewalIn(now, present)).toBe(present);
  });

  test("believes no holder from before it about times before it", () => {
    const [before, since] = [6199, 6200].map((timestamp) => ({ timestamp, sequence: 0 }));
    expect(checkpointIn(now, before, record)).toBeUndefined();
    expect(checkpointIn(now, since, record)).toBe(since);
    expect(checkpointIn(now, before, { ...record, fence: 6201 })).toBe(before);
    // A fence of the end itself may be from before it.
    expect(checkpointIn(now, before, { ...record, fence: 6200 })).toBeUndefined();
    expect(checkpointIn({ ...now, opensAt: 5600 }, { timestamp: 5600, sequence: 0 }, record)).toBeDefined();
  });

  test("does not know how far a window of an older one was used", () => {
    const used = { until: 3500, recents };
    expect(usageIn(now, used, record)).toBeUndefined();
    expect(usageIn(now, { ...used, until: 6300 }, record)).toBeUndefined();
    expect(usageIn(now, undefined, present)).toBeUndefined();
    expect(usageIn(now, used, { ...present, fence: 6201 })).toEqual({ ...used, checkpoint: undefined });
  });

  test("does not know how far a window was used that began anew, and whose holder has not heard of that", () => {
    const renewed = { ...present, from: 6200, knownFrom: 6200, until: 7200, recents: undefined };
    const checkpoint = { timestamp: 3400, sequence: 0 };
    expect(usageIn(now, { until: 3500, checkpoint, recents }, renewed)).toBeUndefined();
    expect(usageIn(now, { until: 6300, checkpoint }, renewed)).toEqual({ until: 6300, checkpoint: undefined });
    // Of a window that was granted in this era it is a mistake, and is refused as one.
    expect(usageIn(now, { until: 6100 }, { ...renewed, fence: 6201 })).toMatchObject({ until: 6100 });
  });
});
