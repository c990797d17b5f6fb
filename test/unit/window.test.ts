import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isSnowleaseError, type SnowleaseError, timeText } from "../../src/id/errors.ts";
import type { ClaimRequest, ForceReleaseRequest, ReleaseRequest, RenewRequest } from "../../src/rule/registry.ts";
import { unusedRecord } from "../../src/rule/pin.ts";
import { grantOf } from "../../src/rule/pool.ts";
import { storedToken } from "../../src/rule/token.ts";
import { decideRelease } from "../../src/rule/verdict.ts";
import {
  checkClaim,
  claimed,
  forced,
  forceRefusal,
  isFree,
  isHolders,
  isLive,
  noNamespace,
  refusalOf,
  released,
  renewed,
  rollbackOf,
  shownRecord,
  stateOf,
  type Stored,
} from "../../src/rule/window.ts";
import { checkLayout, checkLimits, checkSkew, checkWindow } from "../../src/rule/limits.ts";

const info = { layout: "a", maxWindow: 600_000, maxClockSkew: 10_000 };
const now = 1_700_000_000_000;
const state = { info, era: "1-a", quarantineEnd: 0, opensAt: 0, clock: now };
const holder = { host: "alpha", ip: "192.0.2.1", pid: 1, instance: "" };
const bytes = Uint8Array.of(1);

function request(options: Partial<ClaimRequest> = {}): ClaimRequest {
  const pool = { first: 0, last: 1023 };
  return { namespace: "orders", token: "t1", pool, holder, clock: now, window: 60_000, layout: "a", ...options };
}

function record(options: Partial<Stored> = {}): Stored {
  const window = { from: now - 10_000, until: now + 60_000, knownFrom: now - 10_000 };
  return {
    workerId: 7,
    fence: 3,
    token: "t1",
    seenClock: now,
    clean: false,
    holder,
    claimedAt: now,
    ...window,
    ...options,
  };
}

function renewal(options: Partial<RenewRequest> = {}): RenewRequest {
  return { namespace: "orders", workerId: 7, fence: 3, token: "t1", clock: now, window: 60_000, ...options };
}

function release(used: ReleaseRequest["used"], options: Partial<ReleaseRequest> = {}): ReleaseRequest {
  return { namespace: "orders", workerId: 7, fence: 3, token: "t1", clock: now, used, ...options };
}

function errorOf(run: () => unknown): SnowleaseError {
  try {
    run();
  } catch (error) {
    if (isSnowleaseError(error)) return error;
    throw error;
  }
  throw new Error("Expected a refusal.");
}

describe("checks of a request", () => {
  it("tolerates a clock up to maxClockSkew away, and names both clocks beyond", () => {
    for (const skew of [0, 10_000, -10_000]) expect(() => checkSkew(now + skew, now, info)).not.toThrow();
    const ahead = errorOf(() => checkSkew(now + 10_001, now, info));
    expect(ahead.code).toBe("CLOCK_SKEW");
    expect(ahead.message).toBe(
      "The holder's clock shows 2023-11-14T22:13:30.001Z, the registry's 2023-11-14T22:13:20.000Z: 10001 ms ahead, " +
        "and at most 10000 ms is tolerated; set the wrong clock.",
    );
    expect(errorOf(() => checkSkew(now - 10_001, now, info)).message).toContain("10001 ms behind");
    expect(errorOf(() => checkSkew(Number.NaN, now, info)).code).toBe("CLOCK_SKEW");
  });

  it("refuses a window without length, or too long", () => {
    for (const window of [1, 600_000]) expect(() => checkWindow(window, info)).not.toThrow();
    for (const window of [0, -1, 1.5, 600_001, Number.NaN, Infinity]) {
      expect(errorOf(() => checkWindow(window, info)).code).toBe("CONFIG_INVALID");
    }
    const { message } = errorOf(() => checkWindow(600_001, info));
    expect(message).toBe(
      "Expected `window` to be from 1 to 600000 ms (the namespace's maxWindow), got `600001` (number); ask for a shorter one, or use a namespace that was created with a larger maxWindow (`snowlease init --max-window`).",
    );
  });

  it("refuses another layout and other limits, and names the stored ones", () => {
    expect(() => checkLayout("orders", "a", info)).not.toThrow();
    expect(errorOf(() => checkLayout("orders", "b", info)).details).toEqual({ stored: "a", asked: "b" });
    for (const same of [{}, { maxWindow: 600_000 }, { maxWindow: undefined as never }]) {
      expect(() => checkLimits("orders", same, info)).not.toThrow();
    }
    for (const other of [{ maxWindow: 1 }, { maxClockSkew: 1 }]) {
      expect(errorOf(() => checkLimits("orders", other, info)).message).toMatch(
        /was created with max\w+ \d+ ms, got `1`/,
      );
    }
  });

  it("refuses a wanted worker ID outside the pool", () => {
    const pool = { first: 512, last: 515 };
    for (const workerId of [512, 515]) expect(() => checkClaim(request({ pool, workerId }), now, info)).not.toThrow();
    for (const workerId of [511, 516, 512.5, Number.NaN]) {
      expect(errorOf(() => checkClaim(request({ pool, workerId }), now, info)).message).toMatch(
        /from 512 to 515 \(the pool\)/,
      );
    }
  });
});

