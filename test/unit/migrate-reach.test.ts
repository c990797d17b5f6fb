import { describe, expect, test } from "vitest";
import { Layout, layouts } from "../../src/id/layout.ts";
import { firstEqual, roomier, sameIds } from "../../src/ops/migrate/overlap.ts";
import { makePlan, pinsOf, type PlanRequest } from "../../src/ops/migrate/plan.ts";
import { planText, readPlan } from "../../src/ops/migrate/plan-file.ts";
import { isSameStore } from "../../src/ops/migrate/sources.ts";
import type { SourceContents, Reach } from "../../src/ops/migrate/source.ts";
import { parseAddress } from "../../src/registries/index.ts";
import { textOf } from "../support/failures.ts";

const now = Date.UTC(2026, 10, 22);
const { westid, twitter } = layouts;
const cosid = Layout.parse("timestamp:41,worker:10,sequence:12@1577203200000/1");

/** A plan of a source with one host. */
async function planned(
  reach: Reach,
  more: Partial<PlanRequest> & Pick<PlanRequest, "from">,
): ReturnType<typeof makePlan> {
  const { sourceLayout = westid } = more;
  const findings: SourceContents = {
    makers: [{ workerId: 3, name: "a:80", address: "10.0.0.3" }],
    retired: [],
    reach,
    takesOver: reach.next === "any" ? "handed out again" : true,
    remarks: [],
  };
  const about = { namespace: "orders", source: "s", layout: sourceLayout, numbers: sourceLayout.pool.last + 1, now };
  const made = await makePlan(findings, { ...about, ...more, sourceLayout });
  expect(readPlan(planText(made.plan), "plan.json")).toEqual(made.plan);
  return made;
}

async function refusal(...args: Parameters<typeof planned>): Promise<string> {
  return planned(...args).then(() => "none", textOf);
}

const any: Reach = { next: "any", highest: 1023 };
const above = (highest: number): Reach => ({ next: "above", highest });

describe("what a source can still hand out", () => {
  test("is not leased: all worker IDs up to its highest, and a headroom above", async () => {
    const leasedFrom = async (highest: number, more: Partial<PlanRequest> = {}): Promise<number> => {
      const { plan } = await planned(above(highest), { from: "leaf", sourceLayout: twitter, ...more });
      const pins = pinsOf(plan);
      for (let n = 0; n < 1024; n++) expect(pins.has(n)).toBe(n < plan.leased.first || n > plan.leased.last);
      expect(pins.get(3)?.owner).toEqual({ ip: "10.0.0.3", usedUntil: undefined });
      return plan.leased.first;
    };
    expect(await leasedFrom(4)).toBe(4 + 16 + 1);
    expect(await leasedFrom(499)).toBe(499 + 100 + 1);
    expect(await leasedFrom(4, { headroom: 0 })).toBe(5);
    expect(await leasedFrom(4, { headroom: 200 })).toBe(205);
    expect(await leasedFrom(4, { pool: { first: 512, last: 767 } })).toBe(512);
    expect(await leasedFrom(4, { pool: { first: 0, last: 767 } })).toBe(21);
  });

  test("is refused if nothing is left, with the change to make", async () => {
    expect(await refusal(above(1010), { from: "leaf", sourceLayout: twitter })).toMatch(
      /^CONFIG_INVALID: leaf hands out the worker IDs above 1010 next, and 203 of them are kept for it, and none is left to lease of 0-1023; keep fewer with `--headroom`; or plan with more bits/,
    );
    expect(await refusal(above(4), { from: "leaf", sourceLayout: twitter, pool: { first: 0, last: 9 } })).toMatch(
      /none is left to lease of 0-9 \(`--pool`\);.* or a `--pool` within 21-1023\.$/,
    );
    expect(await refusal(any, { from: "westid-redis" })).toBe(
      "CONFIG_INVALID: westid-redis can hand out each of the worker IDs 0-1023 again, and none is left to lease of 0-1023; lease from the very store of westid, " +
        "in the namespace `default`; or plan with more bits for worker IDs: `--layout timestamp:40,worker:11,sequence:12@1490346283706/1`.",
    );
    expect(await refusal(any, { from: "cosid-sql", sourceLayout: cosid })).toMatch(
      /`--layout timestamp:40,worker:11,sequence:12@1577203200000\/1`; or give all its programs one bit less \(`cosid\.machine\.machine-bit`\), then plan with `--worker-bits 9`\.$/,
    );
  });

  test("leaves a band that it cannot reach, its own store, and another layout", async () => {
    const band = await planned({ next: "any", highest: 511 }, { from: "cosid-sql", sourceLayout: cosid, numbers: 512 });
    expect(band.plan.leased).toEqual({ first: 512, last: 1023 });
    expect(band.outlook).toMatchObject({ left: 512, kept: 0, renumbered: 1 });
    const shared = await planned(any, { from: "westid-redis", sharesStore: true });
    expect(shared.outlook).toMatchObject({ left: 1023, kept: 0 });
    const layout = Layout.parse("timestamp:40,worker:11,sequence:12@1490346283706/1");
    const roomy = await planned(any, { from: "westid-redis", layout });
    expect(roomy.outlook).toMatchObject({ left: 2048, kept: 0, retired: 0 });
    // Fleets of 12 bits exist.
    const wide = Layout.parse("timestamp:39,worker:12,sequence:12@1490346283706");
    expect(
      (await planned({ next: "any", highest: 4095 }, { from: "westid-sql", sourceLayout: wide, sharesStore: true }))
        .outlook.size,
    ).toBe(4096);
  });

  test("a plan that lacks a worker ID within the source's reach is not applied", async () => {
    const { plan } = await planned(above(4), { from: "leaf", sourceLayout: twitter });
    const text = planText({ ...plan, retired: plan.retired.slice(1) });
    expect(() => readPlan(text, "plan.json")).toThrow(
      /`retired` with each worker ID below `leased\.first`, got none with 0/,
    );
  });
});

