import { afterEach, describe, expect, test } from "vitest";
import { isSnowleaseError } from "../../src/core/errors.ts";
import { defaultLayout } from "../../src/core/layout.ts";
import { fakeClock, type FakeClock, memoryRegistry } from "../../src/testing.ts";
import { joinLease } from "../../src/shared/member.ts";
import type { SharedSnowflake } from "../../src/shared/shared-snowflake.ts";
import { snowlease } from "../../src/snowlease.ts";

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
});

async function share(options: object = {}): Promise<{ ids: SharedSnowflake; clock: FakeClock }> {
  const clock = fakeClock({ start: Date.UTC(2026, 0, 1) });
  const ids = await snowlease({ registry: memoryRegistry({ clock }), clock, ...options, shared: true });
  open.push(ids);
  return { ids, clock };
}

/** How many IDs there are now, and that no two are the same. */
function drain(...makers: readonly { next(): bigint }[]): number {
  const made: bigint[] = [];
  for (let left = [...makers]; left.length > 0;) {
    left = left.filter((maker) => {
      try {
        made.push(maker.next());
        return true;
      } catch (error) {
        if (isSnowleaseError(error, "SEQUENCE_EXHAUSTED")) return false;
        throw error;
      }
    });
  }
  expect(new Set(made).size).toBe(made.length);
  return made.length;
}

describe("generators that share a lease", () => {
  test("have all of a tick together; one alone has all of it", async () => {
    const { ids, clock } = await share();
    expect(drain(ids)).toBe(4096);
    await clock.advance(64);
    const joined = joinLease(ids.share(), { clock });
    expect(drain(joined, ids)).toBe(4096);
    await clock.advance(1);
    expect(drain(joined, ids)).toBe(4096);
  });

  test("leave one that comes late a lane", async () => {
    const { ids, clock } = await share();
    const joined = joinLease(ids.share(), { clock });
    expect(drain(ids)).toBe(4096 - 128);
    expect(drain(joined)).toBe(128);
    await joined.close();
    await clock.advance(64);
    expect(drain(ids)).toBe(4096);
  });

  test("leave a lane to one that is quiet, and none any more to one that was ended without a word", async () => {
    const { ids, clock } = await share({ window: 60_000 });
    const quiet = joinLease(ids.share(), { clock });
    quiet.next();
    // A thread that crashes or is terminated does not close anything.
    const crashed = joinLease(ids.share(), { clock });
    crashed.next();
    await clock.advance(15_000);
    expect(drain(ids)).toBe(4096 - 2 * 128);
    expect(drain(quiet)).toBe(128);
    await clock.advance(2000);
    expect(drain(ids)).toBe(4096 - 128);
    expect(drain(quiet)).toBe(128);
  });

  test("fill arrays and texts with all that is left of the tick", async () => {
    const { ids, clock } = await share();
    const target = new BigUint64Array(5000);
    expect(ids.fill(target)).toBe(4096);
    expect(new Set(target.subarray(0, 4096)).size).toBe(4096);
    await clock.advance(1);
    const text = new Uint8Array(5000 * 20);
    const lines = new TextDecoder()
      .decode(text.subarray(0, ids.fillText(text)))
      .trimEnd()
      .split("\n");
    expect(new Set(lines).size).toBe(4096);
  });

  test("continue behind what was used when the clock goes back, each behind its own", async () => {
    const { ids, clock } = await share();
    const joined = joinLease(ids.share(), { clock });
    const made = [...ids.take(10), ...joined.take(10)];
    await clock.advance(5000);
    made.push(...ids.take(10), ...joined.take(10));
    clock.step(-5000);
    made.push(...ids.take(10), ...joined.take(10));
    expect(new Set(made).size).toBe(60);
    const again = made.slice(40).map((id) => defaultLayout.decompose(id).timestamp);
    expect(new Set(again)).toEqual(new Set([Date.UTC(2026, 0, 1)]));
  });

  test("give up a worker ID whose window the clock of one of them has left behind", async () => {
    const { ids, clock } = await share({ pool: "0-1" });
    const joined = joinLease(ids.share(), { clock });
    await clock.advance(100_000);
    joined.next();
    const { workerId } = joined.lease;
    clock.step(-90_000);
    expect(() => joined.next()).toThrow(expect.objectContaining({ code: "CLOCK_ROLLBACK" }));
    await clock.advance(1000);
    expect(joined.lease.workerId).not.toBe(workerId);
    expect(defaultLayout.decompose(joined.next()).workerId).toBe(ids.lease.workerId);
  });

  test("are told that the lease has ended", async () => {
    const { ids, clock } = await share();
    const joined = joinLease(ids.share(), { clock });
    joined.next();
    await ids.close();
    await clock.advance(1);
    expect(() => joined.next()).toThrow(expect.objectContaining({ code: "LEASE_LOST" }));
    expect(joined.lease.state).toBe("lost");
  });

  test.each([{ mode: "lead" }, { spread: 8 }] as const)("have no %o", async (option) => {
    await expect(share(option)).rejects.toMatchObject({ code: "CONFIG_INVALID" });
  });

  test.each([undefined, null, 7, {}, { buffer: new ArrayBuffer(8) }])("are not made of %o", (shared) => {
    expect(() => joinLease(shared as never)).toThrow(expect.objectContaining({ code: "CONFIG_INVALID" }));
  });
});