describe("whether a worker ID is free", () => {
  const end = now + 1000;

  it("is not before the window has passed on both clocks", () => {
    const crashed = record({ until: end });
    expect(isFree(crashed, request({ clock: end }), end)).toBe(true);
    expect(isFree(crashed, request({ clock: end - 1 }), end)).toBe(false);
    expect(isFree(crashed, request({ clock: end }), end - 1)).toBe(false);
  });

  it("after a clean give-back depends only on the claimer's clock", () => {
    const given = record({ token: undefined, clean: true, until: end });
    expect(isFree(given, request({ clock: end }), now)).toBe(true);
    expect(isFree(given, request({ clock: end - 1 }), now)).toBe(false);
  });

  it("is for a holder that can lead its clock this far, unless it was not given back", () => {
    const given = record({ token: undefined, clean: true, until: end });
    expect(isFree(given, request({ clock: end - 100, lead: 100 }), now)).toBe(true);
    expect(isFree(given, request({ clock: end - 101, lead: 100 }), now)).toBe(false);
    expect(isFree({ ...given, clean: false }, request({ clock: end - 1, lead: 100 }), now)).toBe(false);
    expect(isFree(record({ until: end }), request({ clock: end - 1, lead: 100 }), now)).toBe(false);
  });

  it("with recents begins where they begin, for a holder that continues", () => {
    const given = record({ token: undefined, clean: true, until: end, knownFrom: now, recents: { from: now, bytes } });
    expect(isFree(given, request({ clock: now }), now)).toBe(true);
    expect(isFree(given, request({ clock: now - 1 }), now)).toBe(false);
    expect(isFree(given, request({ clock: now, continues: false }), now)).toBe(false);
    expect(isFree({ ...given, clean: false }, request({ clock: now }), now)).toBe(false);
  });

  it("is never while it is pinned", () => {
    expect(isFree(record({ until: 0, pinned: "kept" }), request(), now)).toBe(false);
  });
});

describe("a claim", () => {
  const end = now + 30_000;
  const recents = { from: now - 500, bytes };
  const given = record({ token: undefined, clean: true, until: end, knownFrom: recents.from, recents });

  it("that continues keeps `until`, and may hand on ticks back to the recents' begin", () => {
    const next = claimed(given, 7, request({ token: "t2", window: 10 }), now, info);
    expect(next).toMatchObject({ from: end, until: end, fence: 4, knownFrom: recents.from, recents, clean: false });
    expect(claimed(given, 7, request({ clock: end, continues: false }), now, info)).toMatchObject({
      from: end,
      knownFrom: end,
    });
  });

  it("leaves nothing of the last holder but the pin, the fence and the window's end", () => {
    const before = record({
      until: now - 20_000,
      checkpoint: { timestamp: 1, sequence: 1 },
      releasedAt: now,
      pinned: "kept",
    });
    expect(claimed(before, 7, request({ token: "t2", clock: now + 5 }), now, info)).toEqual({
      workerId: 7,
      fence: 4,
      token: "t2",
      from: now - 10_000,
      until: now + 60_005,
      seenClock: now + 5,
      clean: false,
      knownFrom: now - 10_000,
      recents: undefined,
      holder,
      claimedAt: now,
      pinned: "kept",
    });
  });
});

