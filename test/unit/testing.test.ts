import { describe, expect, it, onTestFinished } from "vitest";
import { isSnowleaseError } from "../../src/id/errors.ts";
import { layouts } from "../../src/id/layout.ts";
import type { ClaimRequest } from "../../src/rule/registry.ts";
import { expectNoDuplicates, fakeClock, lossyRegistry, memoryRegistry } from "../../src/testing.ts";
import { shiftDate } from "../../src/testing/shifted-date.ts";

describe("fakeClock", () => {
  it.each([5, "5", null])("refuses %j, which is no object of options", (options) => {
    expect(() => fakeClock(options as unknown as { start: number })).toThrow(/`fakeClock` to be an object, got /);
  });

  it("shows a whole ms from its start on, and moves only when it is told to", async () => {
    const clock = fakeClock({ start: 5000 });
    expect([clock.now(), clock.nanos()]).toEqual([5000, 0n]);
    await clock.advance(1.75);
    expect([clock.now(), clock.nanos()]).toEqual([5001, 1_750_000n]);
    await clock.advance(-1);
    expect(clock.now()).toBe(5001);
  });

  it("is stepped without the monotonic clock or any sleeper noticing", async () => {
    const clock = fakeClock({ start: 5000 });
    let awake = false;
    void clock.sleep(100).then(() => (awake = true));
    clock.step(-3000);
    await clock.advance(0);
    expect([clock.now(), clock.nanos(), awake]).toEqual([2000, 0n, false]);
    clock.step(10_000);
    await clock.advance(99);
    expect([clock.now(), awake]).toEqual([12_099, false]);
    await clock.advance(1);
    expect(awake).toBe(true);
  });

  it("wakes sleepers in order, each at its time, and lets them sleep again", async () => {
    const clock = fakeClock({ start: 0 });
    const seen: string[] = [];
    const ticking = async (name: string, ms: number): Promise<void> => {
      for (;;) {
        await clock.sleep(ms);
        seen.push(`${name} ${clock.now()}`);
      }
    };
    void ticking("slow", 30);
    void ticking("fast", 20);
    await clock.advance(70);
    expect(seen).toEqual(["fast 20", "slow 30", "fast 40", "slow 60", "fast 60"]);
    expect(clock.now()).toBe(70);
  });

  it("wakes a sleeper at its signal, at once when it was aborted before, and once only", async () => {
    const clock = fakeClock();
    const controller = new AbortController();
    let woken = 0;
    const sleep = clock.sleep(100, { signal: controller.signal }).then(() => woken++);
    controller.abort();
    await sleep;
    await clock.sleep(100, { signal: controller.signal });
    await clock.advance(200);
    expect(woken).toBe(1);
  });

  it("does not wake too early for a sum of fractions", async () => {
    const clock = fakeClock();
    const due = 100 / 3;
    let looks = 0;
    const wait = async (): Promise<void> => {
      for (let left = due; left > 0; left = due - Number(clock.nanos()) / 1e6) {
        looks++;
        await clock.sleep(left);
      }
    };
    void wait();
    await clock.advance(40);
    expect(looks).toBe(1);
  });

  it("sleeps for no time without being advanced", async () => {
    await fakeClock().sleep(0);
    await fakeClock().sleep(-5);
  });
});

