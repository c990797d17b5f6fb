import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import type { Registry } from "../../src/rule/registry.ts";
import { machineUptime } from "../../src/registries/sqlite/clock-guard.ts";
import { type FakeClock, fakeClock } from "../../src/testing.ts";
import { claimRequest, layout, namespace, newFolder, openRaw, openSqlite } from "../support/sqlite.ts";

let path: string;
let clock: FakeClock;
let uptime: { boot: string; ms: number } | undefined;

/** A registry that one process after the other opens. */
function open(): Promise<Registry> {
  return openSqlite(path, { clock, uptime: () => uptime });
}

/** Time goes on, for both clocks. */
function pass(ms: number): void {
  clock.step(ms);
  if (uptime !== undefined) uptime = { ...uptime, ms: uptime.ms + ms };
}

function claim(registry: Registry, space: string = namespace): Promise<unknown> {
  return registry.claim(claimRequest({ namespace: space, clock: clock.now() }));
}

const skew = { code: "CLOCK_SKEW" };
const granted = { outcome: "granted" };

beforeEach(() => {
  path = join(newFolder(), "registry.db");
  clock = fakeClock();
  uptime = { boot: "first", ms: 100_000 };
});

test("a clock that moves like the time since boot is fine", async () => {
  const registry = await open();
  for (let i = 0; i < 5; i++) {
    expect(await claim(registry)).toMatchObject(granted);
    pass(3_600_000);
  }
});

test("a process that stops between the two readings, at the first claim or later, does not count that as a difference", async () => {
  let [stood, pause] = [0, 0];
  const own = { ...clock, now: () => clock.now() + stood, nanos: () => clock.nanos() + BigInt(stood) * 1_000_000n };
  const stopped = (): typeof uptime => {
    stood += pause;
    pause = 0;
    return uptime && { ...uptime, ms: uptime.ms + stood };
  };
  const registry = await openSqlite(path, { clock: own, uptime: stopped });
  await registry.init({ namespace, layout, maxClockSkew: 700 });
  for (const stands of [820, 0, 820, 0]) {
    pause = stands;
    expect(await registry.claim(claimRequest({ clock: own.now() }))).toMatchObject(granted);
  }
});

test("a step ahead beyond maxClockSkew is refused: the error names both times, and nothing changes", async () => {
  const registry = await open();
  const request = claimRequest({ clock: clock.now(), window: 120_000 });
  const grant = await registry.claim(request);
  if (grant.outcome !== "granted") throw new Error("not granted");
  const before = await registry.workers(namespace);

  clock.step(10_001);
  await expect(claim(registry)).rejects.toMatchObject(skew);
  await expect(claim(registry)).rejects.toThrow(/2023-11-14T22:13:30.001Z.*2023-11-14T22:13:20.000Z.*--accept-clock/);
  const { workerId, fence } = grant;
  const renewal = { namespace, workerId, fence, token: request.token, clock: clock.now(), window: 60_000 };
  await expect(registry.renew(renewal)).rejects.toMatchObject(skew);
  expect(await registry.workers(namespace)).toEqual(before);
  // Another process sees the same.
  await expect(claim(await open())).rejects.toMatchObject(skew);

  clock.step(-1);
  expect(await claim(registry)).toMatchObject(granted);
});

test("`ping` reports it, too, if any namespace would refuse the clock, and notes nothing", async () => {
  const registry = await open();
  await registry.ping();
  await claim(registry);
  await registry.init({ namespace: "tolerant", layout, maxClockSkew: 60_000 });
  await claim(registry, "tolerant");
  clock.step(10_000);
  await registry.ping();
  clock.step(1);
  await expect(registry.ping()).rejects.toMatchObject(skew);
  clock.step(-1);
  await registry.ping();
});

test("giving back is possible at any time", async () => {
  const registry = await open();
  const request = claimRequest({ clock: clock.now() });
  const grant = await registry.claim(request);
  if (grant.outcome !== "granted") throw new Error("not granted");
  clock.step(86_400_000);
  const { workerId, fence } = grant;
  const key = { namespace, workerId, fence, token: request.token };
  expect(await registry.release({ ...key, clock: clock.now() })).toEqual({ outcome: "released" });
});

test("a clock may be set back, and ahead again to its earlier time", async () => {
  const registry = await open();
  await claim(registry);
  clock.step(-3_600_000);
  expect(await claim(registry)).toMatchObject(granted);
  pass(5000);
  clock.step(3_600_000);
  expect(await claim(registry)).toMatchObject(granted);
  clock.step(10_001);
  await expect(claim(registry)).rejects.toMatchObject(skew);
});

