/** How far a generator goes along with a wall clock that was turned back below what its memory covers. */
export interface RollbackOptions {
  /** Longest wait for the clock, ms. Default 500. */
  readonly maxWait: number;
  /** Longest rollback of which the caller is told to try again later or elsewhere; beyond, the lease is given up. Default 60 s. */
  readonly maxTell: number;
}

/** Thresholds in use by an ID service that runs on several sites: wait half a second, tell for a minute, then go off line. */
export const defaultRollback: RollbackOptions = { maxWait: 500, maxTell: 60_000 };

/**
 * The rung of the ladder for a clock that shows less than the memory covers. (The first rung, to continue behind what was used
 * in a tick, needs no decision: the memory covers it.)
 * @param behind how far the clock is behind the highest time seen, ms
 * @param remaining how long until the clock is back in what the memory covers, ms
 */
export function rollbackRung(behind: number, remaining: number, options: RollbackOptions): "wait" | "tell" | "switch" {
  if (remaining <= options.maxWait) return "wait";
  return behind <= options.maxTell ? "tell" : "switch";
}
