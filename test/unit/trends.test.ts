import { describe, expect, test } from "vitest";
import { Trends, trendLength } from "../../src/http/monitoring/trends.ts";
import { fakeClock } from "../../src/testing.ts";
import { makeDashboard } from "../support/dashboard.ts";

/** The charts of a page as text: title -> text. */
function chartsIn(page: string): Record<string, string> {
  const charts = /<section[^>]* id="charts".*?<\/section>/s.exec(page)?.[0] ?? "";
  return Object.fromEntries(
    Array.from(charts.matchAll(/<figcaption>([^<]*) <b>([^<]*)<\/b>/g), ([, title = "", text = ""]) => [title, text]),
  );
}

describe("charts of the last hour", () => {
  test("count claims, renewals and refused claims, and show pool use and clock", async () => {
    const { send, claim, clock, registry } = makeDashboard();
    const { fence, token } = await claim("orders", {}, { window: 120_000 });
    await claim("orders", {}, { window: 120_000 });
    await clock.advance(60_000);
    await claim("orders");
    const renewal = { namespace: "orders", workerId: 0, fence, token, window: 60_000 };
    for (let i = 0; i < 3; i++) await registry.renew({ ...renewal, clock: clock.now() });
    await claim("orders", {}, { workerId: 0 }).catch(() => undefined);
    const { text } = await send("GET", "/?namespace=orders");
    expect(chartsIn(text)).toEqual({
      "Worker IDs taken": "3 last",
      Claims: "3, at most 2 a minute",
      Renewals: "3, at most 3 a minute",
      "Refused claims": "1, at most 1 a minute",
      "Clock against the registry’s": "0 ms last",
    });
    // The same for readers without sight.
    expect(text).toContain('role="img" aria-label="Claims, last hour: 3, at most 2 a minute"');
    // Two bars, the first twice as high.
    expect(text).toMatch(/<path class="claims" d="M292\.5 54v-26M297\.5 54v-13" \/>/);
    expect(chartsIn((await send("GET", "/?namespace=bills")).text)).toEqual({});
  });

  test("are filled without readers, too, and interrupted while the registry is away", async () => {
    let broken = false;
    const bench = makeDashboard({
      change: (registry) => ({
        ...registry,
        ping: () => (broken ? Promise.reject(new Error("gone")) : registry.ping()),
      }),
    });
    const { send, claim, clock, follow } = bench;
    const end = new AbortController();
    const following = follow(end.signal);
    for (let i = 0; i < 3; i++) await claim("orders", {}, { window: 120_000 });
    await clock.advance(60_000);
    broken = true;
    await clock.advance(60_000);
    broken = false;
    await clock.advance(60_000);
    const { text } = await send("GET", "/?namespace=orders");
    expect(chartsIn(text)["Worker IDs taken"]).toBe("0 last, from 0 to 3");
    // Two strokes: no line joins the values on both sides of the gap.
    expect(/<path class="use" d="([^"]*)"/.exec(text)?.[1]?.match(/M/g)).toHaveLength(2);
    end.abort();
    await following;
    await clock.advance(600_000);
    expect(/<path class="use" d="([^"]*)"/.exec((await send("GET", "/?namespace=orders")).text)?.[1]).toMatch(
      /M295 [\d.]+h5$/,
    );
  });

  test("keep an hour and no more, of a limited number of namespaces, also when the clock is set back", async () => {
    const clock = fakeClock();
    const trends = new Trends(clock);
    const granted = { operation: "claim", seconds: 0, answer: { outcome: "granted" } } as const;
    for (let i = 0; i < 3 * trendLength; i++) {
      trends.watch({ ...granted, namespace: "orders" });
      await clock.advance(60_000);
    }
    const claims = (namespace: string): number =>
      trends.of(namespace).reduce((sum, point) => sum + (point?.claims ?? 0), 0);
    expect(trends.of("orders").length).toBe(trendLength);
    expect(claims("orders")).toBe(trendLength - 1);
    // Values ahead of a clock that was set back would otherwise come up again.
    clock.step(-90 * 60_000);
    trends.watch({ ...granted, namespace: "orders" });
    expect(claims("orders")).toBe(1);
    clock.step(90 * 60_000);
    expect(claims("orders")).toBe(0);
    trends.watch({ ...granted, namespace: "orders" });
    expect(claims("orders")).toBe(1);
    for (let i = 0; i < 300; i++) trends.watch({ ...granted, namespace: `other_${i}` });
    expect(claims("orders")).toBe(0);
    trends.watch({ ...granted, namespace: undefined });
    trends.watch({ operation: "claim", seconds: 0, answer: { outcome: "lost" }, namespace: "lost" });
    expect(trends.of("lost").every((point) => point === undefined)).toBe(true);
  });
});
