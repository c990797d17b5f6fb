import { describe, expect, it, onTestFinished } from "vitest";
import type { Snowflake } from "../../src/generator/snowflake.ts";
import { isSnowleaseError, type SnowleaseError, timeText } from "../../src/id/errors.ts";
import { Layout, layouts } from "../../src/id/layout.ts";
import { joinLease } from "../../src/sharing/joined-lease.ts";
import { leaseServer } from "../../src/sharing/lease-server.ts";
import { SharedUsageTracker } from "../../src/sharing/usage-tracker.ts";
import { snowlease } from "../../src/snowlease.ts";
import { fakeClock, memoryRegistry } from "../../src/testing.ts";
import { Random } from "../../src/verify/random.ts";
import { coded, open, start, thrown } from "../support/generator.ts";

const window = 60_000;
/** Four IDs a tick. */
const small = Layout.parse("timestamp:41,worker:10,sequence:2@1490346283706/1");
const held = (until: number): string =>
  `Worker 7 of namespace \`default\` makes IDs until ${timeText(until)}, longer with each renewal.`;
const notOk = (said: RegExp): object => ({ ok: false, detail: expect.stringMatching(said) as string });

/** Up to so many IDs, and why there are not more. */
function taken(
  ids: Snowflake,
  count: number,
): { readonly made: bigint[]; readonly refusal: SnowleaseError | undefined } {
  const made: bigint[] = [];
  try {
    while (made.length < count) made.push(...ids.take(count - made.length));
    return { made, refusal: undefined };
  } catch (error) {
    if (!isSnowleaseError(error)) throw error;
    return { made, refusal: error };
  }
}

