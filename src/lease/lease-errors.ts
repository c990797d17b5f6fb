import { shown, SnowleaseError, timeText } from "../id/errors.ts";
import type { Refusal } from "../rule/registry.ts";
import type { LeaseSnapshot } from "./lease-view.ts";

/** A refused claim as an error. `now`: the holder's wall clock, Unix ms. */
export function refusalError(refusal: Refusal, namespace: string, now: number): SnowleaseError {
  const remaining =
    "freeAt" in refusal && refusal.freeAt !== undefined
      ? Math.max(1, refusal.freeAt - Math.min(now, refusal.clock))
      : undefined;
  const details = { namespace, refusal, ...(remaining !== undefined && { retryAfterMs: remaining }) };
  switch (refusal.outcome) {
    case "exhausted":
      return new SnowleaseError(
        "POOL_EXHAUSTED",
        `No worker ID from ${refusal.pool.first} to ${refusal.pool.last} of namespace \`${namespace}\` is free` +
          (remaining === undefined
            ? `, and none will come free by itself; use a larger pool.`
            : `; the first may come free in ${remaining} ms: try again then, or use a larger pool.`),
        details,
      );
    case "held": {
      const { workerId, holder, since, live } = refusal;
      const who = `${holder.host} (${holder.ip}), pid ${holder.pid}, since ${timeText(since)}`;
      return new SnowleaseError(
        "WORKER_ID_HELD",
        live
          ? `Worker ${workerId} of namespace \`${namespace}\` is held by ${who}; let the registry pick a number, or stop that process.`
          : `Worker ${workerId} of namespace \`${namespace}\` rests for another ${remaining} ms after ${who}; try again then, or let the registry pick a number.`,
        details,
      );
    }
    case "rollback":
      return new SnowleaseError(
        "CLOCK_ROLLBACK",
        `The clock was set back by ${refusal.behind} ms since worker ${refusal.workerId} of namespace \`${namespace}\` was last used here; ` +
          `it comes free in ${remaining} ms: wait, set the clock, or let the registry pick a number.`,
        { ...details, behindMs: refusal.behind },
      );
    case "foreign": {
      const { workerId, holder } = refusal;
      return new SnowleaseError(
        "WORKER_ID_HELD",
        `Worker ${workerId} of namespace \`${namespace}\` is taken by a program that keeps no window, ${holder.host} (${holder.ip}), pid ${holder.pid}; let the registry pick a number, or stop that program and delete its key.`,
        details,
      );
    }
    case "pinned":
      return new SnowleaseError(
        "WORKER_ID_HELD",
        `Worker ${refusal.workerId} of namespace \`${namespace}\` is pinned (${refusal.reason}); ask for another one, or unpin it.`,
        details,
      );
  }
}

/** The registry's answer is malformed. */
export function malformedError(what: string, answer: object): SnowleaseError {
  return new SnowleaseError(
    "SCHEMA_INCOMPATIBLE",
    `The registry answered with a malformed ${what}, ${shown(answer)}; check that this address is a registry of this version.`,
  );
}

/** The clock went back too far for this worker ID. */
export function setBackError(
  { workerId, fence, until }: LeaseSnapshot,
  namespace: string,
  behindMs: number,
): SnowleaseError {
  return new SnowleaseError(
    "LEASE_LOST",
    `Worker ${workerId} of namespace \`${namespace}\` was released: the clock was set back by ${behindMs} ms, to before its window; set the clock right, then start again.`,
    { namespace, workerId, fence, until, behindMs },
  );
}

/** Another store has replaced the one that granted the lease. */
export function replacedError({ workerId, fence, until }: LeaseSnapshot, namespace: string): SnowleaseError {
  return new SnowleaseError(
    "LEASE_LOST",
    `The lease of worker ${workerId} of namespace \`${namespace}\` is lost: another file has replaced the registry that granted it, and may grant the same worker ID again; find out what replaced the file, and keep the registry in a folder that no program cleans up.`,
    { namespace, workerId, fence, until },
  );
}

/** The registry answered that the claim is over. */
export function lostError({ workerId, fence, until }: LeaseSnapshot, namespace: string): SnowleaseError {
  return new SnowleaseError(
    "LEASE_LOST",
    `The lease of worker ${workerId} of namespace \`${namespace}\` is lost: another holder claimed it after its window had passed, or an operator released it; start again to claim another one.`,
    { namespace, workerId, fence, until },
  );
}
