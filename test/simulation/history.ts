import { isSnowleaseError } from "../../src/core/errors.ts";
import { Layout } from "../../src/core/layout.ts";
import { Lease, type LeaseOptions } from "../../src/core/lease.ts";
import type { Registry } from "../../src/core/registry.ts";
import { Ring } from "../../src/core/ring.ts";
import { Snowflake } from "../../src/core/snowflake.ts";
import { memoryRegistry } from "../../src/registries/memory/registry.ts";
import { overNetwork, type Weather } from "./network.ts";
import { epoch, Machine, World } from "./world.ts";

/** A holder as the simulation sees it: makes IDs, and ends in one way or another. */
interface Holder {
  emit(): bigint;
  close(): Promise<void>;
}

/** How a holder comes to be; the broken ones differ here. */
export interface HolderKind {
  /** What the holder sees of the registry. */
  readonly view?: (registry: Registry) => Registry;
  readonly make?: (lease: Lease) => Holder;
}

/** What became of one simulated history. */
export interface Outcome {
  readonly seed: number;
  readonly ids: number;
  readonly claims: number;
  readonly continued: number;
  readonly switched: number;
  readonly taken: number;
  /** IDs that led the clock of their maker. */
  readonly led: number;
  /** What must never happen, in words. */
  readonly violation?: string | undefined;
}

/*
 * Few worker IDs, few sequences, long ticks and a memory of only ten of them: collisions are a matter of few steps, so that a
 * short history meets what a real fleet meets in years.
 */
const slots = 3;
const hosts = ["a", "b"];
const windows = [4000, 6000, 15_000];

function layoutOf(tick: number): Layout {
  const fields = [
    { name: "timestamp", bits: 30 },
    { name: "worker", bits: 2 },
    { name: "sequence", bits: 1 },
  ];
  return new Layout({ fields, epoch: epoch - 600_000, tick });
}

