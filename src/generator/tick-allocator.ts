import type { SnowleaseError } from "../id/errors.ts";
import { refuse } from "../id/check.ts";
import { firstWholeTick, type Layout } from "../id/layout.ts";
import type { LeaseView, UsageTracker, LeaseSnapshot } from "../lease/lease.ts";
import { RecentTicks, type Ticks } from "./recent-ticks.ts";
import {
  clockSetBackError,
  sealedError,
  tickFullError,
  windowPassedError,
  windowNotOpenError,
  windowUsedUpError,
} from "./generator-errors.ts";
import type { Checkpoint, Usage } from "../rule/registry.ts";
import { defaultRollback, type RollbackOptions } from "./rollback.ts";
import { checkSpread, firstSequence } from "./spread.ts";

/** wall: timestamps never lead the clock. lead: they may, up to the end of the lease's window. */
export type Mode = "wall" | "lead";

/** How a generator chooses ticks, and what it does at its limits. */
export interface SnowflakeOptions {
  /** Default `wall`. */
  readonly mode?: Mode | undefined;
  /**
   * Number of different sequences that ticks may begin with, a power of two up to the sequences of a tick; default 1: all begin at 0. With
   * 2^k, rare IDs are even in `id % 2^k`, too, in a layout that ends with the sequence. A tick has up to `spread - 1` fewer IDs.
   */
  readonly spread?: number | undefined;
  readonly rollback?: Partial<RollbackOptions> | undefined;
  /** This generator's share of a lease that other generators use, too. Excludes `lead` and `spread`. */
  readonly share?: Share | undefined;
}

/** A generator's share of a lease. */
export interface Share {
  /** Registers the generator that the lease seals when it ends. */
  attach(usage: UsageTracker): void;
  /** The ticks of a claim, as far as this generator may use them. */
  ticks(snapshot: LeaseSnapshot): Ticks;
}

/** Chooses the ticks of a generator by mode, clock and window, decides what to do when the clock goes back, and knows what was used. */
export class TickAllocator implements UsageTracker {
  readonly mode: Mode;
  readonly #lease: LeaseView;
  readonly #layout: Layout;
  readonly #spread: number;
  readonly #rollback: RollbackOptions;
  readonly #share: Share | undefined;

  /** The open tick, -1 for none, and the sequences of it that may be handed out. */
  tick = -1;
  next = 0;
  last = -1;
  /** The value of the rollback bits. */
  rollbacks = 0;

  /** The claim that the memory below belongs to. */
  #generation = 0;
  /** What was used with the present value of the rollback bits. */
  #memory: Ticks;
  /** The newest tick used with smaller values of the rollback bits. */
  #earlierNewest: Checkpoint | undefined;
  #sealed = 0;
  /** Highest wall clock reading in this claim, Unix ms. */
  #highestWall = 0;
  // Fast path, which skips code that would miss the instruction cache: a wall clock from #highestWall to #fastUntil meets no limit.
  #fastSnapshot: LeaseSnapshot | undefined;
  #fastUntil = 0;
  #rollbackAction: string | undefined;
  #told: { readonly generation: number; readonly memory: Ticks } | undefined;

  /** @throws SnowleaseError CONFIG_INVALID for options that exclude each other. */
  constructor(lease: LeaseView, { mode = "wall", spread = 1, rollback, share }: SnowflakeOptions) {
    if (mode !== "wall" && mode !== "lead") refuse("mode", "to be wall or lead", mode);
    this.#spread = checkSpread(spread, lease.layout);
    if (share !== undefined && mode !== "wall") refuse("mode", "to be wall where a lease is shared", mode);
    if (share !== undefined && spread !== 1) refuse("spread", "to be 1 where a lease is shared", spread);
    this.mode = mode;
    this.#lease = lease;
    this.#layout = lease.layout;
    this.#share = share;
    const { maxWait = defaultRollback.maxWait, maxTell = defaultRollback.maxTell } = rollback ?? {};
    this.#rollback = { maxWait, maxTell };
    this.#memory = new RecentTicks(lease.layout, 0);
    if (lease.snapshot !== undefined) this.#begin(lease.snapshot);
  }

