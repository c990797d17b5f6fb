import { type Clock, monotonic } from "../clock.ts";

/** What the answer of an HTTP server shows about the server's clock. */
export interface AnswerClock {
  /** The whole second in which the server answered, Unix ms. */
  readonly second: number;
  /** When the request was sent: by this host's clock, Unix ms, and on the monotonic clock, ms. */
  readonly host: number;
  readonly begun: number;
}

/** What the `date` of an answer shows. Undefined if the answer has none. `sent`: both clocks when the request was sent. */
export function answerClock(
  date: string | undefined,
  [host, begun]: readonly [host: number, begun: number],
): AnswerClock | undefined {
  const second = Date.parse(date ?? "");
  return Number.isNaN(second) ? undefined : { second, host, begun };
}

/**
 * The clock of the server that gave this answer, Unix ms. The answer shows that clock to the second. This host's clock is finer, and counts
 * as long as it agrees with that second.
 */
export function serverNow(clock: Clock, answer: AnswerClock | undefined): number {
  if (answer === undefined) return clock.now();
  const { second, host, begun } = answer;
  // Read only once, because this host's clock may be stepped meanwhile.
  const elapsed = Math.floor(monotonic(clock) - begun);
  return Math.min(Math.max(host + elapsed, second), second + 1000 + elapsed);
}
