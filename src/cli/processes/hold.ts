import { lengthText } from "../../id/duration.ts";
import { performance } from "node:perf_hooks";
import type { Config } from "../../config/config.ts";
import { configInvalid, SnowleaseError, timeText } from "../../id/errors.ts";
import { bothClocks, jumpBetween, stepTolerance, systemClock } from "../../clock.ts";
import type { Lease } from "../../lease/lease.ts";
import type { Registry } from "../../rule/registry.ts";
import { addressOf, deferConfigured } from "../settings.ts";
import { endWaiting, whileWaiting } from "../terminal/progress.ts";

/** A lease for programs that know no windows. Only stopping these programs in time protects it. */
export interface HeldLease {
  readonly lease: Lease;
  /**
   * Resolves with the reason when the user of the worker ID must stop: the lease is lost, or its window is about to end. Resolves to
   * undefined when `stop` is aborted.
   */
  endangered(stop: AbortSignal): Promise<SnowleaseError | undefined>;
  /** The time that is left to stop in an orderly way, ms. After that, use force. */
  grace(): number;
  /** Gives the worker ID back. An unused worker ID is free at once. A used one rests, since programs may have made any IDs with it. */
  giveBack(how: "used" | "unused"): Promise<void>;
}

/** Longest time to stop in an orderly way, ms, and the share of the window that it may take. */
const [longestGrace, graceShare] = [10_000, 1 / 4];
/** The time at the window's end that is kept for an end by force: a share of the window, and its least and greatest value, ms. */
const [forceShare, leastForce, mostForce] = [1 / 20, 50, 1000];

/** Shorter waits are not reported, ms. */
const leastTold = 1000;

/** The interval between two looks at the clocks, ms. A renewal would notice a step of the wall clock too late. */
const watchInterval = 100;

/**
 * Claims a worker ID for other programs. The claim never continues after the recents of an earlier holder, since these programs do not
 * know them. The hold ends when the lease is lost: it never switches to another worker ID, since these programs know the first one. If
 * the window opens later, it waits and says so.
 * @throws SnowleaseError WINDOW_NOT_OPEN if the window opens later than the claim may wait, CONFIG_INVALID if it should share the worker
 * ID.
 */
export async function holdLease(config: Config, signal: AbortSignal): Promise<HeldLease> {
  if (config.borrow === true) {
    throw configInvalid(
      "Expected no `borrow` for a worker ID that other programs use: they would use all of its times, and so would those who share it with them; leave `borrow` out to lease one of its own.",
    );
  }
  const { openLease } = await import("../../snowlease.ts");
  const registry = await deferConfigured(config);
  const closeRegistry = (): Promise<void> => registry.close().catch(() => undefined);
  /** When the window closes on the monotonic clock. It counts from before the request was sent, since the window may have begun then. */
  let end = Infinity;
  let asked: number | undefined;
  let window = 0;
  /** Whether a renewal was sent since the last extension of the window. */
  let tried = false;
  let mayBeUsed = true;
  const begun = bothClocks(systemClock);
  const watched: Registry = {
    ...registry,
    async claim(request) {
      // The registry may have granted the first request of a claim that is sent again with the same token.
      asked ??= performance.now();
      ({ window } = request);
      const answer = await registry.claim({ ...request, continues: false });
      if (answer.outcome === "granted") end = asked + request.window;
      asked = undefined;
      return answer;
    },
    async renew(request) {
      const sent = performance.now();
      tried = true;
      const answer = await registry.renew(request);
      if (answer.outcome === "renewed") {
        end = Math.max(end, sent + request.window);
        tried = false;
      }
      return answer;
    },
    release(request) {
      // After a jump of the clock, this process may be a copy, and its original may have run the program.
      const isUnused = !mayBeUsed && jumpBetween(begun, bothClocks(systemClock)) < stepTolerance;
      return registry.release(isUnused ? { ...request, used: { until: lease.from } } : request);
    },
  };
  // `mode` is for a generator. Here programs make the IDs, and their IDs must not lead the clock.
  const terms = { ...config, registry: watched, onLost: "stop", mode: "wall" } as const;
  const opening = whileClaiming(config, () => openLease(terms, { signal, argv: [], onWait: tellWait }));
  const lease = await opening.catch(async (error: unknown) => {
    await closeRegistry();
    throw error;
  });
  const force = Math.min(mostForce, Math.max(leastForce, window * forceShare));
  const margin = force + Math.min(longestGrace, window * graceShare);
  /** How long the window stays open, ms: by the wall clock or by the monotonic clock, whichever is shorter. */
  const left = (): number => Math.min(lease.until - Date.now(), end - performance.now());

  async function giveBack(how: "used" | "unused"): Promise<void> {
    mayBeUsed = how === "used";
    try {
      await lease.close();
    } finally {
      await closeRegistry();
    }
  }

  /** Gives back a worker ID that no program knows yet. */
  async function refuse(error: SnowleaseError): Promise<never> {
    await giveBack("unused");
    throw error;
  }

  const wait = lease.from - Date.now();
  if (wait > 0) await refuse(opensLater(lease.workerId, lease.from, wait, config));
  // On a busy machine, opening the registry and the claim may have taken most of a short window.
  if (left() <= window / 2) await lease.renew();
  if (left() <= margin) {
    const advice = "use a longer `window`, or find out why the registry is slow";
    const what = `took most of its window of ${lengthText(window)}, and the window was not renewed at once; ${advice}`;
    await refuse(new SnowleaseError("LEASE_EXPIRED", `The claim of worker ${lease.workerId} ${what}.`));
  }

  /** Tries a renewal that is overdue because this process was delayed. Leaves half of the time for an orderly stop. */
  async function catchUp(): Promise<void> {
    const enough = new AbortController();
    const patience = left() - (force + margin) / 2;
    await Promise.race([lease.renew(), lease.clock.sleep(patience, { signal: enough.signal })]);
    enough.abort();
  }

  return {
    lease,
    async endangered(stop) {
      while (!stop.aborted) {
        if (lease.signal.aborted) return lease.signal.reason as SnowleaseError;
        if (left() <= margin && !tried) await catchUp();
        if (lease.signal.aborted) continue;
        if (left() <= margin) return expiring(lease, tried);
        if (Date.now() < lease.from) return notOpen(lease);
        const signal = AbortSignal.any([stop, lease.signal]);
        await lease.clock.sleep(Math.min(watchInterval, left() - margin), { signal });
      }
      return undefined;
    },
    grace: () => left() - force,
    giveBack,
  };
}

