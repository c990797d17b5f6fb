import { beforeEach, describe, expect, test } from "vitest";
import { isSnowleaseError } from "../../src/core/errors.ts";
import { Layout } from "../../src/core/layout.ts";
import { Lease, type LeaseOptions } from "../../src/core/lease.ts";
import type { ClaimRequest, Grant, Registry } from "../../src/core/registry.ts";
import { Snowflake } from "../../src/core/snowflake.ts";
import { memoryRegistry } from "../../src/registries/memory/registry.ts";
import { lendingRegistry } from "../../src/shared/lending.ts";
import { overNetwork } from "../simulation/network.ts";
import { epoch, Machine, World } from "../simulation/world.ts";

const layout = new Layout({
  fields: [
    { name: "timestamp", bits: 30 },
    { name: "worker", bits: 2 },
    { name: "sequence", bits: 1 },
  ],
  epoch: epoch - 600_000,
  tick: 100,
});

const options: LeaseOptions = {
  namespace: "default",
  layout,
  pool: { first: 0, last: 3 },
  workerId: 2,
  window: 10_000,
  claimTimeout: 0,
  maxWait: 500,
  operationTimeout: 3000,
  reuse: "any",
  onLost: "stop",
  holder: { host: "a", ip: "10.0.0.1", pid: 1, instance: "" },
};

let tokens = 0;
const makeToken = (): string => (++tokens).toString(16).padStart(32, "0");