describe("layouts whose IDs could be equal", () => {
  test("are refused with the date of the first", async () => {
    expect(await refusal(above(4), { from: "leaf", sourceLayout: twitter, layout: westid })).toMatch(
      /^LAYOUT_MISMATCH: IDs of the layout timestamp:41,worker:10,sequence:12@1490346283706\/1 from now on equal IDs of leaf \(timestamp:41,datacenter:5,worker:5.*\), the first of them made at 2020-07-03T16:38:10\.951Z/,
    );
    expect(await refusal(any, { from: "cosid-sql", sourceLayout: cosid, layout: westid })).toMatch(
      /the first of them to be made at 2029-08-23T06:55:16/,
    );
  });

  test("the first equal ID is an ID of both layouts", () => {
    for (const old of [westid, twitter, cosid, layouts.safe53, layouts.sonyflake]) {
      for (const fresh of [westid, twitter, cosid, layouts.safe53, layouts.sonyflake]) {
        if (sameIds(old, fresh)) continue;
        const at = firstEqual(old, fresh, now);
        const lowest = fresh.rangeOf(now, now + 1).first;
        if (at === undefined) expect(old.rangeOf(old.endOfLife - 1, old.endOfLife).last).toBeLessThan(lowest);
        else {
          const { first, last } = old.rangeOf(at, at + 1);
          expect([first <= lowest || lowest <= last, last >= lowest]).toEqual([true, true]);
          if (at > old.epoch) expect(old.rangeOf(at - old.tick, at - old.tick + 1).last).toBeLessThan(lowest);
        }
      }
    }
  });

  test("field names make no difference, and the advised layouts are years apart", () => {
    const leaf = Layout.parse("timestamp:41,worker:10,sequence:12@1288834974657");
    expect([sameIds(leaf, twitter), sameIds(westid, twitter)]).toEqual([true, false]);
    for (const old of [westid, twitter, cosid]) {
      const fresh = roomier(old, now) as Layout;
      expect(fresh.workerBits).toBe(11);
      expect(firstEqual(old, fresh, now)).toBeGreaterThan(now + 5 * 365 * 86_400_000);
    }
  });
});

test("the source's own store is recognized by servers, database and namespace", () => {
  const same = (url: string, registry: string, namespace = "default", from = "westid-redis" as const): boolean =>
    isSameStore(from, url, parseAddress(registry), namespace);
  expect(same("redis://h:6379", "redis://u:p@H/0?beside=westid")).toBe(true);
  expect(same("redis://h:6379", "redis://h:6379/1")).toBe(false);
  expect(same("redis://h:6379", "redis://h:6379", "orders")).toBe(false);
  expect(same("redis://h:6379", "redis://i:6379")).toBe(false);
  expect(same("redis://h:6379", "sqlite:r.db")).toBe(false);
});
