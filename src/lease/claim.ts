import { bothClocks, type Clock, jumpBetween, monotonic, stepTolerance } from "../clock.ts";
import { asSnowleaseError, isUnanswered, SnowleaseError } from "../id/errors.ts";
import { askInTime } from "./late-request.ts";
import { malformedError, refusalError } from "./lease-errors.ts";
import { firstWholeTick, type Layout } from "../id/layout.ts";
import { isIn, type PoolBounds } from "../id/pool-bounds.ts";
import type { ClaimRequest, Grant, HolderLabel, Registry, Renewal } from "../rule/registry.ts";
import type { NamespaceLimits } from "../rule/limits.ts";
import { quarantineRetryIn } from "./quarantine-retry.ts";
import { freshToken } from "./turns.ts";
import { leastTicks } from "./window-length.ts";

/** What to lease, and how to react to a refusal or a loss. Times in ms. */
export interface LeaseOptions {
  readonly namespace: string;
  readonly layout: Layout;
  readonly pool: PoolBounds;
  /** The only accepted worker ID. Default: the registry picks one. */
  readonly workerId?: number | undefined;
  readonly window: number;
  /** How long a claim may wait for a free worker ID. */
  readonly claimTimeout: number;
  /** How long the claim may then wait for a granted window that begins later. Default: `claimTimeout`. */
  readonly openTimeout?: number | undefined;
  /** How far behind a clock may be for a claim to wait for it. */
  readonly maxWait: number;
  /** How long a claim with an unknown answer is repeated. */
  readonly operationTimeout: number;
  readonly reuse: "any" | "never";
  /** Whether to ask for a share of a lease that the registry's daemon lends. Default false. */
  readonly borrows?: boolean | undefined;
  /** Whether the generator is in lead mode: it can use a released worker ID at once, ahead of the clock. Default false. */
  readonly leads?: boolean | undefined;
  /** `switch`: a lost lease claims another worker ID and goes on. `stop`: it ends. */
  readonly onLost: "switch" | "stop";
  readonly holder: HolderLabel;
  readonly limits?: Partial<NamespaceLimits> | undefined;
}

/** The surroundings of a lease. */
export interface LeaseHost {
  readonly registry: Registry;
  readonly clock: Clock;
  /** Makes a token: 128 random bits as 32 hex digits. */
  readonly makeToken: () => string;
  /** Called once when the lease has ended, to close its resources. */
  readonly onEnd?: (() => Promise<void>) | undefined;
  /** Called when a claim begins to wait for the granted window, which opens in `wait` ms. */
  readonly onWait?: ((workerId: number, opens: number, wait: number) => void) | undefined;
}

/** A worker ID that was granted. */
export interface Claim {
  readonly grant: Grant;
  readonly token: string;
  /** The monotonic clock just before the granted request was sent, ms. */
  readonly asked: number;
  /** The wall clock when the grant arrived or its window opened, Unix ms. */
  readonly since: number;
  /** The claim waited for the window to open. */
  readonly hasWaited: boolean;
  /** The wall clock has jumped ahead since the claim began: a copy of this process may have had the same grant before. */
  readonly hasJumped: boolean;
}

/** Refuses a malformed grant: the generator would make the IDs of another holder. @throws SnowleaseError SCHEMA_INCOMPATIBLE */
function checkGrant(grant: Grant, { pool }: LeaseOptions): Grant {
  const { workerId, fence, from, until, recents } = grant;
  const knownFrom = recents?.from ?? from;
  const whole = [fence, from, until, knownFrom].every((number) => Number.isSafeInteger(number));
  if (whole && isIn(pool, workerId) && knownFrom <= from && from <= until) return grant;
  throw malformedError("grant", { workerId, fence, from, until, recentFrom: recents?.from });
}

/** Refuses a malformed renewal. @throws SnowleaseError SCHEMA_INCOMPATIBLE */
export function checkRenewal(renewal: Renewal): Renewal {
  const { from, until } = renewal;
  if (Number.isSafeInteger(from) && Number.isSafeInteger(until)) return renewal;
  throw malformedError("renewal", { from, until });
}

/** The longest pause between two claims of a held worker ID, ms: the worker ID may be released long before its window ends. */
const longestLook = 200;
const firstRetry = 20;

/**
 * Claims a worker ID. Waits up to `claimTimeout` for one to come free, and then for its window to open, if it does so within `openTimeout`.
 * Repeats a claim with an unknown answer, with the same token, up to `operationTimeout`. After an error, a worker ID whose grant did not
 * arrive rests until its window has passed.
 * @param recall `ClaimRequest.recall`.
 */