describe("a lease that is lent", () => {
  let world: World;
  let machine: Machine;
  let registry: Registry;
  let lease: Lease;
  let lent: Registry;

  beforeEach(async () => {
    world = new World(1);
    machine = new Machine(world, 0);
    registry = memoryRegistry({ clock: machine });
    lease = await Lease.claim({ registry, clock: machine, makeToken }, options);
    lent = lendingRegistry(lease);
  });

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

  test("gives its worker ID to a child, and the time that the child wants of its window", async () => {
    expect(await claim()).toMatchObject({ workerId: 2, fence: lease.fence, from: lease.from, until: epoch + 2000 });
  });

  test("gives nothing of the time before its own window", async () => {
    await lease.close();
    world.advance(10_000);
    lease = await Lease.claim({ registry, clock: machine, makeToken }, options);
    lent = lendingRegistry(lease);
    world.advance(1000);
    expect((await claim()).from).toBe(epoch + 10_000);
  });

  test("passes on that a quarantine has raised its window", async () => {
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
    lease = await Lease.claim({ registry: raising, clock: machine, makeToken }, options);
    lent = lendingRegistry(lease);
    const child = await claim();
    await lease.renew();
    expect(await lent.renew({ ...request(), ...child })).toMatchObject({ outcome: "renewed", from });
    expect(await lent.release({ ...request(), ...child, used: { until: from } })).toEqual({ outcome: "released" });
  });

  test("never gives more than its own window", async () => {
    const child = await claim({ window: 600_000 });
    expect(child.until).toBe(lease.until);
    const renewal = await lent.renew({ ...request(), ...child, window: 600_000 });
    expect(renewal).toMatchObject({ outcome: "renewed", until: lease.until });
    world.advance(5000);
    await lease.renew();
    expect(await lent.renew({ ...request(), ...child, window: 600_000 })).toMatchObject({ until: epoch + 15_000 });
  });

  test("answers a repeated claim with the same grant", async () => {
    const first = await claim();
    world.advance(500);
    expect(await claim({ token: first.token })).toMatchObject({
      from: first.from,
      until: first.until,
      fence: first.fence,
    });
  });

  test("refuses a second child while the first holds it, and names the first", async () => {
    await claim();
    world.advance(100);
    expect(await lent.claim(request())).toMatchObject({
      outcome: "held",
      live: true,
      workerId: 2,
      holder: { pid: 2 },
      freeAt: epoch + 2000,
    });
  });

  test("starts a child after the window of one that died", async () => {
    const dead = await claim();
    world.advance(2000);
    const next = await claim();
    expect(next.from).toBe(dead.until);
    expect(next.fence).toBe(dead.fence + 1);
    expect(await lent.renew({ ...request(), ...dead })).toEqual({ outcome: "lost" });
  });

  test("moves what a child says it used to the next one, once", async () => {
    const first = await claim();
    const recents = { from: first.from, bytes: Uint8Array.of(1, 0, 1) };
    await lent.release({ ...request(), ...first, used: { until: epoch + 100, recents } });
    const second = await claim();
    expect(second).toMatchObject({ from: epoch + 100, recents });
    await lent.renew({ ...request(), ...second });
    await lent.release({ ...request(), ...second });
    world.advance(2000);
    expect(await claim()).not.toHaveProperty("recents");
  });

  test("refuses a usage outside of the child's window", async () => {
    const child = await claim();
    const release = lent.release({ ...request(), ...child, used: { until: child.until + 1 } });
    await expect(release).rejects.toEqual(code("CONFIG_INVALID"));
  });

  test("refuses when its own window has passed, until it is renewed", async () => {
    const child = await claim();
    machine.offset += 10_000;
    await expect(lent.claim(request())).rejects.toEqual(code("LEASE_EXPIRED"));
    await expect(lent.renew({ ...request(), ...child })).rejects.toEqual(code("LEASE_EXPIRED"));
    await lease.renew();
    expect(await lent.renew({ ...request(), ...child })).toMatchObject({ outcome: "renewed" });
  });

  test.each([
    ["another worker ID", { workerId: 3 }, "CONFIG_INVALID"],
    ["a pool without its worker ID", { pool: { first: 0, last: 1 } }, "CONFIG_INVALID"],
    ["another namespace", { namespace: "orders" }, "CONFIG_INVALID"],
    ["another layout", { layout: "timestamp:41,worker:10,sequence:12@0/1" }, "LAYOUT_MISMATCH"],
    ["a window that is too long", { window: 2 ** 31 }, "CONFIG_INVALID"],
    ["a clock that is far off", { clock: epoch + 10_001 }, "CLOCK_SKEW"],
  ] as const)("refuses %s", async (_, asked, expected) => {
    await expect(lent.claim(request(asked))).rejects.toEqual(code(expected));
  });

  test("loses its children's claims when it is lost", async () => {
    const child = await claim();
    await registry.forceRelease({ namespace: "default", workerId: 2, force: true });
    await lease.renew();
    expect(lease.state).toBe("lost");
    expect(await lent.renew({ ...request(), ...child })).toEqual({ outcome: "lost" });
    expect(await lent.release({ ...request(), ...child })).toEqual({ outcome: "lost" });
    await expect(lent.claim(request())).rejects.toEqual(code("LEASE_LOST"));
  });

  test("loses its children's claims when it is given back, which tells nothing of what they used", async () => {
    const child = await claim();
    const released = new Promise((resolve) => lease.on("released", resolve));
    await lease.close();
    expect(await released).toMatchObject({ clean: false });
    expect(await registry.worker("default", 2)).toMatchObject({ state: "resting", until: lease.until });
    expect(await lent.renew({ ...request(), ...child })).toEqual({ outcome: "lost" });
  });

  test("starts anew with another worker ID when it switches", async () => {
    await lease.close();
    lease = await Lease.claim(
      { registry, clock: machine, makeToken },
      { ...options, workerId: undefined, onLost: "switch" },
    );
    lent = lendingRegistry(lease);
    const child = await claim();
    const switched = new Promise((resolve) => lease.on("switched", resolve));
    await registry.forceRelease({ namespace: "default", workerId: child.workerId, force: true });
    await lease.renew();
    await switched;
    expect(await lent.renew({ ...request(), ...child })).toEqual({ outcome: "lost" });
    expect((await claim()).workerId).not.toBe(child.workerId);
  });

  test("hands on the right to continue that it has itself", async () => {
    await lease.close();
    world.advance(10_000);
    const first = await Lease.claim({ registry, clock: machine, makeToken }, options);
    const id = new Snowflake(first).next();
    await first.close();
    lease = await Lease.claim({ registry, clock: machine, makeToken }, options);
    lent = lendingRegistry(lease);
    const child = new Snowflake(await Lease.claim({ registry: lent, clock: machine, makeToken }, options));
    expect(layout.decompose(child.next())).toEqual({ ...layout.decompose(id), sequence: 1 });
  });

  test("leaves no room for a generator of its own, or for lending it twice", () => {
    expect(() => new Snowflake(lease)).toThrow(expect.objectContaining({ code: "CONFIG_INVALID" }));
    expect(() => lendingRegistry(lease)).toThrow(expect.objectContaining({ code: "CONFIG_INVALID" }));
  });

  test("shows who borrows, and lets no operator in", async () => {
    await claim();
    expect(await lent.workers("default")).toMatchObject([{ workerId: 2, state: "live", holder: { pid: 2 } }]);
    expect(await lent.worker("default", 3)).toBeUndefined();
    expect(await lent.workers("other")).toEqual([]);
    await expect(lent.pin("default", 2, "mine")).rejects.toEqual(code("FORBIDDEN"));
  });
});

/*
 * Two lenders on one host fight for one worker ID of a registry behind a bad network, and each has children that come, crash,
 * stop, wake and give back, while the clock is stepped: whatever happens, no ID is made twice.
 */
