import { isSnowleaseError, SnowleaseError } from "../../id/errors.ts";
import { type Clock, monotonic } from "../../clock.ts";

/** Another writer was faster: what this attempt read has changed. Nothing was written; the operation reads again. */
export class Beaten extends Error {}

/** What an attempt had read does not stand behind its own write, or by it: the operation reads again, at once. */
export class Changed extends Error {}

/** The answer to a write was lost: whether it was done is unknown. */
export class Unanswered extends Error {
  /** False where only reads had been sent. */
  readonly wrote: boolean = true;
}

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
export interface Operated {
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
    try {
      late = (await ready(deadline)) || late;
      return await work({ deadline, waited: late ? Math.floor(monotonic(clock) - begun) : 0, races });
    } catch (error) {
      if (error instanceof Beaten) races++;
      else if (error instanceof Unanswered && (repeatable || !error.wrote)) lost = error;
      else if (error instanceof Unanswered) throw silent(error);
      else if (lost !== undefined && isSnowleaseError(error, "REGISTRY_UNAVAILABLE")) throw silent(lost);
      else if (!(error instanceof Changed)) throw error;
      late ||= !(error instanceof Changed);
    }
    if (races > 2) await clock.sleep(Math.random() * Math.min(5 * races, longestPause));
    if (monotonic(clock) >= deadline) {
      if (lost !== undefined) throw silent(lost);
      throw new SnowleaseError(
        "REGISTRY_UNAVAILABLE",
        `Other writers were faster ${races} times within ${operationTimeout} ms at ${title}, nothing was changed; try again.`,
      );
    }
  }
}
