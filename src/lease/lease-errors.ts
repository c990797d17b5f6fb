import { lengthText } from "../id/duration.ts";
import { shown, SnowleaseError, timeText } from "../id/errors.ts";
import type { HolderLabel, LossReason, Lost, Refusal } from "../rule/registry.ts";
import type { LeaseSnapshot } from "./lease-view.ts";

/** A refused claim as an error. `now`: the holder's wall clock, Unix ms. */
export function refusalError(refusal: Refusal, namespace: string, now: number): SnowleaseError {
  const freeAt = "freeAt" in refusal ? refusal.freeAt : undefined;
  const remaining = freeAt === undefined ? undefined : Math.max(1, freeAt - Math.min(now, refusal.clock));
  const left = lengthText(remaining ?? 0);
  const details = { namespace, refusal, ...(remaining !== undefined && { retryAfterMs: remaining }) };
  if (refusal.outcome === "exhausted") {
    const { first, last } = refusal.pool;
    const retry = `; the first may come free in ${left}: try again then, or use a larger pool.`;
    const advice = remaining === undefined ? ", and none will come free by itself; use a larger pool." : retry;
    const message = `No worker ID from ${first} to ${last} of namespace \`${namespace}\` is free${advice}`;
    return new SnowleaseError("POOL_EXHAUSTED", message, details);
  }
  const id = `${refusal.workerId} of namespace \`${namespace}\``;
  const held = (why: string): SnowleaseError => new SnowleaseError("WORKER_ID_HELD", `Worker ${id} ${why}`, details);
  switch (refusal.outcome) {
    case "held": {
      if (refusal.elsewhere !== undefined) {
        const { uid, file } = refusal.elsewhere;
        const who = `pid ${refusal.holder.pid} of the user with ID ${uid}, since ${timeText(refusal.since)}`;
        return held(
          `is held on this host by ${who}, in another registry file than \`${file}\`; name one registry that both reach, as in SNOWLEASE_REGISTRY=sqlite:/var/lib/snowlease/registry.db, or another namespace if their IDs never meet.`,
        );
      }
      const who = `${processOf(refusal.holder)}, since ${timeText(refusal.since)}`;
      return refusal.live
        ? held(`is held by ${who}; let the registry pick a number, or stop that process.`)
        : held(`rests for another ${left} after ${who}; try again then, or let the registry pick a number.`);
    }
    case "foreign": {
      const program = `a program that keeps no window, ${processOf(refusal.holder)}`;
      return held(`is taken by ${program}; let the registry pick a number, or stop that program and delete its key.`);
    }
    case "pinned":
      return held(`is pinned (${refusal.reason}); ask for another one, or unpin it.`);
    case "rollback": {
      const { behind } = refusal;
      const clock = `The clock was set back by ${behind} ms since worker ${id} was last used here`;
      const advice = `it comes free in ${left}: wait, set the clock, or let the registry pick a number.`;
      return new SnowleaseError("CLOCK_ROLLBACK", `${clock}; ${advice}`, { ...details, behindMs: behind });
    }
  }
}

function processOf({ host, ip, pid }: HolderLabel): string {
  return `${host} (${ip}), pid ${pid}`;
}

/** The registry's answer is malformed. */
export function malformedError(what: string, answer: object): SnowleaseError {
  const message = `The registry answered with a malformed ${what}, ${shown(answer)}`;
  const advice = "check that this address is a registry of this version.";
  return new SnowleaseError("SCHEMA_INCOMPATIBLE", `${message}; ${advice}`);
}

/** The clock went back too far for this worker ID. */
export function setBackError(snapshot: LeaseSnapshot, namespace: string, behindMs: number): SnowleaseError {
  const { workerId, fence, until } = snapshot;
  const clock = `the clock was set back by ${behindMs} ms, to before its window; set the clock right, then start again.`;
  const message = `Worker ${workerId} of namespace \`${namespace}\` was released: ${clock}`;
  return new SnowleaseError("LEASE_LOST", message, { namespace, workerId, fence, until, behindMs, reason: "released" });
}

const losses: Readonly<Record<LossReason | "replaced", string>> = {
  taken: "another holder claimed it after its window had passed; start again to claim another one",
  released: "an operator ended the claim, or it was given back; start again to claim another one",
  forgotten:
    "the registry went back in time and does not know the claim any more; find out whether an older copy of it was put back, or another registry answers at its address",
  replaced:
    "another file has replaced the registry that granted it, and may grant the same worker ID again; find out what replaced the file, and keep the registry in a folder that no program cleans up",
  cloned:
    "a copy of this process has renewed it, made with a snapshot of the machine, a checkpoint or a copied container; call `suspend` before a snapshot and `resume` after it, or start each copy anew",
};

const endedEarly =
  "another claim had the worker ID before the window passed; find out whether an older copy of the registry was put back, a copy of this process gave it back, or an operator reset the window";

/** Another store has replaced the one that granted the lease (`replaced`), or the registry answered that the claim is over. */
export function lostError(
  { workerId, fence, until }: LeaseSnapshot,
  namespace: string,
  loss: LossReason | "replaced",
  doubt?: Lost["doubt"],
): SnowleaseError {
  const span =
    doubt && `IDs of worker ${workerId} from ${timeText(doubt.from)} to ${timeText(doubt.until)} may exist twice`;
  const check =
    span === undefined ? "" : `; ${span}: look for them with \`snowlease audit --namespace ${namespace} FILE\``;
  // Such a claim usually ends after its window, or because an operator ended it. If times are in doubt, it ended earlier.
  const why = doubt !== undefined && (loss === "taken" || loss === "released") ? endedEarly : losses[loss];
  const message = `The lease of worker ${workerId} of namespace \`${namespace}\` is lost: ${why}${check}.`;
  const reason: LossReason = loss === "replaced" ? "forgotten" : loss;
  return new SnowleaseError("LEASE_LOST", message, {
    namespace,
    workerId,
    fence,
    until,
    reason,
    ...(doubt && { doubt }),
  });
}
