import type { WorkerRecord } from "../rule/registry.ts";

/**
 * future: no clock can show the time yet. foreign: a program without windows has the worker ID. pinned: it was not claimed by then,
 * and is kept out of the pool, mostly for a host without a lease. unused: it was never claimed. early: the time is before the first
 * claim on record. gap: the time is after a claim on record.
 */
export type UnheldReason = "future" | "foreign" | "pinned" | "unused" | "early" | "gap";

/**
 * Why no recorded window holds a time.
 * @param record the present record of the worker ID.
 * @param isFuture no clock can show the time yet, because it is more than `maxClockSkew` ahead of the registry's clock.
 * @param claimedBefore a claim on record opened a window before the time.
 */
export function unheldReason(
  record: WorkerRecord | undefined,
  isFuture: boolean,
  claimedBefore: boolean,
): UnheldReason {
  if (isFuture) return "future";
  if (record?.state === "foreign") return "foreign";
  if (claimedBefore) return "gap";
  if (record?.pinned !== undefined) return "pinned";
  return record?.claimedAt === undefined ? "unused" : "early";
}