describe("the health of a generator", () => {
  it("tells until when IDs are made, and makes none", async () => {
    const { ids, next, clock } = await open();
    expect(ids.health()).toEqual({ ok: true, detail: held(start + window) });
    expect(next()).toEqual([start, 0]);
    await clock.advance(3);
    expect(ids.health().ok).toBe(true);
    expect(next()).toEqual([start + 3, 0]);
  });

  it("is not ok where the window has passed, and tells why; next says the same; both are well after a renewal", async () => {
    const { ids, clock, wire } = await open();
    wire.cut = true;
    await clock.advance(window - 1);
    expect(ids.health()).toMatchObject({ ok: true });
    expect(ids.health().detail).toMatch(/ until .* The last try failed: The registry did not answer/);
    await clock.advance(1);
    expect(ids.health()).toEqual(
      notOk(/IDs go on when a renewal succeeds\. The last try failed: The registry did not answer/),
    );
    const { code, cause, message } = thrown(() => ids.next());
    expect([code, cause]).toEqual(["LEASE_EXPIRED", coded("REGISTRY_UNAVAILABLE")]);
    expect(ids.health().detail.startsWith(message)).toBe(true);
    wire.cut = false;
    await clock.advance(1000);
    expect(ids.health().detail).not.toContain("The last try failed");
    expect(ids.health().ok).toBe(true);
  });

  it("is ok while a millisecond is full, and not where the next ones are, too", async () => {
    const { ids, clock, registry } = await open({ layout: small });
    expect(taken(ids, 5).refusal).toEqual(coded("SEQUENCE_EXHAUSTED"));
    expect(ids.health().ok).toBe(true);
    await ids.close();
    await clock.advance(1);
    const lead = await open({ layout: small, registry, clock, mode: "lead" });
    taken(lead.ids, 4 * 500);
    await lead.ids.close();
    const { ids: behind } = await open({ layout: small, registry, clock });
    expect(behind.health()).toEqual(notOk(/^All 4 sequences of this tick are used; the next tick begins in 500 ms/));
    await clock.advance(500);
    expect(behind.health().ok).toBe(true);
  });

  it("is not ok where a window in lead mode is used up", async () => {
    const { ids, clock } = await open({ mode: "lead", layout: small, window: 3000 });
    taken(ids, 4 * 2999);
    expect(ids.health().ok).toBe(true);
    taken(ids, 4 * 10);
    expect(ids.health()).toEqual(notOk(/^All IDs of the window of worker 7 are used, up to /));
    await clock.advance(1500);
    expect(ids.health().ok).toBe(true);
  });

  it("is not ok before the window opens, and where the clock was set back too far", async () => {
    const { ids, clock } = await open();
    await clock.advance(10);
    ids.next();
    clock.step(-30_000);
    expect(ids.health()).toEqual(notOk(/^The clock was set back by 30000 ms, to before what worker 7 may use again/));
    clock.step(30_000);
    expect(ids.health().ok).toBe(true);
  });

  it.each(["close", "suspend"] as const)("is not ok after %s", async (end) => {
    const { ids } = await open();
    ids.next();
    await ids[end]();
    const said = { close: /has ended \(closed\)/, suspend: /was given back by `suspend`/ }[end];
    expect(ids.health()).toEqual(notOk(said));
  });

  it("is not ok while another worker ID is claimed, and tells why that takes so long", async () => {
    const { ids, clock, registry, wire } = await open({ onLost: "switch", workerId: undefined });
    wire.cut = true;
    await ids.lease.renew();
    wire.cut = false;
    await registry.forceRelease({ namespace: "default", workerId: ids.lease.workerId, force: true });
    wire.claimsCut = true;
    await ids.lease.renew();
    // What failed before the switch is no news of it.
    expect(ids.health()).toEqual(notOk(/try again\.$/));
    await clock.advance(1000);
    expect(ids.health()).toEqual(
      notOk(/another worker ID is being claimed; try again\. The last try failed: The registry/),
    );
    wire.claimsCut = false;
    await clock.advance(2000);
    expect(ids.health()).toEqual({ ok: true, detail: expect.stringMatching(/with each renewal\.$/) as string });
  });

  it("of a worker thread is that of the lease it joined", async () => {
    const ids = await snowlease({ registry: "memory:", shared: true });
    const joined = joinLease(ids.share());
    expect(joined.health()).toMatchObject({ ok: true });
    await ids.close();
    expect(joined.health().ok).toBe(false);
    await joined.close();
  });

  it("of a process that borrows a lease is not ok where the lender gives no more of it", async () => {
    const clock = fakeClock({ start });
    const lender = await snowlease({ registry: memoryRegistry({ clock }), clock, shared: true });
    if (!(lender.blocks instanceof SharedUsageTracker)) expect.fail("It is borrowed.");
    const served = leaseServer(lender.lease, lender.blocks);
    let isGone = false;
    const lose = <Answer>(answer: () => Promise<Answer>): Promise<Answer> =>
      isGone ? Promise.reject(new Error("connect ENOENT")) : answer();
    const lent = {
      ...served,
      renew: (request: Parameters<typeof served.renew>[0]) => lose(() => served.renew(request)),
      takeBlocks: (request: Parameters<NonNullable<typeof served.takeBlocks>>[0]) =>
        lose(async () => (await served.takeBlocks?.(request)) ?? expect.fail("It lends no blocks.")),
    };
    const ids = await snowlease({ registry: lent, clock });
    onTestFinished(async () => {
      await ids.close();
      await lender.close();
    });
    const exhaust = async (): Promise<void> => {
      for (let ms = 0; ms < 8000; ms += 100) {
        taken(ids, 10_000);
        await clock.advance(100);
      }
    };
    await exhaust();
    expect(ids.health().ok).toBe(true);
    isGone = true;
    await exhaust();
    expect(thrown(() => ids.next())).toEqual(coded("SEQUENCE_EXHAUSTED"));
    expect(ids.health()).toEqual(notOk(/The last try failed: The registry did not answer: connect ENOENT/));
    isGone = false;
    await clock.advance(21_000);
    expect(ids.health().ok).toBe(true);
    ids.next();
  });

  const settings = (["wall", "lead"] as const).flatMap((mode) =>
    [layouts.westid, layouts.rollback, layouts.uid, small].map((layout) => ({
      mode,
      layout,
      name: layout.fingerprint,
    })),
  );
  it("acts on a clock that was set back too far, as next does: nobody may ask for an ID meanwhile", async () => {
    for (const mode of ["wall", "lead"] as const) {
      const { ids, clock } = await open({ mode, layout: small, window: 6000, onLost: "switch", workerId: undefined });
      for (let second = 0; second < 20; second++) {
        ids.next();
        await clock.advance(1000);
      }
      // In lead mode, IDs go on to the end of the window, whatever the clock shows.
      if (mode === "lead") taken(ids, 4 * 6001);
      const { workerId } = ids.lease;
      clock.step(-3_600_000);
      expect(ids.health().ok).toBe(false);
      await clock.advance(1000);
      expect(ids.health().ok).toBe(true);
      expect(ids.lease.workerId).not.toBe(workerId);
    }
  });

  it("ends a lease that may not switch where the clock stays set back, so that its process is started anew", async () => {
    for (const by of [-3_600_000, -(start - 1_000_000_000_000)]) {
      const { ids, clock } = await open();
      ids.next();
      clock.step(by);
      expect(ids.health().ok).toBe(false);
      await clock.advance(1000);
      expect(ids.lease.signal.aborted).toBe(true);
      expect(ids.health()).toEqual(notOk(/has ended \(lost\); make a new generator\.$/));
    }
  });

  it("in lead mode is not ok where the layout has ended", async () => {
    const layout = Layout.parse(`timestamp:31,worker:10,sequence:2@${start - 2 ** 31 + 5000}/1`);
    const { ids, clock } = await open({ mode: "lead", layout });
    taken(ids, 4 * 6000);
    expect(ids.health()).toEqual(notOk(new RegExp(thrown(() => ids.next()).message.slice(0, 20))));
    expect(thrown(() => ids.next())).toEqual(coded("LAYOUT_EXPIRED"));
    await clock.advance(1);
  });

  it.each(settings)("changes nothing, and says what happens next: $mode, $name", async ({ mode, layout }) => {
    const terms = { mode, layout, spread: 4, rollback: { maxTell: 1e9 } };
    const [looked, other] = [await open(terms), await open(terms)];
    const random = new Random(7);
    for (let step = 0; step < 400; step++) {
      const by = random.pick([0, 0, 1, 3, 1000, 20_000, -1, -50, -700, -12_000, -30_000]);
      const count = random.pick([0, 0, 1, 2, 5, 5000]);
      for (const { clock } of [looked, other]) await (by < 0 ? clock.step(by) : clock.advance(by));
      const { ok, detail } = looked.ids.health();
      const seen = taken(looked.ids, count);
      if (count > 0 && layout.tick === 1 && seen.made.length === 0 && seen.refusal?.code !== "SEQUENCE_EXHAUSTED") {
        expect([ok, detail], `step ${step}`).toEqual([false, seen.refusal?.message]);
      }
      if (seen.made.length > 0) expect([ok, detail], `step ${step}`).toEqual([true, detail]);
      looked.ids.health();
      expect(seen).toEqual(taken(other.ids, count));
      expect(looked.ids.lease.state).toBe(other.ids.lease.state);
    }
    expect(looked.rollbacks).toEqual(other.rollbacks);
    expect(looked.ids.checkpoint()).toEqual(other.ids.checkpoint());
  });
});