function expiring({ workerId, until }: Lease, tried: boolean): SnowleaseError {
  const why = tried
    ? "could not be renewed in time; find out why the registry does not answer, then start again"
    : "was not renewed, because this process was delayed; use a longer `window`, or reduce the load of this machine, then start again";
  return new SnowleaseError("LEASE_EXPIRED", `The window of worker ${workerId} ends at ${timeText(until)} and ${why}.`);
}

function notOpen({ workerId, from }: Lease): SnowleaseError {
  const what = `The clock was set back to before ${timeText(from)}, the start of the window of worker ${workerId}`;
  return new SnowleaseError("WINDOW_NOT_OPEN", `${what}; correct the clock, then start again.`);
}

/** After a second, shows on stderr that a claim waits. */
export function whileClaiming<Result>(config: Config, claim: () => Promise<Result>): Promise<Result> {
  return whileWaiting(`a worker ID from ${addressOf(config).redacted}`, claim);
}

/** For `--help`. */
export const waitRule: string =
  "The window of the worker ID may open later, for example on a host that moves from another scheme. Then the command says so on stderr and waits, until `--claim-timeout`. The default is maxWindow + maxClockSkew.";

/** Tells an operator why a start takes long. */
export function tellWait(workerId: number, opens: number, wait: number): void {
  if (wait < leastTold) return;
  endWaiting();
  const what = `The window of worker ${workerId} opens at ${timeText(opens)}, in ${lengthText(wait)}: waiting for it`;
  process.stderr.write(`snowlease: ${what}. Until then, a program without a lease may have used this worker ID.\n`);
}

/** The error for a window that opens later than this start may wait. */
export function opensLater(workerId: number, opens: number, retryAfterMs: number, { sources }: Config): SnowleaseError {
  const flag = sources.claimTimeout?.text;
  const limit = flag === undefined ? "later than a start waits by default" : `later than ${flag} lets this start wait`;
  const advice = flag === undefined ? "wait longer with `--claim-timeout`" : `leave ${flag} out, or allow more`;
  const what = `The window of worker ${workerId} opens at ${timeText(opens)}, in ${lengthText(retryAfterMs)}`;
  return new SnowleaseError("WINDOW_NOT_OPEN", `${what}, ${limit}; ${advice}.`, { retryAfterMs });
}
