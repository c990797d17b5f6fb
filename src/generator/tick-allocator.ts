import type { SnowleaseError } from "../id/errors.ts";
import { refuse } from "../id/check.ts";
import { firstWholeTick, type Layout } from "../id/layout.ts";
import type { LeaseView, UsageTracker, LeaseSnapshot } from "../lease/lease.ts";
import { RecentTicks, type Ticks } from "./recent.ts";
import {
  clockSetBackError,
  sealedError,
  tickFullError,
  windowPassedError,
  windowNotOpenError,
  windowUsedUpError,
} from "./generator-errors.ts";
import type { Checkpoint, Usage } from "../rule/registry.ts";
import { defaultRollback, rollbackRung, type RollbackOptions } from "./rollback.ts";
import { checkSpread, firstSequence } from "./spread.ts";

/** wall: timestamps never lead the clock. lead: they may, as far as the lease's window reaches. */
export type Mode = "wall" | "lead";

/** How a generator takes its ticks, and what it does at its limits. */
export interface SnowflakeOptions {
  /** Default `wall`. */
  readonly mode?: Mode | undefined;
  /**
   * With how many different sequences a tick may begin, a power of two up to the sequences of a tick; default 1, they all begin at 0.
   * With `spread: 2^k` also the IDs of a generator that makes one now and then are even in `id % 2^k`, in a layout that ends with
   * the sequence. A tick has up to `spread - 1` IDs less.
   */
  readonly spread?: number | undefined;
  readonly rollback?: Partial<RollbackOptions> | undefined;
  /** What others leave to this generator, where it is not the only one on its lease. Then neither `lead` nor `spread`. */
  readonly share?: Share | undefined;
}

/** A generator's share of a lease. */
export interface Share {
  /** Whom the lease has to tell when it ends. */
  attach(usage: UsageTracker): void;
  /** What the generator may use of the ticks of a claim. */
  ticks(snapshot: LeaseSnapshot): Ticks;
}

/**
 * Which tick a generator has open, and what it has used of all: the choice that the mode, the clock and the window leave it, the
 * ladder for a clock that goes back, and the account that the lease is given.
 */
export class TickAllocator {
  readonly mode: Mode;
  readonly #lease: LeaseView;
  readonly #layout: Layout;
  readonly #spread: number;
  readonly #rollback: RollbackOptions;
  readonly #share: Share | undefined;

  /** The open tick, and which sequences of it may be handed out; -1 where none is open. */
  tick = -1;
  next = 0;
  last = -1;
  /** The rollback bits. */
  rollbacks = 0;

  /** The claim that the memory below belongs to. */
  #generation = 0;
  /** What was used with the present value of the rollback bits; a layout without them has but one. */
  #memory: Ticks;
  /** The newest that was used with smaller values. */
  #earlierNewest: Checkpoint | undefined;
  #sealed = 0;
  /** Highest wall clock reading in this claim, Unix ms. */
  #highestWall = 0;
  /**
   * The claim in which a wall clock that goes on, but not to #clear, meets no limit. Most first IDs of a tick need nothing more, and
   * every line that they do not run is one that need not be fetched: after a millisecond of other things, that is what they cost.
   */
  #fastSnapshot: LeaseSnapshot | undefined;
  #fastUntil = 0;
  #rollbackAction: string | undefined;