describe("a refusal", () => {
  const rests = record({ token: undefined });

  it("says pinned before anything else", () => {
    const pinned = record({ pinned: "kept" });
    expect(refusalOf(pinned, request({ clock: now - 5000 }), now, info)).toMatchObject({
      outcome: "pinned",
      reason: "kept",
    });
  });

  it("says held: whether live, by whom, since when and until when", () => {
    const common = { outcome: "held", workerId: 7, holder, since: now, freeAt: now + 60_000, clock: now };
    expect(refusalOf(record(), request(), now, info)).toEqual({ ...common, live: true });
    expect(refusalOf(rests, request(), now, info)).toEqual({ ...common, live: false });
  });

  it("says rollback if this host's clock went back, but not if two requests overtook each other", () => {
    const behind = (by: number, host = "alpha") => {
      const asked = request({ clock: now - by, holder: { ...holder, host } });
      return [rollbackOf(rests, asked, info), refusalOf(rests, asked, now, info).outcome];
    };
    expect(behind(50)).toEqual([undefined, "held"]);
    expect(behind(51)).toEqual([51, "rollback"]);
    expect(behind(10_000, "beta")).toEqual([undefined, "held"]);
    expect(behind(10_001, "beta")).toEqual([10_001, "rollback"]);
  });
});

describe("a release", () => {
  const { from, until } = record();

  it("names the window in which it has to end", () => {
    for (const wrong of [from - 1, until + 1, from + 0.5, Number.NaN]) {
      const { code, message } = errorOf(() => released(record(), release({ until: wrong }), now));
      expect(code).toBe("CONFIG_INVALID");
      expect(message).toContain(`Expected \`until\` to be from ${from} to ${until} (the window of worker 7), got `);
    }
  });

  it("ends past every checkpoint, from before or in the release", () => {
    const timestamp = from + 100;
    const told = record({ checkpoint: { timestamp, sequence: 3 } });
    for (const wrong of [from, timestamp]) {
      const { code, message } = errorOf(() => released(told, release({ until: wrong }), now));
      expect(code).toBe("CONFIG_INVALID");
      expect(message).toContain(
        `Expected \`until\` to be from ${timestamp + 1} to ${until} (past its checkpoint, in the window of worker 7), got `,
      );
    }
    expect(released(told, release({ until: timestamp + 1 }), now)).toMatchObject({ until: timestamp + 1 });
    const own = release({ until: timestamp, checkpoint: { timestamp, sequence: 0 } });
    expect(errorOf(() => released(record(), own, now)).message).toContain(
      `\`until\` to be from ${timestamp + 1} to ${until} (past its checkpoint`,
    );
    for (const wrong of [from - 1, Math.floor(now / 1000), until]) {
      const told = release({ until, checkpoint: { timestamp: wrong, sequence: 0 } });
      expect(errorOf(() => released(record(), told, now)).message).toContain(
        `to be from ${from} to before ${until} (its window, Unix ms), got \`${wrong}\``,
      );
    }
  });

  it("names where recents may begin", () => {
    for (const wrong of [from - 1, from + 11, Number.NaN]) {
      const recents = { from: wrong, bytes };
      const { code, message } = errorOf(() => released(record(), release({ until: from + 10, recents }), now));
      expect(code).toBe("CONFIG_INVALID");
      expect(message).toContain(`Expected \`recentFrom\` to be from ${from} to ${from + 10} `);
    }
  });

  it("of the previous holder does not affect the present one", () => {
    for (const before of [record({ fence: 4 }), record({ token: "t2" }), undefined]) {
      expect(isHolders(before, release(undefined))).toBe(false);
      expect(decideRelease(state, before, release(undefined), () => "m")).toEqual({
        answer: { outcome: "lost", reason: "taken" },
      });
    }
    expect(isHolders(record(), release(undefined))).toBe(true);
  });

  it("without usage is not clean, and leaves `until`", () => {
    const ended = released(record({ recents: { from, bytes } }), release(undefined, { clock: now + 1 }), now);
    const gone = { token: undefined, recents: undefined, clean: false, seenClock: now + 1, releasedAt: now };
    expect(ended).toEqual({ ...record(), ...gone });
  });

  it("repeated stores nothing", () => {
    const first = released(record(), release({ until: from }), now);
    const again = decideRelease(state, first, release({ until }), () => "m");
    expect(again).toEqual({ answer: { outcome: "released" } });
  });
});

const forcing = (how: Pick<ForceReleaseRequest, "force" | "fence" | "resetWindow">): ForceReleaseRequest => {
  return { namespace: "orders", workerId: 7, ...how };
};

