import { type Clock, monotonic } from "./clock.ts";
import { asSnowleaseError, isSnowleaseError, shown, SnowleaseError, timeText } from "../id/errors.ts";
import { askInTime } from "./late-request.ts";
import { firstWholeTick, type Layout } from "../id/layout.ts";
import type { PoolBounds } from "../id/pool-bounds.ts";
import type {
  ClaimRequest,
  Grant,
  HolderLabel,
  NamespaceLimits,
  Refusal,
  Registry,
  Renewal,
} from "../rule/registry.ts";
import { asksAgainIn } from "./quarantine-retry.ts";
import { leastTicks } from "./window-length.ts";

/** What to lease, and how to behave when it cannot be had or kept. Times in ms. */
export interface LeaseOptions {
  readonly namespace: string;
  readonly layout: Layout;
  readonly pool: PoolBounds;
  /** The one worker ID that will do; without it the registry picks one. */
  readonly workerId?: number | undefined;
  readonly preferred?: readonly number[] | undefined;
  readonly window: number;
  /** How long a claim may wait for a worker ID to come free. */
  readonly claimTimeout: number;
  /** How far back a clock may be for a claim to wait for it. */
  readonly maxWait: number;
  /** How long a claim whose answer is unknown is asked again. */
  readonly operationTimeout: number;
  readonly reuse: "any" | "never";
  /**
   * Its generator is in lead mode: a worker ID that was given back is then taken up at once, ahead of the clock, where the window has room
   * behind what was used. Default false.
   */
  readonly leads?: boolean | undefined;
  /** `switch`: a lost lease claims another worker ID and goes on. `stop`: it ends. */
  readonly onLost: "switch" | "stop";
  readonly holder: HolderLabel;
  readonly limits?: Partial<NamespaceLimits> | undefined;
}

/** What a lease needs from the outside. */
export interface LeaseHost {
  readonly registry: Registry;
  readonly clock: Clock;
  /** Makes a token: 128 random bits as 32 hex digits. */
  readonly makeToken: () => string;
  /** Called once when the lease has ended, to close what was opened for it. */
  readonly onEnd?: (() => Promise<void>) | undefined;
}

/** A worker ID that was granted. */
export interface Claim {
  readonly grant: Grant;
  readonly token: string;
  /** Monotonic ms just before the request that was granted went out. */
  readonly asked: number;
  /** The wall clock when the grant arrived, Unix ms. */
  readonly since: number;
}

/**
 * Refuses what a registry cannot have meant: from a number that is none, or a worker ID beyond the layout's bits, IDs would be
 * made that are somebody else's.
 * @throws SnowleaseError SCHEMA_INCOMPATIBLE
 */
function checkGrant(grant: Grant, { pool }: LeaseOptions): Grant {
  const { workerId, fence, from, until, recents } = grant;
  const floor = recents?.from ?? from;
  const whole = [workerId, fence, from, until, floor].every((number) => Number.isSafeInteger(number));
  if (whole && workerId >= pool.first && workerId <= pool.last && floor <= from && from <= until) return grant;
  throw nonsense("grant", { workerId, fence, from, until, recentFrom: recents?.from });
}

/** The same for a renewal. */
export function checkRenewal(renewal: Renewal): Renewal {
  const { from, until } = renewal;
  if (Number.isSafeInteger(from) && Number.isSafeInteger(until)) return renewal;
  throw nonsense("renewal", { from, until });
}

function nonsense(what: string, answer: object): SnowleaseError {
  return new SnowleaseError(
    "SCHEMA_INCOMPATIBLE",
    `The registry answered with a ${what} that makes no sense, ${shown(answer)}: look whether it is of this version, and what answers in its place.`,
  );
}

/** Between two looks at whether a worker ID has come free, ms; it may be given back long before its window ends. */
const longestLook = 200;
const firstRetry = 20;

/**
 * Claims once, waiting up to `claimTimeout` where a worker ID is going to come free or its window to open, and asking again with the same token, up to
 * `operationTimeout`, where the answer was lost. Throws the refusal as an error. Once it has thrown, its token is forgotten: a
 * grant that nobody heard of rests until its window has passed.
 */
