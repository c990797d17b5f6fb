import { isSnowleaseError, SnowleaseError } from "../../id/errors.ts";
import { type Clock, monotonic } from "../../clock.ts";

/** Another writer was faster: what this attempt read has changed. Nothing was written; the operation reads again. */
export class Beaten extends Error {}

/** What an attempt had read does not stand behind its own write, or by it: the operation reads again, at once. */
export class Changed extends Error {}

/** How an attempt failed. */
interface Failure extends ErrorOptions {
  /** Whether writes had been sent, which may have been done. Default true. */
  readonly wrote?: boolean;
  /** What the server says of itself. Absent where it is silent. */
  readonly told?: SnowleaseError | undefined;
  /** Whether another attempt would fail in the same way. Default false. */
  readonly lasts?: boolean;
}

/** An attempt came to no end: its answer was lost, or the server answered that it cannot answer. */
export class Unanswered extends Error {
  readonly wrote: boolean;
  readonly told: SnowleaseError | undefined;
  readonly lasts: boolean;

  constructor(message: string, { wrote = true, told, lasts = false, ...options }: Failure = {}) {
    super(message, options);
    this.wrote = wrote;
    this.told = told;
    this.lasts = lasts;
  }
}

/** The circumstances of one attempt. */
export interface Try {
  /** On the monotonic clock, ms. */
  readonly deadline: number;
  /** How often other writers were faster. */
  readonly races: number;
  /** How long the operation has waited until now, for a connection and in attempts that failed, whole ms. */
  waited(): number;
}

/** The store that an operation works on. */
export interface Operated {
  /** Names the server in errors. */
  readonly title: string;
  readonly clock: Clock;
  /** Deadline of one operation, ms. */
  readonly operationTimeout: number;
  /** The error where an answer is missing. `isUnknown`: a write may have been done. */
  silent(lost: Unanswered, isUnknown: boolean): SnowleaseError;
}

/** The longest pause where other writers are faster, ms. The first two losses need none. */
const longestRacePause = 40;

/** The longest pause behind the first attempt that came to no end, and behind a later one, ms. */
const [firstPause, longestPause] = [25, 800];
/** The latter as a part of the deadline, where that is longer: a server in front of a crowd needs fewer attempts. */
const pauseShare = 1 / 20;

/**
 * Makes attempts until one is done: each reads, decides, and writes under the condition that nothing has changed since. `repeatable`: an
 * attempt may follow one with an unknown answer, because it sees whether that was done.
 * @throws SnowleaseError REGISTRY_UNAVAILABLE at the deadline, or what the server says.
 */
export async function operate<Answer>(
  store: Operated,
  { repeatable }: { readonly repeatable: boolean },
  work: (tried: Try) => Promise<Answer>,
): Promise<Answer> {
  const { title, clock, operationTimeout } = store;
  const begun = monotonic(clock);
  const deadline = begun + operationTimeout;
  const waited = (): number => Math.floor(monotonic(clock) - begun);
  let races = 0;
  let lost: Unanswered | undefined;
  /** Whether a write is without an answer. Nothing that a later attempt is told changes that. */
  let isUnknown = false;
  const failure = (last: Unanswered): SnowleaseError =>
    isUnknown || last.told === undefined ? store.silent(last, isUnknown) : last.told;

  for (let longest = firstPause; ;) {
    let pause = 0;
    try {
      return await work({ deadline, races, waited });
    } catch (error) {
      if (error instanceof Beaten) {
        races++;
        if (races > 2) pause = Math.random() * Math.min(5 * races, longestRacePause);
      } else if (error instanceof Unanswered) {
        isUnknown ||= error.wrote;
        // What a server said tells more than its silence at a later attempt.
        if (lost?.told === undefined || error.told !== undefined) lost = error;
        if (error.lasts || (isUnknown && !repeatable)) throw failure(lost);
        pause = longest * (0.5 + Math.random() / 2);
        longest = Math.min(2 * longest, Math.max(longestPause, pauseShare * operationTimeout));
      } else if (isUnknown && lost !== undefined && isSnowleaseError(error, "REGISTRY_UNAVAILABLE")) {
        throw failure(lost);
      } else if (!(error instanceof Changed)) throw error;
    }
    if (monotonic(clock) + pause >= deadline) {
      if (lost !== undefined) throw failure(lost);
      throw new SnowleaseError(
        "REGISTRY_UNAVAILABLE",
        `Other writers were faster ${races} times within ${operationTimeout} ms at ${title}, nothing was changed; try again.`,
      );
    }
    if (pause > 0) await clock.sleep(pause);
  }
}
