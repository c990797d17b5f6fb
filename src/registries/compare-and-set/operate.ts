import { isSnowleaseError, SnowleaseError } from "../../id/errors.ts";
import { type Clock, monotonic } from "../../lease/clock.ts";
import { isSkewOfWait } from "../../rule/limits.ts";
import { Beaten, Changed, Unanswered } from "./store.ts";

/** The circumstances of one attempt. */
export interface Try {
  /** On the monotonic clock, ms. */
  readonly deadline: number;
  /** How long the operation has waited so far, for a connection and in attempts that failed, whole ms. */
  readonly waited: number;
  /** How often other writers were faster. */
  readonly races: number;
}

/** The store that an operation works on. */
interface Operated {
  /** Names the server in errors. */
  readonly title: string;
  readonly clock: Clock;
  /** Deadline of one operation, ms. */
  readonly operationTimeout: number;
  /** Waits for a connection. Returns whether it had to wait. Default: there is nothing to wait for. */
  readonly ready?: ((deadline: number) => Promise<boolean>) | undefined;
  /** The error at the deadline, where an answer is missing. */
  readonly silent: (cause: Unanswered) => SnowleaseError;
}

/** From how long a wait on the clock of a request counts as old, ms: else a clock that is wrong by all that is tolerated would be tried over and over. */
const shortestWait = 1000;
/** Longest pause between two attempts where other writers are faster, ms. */
const longestPause = 40;

/**
 * Makes attempts until one is done: each reads, decides, and writes under the condition that nothing has changed since. `repeatable`: an
 * attempt may follow one with an unknown answer, because it sees whether that was done.
 * @throws SnowleaseError REGISTRY_UNAVAILABLE at the deadline.
 */
export async function operate<Answer>(
  { title, clock, operationTimeout, ready = async () => false, silent }: Operated,
  { repeatable }: { readonly repeatable: boolean },
  work: (tried: Try) => Promise<Answer>,
): Promise<Answer> {
  const begun = monotonic(clock);
  const deadline = begun + operationTimeout;
  let lost: Unanswered | undefined;
  let races = 0;
  for (let late = false; ;) {
    /** Which time the clock of this attempt stands for. */
    let sent = begun;
    try {
      late = (await ready(deadline)) || late;
      if (late) sent = monotonic(clock);
      return await work({ deadline, waited: Math.floor(sent - begun), races });
    } catch (error) {
      const now = monotonic(clock);
      const wait = now - sent;
      // Where a server lets requests wait, the next attempt sends a clock that is not as old.
      const isOld = wait >= shortestWait && now < deadline && isSkewOfWait(error, wait);
      if (error instanceof Beaten) races++;
      else if (error instanceof Unanswered && repeatable) lost = error;
      else if (error instanceof Unanswered) throw silent(error);
      // Once an answer is unknown, it stays unknown, whatever refuses a later attempt.
      else if (lost !== undefined && isSnowleaseError(error) && !isOld) throw silent(lost);
      else if (!isOld && !(error instanceof Changed)) throw error;
      late ||= !(error instanceof Changed);
    }
    if (monotonic(clock) >= deadline) {
      if (lost !== undefined) throw silent(lost);
      throw new SnowleaseError(
        "REGISTRY_UNAVAILABLE",
        `Other writers were faster ${races} times within ${operationTimeout} ms at ${title}, nothing was changed; try again.`,
      );
    }
    if (races > 2) await clock.sleep(Math.random() * Math.min(5 * races, longestPause));
  }
}