export async function claimWorkerId(host: LeaseHost, options: LeaseOptions, signal?: AbortSignal): Promise<Claim> {
  const { registry, clock } = host;
  const { layout, namespace, claimTimeout, maxWait, operationTimeout } = options;
  const token = host.makeToken();
  const started = monotonic(clock);
  const left = (timeout: number): number => timeout - (monotonic(clock) - started);
  let doubted = false;
  for (let retry = firstRetry; ;) {
    signal?.throwIfAborted();
    const asking = clock.now();
    const asked = monotonic(clock);
    let pause: number;
    try {
      const refusal = layout.refusalAt(asking);
      if (refusal !== undefined) throw refusal;
      const answer = await askInTime(clock, claimRequest(options, token, asking), (request) => registry.claim(request));
      if (answer.outcome === "granted") {
        const grant = checkGrant(answer, options);
        // The old window may have ended inside a long tick, which is nobody's then. Who leads the clock does not wait for it.
        const opens =
          options.leads === true ? 0 : layout.timeOf(firstWholeTick(layout, grant.recents?.from ?? grant.from));
        const closed = Math.min(opens - clock.now(), left(claimTimeout));
        if (closed > 0) await clock.sleep(closed, { signal });
        if (!signal?.aborted) return { grant, token, asked, since: clock.now() };
        // Granted to somebody who has gone away: it need not rest for a window.
        await giveBackUnused(host, options, grant, token);
        continue;
      }
      const error = refusalError(answer, namespace, clock.now());
      const wait = error.details.retryAfterMs;
      const behind = answer.outcome === "rollback" && answer.behind > maxWait;
      // What looks like a clock that was set back may be a request that was long under way: one more, at once, tells.
      if (behind && !doubted) {
        doubted = true;
        continue;
      }
      if (wait === undefined || behind || left(claimTimeout) <= 0) throw error;
      pause = Math.min(wait, longestLook, left(claimTimeout));
    } catch (cause) {
      const error = asSnowleaseError(cause);
      const unheard = isSnowleaseError(error, "REGISTRY_UNAVAILABLE") && error.details.lasting !== true;
      const timeout = unheard ? Math.max(operationTimeout, claimTimeout) : isWorthWaiting(error) ? claimTimeout : 0;
      const again = asksAgainIn(error, options.window, token);
      if (left(timeout) <= (again === undefined ? retry : 0)) throw error;
      pause = Math.min(again ?? retry, left(timeout));
      retry = Math.min(retry * 2, 1000);
    }
    await clock.sleep(pause, { signal });
  }
}

/** Whether time alone may let the claim through. */
function isWorthWaiting({ code }: SnowleaseError): boolean {
  return code === "QUARANTINE" || code === "RATE_LIMITED" || code === "WINDOW_NOT_OPEN";
}

async function giveBackUnused(
  { registry, clock }: LeaseHost,
  { namespace }: LeaseOptions,
  { workerId, fence, from, recents }: Grant,
  token: string,
): Promise<void> {
  const key = { namespace, workerId, fence, token };
  await registry.release({ ...key, clock: clock.now(), used: { until: from, recents } }).catch(() => undefined);
}

function claimRequest(options: LeaseOptions, token: string, clock: number): ClaimRequest {
  const { layout, namespace, workerId, pool, preferred, holder, window, reuse, leads = false, limits } = options;
  // Recents tell sequences, and not with which value of the rollback bits they were used.
  const continues = layout.maxRollback === 0;
  // Of a worker ID that has to be this one, the least that a window may be has to be left; any other need have half of it.
  const room = workerId === undefined ? Math.ceil(window / 2) : leastTicks * layout.tick;
  const lead = leads ? Math.max(0, window - room) : undefined;
  const terms = { layout: layout.fingerprint, continues, lead, window, reuse, limits };
  return { namespace, token, workerId, pool, preferred, holder, clock, ...terms };
}

/** A refusal as the error that people see. `now`: the claimer's wall clock. */
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