  /** @throws SnowleaseError CONFIG_INVALID for options that do not go together. */
  constructor(lease: LeaseView, { mode = "wall", spread = 1, rollback, share }: SnowflakeOptions) {
    if (mode !== "wall" && mode !== "lead") refuse("mode", "to be wall or lead", mode);
    this.#spread = checkSpread(spread, lease.layout);
    if (share !== undefined && mode !== "wall") refuse("mode", "to be wall where a lease is shared", mode);
    if (share !== undefined && spread !== 1) refuse("spread", "to be 1 where a lease is shared", spread);
    this.mode = mode;
    this.#lease = lease;
    this.#layout = lease.layout;
    this.#share = share;
    this.#rollback = {
      maxWait: rollback?.maxWait ?? defaultRollback.maxWait,
      maxTell: rollback?.maxTell ?? defaultRollback.maxTell,
    };
    this.#memory = new RecentTicks(lease.layout, 0);
    if (lease.snapshot !== undefined) this.#begin(lease.snapshot);
  }

  /** Whether the clock was set back by so little that it is worth waiting for. */
  get isWaiting(): boolean {
    return this.#rollbackAction === "wait";
  }

  /** Notes that the sequences of the open tick before `next` were handed out. */
  note(next: number): void {
    if (this.tick >= 0 && next > 0) this.#memory.raise(this.tick, next - 1);
  }

  /** The same, and leaves the tick. */
  leave(next: number): void {
    this.note(next);
    this.tick = -1;
    this.last = -1;
  }

  /**
   * Turns to a tick, or says why there is none.
   * @param ticks in wall mode, how many ticks to look through for one that is not full, the present one first.
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
      // No other worker ID helps a clock that shows a time before the epoch.
      const behind = this.#highestWall - wall;
      if (behind > 0) this.#report(behind > this.#rollback.maxTell ? "stop" : "tell", behind);
      return refusal;
    }
    return this.mode === "wall" ? this.#turnInWallMode(wall, snapshot, ticks) : this.#turnInLeadMode(wall, snapshot);
  }

  /** The newest tick handed out in the present claim, and the highest sequence in it. */
  checkpoint(): Checkpoint | undefined {
    const { snapshot } = this.#lease;
    if (snapshot !== undefined && snapshot.generation !== this.#generation) this.#begin(snapshot);
    return this.#newest();
  }

  /** Turns to no tick of this claim any more, and tells what was handed out. */
  seal(): Usage | undefined {
    const checkpoint = this.checkpoint();
    this.#sealed = this.#generation;
    this.#fastSnapshot = undefined;
    const { from, snapshot } = this.#lease;
    const until = checkpoint === undefined ? from : Math.max(from, checkpoint.timestamp + this.#layout.tick);
    // A renewal raised the window's begin after a quarantine: what is remembered from before is nobody's to continue.
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

  /** The newest that was used in this claim, with any value of the rollback bits. */
  #newest(): Checkpoint | undefined {
    const { highest } = this.#memory;
    const timestamp = this.#layout.timeOf(highest);
    if (highest < 0 || timestamp < (this.#earlierNewest?.timestamp ?? 0)) return this.#earlierNewest;
    return { timestamp, sequence: this.#memory.sequenceOf(highest) };
  }

  /** Turns to the tick that the wall clock shows, or says why it is none. */
  #turnInWallMode(wall: number, snapshot: LeaseSnapshot, ticks: number): SnowleaseError | undefined {
    const layout = this.#layout;
    const tick = layout.tickOf(wall);
    const begin = layout.timeOf(tick);
    if (begin < snapshot.knownFrom) return this.#belowFloor(wall, snapshot);
    if (tick < this.#memory.floor && !this.#raiseRollbackBits(wall, snapshot)) return this.#belowFloor(wall, snapshot);
    if (!(begin + layout.tick <= snapshot.until)) return windowPassedError(snapshot, wall);
    this.#noteWall(wall);
    if (this.#share === undefined && this.#rollbackAction === undefined) {
      this.#fastSnapshot = snapshot;
      this.#fastUntil = Math.min(layout.endOfLife, layout.timeOf(layout.tickOf(snapshot.until)));
    }
    if (this.#turnTo(tick) || this.#turnToEarlier(tick, ticks, snapshot)) return undefined;
    this.tick = tick;
    // One that led the clock may have used up the next ones, too.
    let free = tick + 1;
    while (this.#memory.sequenceOf(free) >= layout.maxSequence) free++;
    return tickFullError(layout, layout.timeOf(free) - wall);
  }

  /** Turns to the tick that the counter has come to: not before the clock's, nor before any that was used. */
  #turnInLeadMode(wall: number, snapshot: LeaseSnapshot): SnowleaseError | undefined {
    const layout = this.#layout;
    let tick = Math.max(layout.tickOf(wall), firstWholeTick(layout, snapshot.from), this.#memory.highest);
    if (this.#memory.sequenceOf(tick) >= layout.maxSequence) tick++;
    if (tick > layout.maxTick) return layout.refusalAt(layout.timeOf(tick));
    if (!(layout.timeOf(tick + 1) <= snapshot.until)) {
      const behind = this.#highestWall - wall;
      // Renewals make no room before the clock is back.
      if (behind > this.#rollback.maxTell) {
        this.#report("switch", behind);
        return clockSetBackError(this.#lease, behind, behind);
      }
      const passed = layout.timeOf(layout.tickOf(wall) + 1) > snapshot.until;
      return passed ? windowPassedError(snapshot, wall) : windowUsedUpError(snapshot, wall, this.#lease.renewsIn);
    }
    this.#noteWall(wall);
    this.#turnTo(tick);
    return undefined;
  }

  /** What the clock going back means to others; the mode has decided what it means here. */
  #noteWall(wall: number): void {
    if (wall >= this.#highestWall) {
      this.#highestWall = wall;
      this.#rollbackAction = undefined;
    } else if (this.#rollbackAction !== "continue" && this.#rollbackAction !== "count") {
      this.#lease.noteRollback(this.#highestWall - wall, "continue");
      this.#rollbackAction = "continue";
    }
  }

  /** Turns to this tick, behind what was used in it; false when that is all. */
  #turnTo(tick: number): boolean {
    const next = this.#memory.nextOf(tick);
    if (next > this.#layout.maxSequence) return false;
    this.tick = tick;
    this.next = next === 0 ? firstSequence(tick, this.#spread) : next;
    this.last = this.#memory.lastOf(next);
    return true;
  }

  /** Turns to the newest tick before `tick`, since this lease was claimed, in which sequences are left. */
  #turnToEarlier(tick: number, ticks: number, { knownFrom, since }: LeaseSnapshot): boolean {
    const layout = this.#layout;
    const first = Math.max(
      this.#memory.floor,
      firstWholeTick(layout, knownFrom),
      layout.tickOf(since),
      tick - ticks + 1,
    );
    for (let earlier = tick - 1; earlier >= first; earlier--) if (this.#turnTo(earlier)) return true;
    return false;
  }

  /** Raises the rollback bits, with which every tick of the window is unused again; false when they have no higher value. */
  #raiseRollbackBits(wall: number, snapshot: LeaseSnapshot): boolean {
    if (this.rollbacks >= this.#layout.maxRollback) return false;
    this.#earlierNewest = this.#newest();
    this.rollbacks++;
    this.#memory = this.#share?.ticks(snapshot) ?? new RecentTicks(this.#layout, snapshot.knownFrom);
    this.#lease.noteRollback(this.#highestWall - wall, "count");
    this.#rollbackAction = "count";
    return true;
  }

  /** The clock shows less than this lease may use: not yet, or no more. */
  #belowFloor(wall: number, snapshot: LeaseSnapshot): SnowleaseError {
    const layout = this.#layout;
    const floor = layout.timeOf(Math.max(this.#memory.floor, firstWholeTick(layout, snapshot.knownFrom)));
    const remaining = floor - wall;
    const behind = this.#highestWall - wall;
    if (behind <= 0) return windowNotOpenError(snapshot, floor, remaining);
    const rung = rollbackRung(behind, remaining, this.#rollback);
    this.#report(rung, behind);
    return clockSetBackError(this.#lease, behind, remaining);
  }

  /** Tells of a rung of the ladder when it is reached; of the last one each time, since a lease that waits may do so in vain. */
  #report(rung: "wait" | "tell" | "switch" | "stop", behind: number): void {
    if (this.#rollbackAction !== rung || rung === "switch") this.#lease.noteRollback(behind, rung);
    this.#rollbackAction = rung;
  }
}
