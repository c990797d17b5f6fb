import { describe, expect, it } from "vitest";
import { timeText } from "../../src/id/errors.ts";
import { joinLease } from "../../src/sharing/joined-lease.ts";
import { snowlease } from "../../src/snowlease.ts";
import { coded, open, start, thrown } from "../support/generator.ts";

const window = 60_000;
const held = (until: number): string =>
  `Worker 7 of namespace \`default\` makes IDs until ${timeText(until)}, longer with each renewal.`;
const notOk = (said: RegExp): object => ({ ok: false, detail: expect.stringMatching(said) as string });

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
    expect(thrown(() => ids.next())).toMatchObject({ code: "LEASE_EXPIRED", message: ids.health().detail });
    wire.cut = false;
    await clock.advance(1000);
    expect(ids.health().detail).not.toContain("The last try failed");
    expect(ids.health().ok).toBe(true);
  });

  it("is ok while a millisecond is full", async () => {
    const { ids, clock } = await open();
    ids.take(4096);
    expect(thrown(() => ids.fill(new BigUint64Array(1)))).toEqual(coded("SEQUENCE_EXHAUSTED"));
    expect(ids.health().ok).toBe(true);
    await clock.advance(1);
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
    await registry.forceRelease({ namespace: "default", workerId: ids.lease.workerId, force: true });
    wire.claimsCut = true;
    await ids.lease.renew();
    await clock.advance(1000);
    const said =
      /was given up and another worker ID is being claimed; try again\. The last try failed: The registry did not/;
    expect(ids.health()).toEqual(notOk(said));
    wire.claimsCut = false;
    await clock.advance(2000);
    expect(ids.health()).toMatchObject({ ok: true });
  });

  it("of a worker thread is that of the lease it joined", async () => {
    const ids = await snowlease({ registry: "memory:", shared: true });
    const joined = joinLease(ids.share());
    expect(joined.health()).toMatchObject({ ok: true });
    await ids.close();
    expect(joined.health().ok).toBe(false);
    await joined.close();
  });
});
