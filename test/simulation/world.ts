import type { Clock, SleepOptions } from "../../src/clock.ts";

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

/** Something that has not happened yet and may happen in any order: a message under way, or its answer. */
interface Pending {
  readonly machine: Machine | undefined;
  readonly happen: () => void;
}

/** True time, the messages under way, and everybody's sleep: all that the scheduler may choose from. */
export class World {
  readonly random: Random;
  /** True ms since the world began. Nobody but the scheduler sees it. */
  time = 0;
  #pending: Pending[] = [];
  #machines = 0n;
  #sleepers: { machine: Machine; at: number; wake: () => void }[] = [];

  constructor(seed: number) {
    this.random = new Random(seed);
  }

  nextSerial(): bigint {
    return ++this.#machines;
  }

  later(machine: Machine | undefined, happen: () => void): void {
    this.#pending.push({ machine, happen });
  }

  sleep(machine: Machine, ms: number, wake: () => void): void {
    this.#sleepers.push({ machine, at: this.time + Math.max(1, Math.ceil(ms)), wake });
  }

  /** Lets one thing that is under way happen. False when nothing can. */
  deliver(): boolean {
    const able = this.#pending.filter(({ machine }) => machine === undefined || machine.runs);
    if (able.length === 0) return false;
    const chosen = this.random.pick(able);
    this.#pending = this.#pending.filter((pending) => pending !== chosen && pending.machine?.dead !== true);
    chosen.happen();
    return true;
  }

  /** Moves time on and wakes who has slept long enough; those on a stopped machine sleep on. */
  advance(ms: number): void {
    this.time += ms;
    const due = this.#sleepers.filter(({ at, machine }) => at <= this.time && machine.runs);
    this.#sleepers = this.#sleepers.filter((sleeper) => !due.includes(sleeper) && !sleeper.machine.dead);
    for (const { wake } of due) wake();
  }

  /** When the next sleeper is due, from now; undefined when nobody sleeps. */
  nextWake(): number | undefined {
    const times = this.#sleepers.filter(({ machine }) => machine.runs).map(({ at }) => at);
    return times.length === 0 ? undefined : Math.max(0, Math.min(...times) - this.time);
  }
}

/** What a machine is like at a moment. */
interface MachineState {
  /** Added to true time by its wall clock. */
  offset: number;
  /** How far its monotonic clock is behind, ms: it stood still while the machine was a snapshot. */
  lag: number;
  /** Tells the monotonic clocks of machines apart, ns. */
  serial: bigint;
  /** Stopped by SIGSTOP, or by its hypervisor. */
  stopped: boolean;
  /** Gone by kill -9. */
  dead: boolean;
}

/** A process on a machine: its own wall clock, wrong by any amount, and a fate. */
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

  /** Is itself from now on. */
  part(): void {
    this.#state = { ...this.#state, serial: this.#world.nextSerial() };
  }

  /** Its monotonic clock stood still for so long, ms. */
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
      const wake = (): void => {
        signal?.removeEventListener("abort", wake);
        resolve();
      };
      signal?.addEventListener("abort", wake);
      this.#world.sleep(this, ms, wake);
    });
  }
}

/** Unix ms at which every simulated world begins. */
export const epoch = 1_700_000_000_000;
