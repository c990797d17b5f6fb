import { describe, expect, test } from "vitest";
import { drawTop } from "../../src/cli/terminal/top-view.ts";
import { layouts } from "../../src/id/layout.ts";
import { SnowleaseError } from "../../src/id/errors.ts";
import { alarmsOf } from "../../src/ops/pool/alarms.ts";
import { type Picture, PoolWatch } from "../../src/ops/pool/pool-watch.ts";
import { observe } from "../../src/http/monitoring/observe.ts";
import { fakeClock, memoryRegistry } from "../../src/testing.ts";
import { makeDashboard } from "../support/dashboard.ts";

const { pool, fingerprint: layout } = layouts.safe53;
const textOf = (html: string): string => html.replace(/<[^>]*>/g, "").replace(/\s+/g, " ");

describe("the dashboard begins with what is wrong", () => {
  /** A pool of 32, of which all are held. */
  async function full(): Promise<ReturnType<typeof makeDashboard>> {
    const bench = makeDashboard();
    for (let i = 0; i <= pool.last; i++) await bench.claim("orders", { host: `web-${i}` }, { layout: "safe53" });
    return bench;
  }
  const refuse = (bench: ReturnType<typeof makeDashboard>): Promise<string> =>
    bench.claim("orders", {}, { layout: "safe53" }).then(
      () => "granted",
      () => "refused",
    );

  test("nothing stands there while all is well", async () => {
    const { send, claim } = makeDashboard();
    await claim("orders");
    expect((await send("GET", "/?namespace=orders")).text).not.toContain('id="alarms"');
  });

  test("a full pool, and each refused claim with its time, above the counts", async () => {
    const bench = await full();
    await bench.clock.advance(1000);
    const before = (await bench.send("GET", "/?namespace=orders")).text;
    expect(textOf(before)).toContain("The pool is full All 32 worker IDs are taken, so claims are refused.");
    expect(before).not.toContain("claims refused");
    for (let i = 0; i < 3; i++) expect(await refuse(bench)).toBe("refused");
    const { text } = await bench.send("GET", "/?namespace=orders");
    expect(text.indexOf('id="alarms"')).toBeGreaterThan(0);
    expect(text.indexOf('id="alarms"')).toBeLessThan(text.indexOf('id="counts"'));
    const at = new Date(bench.clock.now()).toISOString().slice(0, 19).replace("T", " ");
    expect(textOf(text)).toContain(`3 claims refused Since ${at}Z; the last one at ${at}Z: POOL_EXHAUSTED.`);
    await bench.clock.advance(16 * 60_000);
    expect((await bench.send("GET", "/?namespace=orders")).text).not.toContain("claims refused");
  });

  test("renewals that are overdue, with the holder whose window ends first", async () => {
    const { send, claim, clock } = makeDashboard();
    await claim("orders", { host: "in-time" }, { window: 120_000 });
    await claim("orders", { host: "late" }, { window: 60_000 });
    await claim("orders", { host: "later" }, { window: 63_000 });
    await clock.advance(39_000);
    expect((await send("GET", "/?namespace=orders")).text).not.toContain("renewals overdue");
    await clock.advance(6000);
    const { text } = await send("GET", "/?namespace=orders");
    expect(textOf(text)).toMatch(/2 renewals overdue 2 of 3 holders .* Worker 1 of late ends first, at \S+ \S+Z\./);
    // Told once as an event, until there are more.
    await clock.advance(1000);
    const again = (await send("GET", "/?namespace=orders")).text;
    const events = again.slice(again.indexOf('id="events"'));
    expect(events.match(/<b\s+class="overdue"/g)?.length).toBe(1);
  });
});

test("refused claims are events: one for the first, and one for all of the next 10 s", async () => {
  const clock = fakeClock();
  const memory = memoryRegistry({ clock });
  let error: SnowleaseError | undefined;
  const claim = memory.claim.bind(memory);
  const store = {
    ...memory,
    claim: (request: Parameters<typeof claim>[0]) => (error ? Promise.reject(error) : claim(request)),
  };
  const silent = { info() {}, warn() {}, error() {} };
  const { registry, journal, refusals } = observe({ registry: store, log: silent, clock, version: "1" });
  const ask = (namespace: string, token: number): Promise<unknown> => {
    const holder = { host: "h", ip: "192.0.2.1", pid: 1, instance: "" };
    const request = { namespace, token: token.toString(16).padStart(32, "0"), pool, layout, holder, window: 60_000 };
    return registry.claim({ ...request, workerId: 0, clock: clock.now() }).catch(() => undefined);
  };
  const told = (namespace = "orders"): readonly unknown[] =>
    journal.after(namespace, "").entries.map(({ event: { event, code, count } }) => ({ event, code, count }));
  await ask("orders", 1);
  expect(told()).toEqual([]);
  for (let i = 2; i < 7; i++) await ask("orders", i);
  expect(told()).toEqual([{ event: "refused", code: "WORKER_ID_HELD", count: 1 }]);
  await clock.advance(10_000);
  expect(told()).toEqual([
    { event: "refused", code: "WORKER_ID_HELD", count: 1 },
    { event: "refused", code: "WORKER_ID_HELD", count: 4 },
  ]);
  await clock.advance(10_000);
  // A registry that did not answer has refused nothing.
  error = new SnowleaseError("REGISTRY_UNAVAILABLE", "It is gone.");
  await ask("orders", 7);
  expect(told().length).toBe(2);
  error = new SnowleaseError("QUARANTINE", "Wait.");
  await ask("bills", 8);
  // It has an event of its own.
  expect(told("bills").map((each) => (each as { event: string }).event)).toEqual(["quarantine"]);
  expect(refusals.of("bills")).toMatchObject({ count: 1, last: { code: "QUARANTINE" } });
  expect(refusals.of("orders")).toMatchObject({ count: 5, last: { code: "WORKER_ID_HELD" } });
  // A store of a million names does not grow for ever.
  for (let i = 0; i < 300; i++) await ask(`other_${i}`, 100 + i);
  expect(refusals.of("bills")).toBeUndefined();
});

test("top and its JSON begin with the same", async () => {
  const clock = fakeClock();
  const registry = memoryRegistry({ clock });
  for (let i = 0; i <= pool.last; i++) {
    const holder = { host: `web-${i}`, ip: "192.0.2.1", pid: i, instance: "" };
    const request = { namespace: "orders", token: (i + 1).toString(16).padStart(32, "0"), pool, layout, holder };
    await registry.claim({ ...request, window: 60_000 + i, clock: clock.now() });
  }
  await registry.forceRelease({ namespace: "orders", workerId: 9, force: true });
  await clock.advance(45_000);
  const { picture } = await new PoolWatch(registry, "orders", clock).look();
  const surface = { columns: 200, rows: 40, colored: false, unicode: true };
  const scene = { picture: picture as Picture, changes: [], registry: "memory:", now: clock.now(), scroll: 0 };
  const { lines } = drawTop(scene, surface);
  expect(lines[1]).toMatch(/^The pool is full\. All 32 worker IDs are taken.* The first resting one comes free at /);
  expect(lines[2]).toMatch(/^31 renewals overdue\. 31 of 31 holders/);
  const info = { ...scene.picture.info, quarantineUntil: clock.now() + 1000 };
  expect(alarmsOf({ ...scene.picture, info }).map(({ title }) => title)).toEqual([
    "QUARANTINE",
    "The pool is full",
    "31 renewals overdue",
  ]);
});
