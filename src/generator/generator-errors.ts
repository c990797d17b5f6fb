import { lengthText } from "../id/duration.ts";
import { SnowleaseError, timeText } from "../id/errors.ts";
import type { Layout } from "../id/layout.ts";
import type { LeaseView, LeaseSnapshot } from "../lease/lease.ts";

// Why a generator makes no ID now.

/** The lease holds no worker ID, for now or for good. The lease of another thread may be held again since the caller looked. */
export function notHeldError({ workerId, namespace, state, failure }: LeaseView): SnowleaseError {
  const worker = `Worker ${workerId} of namespace \`${namespace}\``;
  if (state === "held") {
    return new SnowleaseError("LEASE_EXPIRED", `${worker} was claimed at this moment; try again.`, { retryAfterMs: 0 });
  }
  if (state === "switching") {
    const message = `${worker} was given up and another worker ID is being claimed; try again.`;
    return new SnowleaseError("LEASE_EXPIRED", message, {}, { cause: failure });
  }
  if (state === "suspended") {
    const message = `${worker} was given back by \`suspend\`; IDs go on after \`resume\`.`;
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

export function windowPassedError(
  { workerId, until }: LeaseSnapshot,
  wall: number,
  failure: SnowleaseError | undefined,
): SnowleaseError {
  const times = `ended at ${timeText(until)} and the clock shows ${timeText(wall)}`;
  const message = `The window of worker ${workerId} ${times}; IDs go on when a renewal succeeds.`;
  return new SnowleaseError("LEASE_EXPIRED", message, { until, clock: wall }, { cause: failure });
}

export function windowNotOpenError({ workerId }: LeaseSnapshot, opens: number, retryAfterMs: number): SnowleaseError {
  const message = `The window of worker ${workerId} opens at ${timeText(opens)}, in ${lengthText(retryAfterMs)}.`;
  return new SnowleaseError("WINDOW_NOT_OPEN", message, { retryAfterMs, from: opens });
}

export function tickFullError({ maxSequence }: Layout, retryAfterMs: number): SnowleaseError {
  const message = `All ${maxSequence + 1} sequences of this tick are used; the next tick begins in ${retryAfterMs} ms.`;
  return new SnowleaseError("SEQUENCE_EXHAUSTED", message, { retryAfterMs });
}

/** In lead mode: the clock is still before the end of the window. */
export function windowUsedUpError(
  { workerId, until }: LeaseSnapshot,
  wall: number,
  retryAfterMs: number,
): SnowleaseError {
  const used = `All IDs of the window of worker ${workerId} are used, up to ${timeText(until)}, ${until - wall} ms ahead of the clock`;
  const advice = `the next renewal, in ${lengthText(retryAfterMs)}, makes room for more: ask for less, or for a longer \`window\`.`;
  return new SnowleaseError("SEQUENCE_EXHAUSTED", `${used}; ${advice}`, { retryAfterMs, until, clock: wall });
}

export function clockSetBackError(
  { workerId, state }: LeaseView,
  behindMs: number,
  retryAfterMs: number,
): SnowleaseError {
  const back = `The clock was set back by ${behindMs} ms, to before what worker ${workerId} may use again`;
  const advice =
    state === "switching" ? ", or as soon as another worker ID is claimed." : ": wait, or ask another server.";
  const message = `${back}; it is usable in ${lengthText(retryAfterMs)}${advice}`;
  return new SnowleaseError("CLOCK_ROLLBACK", message, { retryAfterMs, behindMs });
}
