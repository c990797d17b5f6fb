/** What a generator does when the wall clock goes back below the time that its memory covers. */
export interface RollbackOptions {
  /** Longest wait for the clock, ms. Default 500. */
  readonly maxWait: number;
  /** Longest rollback for which callers get a retryable error; after a longer one the lease gives up its worker ID. ms, default 60 s. */
  readonly maxTell: number;
}

/** From an ID service that runs on several sites: wait half a second, refuse for a minute, then go off line. */
export const defaultRollback: RollbackOptions = { maxWait: 500, maxTell: 60_000 };
