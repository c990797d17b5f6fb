import { isSnowleaseError, SnowleaseError } from "../../id/errors.ts";
import { type Clock, monotonic } from "../../clock.ts";

/** Another writer was faster and changed what this attempt read. Nothing was written. The operation reads again. */
export class Beaten extends Error {}

/** What an attempt read is no longer true after its own write, or because of it. The operation reads again at once. */
export class Changed extends Error {}

/** How an attempt failed. */
interface Failure extends ErrorOptions {
  /** Whether the attempt had sent writes. They may have been done. Default true. */
  readonly wrote?: boolean;
  /** What the server says about itself. Absent if the server is silent. */
  readonly told?: SnowleaseError | undefined;
  /** Whether another attempt would fail in the same way. Default false. */
  readonly lasts?: boolean;
}

/** An attempt without a result: its answer was lost, or the server answered that it cannot answer. */
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
  /** How long the operation has waited until now, for a connection and in failed attempts, whole ms. */
  waited(): number;
}

/** The store that an operation works on. */
export interface Operated {
  /** Names the server in errors. */
  readonly title: string;
  readonly clock: Clock;
  /** Deadline of one operation, ms. */
  readonly operationTimeout: number;
  /** The error if an answer is missing. `isUnknown`: a write may have been done. */
  silent(lost: Unanswered, isUnknown: boolean): SnowleaseError;
}

/** The longest pause after another writer was faster, ms. There is no pause after the first two times. */
const longestRacePause = 40;

/** The longest pause after the first attempt without a result, and after later ones, ms. */
const [firstPause, longestPause] = [25, 800];
/** The latter limit as a part of the deadline, if that is longer. With fewer attempts, a server can answer many clients. */
const pauseShare = 1 / 20;

/**
 * Makes attempts until one is done. Each attempt reads, decides, and writes under the condition that nothing has changed since its reads.
 * `repeatable`: an attempt may follow one whose result is unknown, because it sees whether that one was done.
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
  /** Whether a write has no answer. No answer to a later attempt changes that. */
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
        // A message of the server says more than its silence at a later attempt.
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
