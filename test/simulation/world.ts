import type { Clock, SleepOptions } from "../../src/lease/clock.ts";

/** Numbers that depend on the seed alone (mulberry32). */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** From 0 up to, but not including, 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    t = (t + Math.imul(t ^ (t >>> 7), t | 61)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  }

  below(n: number): number {
    return Math.floor(this.next() * n);
  }

  between(low: number, high: number): number {
    return low + this.below(high - low + 1);
  }

  chance(p: number): boolean {
    return this.next() < p;
  }

  pick<T>(items: readonly T[]): T {
    const item = items[this.below(items.length)];
    if (item === undefined) throw new RangeError("There is nothing to pick from.");
    return item;
  }
}

/** An event that may happen in any order: a message under way, or its answer. */
interface Pending {
  readonly machine: Machine | undefined;
  readonly happen: () => void;
}

/** A sleeper until a time. */
interface Sleeper {
  readonly machine: Machine;
  readonly at: number;
  readonly wake: () => void;
  /** It waits no more, and does not wake either. */
  readonly forget: () => void;
}

/** True time, the messages under way, and all sleepers: everything that the scheduler may choose from. */
export class World {
  readonly random: Random;
  /** True ms since the world began. Only the scheduler sees it. */
  time = 0;
  #pending: Pending[] = [];
  #machines = 0n;
  #sleepers: Sleeper[] = [];

  constructor(seed: number) {
    this.random = new Random(seed);
  }

  nextSerial(): bigint {
    return ++this.#machines;
  }

  later(machine: Machine | undefined, happen: () => void): void {
    this.#pending.push({ machine, happen });
  }

  sleep(machine: Machine, ms: number, { wake, forget }: Pick<Sleeper, "wake" | "forget">): void {
    this.#sleepers.push({ machine, at: this.time + Math.max(1, Math.ceil(ms)), wake, forget });
  }

  /** The world ends. Node keeps a signal as long as it has a listener, and with it everything that the listener refers to. */
  end(): void {
    for (const { forget } of this.#sleepers) forget();
    this.#sleepers = [];
  }

  /** Lets one message or answer arrive. False if there is none. */
  deliver(): boolean {
    const able = this.#pending.filter(({ machine }) => machine === undefined || machine.runs);
    if (able.length === 0) return false;
    const chosen = this.random.pick(able);
    this.#pending = this.#pending.filter((pending) => pending !== chosen && pending.machine?.dead !== true);
    chosen.happen();
    return true;
  }

  /** Moves time on and wakes the sleepers that are due; those on a stopped machine sleep on. */
  advance(ms: number): void {
    this.time += ms;
    const due = this.#sleepers.filter(({ at, machine }) => at <= this.time && machine.runs);
    const dead = this.#sleepers.filter(({ machine }) => machine.dead);
    for (const { forget } of dead) forget();
    this.#sleepers = this.#sleepers.filter((sleeper) => !due.includes(sleeper) && !dead.includes(sleeper));
    for (const { wake } of due) wake();
  }

  /** When the next sleeper is due, from now; undefined if there is no sleeper. */
  nextWake(): number | undefined {
    const times = this.#sleepers.filter(({ machine }) => machine.runs).map(({ at }) => at);
    return times.length === 0 ? undefined : Math.max(0, Math.min(...times) - this.time);
  }
}

/** The state of a machine. */
interface MachineState {
  /** Added to true time by its wall clock. */
  offset: number;
  /** How far its monotonic clock is behind, ms: it stood still while the machine was a snapshot. */
  lag: number;
  /** Tells the monotonic clocks of machines apart, ns. */
  serial: bigint;
  /** Stopped by SIGSTOP, or by its hypervisor. */
  stopped: boolean;
  /** Killed by kill -9. */
  dead: boolean;
}

/** A process on a machine: its own wall clock, wrong by any amount, and its state. */
export class Machine implements Clock {
  readonly #world: World;
  #state: MachineState;

  constructor(world: World, offset: number) {
    this.#world = world;
    this.#state = { offset, lag: 0, serial: world.nextSerial(), stopped: false, dead: false };
  }

  /** A machine that is the same as this one, until they part. */
  twin(): Machine {
    const twin = new Machine(this.#world, 0);
    twin.#state = this.#state;
    return twin;
  }

  /** Becomes a machine of its own. */
  part(): void {
    this.#state = { ...this.#state, serial: this.#world.nextSerial() };
  }

  /** Its monotonic clock stood still for this long, ms. */
  fallBehind(ms: number): void {
    this.#state.lag += ms;
  }

  get offset(): number {
    return this.#state.offset;
  }

  set offset(offset: number) {
    this.#state.offset = offset;
  }

  get stopped(): boolean {
    return this.#state.stopped;
  }

  set stopped(stopped: boolean) {
    this.#state.stopped = stopped;
  }

  get dead(): boolean {
    return this.#state.dead;
  }

  set dead(dead: boolean) {
    this.#state.dead = dead;
  }

  get runs(): boolean {
    return !this.stopped && !this.dead;
  }

  now(): number {
    return epoch + this.#world.time + this.offset;
  }

  readonly nanos = (): bigint => BigInt(this.#world.time - this.#state.lag) * 1_000_000n + this.#state.serial;

  sleep(ms: number, { signal }: SleepOptions = {}): Promise<void> {
    return new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      const forget = (): void => signal?.removeEventListener("abort", wake);
      const wake = (): void => {
        forget();
        resolve();
      };
      signal?.addEventListener("abort", wake);
      this.#world.sleep(this, ms, { wake, forget });
    });
  }
}

/** Unix ms at which every simulated world begins. */
export const epoch = 1_700_000_000_000;
