import { beforeEach, describe, expect, test } from "vitest";
import { isSnowleaseError } from "../../src/core/errors.ts";
import { Layout } from "../../src/core/layout.ts";
import { Lease, type LeaseOptions } from "../../src/core/lease.ts";
import type { ClaimRequest, Grant, LanesRequest, Registry, Usage } from "../../src/core/registry.ts";
import { Snowflake } from "../../src/core/snowflake.ts";
import { memoryRegistry } from "../../src/registries/memory/registry.ts";
import { BorrowedLanes } from "../../src/shared/borrowed.ts";
import { SharedLedger } from "../../src/shared/ledger.ts";
import { lendingRegistry } from "../../src/shared/lending.ts";
import { overNetwork } from "../simulation/network.ts";
import { epoch, Machine, World } from "../simulation/world.ts";

const layout = new Layout({
  fields: [
    { name: "timestamp", bits: 30 },
    { name: "worker", bits: 2 },
    { name: "sequence", bits: 7 },
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
  let ledger: SharedLedger;
  let lent: Registry;

  beforeEach(async () => {
    world = new World(1);
    machine = new Machine(world, 0);
    registry = memoryRegistry({ clock: machine });
    lend(await Lease.claim({ registry, clock: machine, makeToken }, options));
  });

  function lend(claimed: Lease, knowsAll = true): void {
    lease = claimed;
    ledger = new SharedLedger(lease, knowsAll);
    lent = lendingRegistry(lease, ledger);
  }

  async function take(asked: LanesRequest): Promise<unknown> {
    return lent.takeLanes?.(asked);
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

  test("gives each lane of a span once, whoever asks, and only of spans that lie in its window and not far ahead", async () => {
    const [one, two] = [await claim(), await claim()];
    const first = ledger.grid.cut.spanOf(layout.tickOf(machine.now()));
    const ask = (child: Grant & { token: string }, over: object = {}): Promise<unknown> =>
      take({ ...request(), ...child, first, spans: 2, lanes: 1, held: 0, ...over });
    expect(await ask(one)).toEqual({ outcome: "taken", lanes: [0b1, 0b1] });
    expect(await ask(two, { lanes: 3 })).toEqual({ outcome: "taken", lanes: [0b1110, 0b1110] });
    // Who has some leaves one for each other.
    expect(await ask(one, { lanes: 32, held: 1 })).toEqual({ outcome: "taken", lanes: [0x7fff_fff0, 0x7fff_fff0] });
    expect(await ask(two)).toEqual({ outcome: "taken", lanes: [0x8000_0000, 0x8000_0000] });
    expect(await ask(two, { first: first - 200 })).toEqual({ outcome: "taken", lanes: [0, 0] });
    expect(await ask(two, { first: first + 79, spans: 3 })).toEqual({ outcome: "taken", lanes: [1, 1, 0] });
    await lease.close();
    expect(await ask(one)).toEqual({ outcome: "lost" });
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
    lend(await Lease.claim({ registry: raising, clock: machine, makeToken }, options));
    const child = await claim();
    await lease.renew();
    expect(await lent.renew({ ...request(), ...child })).toMatchObject({ outcome: "renewed", from });
  });

  test("tells its children when its window was extended", async () => {
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

  test("is given back up to the end of the last span of which anything was taken", async () => {
    const child = await claim();
    const first = ledger.grid.cut.spanOf(layout.tickOf(machine.now()));
    await take({ ...request(), ...child, first, spans: 20, lanes: 1, held: 0 });
    await lease.close();
    const until = layout.timeOf((first + 20) * ledger.grid.cut.ticks);
    expect(await registry.worker("default", 2)).toMatchObject({ clean: true, until });
    expect(await lent.renew({ ...request(), ...child })).toEqual({ outcome: "lost" });
  });

  test("is given back without a word where others use the worker ID, too", async () => {
    await lease.close();
    lend(await Lease.claim({ registry, clock: machine, makeToken }, options), false);
    await claim();
    const { until } = lease;
    await lease.close();
    expect(await registry.worker("default", 2)).toMatchObject({ state: "resting", clean: false, until });
  });

  test("starts anew with another worker ID when it switches", async () => {
    await lease.close();
    const wish: LeaseOptions = { ...options, workerId: undefined, onLost: "switch" };
    lend(await Lease.claim({ registry, clock: machine, makeToken }, wish));
    const child = await claim();
    const switched = new Promise((resolve) => lease.on("switched", resolve));
    await registry.forceRelease({ namespace: "default", workerId: child.workerId, force: true });
    await lease.renew();
    await switched;
    expect(await lent.renew({ ...request(), ...child })).toEqual({ outcome: "lost" });
    expect((await claim()).workerId).not.toBe(child.workerId);
  });

  test("lets its children continue behind what it may continue itself", async () => {
    await lease.close();
    world.advance(10_000);
    const first = await Lease.claim({ registry, clock: machine, makeToken }, options);
    const id = new Snowflake(first).next();
    await first.close();
    lend(await Lease.claim({ registry, clock: machine, makeToken }, options));
    const borrowed = await Lease.claim({ registry: lent, clock: machine, makeToken }, options);
    const child = new Snowflake(borrowed, { share: await BorrowedLanes.open(borrowed) });
    expect(layout.decompose(child.next())).toEqual({ ...layout.decompose(id), sequence: ledger.grid.cut.sequences });
  });

  test("leaves no room for a generator that does not share it, nor for lending it twice, nor for lending it on", async () => {
    expect(() => new Snowflake(lease)).toThrow(expect.objectContaining({ code: "CONFIG_INVALID" }));
    expect(() => new SharedLedger(lease, true)).toThrow(expect.objectContaining({ code: "CONFIG_INVALID" }));
    const borrowed = await Lease.claim({ registry: lent, clock: machine, makeToken }, options);
    expect(() => new Snowflake(borrowed)).toThrow(expect.objectContaining({ code: "CONFIG_INVALID" }));
    expect(() => new SharedLedger(borrowed, true)).toThrow(expect.objectContaining({ code: "CONFIG_INVALID" }));
  });

  test("shows its worker ID, and lets no operator in", async () => {
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
describe("histories of children that borrow a lease", () => {
  Error.stackTraceLimit = 0;

  interface Child {
    readonly machine: Machine;
    readonly ids: Snowflake;
    readonly emitted: ((id: bigint) => void) | undefined;
  }

  interface Lender {
    readonly machine: Machine;
    lease?: Lease;
    lent?: Registry | undefined;
    emitted?: ((id: bigint) => void) | undefined;
    children: Child[];
  }

  /** Who accounts for a lease, and hears of every ID that is made on it. */
  type MakeLedger = (lease: Lease) => SharedLedger & { readonly emitted?: (id: bigint) => void };

  async function play(
    seed: number,
    makeLedger: MakeLedger = (lease) => new SharedLedger(lease, true),
  ): Promise<{ ids: number; neighbours: number; takeovers: number; repeated: bigint | undefined }> {
    const world = new World(seed);
    const { random } = world;
    const server = new Machine(world, random.between(-1000, 1000));
    const registry = memoryRegistry({ clock: server });
    const weather = { loseRequest: 0.05, loseReply: 0.1, lateRequest: 0.05, repeatRequest: 0.05 };
    const calm = { loseRequest: 0, loseReply: 0.05, lateRequest: 0.05, repeatRequest: 0.05 };
    const used = new Set<bigint>();
    const lenders = new Set<Lender>();
    let offset = 0;
    let neighbours = 0;
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
      Lease.claim(host, { ...options, window: 3000, onLost: random.pick(["stop", "switch"]) }).then(
        (lease) => {
          lender.lease = lease;
          if (lease.fence > 1) takeovers++;
          const ledger = makeLedger(lease);
          lender.emitted = ledger.emitted?.bind(ledger);
          lender.lent = lendingRegistry(lease, ledger);
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
        async (lease) => {
          const share = await BorrowedLanes.open(lease).catch(() => undefined);
          if (share === undefined) return lease.orphan();
          if (lender.children.length > 0) neighbours++;
          lender.children.push({ machine, ids: new Snowflake(lease, { share }), emitted: lender.emitted });
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
      else if (dice < 0.95) lender.lease?.close().catch(() => undefined);
      else {
        // Its children go on: what they borrowed is theirs until it ends.
        lender.machine.dead = true;
        lender.lent = undefined;
        if (random.chance(0.5)) lenders.delete(lender);
      }
    }

    function emit({ machine, ids, emitted }: Child): void {
      if (!machine.runs) return;
      for (let i = random.between(1, 8); i > 0; i--) {
        try {
          const id = ids.next();
          if (used.has(id)) repeated ??= id;
          used.add(id);
          emitted?.(id);
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
        const present = [...lenders].filter(({ lease }) => lease === undefined || lease.state === "held");
        if (present.length < 2) startLender();
        else actAs(random.pick([...lenders]));
      } else if (dice < 0.97) world.advance(random.chance(0.4) ? (world.nextWake() ?? 100) : random.between(1, 200));
      else {
        offset = random.pick([-4000, -2500, -1000, 0, 0, 1000, 2500]);
        for (const machine of machines()) machine.offset = offset;
      }
      await settled();
    }
    for (const machine of machines()) machine.dead = true;
    return { ids: used.size, neighbours, takeovers, repeated };
  }

  async function settled(): Promise<void> {
    for (let turn = 0; turn < 12; turn++) await Promise.resolve();
  }

  test("no ID is made twice", { timeout: 60_000 }, async () => {
    const total = { ids: 0, neighbours: 0, takeovers: 0 };
    for (let seed = 1; seed <= 2000; seed++) {
      const { ids, neighbours, takeovers, repeated } = await play(seed);
      expect(repeated, `seed ${seed}`).toBeUndefined();
      total.ids += ids;
      total.neighbours += neighbours;
      total.takeovers += takeovers;
    }
    // Histories in which nobody meets anybody would find nothing.
    expect(total.ids).toBeGreaterThan(5000);
    expect(total.neighbours).toBeGreaterThan(1000);
    expect(total.takeovers).toBeGreaterThan(500);
  });

  /** Counts as used what its children have made, and not what they may still make of the lanes that they have. */
  class EmittedOnly extends SharedLedger {
    readonly #lease: Lease;
    #until = 0;

    constructor(lease: Lease) {
      super(lease, true);
      this.#lease = lease;
    }

    emitted(id: bigint): void {
      this.#until = Math.max(this.#until, layout.decompose(id).timestamp + layout.tick);
    }

    override checkpoint(): undefined {
      return undefined;
    }

    override seal(): Usage | undefined {
      const { from } = this.#lease;
      super.seal();
      return { until: Math.max(from, Math.min(this.#until, this.#lease.until)) };
    }
  }

  test("a lender that counts only what was emitted is found out", { timeout: 60_000 }, async () => {
    let seed = 1;
    while ((await play(seed, (lease) => new EmittedOnly(lease))).repeated === undefined) {
      if (++seed > 3000) throw new Error("It was not found out.");
    }
  });
});
