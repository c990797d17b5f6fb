/** What a generator does when the wall clock goes back below the time that its memory covers. */
export interface RollbackOptions {
  /** Longest wait for the clock, ms. Default 500. */
  readonly maxWait: number;
  /** Longest rollback for which callers get a retryable error; after a longer one the lease gives up its worker ID. ms, default 60 s. */
  readonly maxTell: number;
}

/** From an ID service that runs on several sites: wait half a second, refuse for a minute, then go off line. */
export const defaultRollback: RollbackOptions = { maxWait: 500, maxTell: 60_000 };

/**
 * What to do when the clock shows less than the memory covers. (A smaller rollback needs no decision: the generator continues after the
 * used sequences, because the memory covers them.)
 * @param behind how far the clock is behind the highest time seen, ms
 * @param remaining time until the clock reaches what the memory covers, ms
 */
export function rollbackAction(
  behind: number,
  remaining: number,
  options: RollbackOptions,
): "wait" | "tell" | "switch" {
  if (remaining <= options.maxWait) return "wait";
  return behind <= options.maxTell ? "tell" : "switch";
}