/** Plays one history to its end: every choice in it comes from the seed. */
export async function play(seed: number, kind: HolderKind = {}): Promise<Outcome> {
  const world = new World(seed);
  const { random } = world;
  const server = new Machine(world, random.between(-3000, 3000));
  const registry = memoryRegistry({ clock: server });
  const layout = layoutOf(random.pick([500, 1000]));
  const weather: Weather = {
    loseRequest: random.pick([0, 0.1]),
    loseReply: random.pick([0, 0.1, 0.3]),
    lateRequest: random.pick([0, 0.15]),
    repeatRequest: random.pick([0, 0.2]),
  };
  const options: Omit<LeaseOptions, "holder"> = {
    namespace: "default",
    layout,
    pool: { first: 0, last: random.pick([0, 1, 1, 3]) },
    workerId: random.chance(0.2) ? 0 : undefined,
    window: random.pick(windows),
    claimTimeout: random.pick([0, 5000]),
    maxWait: 500,
    operationTimeout: 3000,
    reuse: "any",
    onLost: random.pick(["switch", "stop"]),
    limits: { maxClockSkew: random.pick([10_000, 40_000]) },
  };

  const used = new Map<bigint, number>();
  const offsets = new Map(hosts.map((host) => [host, random.between(-2000, 2000)]));
  const running: (Running | undefined)[] = Array.from({ length: slots }, () => undefined);
  const counts = { claims: 0, continued: 0, switched: 0, taken: 0, led: 0 };
  let holders = 0;
  let tokens = 0;
  let violation: string | undefined;

  interface Running {
    readonly number: number;
    readonly host: string;
    readonly machine: Machine;
    holder?: Holder;
  }

  function start(slot: number): void {
    const host = random.pick(hosts);
    const machine = new Machine(world, offsets.get(host) ?? 0);
    const process: Running = { number: ++holders, host, machine };
    running[slot] = process;
    const make = kind.make ?? random.pick(honest);
    const seen = overNetwork(world, machine, (kind.view ?? identity)(registry), weather);
    const lease = Lease.claim(
      { registry: seen, clock: machine, makeToken: () => (++tokens).toString(16).padStart(32, "0") },
      {
        ...options,
        leads: make === leading || make === prepared,
        holder: { host, ip: "", pid: process.number, instance: "" },
      },
    );
    lease.then(
      (held) => {
        counts.claims++;
        held.on("acquired", ({ continued }) => (counts.continued += Number(continued)));
        held.on("switched", () => counts.switched++);
        process.holder = make(held);
      },
      (error: unknown) => {
        note(process, error);
        if (running[slot] === process) running[slot] = undefined;
      },
    );
  }

  /** Refusals are part of life; that the registry finds a request of an honest holder invalid is not. */
  function note(process: Running, error: unknown): void {
    const simulated = isSnowleaseError(error) && !(error.cause instanceof Error) && error.code !== "CONFIG_INVALID";
    if (simulated) return;
    violation ??= `holder ${process.number}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`;
  }

  function emit(process: Running): void {
    for (let i = random.pick([1, 1, 2, 2, 3, 3, 30]); i > 0 && process.holder !== undefined; i--) {
      try {
        const id = process.holder.emit();
        const other = used.get(id);
        if (other !== undefined)
          violation ??= `ID ${id} was made by holder ${other} and again by holder ${process.number}`;
        used.set(id, process.number);
        counts.led += Number(layout.decompose(id).timestamp > process.machine.now());
      } catch (error) {
        note(process, error);
        return;
      }
    }
  }

  function act(): void {
    const slot = random.below(slots);
    const process = running[slot];
    if (process === undefined) return start(slot);
    const dice = random.next();
    if (process.machine.stopped) {
      if (dice < 0.3) process.machine.stopped = false;
    } else if (dice < 0.76) emit(process);
    else if (dice < 0.86) {
      process.holder?.close().catch((error: unknown) => note(process, error));
      if (process.holder !== undefined && random.chance(0.8)) running[slot] = undefined;
    } else if (dice < 0.93) {
      process.machine.dead = true;
      running[slot] = undefined;
    } else process.machine.stopped = true;
  }

  /** The clock of a host steps, for every process on it; now and then the registry's does. */
  function stepClock(): void {
    const by = random.pick([-20_000, -15_000, -5000, -1500, -700, 700, 1500, 5000, 15_000]);
    if (random.chance(0.15)) {
      server.offset += by;
      return;
    }
    const host = random.pick(hosts);
    const offset = (offsets.get(host) ?? 0) + by;
    offsets.set(host, offset);
    for (const process of running) if (process?.host === host) process.machine.offset = offset;
  }

  for (let step = random.between(25, 85); step > 0 && violation === undefined; step--) {
    const dice = random.next();
    if (dice < 0.5 && world.deliver()) await settled();
    else if (dice < 0.8) act();
    else if (dice < 0.955) world.advance(random.chance(0.4) ? (world.nextWake() ?? 100) : random.between(1, 1500));
    else stepClock();
    await settled();
  }
  counts.taken = (await registry.history("default", 0)).filter(({ end }) => end === "taken-over").length;
  // What still sleeps belongs to nobody now.
  for (const process of running) if (process !== undefined) process.machine.dead = true;
  return { seed, ids: used.size, ...counts, violation };
}

/** A rollback of some seconds is already too large to be told of, so that switching because of one is met too. */
const rollback = { maxWait: 500, maxTell: 3000 };

function wall(lease: Lease): Holder {
  const snowflake = new Snowflake(lease, { rollback });
  return { emit: () => snowflake.next(), close: () => snowflake.close() };
}

/** Makes IDs ahead of the clock, as far as its window reaches. */
export function leading(lease: Lease): Holder {
  const snowflake = new Snowflake(lease, { mode: "lead" });
  return { emit: () => snowflake.next(), close: () => snowflake.close() };
}

/** The same with IDs that are prepared: some are never emitted, and lie in the window all the same. */
function prepared(lease: Lease): Holder {
  const ring = new Ring(new Snowflake(lease, { mode: "lead" }), { boost: 2 });
  return { emit: () => ring.next(), close: () => ring.close() };
}

const honest = [wall, wall, wall, wall, leading, prepared];

function identity(registry: Registry): Registry {
  return registry;
}

/**
 * Lets what follows from the last step happen. Promises run in a fixed order, so a chain longer than this goes on beside the next
 * step and is still the same in every replay; waiting for the event loop instead costs three times as much.
 */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 12; turn++) await Promise.resolve();
}
