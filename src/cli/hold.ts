import { performance } from "node:perf_hooks";
import type { Config } from "../config.ts";
import { SnowleaseError } from "../core/errors.ts";
import type { Lease } from "../core/lease.ts";
import type { Registry } from "../core/registry.ts";
import { timeText } from "../core/window.ts";

/** A lease whose worker ID is used by programs that know nothing of windows, so that only stopping them in time protects it. */
export interface HeldLease {
  readonly lease: Lease;
  /**
   * Resolves, with the reason, when whoever uses the worker ID has to stop: the lease is lost, or little is left of its window.
   * Never resolves once `stop` is aborted.
   */
  endangered(stop: AbortSignal): Promise<SnowleaseError>;
  /** How long there is time to stop in an orderly way, ms; after that it has to be by force. */
  grace(): number;
  /**
   * Gives the worker ID back. Told to nobody, it is free at once, as never used; else it rests, since nobody knows what was made
   * with it.
   */
  giveBack(how: "told" | "untold"): Promise<void>;
}

/** Longest time to stop in an orderly way, ms; and the share of the window that it may take. */
const [longestGrace, graceShare] = [10_000, 1 / 4];
/** Set aside, out of the window's end, for an end by force to have its effect: a share of it, from so many ms to so many. */
const [forceShare, leastForce, mostForce] = [1 / 20, 50, 1000];

/** How often the clocks are looked at, ms: a step of the wall clock must not go unnoticed until a renewal is due. */
const watchInterval = 100;

/**
 * Claims a worker ID for others. Such a holder never continues behind somebody's recent sequences, which it cannot know; and it
 * ends when the lease is lost, since the number was told to others.
 * @throws SnowleaseError WINDOW_NOT_OPEN where it opens later than the claim may wait: beside others who keep no window.
 */
export async function holdLease(config: Config, registry: Registry, signal: AbortSignal): Promise<HeldLease> {
  const { openLease } = await import("../snowlease.ts");
  /** When the window closes on the monotonic clock: counted from before the request was sent, since it may have begun then. */
  let end = Infinity;
  let asked: number | undefined;
  let window = 0;
  let told = true;
  const watched: Registry = {
    ...registry,
    async claim(request) {
      // A claim that is asked again with its token may have been granted the first time.
      asked ??= performance.now();
      ({ window } = request);
      const answer = await registry.claim({ ...request, continues: false });
      if (answer.outcome === "granted") end = asked + request.window;
      asked = undefined;
      return answer;
    },
    async renew(request) {
      const sent = performance.now();
      const answer = await registry.renew(request);
      if (answer.outcome === "renewed") end = Math.max(end, sent + request.window);
      return answer;
    },
    release: (request) => registry.release(told ? request : { ...request, used: { until: lease.from } }),
  };
  const lease = await openLease({ ...config, registry: watched, onLost: "stop" }, { signal, argv: [] });
  const wait = lease.from - Date.now();
  if (wait > 0) {
    const early = opensLater(lease, wait);
    told = false;
    await lease.close();
    throw early;
  }
  const force = Math.min(mostForce, Math.max(leastForce, window * forceShare));
  const margin = force + Math.min(longestGrace, window * graceShare);
  /** How long the window stays open, by the wall clock or the monotonic one, whichever runs out first, ms. */
  const left = (): number => Math.min(lease.until - Date.now(), end - performance.now());

  return {
    lease,
    async endangered(stop) {
      for (;;) {
        if (stop.aborted) return new Promise(() => undefined);
        if (lease.signal.aborted) return lease.signal.reason as SnowleaseError;
        if (left() <= margin) return expiring(lease);
        if (Date.now() < lease.from) return notOpen(lease);
        await lease.clock.sleep(Math.min(watchInterval, left() - margin), {
          signal: AbortSignal.any([stop, lease.signal]),
        });
      }
    },
    grace: () => left() - force,
    giveBack(how) {
      told = how === "told";
      return lease.close();
    },
  };
}

function expiring({ workerId, until }: Lease): SnowleaseError {
  return new SnowleaseError(
    "LEASE_EXPIRED",
    `The window of worker ${workerId} ends at ${timeText(until)} and could not be renewed in time; see why the registry does not answer, then start again.`,
  );
}

function opensLater({ workerId, from }: Lease, retryAfterMs: number): SnowleaseError {
  return new SnowleaseError(
    "WINDOW_NOT_OPEN",
    `The window of worker ${workerId} opens at ${timeText(from)}, in ${retryAfterMs} ms; have it waited for, by \`--claim-timeout\`.`,
    { retryAfterMs },
  );
}

function notOpen({ workerId, from }: Lease): SnowleaseError {
  return new SnowleaseError(
    "WINDOW_NOT_OPEN",
    `The clock was set back to before ${timeText(from)}, where the window of worker ${workerId} begins; set it right, then start again.`,
  );
}