test("small steps ahead add up to what is accepted", async () => {
  const registry = await open();
  for (let i = 0; i < 5; i++) {
    clock.step(9000);
    expect(await claim(registry)).toMatchObject(granted);
  }
});

test("the limit is the namespace's", async () => {
  const registry = await open();
  await registry.init({ namespace, layout, maxClockSkew: 500 });
  await registry.init({ namespace: "patient", layout, maxClockSkew: 60_000 });
  await claim(registry);
  clock.step(501);
  await expect(claim(registry)).rejects.toMatchObject(skew);
  expect(await claim(registry, "patient")).toMatchObject(granted);
});

describe("if one namespace tolerates more than another", () => {
  async function bothClaimed(): Promise<Registry> {
    const registry = await open();
    await registry.init({ namespace: "patient", layout, maxClockSkew: 7_200_000 });
    for (const space of [namespace, "patient"]) await claim(registry, space);
    return registry;
  }

  test("a step that it accepts is not accepted for the other", async () => {
    const registry = await bothClaimed();
    clock.step(3_600_000);
    expect(await claim(registry, "patient")).toMatchObject(granted);
    await expect(claim(registry)).rejects.toMatchObject(skew);
    await expect(claim(await open())).rejects.toMatchObject(skew);
  });

  test("a new one starts from the time that the strictest namespace accepted", async () => {
    const registry = await bothClaimed();
    clock.step(3_600_000);
    await claim(registry, "patient");
    await expect(claim(registry, "fresh")).rejects.toMatchObject(skew);
    clock.step(-3_600_000);
    expect(await claim(registry, "fresh")).toMatchObject(granted);
  });

  test("after a boot, too, one starts from the times that the others accepted since", async () => {
    const registry = await bothClaimed();
    uptime = { boot: "second", ms: 1000 };
    await claim(registry, "patient");
    clock.step(3_600_000);
    await expect(claim(registry)).rejects.toMatchObject(skew);
  });

  test("an operator accepts it for all", async () => {
    const registry = await bothClaimed();
    clock.step(3_600_000);
    await claim(registry, "patient");
    expect(await registry.acceptClock?.()).toEqual({ by: 3_600_000 });
    for (const space of [namespace, "patient", "fresh"]) expect(await claim(registry, space)).toMatchObject(granted);
    clock.step(10_001);
    await expect(claim(registry)).rejects.toMatchObject(skew);
  });
});

test("after a boot nothing is known", async () => {
  await claim(await open());
  clock.step(86_400_000);
  uptime = { boot: "second", ms: 1000 };
  expect(await claim(await open())).toMatchObject(granted);
});

test("an operator accepts the clock, which leaves a note", async () => {
  const registry = await open();
  await claim(registry);
  clock.step(60_000);
  await expect(claim(registry)).rejects.toMatchObject(skew);
  expect(await registry.acceptClock?.()).toEqual({ by: 60_000 });
  expect(await claim(registry)).toMatchObject(granted);
  const raw = await openRaw(path);
  expect(raw.prepare("SELECT kind, done_at, detail FROM operation").all()).toMatchObject([
    { kind: "accept-clock", done_at: clock.now(), detail: expect.stringContaining("60000 ms ahead") as string },
  ]);
});

test("an accepted clock, too far ahead before, is then the reference", async () => {
  const registry = await open();
  clock.step(3_600_000);
  await claim(registry);
  clock.step(-3_600_000);
  expect(await registry.acceptClock?.()).toEqual({ by: -3_600_000 });
  clock.step(10_001);
  await expect(claim(registry)).rejects.toMatchObject(skew);
});

test("without a time since boot nothing is compared", async () => {
  uptime = undefined;
  const registry = await open();
  await claim(registry);
  clock.step(86_400_000);
  expect(await claim(registry)).toMatchObject(granted);
  expect(await registry.acceptClock?.()).toEqual({ by: 0 });
});

test.runIf(process.platform === "linux")("this machine tells its time since boot", () => {
  const seen = machineUptime();
  // Undefined in a container with a time of its own.
  if (seen === undefined) return;
  expect(seen.boot).toMatch(/^[0-9a-f-]{36}$/);
  expect(seen.ms).toBeGreaterThan(0);
});
