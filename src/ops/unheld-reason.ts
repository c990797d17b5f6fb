import type { WorkerRecord } from "../rule/registry.ts";

/**
 * Why no window on record holds a time of a worker ID.
 *
 * future: no clock can show it yet. foreign: a program without windows has the number. pinned: it was not claimed by then, and
 * is kept out of the pool: mostly for a host that makes IDs without a lease. unused: it was never claimed. early: before the first
 * claim on record. gap: behind one, and in none.
 */
export type UnheldReason = "future" | "foreign" | "pinned" | "unused" | "early" | "gap";

/** A time of a worker ID outside of every recorded window. */
export interface UnheldTime {
  /** Unix ms. */
  readonly timestamp: number;
  /** The latest time that any clock can show: the registry's and maxClockSkew, Unix ms. */
  readonly latest: number;
  /** Whether a claim on record opened a window before it. */
  readonly claimedBefore: boolean;
}

/** @param record of the worker ID, as it is now. */
export function unheldReason(
  record: WorkerRecord | undefined,
  { timestamp, latest, claimedBefore }: UnheldTime,
): UnheldReason {
  if (timestamp > latest) return "future";
  if (record?.state === "foreign") return "foreign";
  if (claimedBefore) return "gap";
  if (record?.pinned !== undefined) return "pinned";
  return record?.claimedAt === undefined ? "unused" : "early";
}
