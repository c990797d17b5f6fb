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
  #sleepers: { machine: Machine; at: number; wake: () => void }[] = [];

  constructor(seed: number) {
    this.random = new Random(seed);
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

/** A process on a machine: its own wall clock, wrong by any amount, and a fate. */
export class Machine implements Clock {
  readonly #world: World;
  /** Added to true time by this machine's wall clock. */
  offset: number;
  /** Stopped by SIGSTOP, or by its hypervisor. */
  stopped = false;
  /** Gone by kill -9. */
  dead = false;

  constructor(world: World, offset: number) {
    this.#world = world;
    this.offset = offset;
  }

  get runs(): boolean {
    return !this.stopped && !this.dead;
  }

  now(): number {
    return epoch + this.#world.time + this.offset;
  }

  readonly nanos = (): bigint => BigInt(this.#world.time) * 1_000_000n;

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
