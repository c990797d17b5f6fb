import type { PoolBounds } from "../../id/pool-bounds.ts";
import type { WorkerRecord, WorkerState } from "../../rule/registry.ts";

/** The state of a worker ID. `unused`: it was never claimed. */
export type PoolState = WorkerState | "unused";

/** The number of worker IDs in each state. The sum is the size of the pool. */
export type PoolCounts = Readonly<Record<PoolState, number>>;

/** States of worker IDs that a claim cannot get. */
export const takenStates = ["live", "resting", "pinned", "foreign"] as const;

/** The counts of a pool before its records are read. */
export function allUnused({ first, last }: PoolBounds): Record<PoolState, number> {
  return { live: 0, resting: 0, free: 0, pinned: 0, foreign: 0, unused: Math.max(0, last - first + 1) };
}

export function countRecord(counts: Record<PoolState, number>, { state }: WorkerRecord): void {
  counts[state]++;
  counts.unused--;
}

/** A holder with less than this part of its window left is late, because a renewal is due after the first third. */
const late = 1 / 3;

/** Whether the renewal of a live holder is overdue. `clock`: the registry's, Unix ms. */
export function isOverdue({ state, until, seenClock }: WorkerRecord, clock: number): boolean {
  return state === "live" && until - clock < (until - seenClock) * late;
}

export function takenOf(counts: PoolCounts): number {
  return takenStates.reduce((sum, state) => sum + counts[state], 0);
}

export function sumOf(all: readonly PoolCounts[]): PoolCounts {
  const sum = allUnused({ first: 0, last: -1 });
  for (const counts of all) for (const state of Object.keys(sum) as PoolState[]) sum[state] += counts[state];
  return sum;
}

/** The state that stands for several worker IDs: the most frequent taken state, or else `free`, or else `unused`. */
export function mainState(counts: PoolCounts): PoolState {
  const most = takenStates.reduce<PoolState>((most, state) => (counts[state] > counts[most] ? state : most), "live");
  if (counts[most] > 0) return most;
  return counts.free > 0 ? "free" : "unused";
}