describe("lossyRegistry", () => {
  const request: ClaimRequest = {
    namespace: "orders",
    token: "a".repeat(32),
    pool: { first: 0, last: 3 },
    holder: { host: "alpha", ip: "", pid: 1, instance: "" },
    clock: 1_700_000_000_000,
    window: 1000,
    layout: layouts.westid.fingerprint,
  };

  async function claimWith(lost: "request" | "reply" | undefined) {
    const registry = memoryRegistry({ clock: fakeClock() });
    const lossy = lossyRegistry(registry, { lose: ({ method }) => (method === "claim" ? lost : undefined) });
    const answer = await lossy.claim(request).catch((error: unknown) => error);
    return { answer, applied: (await lossy.workers("orders")).length === 1 };
  }

  it("applies what it loses the reply of, not what it loses the request of", async () => {
    expect(await claimWith(undefined)).toMatchObject({ answer: { outcome: "granted" }, applied: true });
    for (const [lost, applied] of [
      ["request", false],
      ["reply", true],
    ] as const) {
      const result = await claimWith(lost);
      expect(isSnowleaseError(result.answer, "REGISTRY_UNAVAILABLE")).toBe(true);
      expect(result.applied).toBe(applied);
    }
  });

  it("hides a refusal whose reply is lost, and passes on one that arrives", async () => {
    const registry = memoryRegistry({ clock: fakeClock() });
    let lost: "reply" | undefined = "reply";
    const lossy = lossyRegistry(registry, { lose: () => lost });
    const wrong = { ...request, window: 0 };
    await expect(lossy.claim(wrong)).rejects.toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
    lost = undefined;
    await expect(lossy.claim(wrong)).rejects.toMatchObject({ code: "CONFIG_INVALID" });
  });

  it("shows each operation before it is sent, and passes every answer on", async () => {
    const registry = memoryRegistry({ clock: fakeClock() });
    const methods: string[] = [];
    const lossy = lossyRegistry(registry, { lose: ({ method }) => void methods.push(method) });
    const { namespace, layout } = request;
    await lossy.init({ namespace, layout });
    const grant = await lossy.claim(request);
    const key = { ...request, workerId: 0, fence: 1 };
    expect(await lossy.renew(key)).toMatchObject({ outcome: "renewed" });
    expect(await lossy.release(key)).toEqual({ outcome: "released" });
    expect(await lossy.forceRelease({ namespace, workerId: 0, force: false })).toMatchObject({ outcome: "released" });
    await lossy.pin(namespace, 0, "kept");
    for (const through of [lossy, registry]) {
      expect(await through.worker(namespace, 0)).toMatchObject({ fence: 1, pinned: "kept" });
      expect(await through.history(namespace, 0)).toHaveLength(1);
    }
    expect(await lossy.unpin(namespace, 0)).toBe(true);
    expect([await lossy.prune(namespace, 0), (await lossy.workers(namespace)).length]).toEqual([0, 1]);
    expect(await lossy.describe(namespace)).toMatchObject({ layout });
    expect(await lossy.ping()).toEqual(await registry.ping());
    await lossy.close();
    expect([grant.outcome, lossy.kind]).toEqual(["granted", "memory"]);
    // It has no optional operation.
    const absent = new Set("kind close pinAll unpinAll endQuarantine separate remove receiptKey scope".split(" "));
    expect(new Set(methods)).toEqual(new Set(Object.keys(registry).filter((name) => !absent.has(name))));
  });
});

describe("expectNoDuplicates", () => {
  it("passes IDs that differ, as bigints, texts and integers", () => {
    expectNoDuplicates([]);
    expectNoDuplicates(new Set([1n, 2n]));
    expectNoDuplicates([1n, "2", 3, "abc"]);
  });

  it("names the first one that occurs twice, and counts all", () => {
    const ids = [5n, "6", 7, 6n, 8, "7", 7n];
    expect(() => expectNoDuplicates(ids)).toThrow(
      "2 of 7 IDs were made more than once; the first one is 6, number 2, 4 in the list.",
    );
  });

  it.each([2 ** 53, 1.5, Number.NaN, "", "1\n2", undefined, null, {}])("refuses %j, which is no ID", (id) => {
    expect(() => expectNoDuplicates([1n, id as bigint])).toThrow(
      /bigint, as text of one line, or as an integer of at most 53 bits/,
    );
  });
});

describe("the shifted Date of a holder", () => {
  it("shows the time that is set, and is a Date in all else", () => {
    const Real = Date;
    onTestFinished(() => void (globalThis.Date = Real));
    const date = shiftDate();
    const then = Real.UTC(2001, 1, 3);
    const near = (wall: number): void => expect(wall - then).toSatisfy((ms: number) => ms >= 0 && ms < 10_000);
    near(Date.now() - (Real.now() - then));
    date.set(then);
    near(Date.now());
    near(new Date().getTime());
    near(Real.parse(Date()) + 999);
    expect([new Date(5).getTime(), Date.UTC(1970, 0), Date.parse("1970-01-01T00:00:00.007Z")]).toEqual([5, 0, 7]);
    expect(new Date()).toBeInstanceOf(Real);
    expect(new Real()).toBeInstanceOf(Date);
    class Later extends Date {
      later = this.getTime() + 1;
    }
    near(new Later().later - 1);
    date.set(then + 1_000_000);
    near(Date.now() - 1_000_000);
  });
});