export async function claimWorkerId(
  host: LeaseHost,
  options: LeaseOptions,
  signal?: AbortSignal,
  recall?: string,
): Promise<Claim> {
  const { registry, clock } = host;
  const { layout, namespace, claimTimeout, openTimeout = claimTimeout, maxWait, operationTimeout } = options;
  // After a snapshot, copies of a process draw the same random bytes. With the same token, they would get the same grant.
  const makeToken = (): string => freshToken(clock, host.makeToken());
  const first = makeToken();
  let token = first;
  const begun = bothClocks(clock);
  const [, started] = begun;
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
      const request = { ...claimRequest(options, token, asking), recall };
      const answer = await askInTime(clock, request, (asked) => registry.claim(asked));
      if (answer.outcome === "granted") {
        const grant = checkGrant(answer, options);
        if (options.borrows === true && grant.shared !== true) {
          const claim = { grant, token, asked, since: clock.now(), hasWaited: false, hasJumped: false };
          await giveBackUnused(host, options, claim);
          throw notLent(namespace);
        }
        // The old window may have ended inside a long tick, which no holder uses then. In lead mode, there is no wait for it.
        const knownFrom = grant.recents?.from ?? grant.from;
        const firstTick = firstWholeTick(layout, knownFrom);
        const opens = options.leads === true ? 0 : layout.timeOf(firstTick);
        // If the window is open, only its first whole tick is still ahead. Generators can wait for that.
        const longest = knownFrom > clock.now() ? openTimeout : claimTimeout;
        let hasWaited = false;
        // A timer may fire early, and the clock may be set meanwhile. Do not begin a wait that would be too short.
        for (let wait = opens - clock.now(); wait > 0 && wait <= longest; wait = opens - clock.now()) {
          if (!hasWaited) host.onWait?.(grant.workerId, opens, wait);
          hasWaited = true;
          await clock.sleep(wait, { signal });
          if (signal?.aborted) break;
        }
        const hasJumped = jumpBetween(begun, bothClocks(clock)) >= stepTolerance;
        const claim = { grant, token, asked, since: clock.now(), hasWaited, hasJumped };
        if (!signal?.aborted) return claim;
        await giveBackUnused(host, options, claim);
        continue;
      }
      if (answer.outcome === "lost") {
        // The registry knows this token from before a quarantine, or a copy of this process has used it.
        if (left(Math.max(operationTimeout, claimTimeout)) <= 0) throw malformedError("claim", answer);
        if (token !== first) await clock.sleep(retry, { signal });
        token = makeToken();
        continue;
      }
      const error = refusalError(answer, namespace, clock.now());
      const wait = error.details.retryAfterMs;
      const behind = answer.outcome === "rollback" && answer.behind > maxWait;
      // A late request looks like a clock that was set back. A second request, sent at once, shows which it was.
      if (behind && !doubted) {
        doubted = true;
        continue;
      }
      if (wait === undefined || behind || left(claimTimeout) <= 0) throw error;
      pause = Math.min(wait, longestLook, left(claimTimeout));
    } catch (cause) {
      const error = asSnowleaseError(cause);
      const unheard = isUnanswered(error) && error.details.lasting !== true;
      const heardIn = error.code === "DEFECT" ? operationTimeout : Math.max(operationTimeout, claimTimeout);
      const timeout = unheard ? heardIn : isWorthWaiting(error) ? claimTimeout : 0;
      const again = quarantineRetryIn(error, options.window, token);
      if (left(timeout) <= (again === undefined ? retry : 0)) throw error;
      pause = Math.min(again ?? retry, left(timeout));
      retry = Math.min(retry * 2, 1000);
    }
    await clock.sleep(pause, { signal });
  }
}

/** Gives back a worker ID whose claimer has given up, so that it does not rest for a window. */
export async function giveBackUnused(
  { registry, clock }: LeaseHost,
  { namespace }: LeaseOptions,
  { grant: { workerId, fence, from, recents, receipt }, token, hasJumped }: Claim,
): Promise<void> {
  const unused = { clock: clock.now(), used: hasJumped ? undefined : { until: from, recents }, receipt };
  await registry.release({ namespace, workerId, fence, token, ...unused }).catch(() => undefined);
}

function notLent(namespace: string): SnowleaseError {
  return new SnowleaseError(
    "CONFIG_INVALID",
    `The registry lends no lease of namespace \`${namespace}\`; start its daemon with \`--lend\`, or leave \`borrow\` out to lease a worker ID for this process alone.`,
    { lends: false },
  );
}

/** Whether the claim may succeed after a wait. */
function isWorthWaiting({ code }: SnowleaseError): boolean {
  // LEASE_EXPIRED: the lender has no lease at the moment.
  return ["QUARANTINE", "RATE_LIMITED", "WINDOW_NOT_OPEN", "LEASE_EXPIRED"].includes(code);
}

function claimRequest(options: LeaseOptions, token: string, clock: number): ClaimRequest {
  const { layout, namespace, workerId, pool, holder, window, reuse, limits } = options;
  const { leads = false, borrows: shared } = options;
  // Recents list sequences without their rollback bits.
  const continues = layout.maxRollback === 0;
  // A named worker ID is accepted with the least window left, any other one with at least half of the window.
  const room = workerId === undefined ? Math.ceil(window / 2) : leastTicks * layout.tick;
  const lead = leads ? Math.max(0, window - room) : undefined;
  const terms = { layout: layout.fingerprint, continues, lead, window, reuse, limits, shared };
  return { namespace, token, workerId, pool, holder, clock, ...terms };
}
