import { describe, expect, test } from "vitest";
import { checkpointIn, claimIn, nextEra, recordIn, renewalIn, usageIn } from "../../src/rule/era.ts";
import type { Stored } from "../../src/rule/window.ts";

const limits = { maxWindow: 1000, maxClockSkew: 100 };
const now = { era: 5000, quarantineEnd: 6200 };
const recents = { from: 3000, bytes: Uint8Array.of(1) };
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
};

describe("an era", () => {
  test("begins when every window has passed that may have been granted, and bears a number of its own", () => {
    expect(nextEra({ era: 0, quarantineEnd: 0 }, 5000, limits)).toEqual(now);
    // A server whose clock is behind takes the place of one that took another's.
    expect(nextEra(now, 4990, limits)).toEqual({ era: 5001, quarantineEnd: 6200 });
  });

  test("lets nobody continue behind what an older one says", () => {
    expect(recordIn(now, record, 0)).toMatchObject({ clean: false, recents: undefined, until: 4000 });
    expect(recordIn(now, record, now.era)).toBe(record);
  });

  test("grants nothing that begins before it, under a fence that nobody had", () => {
    const claimed = { ...record, from: 4000, until: 7000, recents: undefined };
    expect(claimIn(now, claimed, record)).toMatchObject({ from: 6200, knownFrom: 6200, fence: 6201 });
    expect(claimIn(now, claimed, { ...record, fence: 9000 })).toMatchObject({ fence: 9001 });
    expect(claimIn(now, { ...claimed, from: 6500, recents }, record)).toMatchObject({ from: 6500, knownFrom: 3000 });
  });

  test("lets a holder from before it go on behind its begin", () => {
    expect(renewalIn(now, record, 0)).toMatchObject({ from: 6200, knownFrom: 6200 });
    expect(renewalIn(now, record, now.era)).toBe(record);
  });

  test("takes no word on times before it", () => {
    const [before, since] = [6199, 6200].map((timestamp) => ({ timestamp, sequence: 0 }));
    expect(checkpointIn(now, before, record)).toBeUndefined();
    expect(checkpointIn(now, since, record)).toBe(since);
    expect(checkpointIn(now, before, { ...record, fence: 6201 })).toBe(before);
  });

  test("does not know how far a window of an older one was used", () => {
    const used = { until: 3500, recents };
    expect(usageIn(now, used, record, 0)).toBeUndefined();
    expect(usageIn(now, used, { ...record, fence: 6201 }, now.era)).toEqual({ ...used, checkpoint: undefined });
  });

  test("does not know how far a window was used that began anew, and whose holder has not heard of that", () => {
    const renewed = { ...record, from: 6200, knownFrom: 6200, until: 7200, recents: undefined };
    const checkpoint = { timestamp: 3400, sequence: 0 };
    expect(usageIn(now, { until: 3500, checkpoint, recents }, renewed, now.era)).toBeUndefined();
    expect(usageIn(now, { until: 6300, checkpoint }, renewed, now.era)).toEqual({ until: 6300, checkpoint: undefined });
    // Of a window that was granted in this era it is a mistake, and is refused as one.
    expect(usageIn(now, { until: 6100 }, { ...renewed, fence: 6201 }, now.era)).toMatchObject({ until: 6100 });
  });
});