describe("from outside", () => {
  it("a forced release keeps the window, unless the operator vouches for it", () => {
    const live = record({ recents: { from: now, bytes } });
    expect(forced(live, now, false)).toMatchObject({
      token: undefined,
      clean: false,
      recents: undefined,
      until: live.until,
    });
    expect(forced(live, now, true).until).toBe(now);
    expect(forced(record({ until: now - 5 }), now, true).until).toBe(now - 5);
  });

  it("the time that a holder reported as used stays used, even after an operator's reset", () => {
    const checkpoint = { timestamp: now + 7, sequence: 0 };
    expect(forced(record({ checkpoint }), now, true).until).toBe(now + 8);
    expect(forced(record({ checkpoint }), now + 20, true).until).toBe(now + 20);
    const gone = record({ token: undefined, clean: true, until: now + 90 });
    expect(forced(gone, now, true)).toMatchObject({ clean: false, until: now + 90 });
  });

  it("a live holder is refused without force, an unused number always", () => {
    const [asked, told] = [forcing({ force: false }), forcing({ force: true })];
    expect(forceRefusal(undefined, told, now)).toEqual({ outcome: "absent" });
    expect(forceRefusal(unusedRecord(7), told, now)).toEqual({ outcome: "absent" });
    expect(forceRefusal(record(), asked, now)).toEqual({ outcome: "live", holder, until: now + 60_000 });
    expect(forceRefusal(record(), told, now)).toBeUndefined();
    expect(forceRefusal(record(), asked, now + 60_000)).toBeUndefined();
  });

  it("a claim that is not the named one is left alone, and a reset has to name one", () => {
    const { fence } = record();
    const superseded = { outcome: "superseded", fence, holder, until: now + 60_000 };
    expect(forceRefusal(record(), forcing({ force: true, fence: fence - 1 }), now)).toEqual(superseded);
    expect(forceRefusal(record(), forcing({ force: false, fence: fence + 1 }), now)).toEqual(superseded);
    expect(forceRefusal(record(), forcing({ force: true, fence, resetWindow: true }), now)).toBeUndefined();
    expect(() => forceRefusal(record(), forcing({ force: true, resetWindow: true }), now)).toThrow(
      /together with `fence`/,
    );
  });

  it("a record has one state", () => {
    expect(stateOf(record(), now)).toBe("live");
    expect(stateOf(record({ pinned: "kept" }), now)).toBe("live");
    expect(stateOf(record({ pinned: "kept", token: undefined }), now)).toBe("pinned");
    expect(stateOf(record({ token: undefined }), now)).toBe("resting");
    expect(stateOf(record({ token: undefined, clean: true }), now)).toBe("free");
    expect(stateOf(record(), now + 60_000)).toBe("free");
    expect(isLive(record(), now + 59_999)).toBe(true);
  });

  it("a record is shown without its token", () => {
    const shown = shownRecord(record({ token: "secret" }), now);
    expect(shown).not.toHaveProperty("token");
    expect(shown).not.toHaveProperty("knownFrom");
    const names = { era: "1-a", renewals: 1, turn: "turn" };
    const stored = record({ token: storedToken("secret"), ...names });
    for (const name of Object.keys(names)) expect(shownRecord(stored, now)).not.toHaveProperty(name);
    // A receipt proves with the stored form of the token.
    const grant = grantOf({ ...state, info: { ...info, id: "0f" } }, stored);
    expect(grant.receipt).toContain(storedToken("secret"));
    expect(JSON.stringify([shown, grant])).not.toContain("secret");
  });

  it("a missing namespace is NOT_FOUND, with what to run", () => {
    expect(noNamespace("orders").code).toBe("NOT_FOUND");
    expect(noNamespace("orders").message).toContain("snowlease init --namespace orders");
  });

  it("times that no date can show stay numbers", () => {
    expect(timeText(now)).toBe("2023-11-14T22:13:20.000Z");
    expect([timeText(1e17), timeText(Number.NaN)]).toEqual(["100000000000000000", "NaN"]);
  });
});

/** One request to the registry; its clock and the holder's are wrong by any amount, and step in either direction. */
const anyStep = fc.record({
  kind: fc.constantFrom("claim", "claim", "renew", "release", "give back", "force", "pin", "unpin"),
  clock: fc.integer({ min: -2000, max: 2000 }),
  holderClock: fc.integer({ min: -2000, max: 2000 }),
  window: fc.integer({ min: 1, max: 500 }),
  /** The sender: the present holder, or an earlier one, whose request comes late. */
  late: fc.nat(2),
  part: fc.float({ min: 0, max: 1, noNaN: true }),
  continues: fc.boolean(),
});

