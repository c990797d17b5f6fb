import { beforeEach, describe, expect, test } from "vitest";
import { Lease, type LeaseOptions } from "../../src/lease/lease.ts";
import type { ClaimRequest, Grant, BlocksRequest, BlocksTaken, Registry, Turns } from "../../src/rule/registry.ts";
import { Snowflake } from "../../src/generator/snowflake.ts";
import { memoryRegistry } from "../../src/registries/memory/registry.ts";
import { LeaseClient } from "../../src/sharing/lease-client.ts";
import { SharedUsageTracker } from "../../src/sharing/usage-tracker.ts";
import { leaseServer } from "../../src/sharing/lease-server.ts";
import { epoch, Machine, World } from "../simulation/world.ts";
import { makeToken, settled } from "../support/generator.ts";
import { layout, options } from "../support/lent-lease.ts";

describe("a lease server", () => {
  let world: World;
  let machine: Machine;
  let registry: Registry;
  let lease: Lease;
  let ledger: SharedUsageTracker;
  let lent: Registry;

  beforeEach(async () => {
    world = new World(1);
    machine = new Machine(world, 0);
    registry = memoryRegistry({ clock: machine });
    lend(await Lease.claim({ registry, clock: machine, makeToken }, options));
  });

  function lend(claimed: Lease, knowsAll = true): void {
    lease = claimed;
    ledger = new SharedUsageTracker(lease, knowsAll);
    lent = leaseServer(lease, ledger);
  }

  async function take(asked: BlocksRequest): Promise<unknown> {
    return lent.takeBlocks?.(asked);
  }

  function request(asked: Partial<ClaimRequest> = {}): ClaimRequest {
    const { namespace, pool } = options;
    const holder = { host: "a", ip: "10.0.0.1", pid: 2, instance: "" };
    const claim = { namespace, pool, holder, token: makeToken(), clock: machine.now(), window: 2000 };
    return { ...claim, layout: layout.fingerprint, ...asked };
  }

  async function claim(asked?: Partial<ClaimRequest>): Promise<Grant & { readonly token: string }> {
    const full = request(asked);
    const answer = await lent.claim(full);
    if (answer.outcome !== "granted") throw new Error(`refused: ${answer.outcome}`);
    return { ...answer, token: full.token };
  }

  const code = (expected: string): unknown => expect.objectContaining({ code: expected });

  test("gives its worker ID and its window to every child", async () => {
    const { workerId, fence, from, until } = lease;
    const granted = { workerId, fence, from, until, shared: true };
    expect(await claim()).toMatchObject(granted);
    expect(await claim({ window: 600_000, holder: { host: "a", ip: "10.0.0.1", pid: 3, instance: "" } })).toMatchObject(
      granted,
    );
  });

  test("gives each block of a span once among all children, only in its window and not far ahead", async () => {
    const [one, two] = [await claim(), await claim()];
    const first = ledger.allocator.blockLayout.spanOf(layout.tickOf(machine.now()));
    const ask = (child: Grant & { token: string }, over: object = {}): Promise<unknown> =>
      take({ ...request(), ...child, first, spans: 2, blocks: 1, held: 0, ...over });
    expect(await ask(one)).toEqual({ outcome: "taken", blocks: [0b1, 0b1] });
    expect(await ask(two, { blocks: 3 })).toEqual({ outcome: "taken", blocks: [0b1110, 0b1110] });
    // Who has some leaves one for each other.
    expect(await ask(one, { blocks: 32, held: 1 })).toEqual({ outcome: "taken", blocks: [0x7fff_fff0, 0x7fff_fff0] });
    expect(await ask(two)).toEqual({ outcome: "taken", blocks: [0x8000_0000, 0x8000_0000] });
    expect(await ask(two, { first: first - 200 })).toEqual({ outcome: "taken", blocks: [0, 0] });
    expect(await ask(two, { first: first + 79, spans: 3 })).toEqual({ outcome: "taken", blocks: [1, 1, 0] });
    await lease.close();
    expect(await ask(one)).toMatchObject({ outcome: "lost" });
  });

  test("passes on a window that a quarantine raised", async () => {
    const from = epoch + 10_500;
    const raising: Registry = {
      ...registry,
      async renew(asked) {
        const answer = await registry.renew(asked);
        return answer.outcome === "renewed" ? { ...answer, from } : answer;
      },
    };
    await lease.close();
    world.advance(10_000);
    lend(await Lease.claim({ registry: raising, clock: machine, makeToken }, options));
    const child = await claim();
    await lease.renew();
    expect(await lent.renew({ ...request(), ...child })).toMatchObject({ outcome: "renewed", from });
  });

  test("passes on an extended window to its children", async () => {
    const child = await claim();
    world.advance(5000);
    await lease.renew();
    const renewal = await lent.renew({ ...request(), ...child });
    expect(renewal).toMatchObject({ outcome: "renewed", until: epoch + 15_000 });
  });

  test("refuses when its own window has passed, until it is renewed", async () => {
    const child = await claim();
    machine.offset += 10_000;
    await expect(lent.claim(request())).rejects.toEqual(code("LEASE_EXPIRED"));
    await expect(lent.renew({ ...request(), ...child })).rejects.toEqual(code("LEASE_EXPIRED"));
    await lease.renew();
    expect(await lent.renew({ ...request(), ...child })).toMatchObject({ outcome: "renewed" });
  });

  test("knows the turn of a child, even when its window has passed", async () => {
    const [one, two] = [await claim(), await claim()];
    const renew = (child: Grant, turns: Turns): Promise<unknown> => lent.renew({ ...request(), ...child, ...turns });
    const renewed = { outcome: "renewed" };
    const cloned = { outcome: "lost", reason: "cloned" };
    expect(await renew(one, { nextTurn: "a" })).toMatchObject(renewed);
    const { until } = lease;
    await lease.renew();
    machine.offset += until - machine.now();
    await lease.renew();
    expect(await renew(two, { nextTurn: "x" })).toMatchObject(renewed);
    expect(await renew(one, { nextTurn: "b" })).toEqual(cloned);
    expect(await lent.claim(request({ token: one.token }))).toEqual(cloned);
    // Of two copies that are resumed later, the second one to renew is lost.
    expect(await renew(one, { turn: "a", nextTurn: "b" })).toMatchObject(renewed);
    expect(await renew(one, { turn: "a", nextTurn: "c" })).toEqual(cloned);
  });

  test("does not take the child of another lender for its own, even if that lender's registry granted the same worker ID and fence", async () => {
    const child = await claim();
    const first = ledger.allocator.blockLayout.spanOf(layout.tickOf(machine.now()));
    const blocks = { first, spans: 1, blocks: 1, held: 0 };
    expect(await take({ ...request(), ...child, ...blocks })).toEqual({ outcome: "taken", blocks: [0b1] });
    // An operator restored the store while the lender was down.
    registry = memoryRegistry({ clock: machine });
    lend(await Lease.claim({ registry, clock: machine, makeToken }, options));
    const other = await claim();
    expect([other.workerId, other.fence]).toEqual([child.workerId, child.fence]);
    expect(await take({ ...request(), ...other, ...blocks })).toEqual({ outcome: "taken", blocks: [0b1] });
    expect(await take({ ...request(), ...child, ...blocks })).toMatchObject({ outcome: "lost" });
    const doubt = { from: lease.from, until: lease.until };
    expect(await lent.renew({ ...request(), ...child, nextTurn: "a" })).toEqual({
      outcome: "lost",
      reason: "forgotten",
      doubt,
    });
    expect(await take({ ...request(), ...child, ...blocks, turn: "a" })).toMatchObject({ outcome: "lost" });
  });

  test("gives blocks only to a token that it knows, on its turn", async () => {
    const child = await claim();
    const first = ledger.allocator.blockLayout.spanOf(layout.tickOf(machine.now()));
    const ask = (over: object): Promise<unknown> =>
      take({ ...request(), ...child, first, spans: 1, blocks: 1, held: 0, ...over });
    expect(await ask({ token: makeToken() })).toMatchObject({ outcome: "lost" });
    expect(await ask({})).toEqual({ outcome: "taken", blocks: [0b1] });
    await lent.renew({ ...request(), ...child, nextTurn: "a" });
    expect(await ask({})).toEqual({ outcome: "lost", reason: "cloned" });
    expect(await ask({ turn: "a" })).toEqual({ outcome: "taken", blocks: [0b10] });
    await lent.release({ ...request(), ...child, turn: "a" });
    expect(await ask({ turn: "a" })).toMatchObject({ outcome: "lost" });
  });

  test("knows a child whose window has passed, and forgets no child for claims that came and went", async () => {
    const [child, other] = [await claim(), await claim()];
    const first = ledger.allocator.blockLayout.spanOf(layout.tickOf(lease.until));
    machine.offset += lease.until - machine.now();
    await lease.renew();
    await lent.renew({ ...request(), ...other });
    const asked = { ...request(), ...child, first, spans: 1, blocks: 1, held: 0 };
    expect(await lent.renew({ ...request(), ...child })).toMatchObject({ outcome: "renewed" });
    expect(await take(asked)).toEqual({ outcome: "taken", blocks: [0b1] });
    for (let i = 0; i < 10_000; i++) await lent.release({ ...request(), ...(await claim()) });
    expect(await take(asked)).toEqual({ outcome: "taken", blocks: [0b10] });
    for (let i = 0; i < 10_000; i++) {
      await claim();
      if (i % 100 > 0) continue;
      machine.offset += 10_001;
      await lease.renew();
    }
    expect(await take(asked)).toMatchObject({ outcome: "lost" });
    expect(await lent.renew({ ...request(), ...child, clock: machine.now() })).toMatchObject({ outcome: "lost" });
  });

  test("refuses one process more than its limit, until another one has ended or has taken no blocks for 10 s", async () => {
    lent = leaseServer(lease, ledger, { most: 2 });
    const [one, two] = [await claim(), await claim()];
    await expect(lent.claim(request())).rejects.toEqual(code("RATE_LIMITED"));
    // A repeated claim does not count as another process.
    expect(await lent.claim(request({ token: one.token }))).toMatchObject({ outcome: "granted" });
    await lent.release({ ...request(), ...one });
    await claim();
    await expect(lent.claim(request())).rejects.toEqual(code("RATE_LIMITED"));
    machine.offset += 10_001;
    await lease.renew();
    await lent.renew({ ...request(), ...two, clock: machine.now() });
    await take({ ...request(), ...two, first: 0, spans: 1, blocks: 1, held: 0 });
    await claim();
    await expect(lent.claim(request())).rejects.toEqual(code("RATE_LIMITED"));
  });

  describe("with a limit", () => {
    beforeEach(() => void (lent = leaseServer(lease, ledger, { most: 3 })));

    const all = { spans: 64, blocks: 32, held: 0 };
    const here = (): number => ledger.allocator.blockLayout.spanAt(machine.now());
    const ask = async (child: Grant & { token: string }, over: object = {}): Promise<readonly number[]> => {
      const answer = (await take({ ...request(), ...child, first: here(), ...all, ...over })) as BlocksTaken;
      return answer.blocks;
    };

    test("leaves each other child its first blocks, whatever a greedy one says that it has", async () => {
      const [greedy, one, two] = [await claim(), await claim(), await claim()];
      const firsts = await Promise.all([greedy, greedy, one, two].map((child) => ask(child)));
      const soon = ledger.allocator.blockLayout.spanAt(machine.now() + 1000) - here();
      for (const [i, blocks] of firsts.entries()) {
        const later = blocks.slice(soon + 1);
        expect(new Set(later).size).toBe(1);
        expect(later[0]).toBe([0b1, 0, 0b10, 0b100][i]);
      }
      for (let span = 0; span <= soon; span++) {
        const [first = 0, again = 0, third = 0, fourth = 0] = firsts.map((blocks) => blocks[span] ?? 0);
        expect((first & again) | (first & third) | (first & fourth) | (third & fourth)).toBe(0);
        expect(third).not.toBe(0);
        expect(fourth).not.toBe(0);
      }
    });

    test("gives a child none after the end of the window that it was told, nor before that of its lender begins", async () => {
      const child = await claim();
      const last = ledger.allocator.blockLayout.spanAt(lease.until - 1);
      machine.offset += lease.until - machine.now() - 1000;
      await lease.renew();
      const given = await ask(child);
      expect(given.slice(0, last - here() + 1).every((blocks) => blocks !== 0)).toBe(true);
      expect(given.slice(last - here() + 1).every((blocks) => blocks === 0)).toBe(true);
      await lent.renew({ ...request(), ...child, clock: machine.now() });
      expect((await ask(child)).slice(last - here() + 1).every((blocks) => blocks !== 0)).toBe(true);
      const before = ledger.allocator.blockLayout.spanAt(lease.from) - 1;
      expect((await ask(child, { first: before - 3, spans: 4 })).every((blocks) => blocks === 0)).toBe(true);
    });

    test("counts a child that was silent for long again when it asks for blocks", async () => {
      const silent = await claim();
      await ask(silent, { spans: 1 });
      machine.offset += 10_001;
      await lease.renew();
      for (let i = 0; i < 3; i++) await claim({ clock: machine.now() });
      await expect(take({ ...request(), ...silent, first: here(), ...all })).rejects.toEqual(code("RATE_LIMITED"));
    });

    test("has room for all its children when its lender has changed the worker ID", async () => {
      const wish: LeaseOptions = { ...options, workerId: undefined, onLost: "switch" };
      lend(await Lease.claim({ registry, clock: machine, makeToken }, wish));
      lent = leaseServer(lease, ledger, { most: 3 });
      const before = [await claim(), await claim(), await claim()];
      for (const child of before) await ask(child, { spans: 1 });
      await expect(lent.claim(request())).rejects.toEqual(code("RATE_LIMITED"));
      const switched = new Promise((resolve) => lease.on("switched", resolve));
      await registry.forceRelease({ namespace: "default", workerId: lease.workerId, force: true });
      await lease.renew();
      await switched;
      for (let i = 0; i < 3; i++) await claim({ clock: machine.now() });
      await expect(lent.claim(request({ clock: machine.now() }))).rejects.toEqual(code("RATE_LIMITED"));
    });

    test("keeps the place of a child that has ended for as long as its blocks may last", async () => {
      for (let i = 0; i < 3; i++) {
        const child = await claim();
        await ask(child, { spans: 1 });
        await lent.release({ ...request(), ...child });
      }
      machine.offset += 4000;
      await expect(lent.claim(request({ clock: machine.now() }))).rejects.toMatchObject({
        code: "RATE_LIMITED",
        details: { retryAfterMs: 6000 },
      });
      machine.offset += 6001;
      await lease.renew();
      await claim({ clock: machine.now() });
    });

    test("is in use while a window of a child may be open, and counts as borrowers those that take blocks", async () => {
      const served = leaseServer(lease, ledger, { most: 3 });
      lent = served;
      expect([served.borrowers, served.isInUse]).toEqual([0, false]);
      const child = await claim();
      expect([served.borrowers, served.isInUse]).toEqual([0, true]);
      await ask(child, { spans: 1 });
      expect(served.borrowers).toBe(1);
      await lent.release({ ...request(), ...child });
      expect([served.borrowers, served.isInUse]).toEqual([0, false]);
    });
  });

  test("tells a child that has ended that it was given back, and doubts nothing", async () => {
    const child = await claim();
    expect(await lent.release({ ...request(), ...child })).toEqual({ outcome: "released" });
    const released = { outcome: "lost", reason: "released" };
    expect(await lent.renew({ ...request(), ...child })).toEqual(released);
    expect(await lent.release({ ...request(), ...child })).toEqual({ outcome: "released" });
    expect(await lent.release({ ...request(), ...child, token: makeToken() })).toMatchObject({ outcome: "lost" });
    expect(await lent.claim(request({ token: child.token }))).toEqual(released);
    expect(await take({ ...request(), ...child, first: 0, spans: 1, blocks: 1, held: 0 })).toEqual(released);
  });

  test("tells its children why its lease was lost, and which IDs may exist twice", async () => {
    const child = await claim();
    const key = { namespace: "default", workerId: lease.workerId, fence: lease.fence };
    const doubt = { from: machine.now(), until: lease.until };
    registry.renew = async () => ({ outcome: "lost", reason: "forgotten", doubt });
    await lease.renew();
    expect(await lent.renew({ ...request(), ...child, ...key })).toMatchObject({
      outcome: "lost",
      reason: "forgotten",
      doubt,
    });
  });

  test("refuses a child whose turn does not move on", async () => {
    const renewal = { ...request(), ...(await claim()), turn: "a", nextTurn: "a" };
    await expect(lent.renew(renewal)).rejects.toEqual(code("CONFIG_INVALID"));
  });

  test.each([
    ["another worker ID", { workerId: 3 }, "CONFIG_INVALID"],
    ["a pool without its worker ID", { pool: { first: 0, last: 1 } }, "CONFIG_INVALID"],
    ["another namespace", { namespace: "orders" }, "CONFIG_INVALID"],
    ["another layout", { layout: "timestamp:41,worker:10,sequence:12@0/1" }, "LAYOUT_MISMATCH"],
    ["a window that is too long", { window: 2 ** 31 }, "CONFIG_INVALID"],
    ["a clock that is far behind", { clock: epoch - 10_001 }, "CLOCK_SKEW"],
    ["a clock that is ahead of nearly all blocks", { clock: epoch + 7001 }, "CLOCK_SKEW"],
  ] as const)("refuses %s", async (_, asked, expected) => {
    await expect(lent.claim(request(asked))).rejects.toEqual(code(expected));
  });

  test("has blocks for each clock that it accepts", async () => {
    for (const offset of [7000, -10_000]) {
      const child = await claim({ clock: machine.now() + offset });
      const first = ledger.allocator.blockLayout.spanOf(layout.tickOf(Math.max(machine.now() + offset, lease.from)));
      const asked = { ...request(), ...child, first, spans: 10, blocks: 1, held: 0 };
      expect((await take(asked)) as BlocksTaken).toMatchObject({ blocks: Array.from({ length: 10 }, () => 0b1) });
    }
  });

  test("loses its children's claims when it is lost", async () => {
    const child = await claim();
    await registry.forceRelease({ namespace: "default", workerId: 2, force: true });
    await lease.renew();
    expect(lease.state).toBe("lost");
    expect(await lent.renew({ ...request(), ...child })).toMatchObject({ outcome: "lost" });
    expect(await lent.release({ ...request(), ...child })).toMatchObject({ outcome: "lost" });
    await expect(lent.claim(request())).rejects.toEqual(code("LEASE_LOST"));
  });

  test("is given back up to the end of the last span with a taken block", async () => {
    const child = await claim();
    const first = ledger.allocator.blockLayout.spanOf(layout.tickOf(machine.now()));
    await take({ ...request(), ...child, first, spans: 20, blocks: 1, held: 0 });
    await lease.close();
    const until = layout.timeOf((first + 20) * ledger.allocator.blockLayout.ticks);
    expect(await registry.worker("default", 2)).toMatchObject({ clean: true, until });
    expect(await lent.renew({ ...request(), ...child })).toMatchObject({ outcome: "lost" });
  });

  test("is given back without usage where other programs use the worker ID, too", async () => {
    await lease.close();
    lend(await Lease.claim({ registry, clock: machine, makeToken }, options), false);
    await claim();
    const { until } = lease;
    await lease.close();
    expect(await registry.worker("default", 2)).toMatchObject({ state: "resting", clean: false, until });
  });

  test("starts again with another worker ID when it switches", async () => {
    await lease.close();
    const wish: LeaseOptions = { ...options, workerId: undefined, onLost: "switch" };
    lend(await Lease.claim({ registry, clock: machine, makeToken }, wish));
    const child = await claim();
    const switched = new Promise((resolve) => lease.on("switched", resolve));
    await registry.forceRelease({ namespace: "default", workerId: child.workerId, force: true });
    await lease.renew();
    await switched;
    expect(await lent.renew({ ...request(), ...child })).toMatchObject({ outcome: "lost" });
    expect((await claim()).workerId).not.toBe(child.workerId);
  });

  test("ends when the clock is set back to where its children get no blocks", async () => {
    const child = await claim();
    const first = ledger.allocator.blockLayout.spanOf(layout.tickOf(machine.now()));
    await take({ ...request(), ...child, first, spans: 2, blocks: 1, held: 0 });
    const pass = async (ms: number): Promise<void> => {
      for (let passed = 0; passed < ms; passed += 50) {
        world.advance(50);
        await settled();
      }
    };
    machine.offset = -3_600_000;
    await pass(300);
    machine.offset = 0;
    await pass(2000);
    expect(lease.state).toBe("held");
    machine.offset = -3_600_000;
    await pass(1000);
    expect(lease.state).toBe("lost");
    expect(lease.signal.reason).toEqual(code("LEASE_LOST"));
    expect(await lent.renew({ ...request(), ...child, clock: machine.now() })).toMatchObject({ outcome: "lost" });
  });

  test("that gets the same worker ID again loses its old claims: they have another fence", async () => {
    await lease.close();
    lend(await Lease.claim({ registry, clock: machine, makeToken }, { ...options, onLost: "switch" }));
    const child = await claim();
    const switched = new Promise((resolve) => lease.on("switched", resolve));
    await registry.forceRelease({ namespace: "default", workerId: 2, force: true });
    await lease.renew();
    for (let second = 0; lease.state !== "held"; second++) {
      world.advance(1000);
      await settled();
      expect(second).toBeLessThan(60);
    }
    await switched;
    expect([lease.workerId, lease.fence]).toEqual([child.workerId, child.fence + 1]);
    const old = { ...request(), ...child, clock: machine.now() };
    const first = ledger.allocator.blockLayout.spanOf(layout.tickOf(machine.now()));
    expect(await lent.renew(old)).toMatchObject({ outcome: "lost" });
    expect(await take({ ...old, first, spans: 1, blocks: 1, held: 0 })).toMatchObject({ outcome: "lost" });
    expect(await lent.release(old)).toMatchObject({ outcome: "lost" });
    expect((await claim()).fence).toBe(lease.fence);
    expect(ledger.allocator.newest()).toBeUndefined();
  });

  test("gives no block of a span behind its window, and is given back up to the window's end at most", async () => {
    await lease.close();
    // The window ends in the middle of a tick.
    world.advance(60);
    lend(await Lease.claim({ registry, clock: machine, makeToken }, { ...options, window: 2990 }));
    const child = await claim();
    const { until } = lease;
    const { blockLayout } = ledger.allocator;
    const first = blockLayout.spanOf(layout.tickOf(machine.now()));
    const last = blockLayout.spanOf(layout.tickOf(until - 1));
    const answer = (await take({ ...request(), ...child, first, spans: 60, blocks: 1, held: 0 })) as BlocksTaken;
    expect(answer.blocks.findLastIndex((blocks) => blocks !== 0)).toBe(last - first);
    expect(lease.until).toBe(until);
    expect(ledger.checkpoint()).toEqual({ timestamp: layout.timeOf(last - 1), sequence: layout.maxSequence });
    await lease.close();
    expect(await registry.worker("default", 2)).toMatchObject({ clean: true, until });
  });

  test("lets its children continue where it may continue itself", async () => {
    await lease.close();
    world.advance(10_000);
    const first = await Lease.claim({ registry, clock: machine, makeToken }, options);
    const id = new Snowflake(first).next();
    await first.close();
    lend(await Lease.claim({ registry, clock: machine, makeToken }, options));
    const borrowed = await Lease.claim({ registry: lent, clock: machine, makeToken }, options);
    const child = new Snowflake(borrowed, { share: await LeaseClient.open(borrowed) });
    expect(layout.decompose(child.next())).toEqual({
      ...layout.decompose(id),
      sequence: ledger.allocator.blockLayout.sequences,
    });
  });

  test("excludes a generator that does not share it, a second server, and lending it on", async () => {
    expect(() => new Snowflake(lease)).toThrow(expect.objectContaining({ code: "CONFIG_INVALID" }));
    expect(() => new SharedUsageTracker(lease, true)).toThrow(expect.objectContaining({ code: "CONFIG_INVALID" }));
    const borrowed = await Lease.claim({ registry: lent, clock: machine, makeToken }, options);
    expect(() => new Snowflake(borrowed)).toThrow(expect.objectContaining({ code: "CONFIG_INVALID" }));
    expect(() => new SharedUsageTracker(borrowed, true)).toThrow(expect.objectContaining({ code: "CONFIG_INVALID" }));
  });

  test("shows its worker ID, and refuses operators", async () => {
    await claim();
    expect(await lent.workers("default")).toMatchObject([{ workerId: 2, state: "live" }]);
    expect(await lent.worker("default", 3)).toBeUndefined();
    expect(await lent.workers("other")).toEqual([]);
    await expect(lent.pin("default", 2, "mine")).rejects.toEqual(code("FORBIDDEN"));
  });
});

/*
 * Two lenders on one host fight for one worker ID of a registry behind a bad network, and each has children that come, crash,
 * stop, wake and give back, while the clock is stepped: whatever happens, no ID is made twice.
 */