  /** Whether the clock was set back by so little that waiting helps. */
  get isWaiting(): boolean {
    return this.#rollbackAction === "wait";
  }

  /** Notes that the sequences of the open tick before `next` were handed out. */
  note(next: number): void {
    if (this.tick >= 0 && next > 0) this.#memory.raise(this.tick, next - 1);
  }

  /** The same, and closes the tick. */
  leave(next: number): void {
    this.note(next);
    this.tick = -1;
    this.last = -1;
  }

  /**
   * Opens a tick, or returns why none can be opened.
   * @param ticks in wall mode, how many ticks to search for one that is not full, the present one first.
   */
  turn(wall: number, snapshot: LeaseSnapshot, ticks: number): SnowleaseError | undefined {
    if (snapshot === this.#fastSnapshot && wall > this.#highestWall && wall < this.#fastUntil) {
      const tick = this.#layout.tickOf(wall);
      if (tick > this.#memory.highest) {
        this.#highestWall = wall;
        this.tick = tick;
        this.next = firstSequence(tick, this.#spread);
        this.last = this.#layout.maxSequence;
        return undefined;
      }
    }
    this.#fastSnapshot = undefined;
    if (snapshot.generation === this.#sealed) return sealedError(this.#lease);
    if (snapshot.generation !== this.#generation) this.#begin(snapshot);
    const refusal = this.#layout.refusalAt(wall);
    if (refusal !== undefined) {
      // Another worker ID does not help when the clock shows a time before the epoch.
      const behind = this.#highestWall - wall;
      if (behind > 0) this.#report(behind > this.#rollback.maxTell ? "stop" : "tell", behind);
      return refusal;
    }
    return this.mode === "wall" ? this.#turnInWallMode(wall, snapshot, ticks) : this.#turnInLeadMode(wall, snapshot);
  }

  /**
   * Why no ID can be made now: what `turn` would return, except for a full tick if the next one is not full. Uses no sequence. Reports a
   * clock that was set back too far to the lease, as `turn` does: a program that knows that there is no ID may never ask for one.
   */
  refusalAt(wall: number, snapshot: LeaseSnapshot): SnowleaseError | undefined {
    if (snapshot.generation === this.#sealed) return sealedError(this.#lease);
    const layout = this.#layout;
    const isBegun = snapshot.generation === this.#generation;
    const memory = isBegun ? this.#memory : this.#memoryOf(snapshot);
    const behind = (isBegun ? this.#highestWall : snapshot.since) - wall;
    const { maxWait, maxTell } = this.#rollback;
    const refusal = layout.refusalAt(wall);
    if (refusal !== undefined) {
      if (behind > maxTell) this.#lease.noteRollback(behind, "stop");
      return refusal;
    }
    if (this.mode === "lead") {
      const tick = this.#leadTick(wall, snapshot, memory);
      if (layout.timeOf(tick + 1) <= snapshot.until && tick <= layout.maxTick) return undefined;
      if (behind > maxTell && tick <= layout.maxTick) this.#lease.noteRollback(behind, "switch");
      return this.#beyondWindow(tick, wall, snapshot, behind);
    }
    const tick = layout.tickOf(wall);
    const floor = floorOf(layout, snapshot, memory);
    if (layout.timeOf(tick) < floor) {
      const canCount = (isBegun ? this.rollbacks : 0) < layout.maxRollback && layout.timeOf(tick) >= snapshot.knownFrom;
      if (canCount) return undefined;
      if (behind > maxTell && floor - wall > maxWait) this.#lease.noteRollback(behind, "switch");
      return this.#tooEarly(wall, snapshot, floor, behind);
    }
    if (!(layout.timeOf(tick + 1) <= snapshot.until)) return windowPassedError(snapshot, wall, this.#lease.failure);
    const isFull = (each: number): boolean => memory.sequenceOf(each) >= layout.maxSequence;
    return this.#share === undefined && isFull(tick) && isFull(tick + 1) ? this.#full(tick, wall, memory) : undefined;
  }

  /** What the holder before has reported, for a claim in which no ID was made yet. */
  #memoryOf(snapshot: LeaseSnapshot): Ticks {
    if (this.#told?.generation !== snapshot.generation) {
      this.#told = { generation: snapshot.generation, memory: RecentTicks.after(this.#layout, snapshot) };
    }
    return this.#told.memory;
  }

  checkpoint(): Checkpoint | undefined {
    const { snapshot } = this.#lease;
    if (snapshot !== undefined && snapshot.generation !== this.#generation) this.#begin(snapshot);
    return this.#newest();
  }

  seal(): Usage | undefined {
    const checkpoint = this.checkpoint();
    this.#sealed = this.#generation;
    this.#fastSnapshot = undefined;
    const { from, snapshot } = this.#lease;
    const until = checkpoint === undefined ? from : Math.max(from, checkpoint.timestamp + this.#layout.tick);
    // A renewal after a quarantine may have raised the begin of the window: no holder continues the ticks from before.
    const whole = snapshot !== undefined && this.#memory.floor >= firstWholeTick(this.#layout, snapshot.knownFrom);
    const known = whole && this.#layout.maxRollback === 0;
    const recents = known && this.#memory instanceof RecentTicks ? this.#memory.handOver(until) : undefined;
    return { until, checkpoint, recents };
  }

  #begin(snapshot: LeaseSnapshot): void {
    this.#generation = snapshot.generation;
    this.#memory = this.#share?.ticks(snapshot) ?? RecentTicks.after(this.#layout, snapshot);
    this.rollbacks = 0;
    this.#earlierNewest = undefined;
    this.#highestWall = snapshot.since;
    this.#rollbackAction = undefined;
  }

  /** The newest tick used in this claim, with any value of the rollback bits. */
  #newest(): Checkpoint | undefined {
    const { highest } = this.#memory;
    const timestamp = this.#layout.timeOf(highest);
    if (highest < 0 || timestamp < (this.#earlierNewest?.timestamp ?? 0)) return this.#earlierNewest;
    return { timestamp, sequence: this.#memory.sequenceOf(highest) };
  }

  /** Opens the wall clock's tick. */
  #turnInWallMode(wall: number, snapshot: LeaseSnapshot, ticks: number): SnowleaseError | undefined {
    const layout = this.#layout;
    const tick = layout.tickOf(wall);
    const begin = layout.timeOf(tick);
    if (begin < snapshot.knownFrom) return this.#belowFloor(wall, snapshot);
    if (tick < this.#memory.floor && !this.#raiseRollbackBits(wall, snapshot)) return this.#belowFloor(wall, snapshot);
    if (!(begin + layout.tick <= snapshot.until)) return windowPassedError(snapshot, wall, this.#lease.failure);
    this.#noteWall(wall);
    if (this.#share === undefined && this.#rollbackAction === undefined) {
      this.#fastSnapshot = snapshot;
      this.#fastUntil = Math.min(layout.endOfLife, layout.timeOf(layout.tickOf(snapshot.until)));
    }
    if (this.#turnTo(tick) || this.#turnToEarlier(tick, ticks, snapshot)) return undefined;
    this.tick = tick;
    return this.#full(tick, wall, this.#memory);
  }

  #full(tick: number, wall: number, memory: Ticks): SnowleaseError {
    const layout = this.#layout;
    // An earlier holder in lead mode may have used up the next ticks, too.
    let free = tick + 1;
    while (memory.sequenceOf(free) >= layout.maxSequence) free++;
    return tickFullError(layout, layout.timeOf(free) - wall);
  }

  /** Opens the counter's tick: not before the clock's tick, nor before a used one. */
  #turnInLeadMode(wall: number, snapshot: LeaseSnapshot): SnowleaseError | undefined {
    const layout = this.#layout;
    const tick = this.#leadTick(wall, snapshot, this.#memory);
    if (tick > layout.maxTick || !(layout.timeOf(tick + 1) <= snapshot.until)) {
      const behind = this.#highestWall - wall;
      if (behind > this.#rollback.maxTell && tick <= layout.maxTick) this.#report("switch", behind);
      return this.#beyondWindow(tick, wall, snapshot, behind);
    }
    this.#noteWall(wall);
    this.#turnTo(tick);
    return undefined;
  }

  /** The counter's tick. */
  #leadTick(wall: number, { from }: LeaseSnapshot, memory: Ticks): number {
    const layout = this.#layout;
    const tick = Math.max(layout.tickOf(wall), firstWholeTick(layout, from), memory.highest);
    return memory.sequenceOf(tick) >= layout.maxSequence ? tick + 1 : tick;
  }

  /** In lead mode, why the counter's tick cannot be opened: it is beyond the window, or the layout. */
  #beyondWindow(tick: number, wall: number, snapshot: LeaseSnapshot, behind: number): SnowleaseError | undefined {
    const layout = this.#layout;
    if (tick > layout.maxTick) return layout.refusalAt(layout.timeOf(tick));
    // Renewals make no room before the clock is back.
    if (behind > this.#rollback.maxTell) return clockSetBackError(this.#lease, behind, behind);
    const hasPassed = layout.timeOf(layout.tickOf(wall) + 1) > snapshot.until;
    return hasPassed
      ? windowPassedError(snapshot, wall, this.#lease.failure)
      : windowUsedUpError(snapshot, wall, this.#lease.renewsIn);
  }

  /** Reports a clock that went back while the generator goes on. */
  #noteWall(wall: number): void {
    if (wall >= this.#highestWall) {
      this.#highestWall = wall;
      this.#rollbackAction = undefined;
    } else if (this.#rollbackAction !== "count") this.#report("continue", this.#highestWall - wall);
  }

  /** Opens this tick after its used sequences; false when none is left. */
  #turnTo(tick: number): boolean {
    const next = this.#memory.nextOf(tick);
    if (next > this.#layout.maxSequence) return false;
    this.tick = tick;
    this.next = next === 0 ? firstSequence(tick, this.#spread) : next;
    this.last = this.#memory.lastOf(next);
    return true;
  }

  /** Opens the newest tick before `tick`, since this lease was claimed, that has sequences left. */
  #turnToEarlier(tick: number, ticks: number, { knownFrom, since }: LeaseSnapshot): boolean {
    const layout = this.#layout;
    const known = firstWholeTick(layout, knownFrom);
    const first = Math.max(this.#memory.floor, known, layout.tickOf(since), tick - ticks + 1);
    for (let earlier = tick - 1; earlier >= first; earlier--) if (this.#turnTo(earlier)) return true;
    return false;
  }

  /** Raises the rollback bits, which makes every tick of the window unused again; false at their highest value. */
  #raiseRollbackBits(wall: number, snapshot: LeaseSnapshot): boolean {
    if (this.rollbacks >= this.#layout.maxRollback) return false;
    this.#earlierNewest = this.#newest();
    this.rollbacks++;
    this.#memory = this.#share?.ticks(snapshot) ?? new RecentTicks(this.#layout, snapshot.knownFrom);
    this.#lease.noteRollback(this.#highestWall - wall, "count");
    this.#rollbackAction = "count";
    return true;
  }

  /** The clock shows a time before what this lease may use: too early, or set back. */
  #belowFloor(wall: number, snapshot: LeaseSnapshot): SnowleaseError {
    const floor = floorOf(this.#layout, snapshot, this.#memory);
    const behind = this.#highestWall - wall;
    const { maxWait, maxTell } = this.#rollback;
    if (behind > 0 && floor - wall <= maxWait) this.#report("wait", behind);
    else if (behind > 0) this.#report(behind <= maxTell ? "tell" : "switch", behind);
    return this.#tooEarly(wall, snapshot, floor, behind);
  }

  #tooEarly(wall: number, snapshot: LeaseSnapshot, floor: number, behind: number): SnowleaseError {
    return behind > 0
      ? clockSetBackError(this.#lease, behind, floor - wall)
      : windowNotOpenError(snapshot, floor, floor - wall);
  }

  /** Reports each action once, but `switch` each time: a lease may be unable to act on the first report. */
  #report(action: "continue" | "wait" | "tell" | "switch" | "stop", behind: number): void {
    if (this.#rollbackAction !== action || action === "switch") this.#lease.noteRollback(behind, action);
    this.#rollbackAction = action;
  }
}

/** The begin of the first tick that may be used, Unix ms. */
function floorOf(layout: Layout, { knownFrom }: LeaseSnapshot, { floor }: Ticks): number {
  return layout.timeOf(Math.max(floor, firstWholeTick(layout, knownFrom)));
}
