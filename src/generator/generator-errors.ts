import { SnowleaseError, timeText } from "../id/errors.ts";
import type { Layout } from "../id/layout.ts";
import type { LeaseView, LeaseSnapshot } from "../lease/lease.ts";

/*
 * Errors that say why a generator makes no ID now.
 */

/** The lease holds no worker ID, for now or for good. The lease of another thread may be held again since the caller looked. */
export function notHeldError({ workerId, namespace, state }: LeaseView): SnowleaseError {
  const worker = `Worker ${workerId} of namespace \`${namespace}\``;
  if (state === "held") {
    return new SnowleaseError("LEASE_EXPIRED", `${worker} was claimed at this moment; try again.`, { retryAfterMs: 0 });
  }
  if (state === "switching") {
    const message = `${worker} was given up and another worker ID is being claimed; try again.`;
    return new SnowleaseError("LEASE_EXPIRED", message);
  }
  return leaseEndedError({ workerId, namespace, state });
}

/** The generator made its last ID of this lease. */
export function sealedError(lease: LeaseView): SnowleaseError {
  return lease.state === "held" ? leaseEndedError(lease) : notHeldError(lease);
}

function leaseEndedError(lease: Pick<LeaseView, "workerId" | "namespace" | "state">): SnowleaseError {
  const what = `The lease of worker ${lease.workerId} of namespace \`${lease.namespace}\``;
  return new SnowleaseError("LEASE_LOST", `${what} has ended (${lease.state}); make a new generator.`);
}

/** The window has passed. */
export function windowPassedError({ workerId, until }: LeaseSnapshot, wall: number): SnowleaseError {
  return new SnowleaseError(
    "LEASE_EXPIRED",
    `The window of worker ${workerId} ended at ${timeText(until)} and the clock shows ${timeText(wall)}; IDs go on when a renewal succeeds.`,
    { until, clock: wall },
  );
}

/** The window opens later. */
export function windowNotOpenError({ workerId }: LeaseSnapshot, opens: number, retryAfterMs: number): SnowleaseError {
  return new SnowleaseError(
    "WINDOW_NOT_OPEN",
    `The window of worker ${workerId} opens at ${timeText(opens)}, in ${retryAfterMs} ms.`,
    { retryAfterMs, from: opens },
  );
}

/** Every sequence of the present tick is used. */
export function tickFullError({ maxSequence }: Layout, retryAfterMs: number): SnowleaseError {
  return new SnowleaseError(
    "SEQUENCE_EXHAUSTED",
    `All ${maxSequence + 1} sequences of this tick are used; the next tick begins in ${retryAfterMs} ms.`,
    { retryAfterMs },
  );
}

/** In lead mode: the whole window is used, and the clock is still before its end. */
export function windowUsedUpError(
  { workerId, until }: LeaseSnapshot,
  wall: number,
  retryAfterMs: number,
): SnowleaseError {
  return new SnowleaseError(
    "SEQUENCE_EXHAUSTED",
    `All IDs of the window of worker ${workerId} are used, up to ${timeText(until)}, ${until - wall} ms ahead of the clock; the next renewal, in ${retryAfterMs} ms, makes room for more: ask for less, or for a longer \`window\`.`,
    { retryAfterMs, until, clock: wall },
  );
}

/** The clock was set back too far. */
export function clockSetBackError(
  { workerId, state }: LeaseView,
  behindMs: number,
  retryAfterMs: number,
): SnowleaseError {
  const advice =
    state === "switching" ? ", or as soon as another worker ID is claimed." : ": wait, or ask another server.";
  return new SnowleaseError(
    "CLOCK_ROLLBACK",
    `The clock was set back by ${behindMs} ms, to before what worker ${workerId} may use again; it is usable in ${retryAfterMs} ms${advice}`,
    { retryAfterMs, behindMs },
  );
}
