import { beforeEach, describe, expect, test } from "vitest";
import { defaultLayout as layout, layouts } from "../../src/id/layout.ts";
import { type HolderLabel, type Registry } from "../../src/rule/registry.ts";
import { historyKept } from "../../src/rule/limits.ts";
import { endText, explain, type Explanation } from "../../src/ops/explain.ts";
import { fakeClock, type FakeClock, memoryRegistry } from "../../src/testing.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";

const namespace = "orders";
const alpha: HolderLabel = { host: "alpha", ip: "10.0.0.1", pid: 1, instance: "" };
const beta: HolderLabel = { host: "beta", ip: "", pid: 2, instance: "b" };

let clock: FakeClock;
let registry: Registry;
beforeEach(() => {
  clock = fakeClock();
  registry = memoryRegistry({ clock });
});

/** Holds worker 7 for a second. */
async function hold(holder: HolderLabel): Promise<{ from: number; until: number }> {
  const request = claimRequest({ namespace, holder, pool: { first: 7, last: 7 }, clock: clock.now(), window: 1000 });
  const grant = await granted(registry, request);
  await clock.advance(1000);
  await registry.release({ ...keyOf(request, grant), clock: clock.now(), used: { until: grant.until } });
  return grant;
}

const idAt = (timestamp: number, workerId = 7): string => String(layout.compose({ timestamp, workerId, sequence: 0 }));

const explained = (timestamp: number, workerId?: number): Promise<Explanation> =>
  explain(registry, namespace, idAt(timestamp, workerId));

const iso = (ms: number): string => new Date(ms).toISOString();

describe("why an ID has no maker", () => {
  test("in a gap: the answer names the holders around it", async () => {
    const first = await hold(alpha);
    await clock.advance(60_000);
    const second = await hold(beta);
    expect(await explained(first.until - 1)).toMatchObject({ holders: [{ holder: alpha }] });
    expect((await explained(first.until)).unheld).toEqual({
      why: "gap",
      detail: `the window of alpha (10.0.0.1), pid 1 ended at ${iso(first.until)}, and that of beta, pid 2, b began at ${iso(second.from)}`,
    });
    await clock.advance(60_000);
    expect((await explained(clock.now())).unheld).toEqual({
      why: "gap",
      detail: `the window of beta, pid 2, b ended at ${iso(second.until)}, and it was not claimed again`,
    });
  });

  test("before the first recorded claim, which may not have been the first of all", async () => {
    const { from } = await hold(alpha);
    expect((await explained(from - 1)).unheld).toEqual({
      why: "early",
      detail: `the first recorded claim of worker 7 is later: that of alpha (10.0.0.1), pid 1 began at ${iso(from)}; claims whose window ended before ${iso(clock.now() - historyKept)} may be forgotten`,
    });
  });

  test("a worker ID that was never claimed, and a future time", async () => {
    await hold(alpha);
    expect((await explained(clock.now(), 8)).unheld).toEqual({ why: "unused", detail: "worker 8 was never claimed" });
    expect((await explained(clock.now() + 20_000)).unheld).toEqual({
      why: "future",
      detail: `that time is in the future: the registry's clock shows ${iso(clock.now())}; does the ID belong to another layout or namespace?`,
    });
  });

  test("a pinned worker ID, until its host has moved", async () => {
    await hold(alpha);
    await registry.pin(namespace, 9, "used by gamma", { ip: "10.0.0.9" });
    const before = clock.now();
    expect((await explained(before, 9)).unheld).toEqual({
      why: "pinned",
      detail:
        "worker 9 was not claimed yet; it is pinned (used by gamma), and a program without a lease may have made the ID",
    });
    const holder = { ...alpha, ip: "10.0.0.9" };
    const { from, until } = await granted(registry, claimRequest({ namespace, holder, clock: clock.now() }));
    await clock.advance(60_000);
    expect((await explained(from - 1, 9)).unheld).toMatchObject({ why: "pinned" });
    expect(await explained(from, 9)).toMatchObject({ holders: [{ holder }] });
    expect((await explained(until, 9)).unheld).toMatchObject({ why: "gap" });
  });
});

test("a claim that went on past its end, or was never given back, is not called live", async () => {
  const request = claimRequest({ namespace, holder: alpha, clock: clock.now(), window: 1000 });
  const { until } = await granted(registry, request);
  const ends = async (): Promise<string[]> => {
    const { holders, clock } = await explained(until - 1, 0);
    return holders.map((row) => endText(row, clock));
  };
  expect(await ends()).toEqual(["live"]);
  await clock.advance(1000);
  expect(await ends()).toEqual(["never released"]);
});

test("an ID of a layout that wraps is looked up near the given time", async () => {
  const scene = layouts.scene;
  const request = claimRequest({ namespace, layout: scene.fingerprint, pool: scene.pool, clock: clock.now() });
  const { from, workerId } = await granted(registry, request);
  const id = String(scene.compose({ timestamp: from, workerId, sequence: 0 }));
  expect((await explain(registry, namespace, id, { at: from })).holders).toHaveLength(1);
  await expect(explain(registry, namespace, id)).rejects.toMatchObject({ code: "CONFIG_INVALID" });
});