describe("whatever is asked, by whatever clocks", () => {
  it("the windows of a worker ID never overlap, only their holder shortens them, and one holder inherits", () => {
    fc.assert(
      fc.property(fc.array(anyStep, { maxLength: 60 }), (steps) => {
        let stored: Stored | undefined;
        /** The latest embedded time that was granted and not given back. */
        let taken = 0;
        let time = now;
        const grants: Stored[] = [];
        const handed = new Set<object>();

        for (const { kind, clock, holderClock, window, late, part, continues } of steps) {
          time += 20;
          const at = time + clock;
          const asker = grants.at(-1 - late);
          const key = { workerId: 7, fence: asker?.fence ?? 0, token: asker?.token ?? "" };
          const present = asker !== undefined && stored?.token === asker.token;

          if (kind === "claim") {
            const asked = request({ token: `t${time}`, clock: time + holderClock, window, continues });
            if (stored !== undefined && !isFree(stored, asked, at)) continue;
            const recents = stored?.recents;
            stored = { ...claimed(stored, 7, asked, at, info), era: state.era };
            expect(stored.from).toBeGreaterThanOrEqual(taken);
            expect(stored.until).toBeGreaterThanOrEqual(stored.from);
            expect(stored.fence).toBeGreaterThan(grants.at(-1)?.fence ?? 0);
            expect(stored.until).toBeLessThanOrEqual(Math.max(taken, at + 4000 + window));
            if (stored.recents !== undefined) {
              expect(stored.recents).toBe(recents);
              expect(handed.has(stored.recents)).toBe(false);
              handed.add(stored.recents);
            }
            taken = stored.until;
            grants.push(stored);
          } else if (kind === "renew") {
            const asked = renewal({ ...key, clock: time + holderClock, window });
            expect(isHolders(stored, asked)).toBe(present);
            if (!isHolders(stored, asked)) continue;
            const next = renewed(stored, asked, at);
            expect([next.from, next.knownFrom]).toEqual([stored?.from, stored?.knownFrom]);
            expect(next.until).toBeGreaterThanOrEqual(taken);
            expect(next.recents).toBeUndefined();
            [stored, taken] = [next, next.until];
          } else if (kind === "give back" || kind === "release") {
            if (asker === undefined) continue;
            const until =
              present && stored ? stored.from + Math.floor(part * (stored.until - stored.from)) : asker.until;
            const recents = continues ? { from: Math.min(until, stored?.knownFrom ?? until), bytes } : undefined;
            const used = kind === "release" ? undefined : { until, recents };
            const before = stored;
            const { record: ended } = decideRelease({ ...state, clock: at }, stored, release(used, key), () => "m");
            stored = ended ?? stored;
            if (!present) expect(stored).toBe(before);
            else if (used !== undefined) taken = until;
          } else if (kind === "force" && stored !== undefined) {
            if (forceRefusal(stored, forcing({ force: part < 0.5 }), at) !== undefined) continue;
            stored = forced(stored, at, false);
            expect(stored.recents).toBeUndefined();
          } else if (kind === "pin" && stored !== undefined) {
            stored = { ...stored, pinned: "kept" };
          } else if (kind === "unpin" && stored !== undefined) {
            stored = { ...stored, pinned: undefined };
          }
          expect(stored?.until ?? 0).toBe(taken);
        }
      }),
      { numRuns: 1000 },
    );
  });

  it("a renewal touches nothing but `until`, the clock, the checkpoint and what was inherited", () => {
    const anyCheckpoint = fc.option(
      fc.record({ timestamp: fc.integer({ min: now, max: now + 5 }), sequence: fc.nat(5) }),
      { nil: undefined },
    );
    fc.assert(
      fc.property(anyCheckpoint, anyCheckpoint, fc.integer({ min: -9000, max: 9000 }), (before, told, skew) => {
        const stored = record({ checkpoint: before, recents: { from: now, bytes } });
        const next = renewed(stored, renewal({ checkpoint: told, clock: now + skew, window: 70_000 }), now);
        const order = (checkpoint = { timestamp: -1, sequence: 0 }): number =>
          checkpoint.timestamp * 10 + checkpoint.sequence;
        const checkpoint = order(told) > order(before) ? told : before;
        const until = Math.max(now + skew, now) + 70_000;
        expect(next).toEqual({ ...stored, until, seenClock: now + skew, recents: undefined, checkpoint });
      }),
    );
  });
});