describe("histories of children that borrow a lease", () => {
  Error.stackTraceLimit = 0;

  interface Child {
    readonly machine: Machine;
    readonly ids: Snowflake;
  }

  interface Lender {
    readonly machine: Machine;
    lease?: Lease;
    lent?: Registry | undefined;
    children: Child[];
  }

  async function play(
    seed: number,
  ): Promise<{ ids: number; successions: number; takeovers: number; repeated: bigint | undefined }> {
    const world = new World(seed);
    const { random } = world;
    const server = new Machine(world, random.between(-1000, 1000));
    const registry = memoryRegistry({ clock: server });
    const weather = { loseRequest: 0.05, loseReply: 0.1, lateRequest: 0.05, repeatRequest: 0.05 };
    const calm = { loseRequest: 0, loseReply: 0.05, lateRequest: 0.05, repeatRequest: 0.05 };
    const used = new Set<bigint>();
    const lenders = new Set<Lender>();
    let offset = 0;
    let successions = 0;
    let takeovers = 0;
    let repeated: bigint | undefined;

    const machines = (): Machine[] =>
      [...lenders].flatMap(({ machine, children }) => [machine, ...children.map((c) => c.machine)]);

    function startLender(): void {
      const lender: Lender = { machine: new Machine(world, offset), children: [] };
      lenders.add(lender);
      const host = {
        registry: overNetwork(world, lender.machine, registry, weather),
        clock: lender.machine,
        makeToken,
      };
      Lease.claim(host, { ...options, window: 1500, onLost: random.pick(["stop", "switch"]) }).then(
        (lease) => {
          lender.lease = lease;
          if (lease.fence > 1) takeovers++;
          lender.lent = lendingRegistry(lease);
        },
        () => lenders.delete(lender),
      );
    }

    function startChild(lender: Lender): void {
      if (lender.lent === undefined) return;
      const machine = new Machine(world, offset);
      const host = { registry: overNetwork(world, machine, lender.lent, calm), clock: machine, makeToken };
      const window = random.pick([400, 1000, 3000]);
      Lease.claim(host, { ...options, window, onLost: random.pick(["stop", "switch"]) }).then(
        (lease) => {
          if (lease.fence > (lender.lease?.fence ?? 0)) successions++;
          lender.children.push({ machine, ids: new Snowflake(lease) });
        },
        () => undefined,
      );
    }

    function actAs(lender: Lender): void {
      const dice = random.next();
      const child = lender.children.length > 0 ? random.pick(lender.children) : undefined;
      const forget = (): void => void lender.children.splice(lender.children.indexOf(child as Child), 1);
      if (child === undefined || dice < 0.1) startChild(lender);
      else if (dice < 0.7) emit(child);
      else if (dice < 0.78) {
        child.machine.dead = true;
        forget();
      } else if (dice < 0.86) {
        child.ids.close().catch(() => undefined);
        forget();
      } else if (dice < 0.9) child.machine.stopped = !child.machine.stopped;
      else if (dice < 0.93) lender.lease?.close().catch(() => undefined);
      else {
        // Its children go on: what they borrowed is theirs until it ends.
        lender.machine.dead = true;
        lender.lent = undefined;
        if (random.chance(0.5)) lenders.delete(lender);
      }
    }

    function emit({ machine, ids }: Child): void {
      if (!machine.runs) return;
      for (let i = random.between(1, 3); i > 0; i--) {
        try {
          const id = ids.next();
          if (used.has(id)) repeated ??= id;
          used.add(id);
        } catch (error) {
          if (!isSnowleaseError(error)) throw error;
          return;
        }
      }
    }

    for (let step = 0; step < 300; step++) {
      const dice = random.next();
      if (dice < 0.4 && world.deliver()) await settled();
      else if (dice < 0.85) {
        if (lenders.size < 2) startLender();
        else actAs(random.pick([...lenders]));
      } else if (dice < 0.97) world.advance(random.chance(0.4) ? (world.nextWake() ?? 100) : random.between(1, 700));
      else {
        offset = random.pick([-4000, -2500, -1000, 0, 0, 1000, 2500]);
        for (const machine of machines()) machine.offset = offset;
      }
      await settled();
    }
    for (const machine of machines()) machine.dead = true;
    return { ids: used.size, successions, takeovers, repeated };
  }

  async function settled(): Promise<void> {
    for (let turn = 0; turn < 12; turn++) await Promise.resolve();
  }

  test("no ID is made twice", { timeout: 60_000 }, async () => {
    const total = { ids: 0, successions: 0, takeovers: 0 };
    for (let seed = 1; seed <= 3000; seed++) {
      const { ids, successions, takeovers, repeated } = await play(seed);
      expect(repeated, `seed ${seed}`).toBeUndefined();
      total.ids += ids;
      total.successions += successions;
      total.takeovers += takeovers;
    }
    // Histories in which nobody comes after somebody else would find nothing.
    expect(total.ids).toBeGreaterThan(5000);
    expect(total.successions).toBeGreaterThan(1000);
    expect(total.takeovers).toBeGreaterThan(500);
  });
});
