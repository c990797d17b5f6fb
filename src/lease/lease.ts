import { monotonic, type Clock } from "./clock.ts";
import { checkRenewal, claimWorkerId, type Claim, type LeaseHost, type LeaseOptions } from "./claim.ts";
import { asSnowleaseError, configInvalid, type SnowleaseError } from "../id/errors.ts";
import { Emitter, type LeaseEvents, type LeaseFacts } from "./events.ts";
import type { LeaseView, LeaseState, UsageTracker, LeaseSnapshot } from "./lease-view.ts";
import { askInTime } from "./late-request.ts";
import { lostError, setBackError } from "./lease-errors.ts";
import type { Layout } from "../id/layout.ts";
import { quarantineRetryIn } from "./quarantine-retry.ts";
import { renewalPause } from "./window-length.ts";
import type { BlocksRequest, ClaimKey, Grant, Usage } from "../rule/registry.ts";

export type { LeaseView, LeaseHost, LeaseOptions, LeaseState, UsageTracker, LeaseSnapshot };

/** Between two comparisons of the wall clock with the monotonic one, ms. */
const watchInterval = 1000;
/** Between two looks for a replaced store, for programs that make IDs elsewhere, ms. */
const lookInterval = 100;
/** A larger difference between the clocks' progress counts as a step, ms; a smaller one is the jitter of a busy machine. */
const stepTolerance = 250;
/** Pauses between tries to claim while the lease has none, ms. */
const [shortestPause, longestPause] = [50, 1000];

/**
 * Claims a worker ID, renews it and releases it.
 *
 * A lease is lost when another holder claims the worker ID after its window has passed; when an operator ends the claim; when a
 * program without a window takes the worker ID; or when the wall clock goes back too far. With `onLost: "switch"` it then claims
 * another worker ID. A lease whose window has passed and that no other holder claimed is *not* lost: a later renewal reopens it.
 */
export class Lease implements LeaseView {
  /** Claims a worker ID. Rejects with the registry's refusal, or `signal`'s reason. */
  static async claim(host: LeaseHost, options: LeaseOptions, signal?: AbortSignal): Promise<Lease> {
    return new Lease(host, options, await claimWorkerId(host, options, signal));
  }

  readonly #host: LeaseHost;
  readonly #options: LeaseOptions;
  readonly #events = new Emitter<LeaseEvents>();
  readonly #lostForGood = new AbortController();
  /** Ends the sleeps of #keep. */
  readonly #stop = new AbortController();
  #state: LeaseState = "held";
  #snapshot: LeaseSnapshot;
  #token: string;
  #tracker: UsageTracker | undefined;
  #renewal: Promise<boolean> | undefined;
  #end: Promise<void> | undefined;
  readonly #changeListeners = new Set<() => void>();
  /** The release of one worker ID and the claim of the next, while under way. */
  #switching: Promise<void> | undefined;
  /** It waits for a clock that was set back too far. */
  #isEnding = false;
  /** On the monotonic clock, ms. */
  #renewAt: number;
  #acquired: LeaseEvents["acquired"];

  private constructor(host: LeaseHost, options: LeaseOptions, claim: Claim) {
    this.#host = host;
    this.#options = options;
    this.#snapshot = snapshotOf(claim.grant, 1, claim.since);
    this.#token = claim.token;
    this.#renewAt = claim.asked + this.#renewAfter(claim.since);
    this.#acquired = this.#acquiredBy(claim.grant);
    void this.#keep();
  }

  get state(): LeaseState {
    return this.#state;
  }

  get namespace(): string {
    return this.#options.namespace;
  }

  get layout(): Layout {
    return this.#options.layout;
  }

  get workerId(): number {
    return this.#snapshot.workerId;
  }

  /** The fence of this claim: the registry raises it with each claim of the worker ID. */
  get fence(): number {
    return this.#snapshot.fence;
  }

  get from(): number {
    return this.#snapshot.from;
  }

  get until(): number {
    return this.#snapshot.until;
  }

  get snapshot(): LeaseSnapshot | undefined {
    return this.#state === "held" ? this.#snapshot : undefined;
  }

  get renewsIn(): number {
    return Math.max(1, Math.ceil(this.#renewAt - monotonic(this.#host.clock)));
  }

  /** Aborts with a LEASE_LOST when the lease is lost for good. `close` does not abort it. */
  get signal(): AbortSignal {
    return this.#lostForGood.signal;
  }

  /** The source of time, also for generators on this lease. */
  get clock(): Clock {
    return this.#host.clock;
  }

  /** Adds a listener for an event; returns the function that removes it. A listener for `acquired` is also called at once. */
  on<Name extends keyof LeaseEvents>(name: Name, listener: (event: LeaseEvents[Name]) => void): () => void {
    if (name === "acquired") (listener as (event: LeaseEvents["acquired"]) => void)(this.#acquired);
    return this.#events.on(name, listener);
  }

  onChange(listener: () => void): () => void {
    this.#changeListeners.add(listener);
    return () => this.#changeListeners.delete(listener);
  }

  /** Sets the lease's usage tracker. @throws SnowleaseError CONFIG_INVALID for a second one: two generators would make the same IDs. */
  attach(tracker: UsageTracker): void {
    if (this.#tracker !== undefined && this.#tracker !== tracker) {
      throw configInvalid(
        `The lease of worker ${this.workerId} already has a generator: two on one lease would make the same IDs; use the first one.`,
      );
    }
    this.#tracker = tracker;
  }

  noteRollback(behind: number, action: LeaseEvents["clock.rollback"]["action"]): void {
    const switches = this.#options.onLost === "switch";
    const isTooFar = action === "switch" || action === "stop";
    if (isTooFar && this.#isEnding) return;
    const taken = isTooFar && !switches ? "stop" : action === "stop" ? "tell" : action;
    this.#events.emit("clock.rollback", { behind, action: taken });
    if (this.#state !== "held") return;
    if (taken === "stop") void this.#endIfStill(behind);
    if (taken === "switch") this.#switch(true);
  }

  /** Ends the lease unless the clock is set right soon: one wrong reading must not cost a worker ID that has no replacement. */
  async #endIfStill(behind: number): Promise<void> {
    const { clock } = this.#host;
    const snapshot = this.#snapshot;
    const seen = clock.now() + behind;
    this.#isEnding = true;
    await clock.sleep(this.#options.maxWait, { signal: this.#stop.signal, keepAlive: false });
    this.#isEnding = false;
    if (this.#state !== "held" || seen - clock.now() < behind / 2) return;
    const used = this.#tracker?.seal();
    const error = setBackError(snapshot, this.#options.namespace, behind);
    this.#events.emit("lost", { ...this.#facts(snapshot), error });
    this.#loseForGood(error);
    // If this fails, the worker ID rests for a window.
    this.#switching = this.#giveBack(snapshot, this.#token, used).catch(() => undefined);
  }

  look(): void {
    if (this.#state !== "held" || this.#snapshot.store?.isReplaced !== true) return;
    this.#lose(lostError(this.#snapshot, this.#options.namespace, "replaced"));
  }

  /** Renews now. False where the renewal failed, was refused for now, or the lease is lost. Concurrent calls share one renewal. */
  renew(): Promise<boolean> {
    this.#renewal ??= this.#renewOnce().finally(() => (this.#renewal = undefined));
    return this.#renewal;
  }

  /** Takes blocks of a shared window; undefined where this claim is over. */
  async takeBlocks(asked: Omit<BlocksRequest, keyof ClaimKey>): Promise<readonly number[] | undefined> {
    const { namespace, workerId, fence } = this;
    const answer = await this.#host.registry.takeBlocks?.({ namespace, workerId, fence, token: this.#token, ...asked });
    // The lease server has another worker ID now, or none: a renewal finds out.
    if (answer?.outcome === "lost") void this.renew();
    return answer?.outcome === "taken" && fence === this.fence ? answer.blocks : undefined;
  }

  /**
   * Stops the generator for good, then releases the worker ID with its usage. Rejects where the registry does not answer: the worker
   * ID then rests until its window has passed.
   */
  close(): Promise<void> {
    this.#end ??= this.#endAs("closed");
    return this.#end;
  }

  /** Stops without a release, like a crash: the worker ID rests until its window has passed. */
  orphan(): Promise<void> {
    this.#end ??= this.#endAs("orphaned");
    return this.#end;
  }

  async #endAs(state: "closed" | "orphaned"): Promise<void> {
    const held = this.#state === "held";
    const used = this.#tracker?.seal();
    if (this.#state !== "lost") this.#state = state;
    this.#stop.abort();
    this.#notify();
    try {
      if (held && state === "closed") await this.#giveBack(this.#snapshot, this.#token, used);
      // A claim under way may still be granted; it is then released.
      await this.#switching;
    } finally {
      await this.#host.onEnd?.();
    }
  }

  async #giveBack(snapshot: LeaseSnapshot, token: string, used: Usage | undefined): Promise<void> {
    const { clock, registry } = this.#host;
    const { workerId, fence } = snapshot;
    const { namespace } = this.#options;
    const { outcome } = await registry.release({ namespace, workerId, fence, token, clock: clock.now(), used });
    if (outcome === "released") this.#events.emit("released", { ...this.#facts(snapshot), clean: used !== undefined });
  }

  /** Renews when due and watches the wall clock, until the lease ends. */
  async #keep(): Promise<void> {
    const { clock } = this.#host;
    const { signal } = this.#stop;
    let wall = clock.now();
    let mono = monotonic(clock);
    while (!signal.aborted) {
      // During a switch there is nothing to renew.
      const due = this.#state === "held" ? this.#renewAt - monotonic(clock) : watchInterval;
      const longest = this.#snapshot.store === undefined ? watchInterval : lookInterval;
      await clock.sleep(Math.max(0, Math.min(due, longest)), { signal, keepAlive: false });
      if (signal.aborted) return;
      this.look();
      const [nextWall, nextMono] = [clock.now(), monotonic(clock)];
      const by = Math.round(nextWall - wall - (nextMono - mono));
      if (Math.abs(by) >= stepTolerance) {
        this.#events.emit("clock.jump", { by });
        // After a step ahead (the machine slept) the window may pass before a renewal is due.
        this.#renewAt = nextMono;
      }
      [wall, mono] = [nextWall, nextMono];
      if (this.#state === "held" && monotonic(clock) >= this.#renewAt) await this.renew();
    }
  }

  async #renewOnce(): Promise<boolean> {
    if (this.#state !== "held") return false;
    const { clock, registry } = this.#host;
    const { namespace, window } = this.#options;
    const asked = this.#snapshot;
    const { workerId, fence } = asked;
    const token = this.#token;
    // Counted from before the request: the registry's window may begin then.
    const sent = monotonic(clock);
    try {
      const asking = clock.now();
      const checkpoint = this.#tracker?.checkpoint();
      const renewal = { namespace, workerId, fence, token, window, clock: asking, checkpoint };
      const answer = await askInTime(clock, renewal, (request) => registry.renew(request));
      // Closed or switched meanwhile: the answer is about an earlier claim.
      if (this.#state !== "held" || this.#token !== token) return false;
      if (answer.outcome === "lost") {
        this.#lose(lostError(asked, namespace, "taken"));
        return false;
      }
      const renewed = checkRenewal(answer);
      const from = Math.max(asked.from, renewed.from);
      this.#snapshot = {
        ...this.#snapshot,
        from,
        until: Math.max(this.#snapshot.until, renewed.until),
        knownFrom: from > asked.from ? from : asked.knownFrom,
      };
      this.#renewAt = sent + this.#renewAfter(asking);
      this.#events.emit("renewed", this.#facts(this.#snapshot));
      this.#notify();
      return true;
    } catch (cause) {
      if (this.#state !== "held" || this.#token !== token) return false;
      const error = asSnowleaseError(cause);
      const pause = Math.min(longestPause, Math.max(shortestPause, window / 10));
      this.#renewAt = monotonic(clock) + (quarantineRetryIn(error, window, token) ?? pause);
      this.#events.emit("renew-failed", { ...this.#facts(asked), error });
      if (error.code === "QUARANTINE") this.#events.emit("quarantine", { error });
      return false;
    }
  }

  #lose(error: SnowleaseError): void {
    this.#events.emit("lost", { ...this.#facts(this.#snapshot), error });
    if (this.#options.onLost === "switch") this.#switch(false);
    else this.#loseForGood(error);
  }

  #loseForGood(error: SnowleaseError): void {
    this.#tracker?.seal();
    this.#state = "lost";
    this.#stop.abort();
    this.#lostForGood.abort(error);
    this.#notify();
  }

  /** Claims another worker ID, for as long as it takes. */
  #switch(giveBack: boolean): void {
    const used = this.#tracker?.seal();
    this.#state = "switching";
    this.#notify();
    this.#switching = this.#claimAnother(giveBack, used).finally(() => (this.#switching = undefined));
  }

  async #claimAnother(giveBack: boolean, used: Usage | undefined): Promise<void> {
    const old = this.#snapshot;
    // If this fails, the old worker ID only rests for a window.
    if (giveBack) await this.#giveBack(old, this.#token, used).catch(() => undefined);
    for (let pause = shortestPause; !this.#stop.signal.aborted; pause = Math.min(longestPause, pause * 2)) {
      try {
        const claim = await claimWorkerId(this.#host, this.#options, this.#stop.signal);
        this.#snapshot = snapshotOf(claim.grant, old.generation + 1, claim.since);
        this.#token = claim.token;
        this.#renewAt = claim.asked + this.#renewAfter(claim.since);
        this.#acquired = this.#acquiredBy(claim.grant);
        this.#state = "held";
        this.#events.emit("switched", { ...this.#facts(this.#snapshot), previousWorkerId: old.workerId });
        this.#notify();
        return;
      } catch (cause) {
        if (this.#stop.signal.aborted) return;
        const error = asSnowleaseError(cause);
        if (!error.retryable) return this.#loseForGood(error);
        const wait = quarantineRetryIn(error, this.#options.window, this.#token) ?? pause;
        await this.#host.clock.sleep(wait, { signal: this.#stop.signal, keepAlive: false });
      }
    }
  }

  #notify(): void {
    for (const listener of this.#changeListeners) listener();
  }

  /** How long after `wall` a renewal is due, ms. A registry may grant less than the request, and the grant counts. */
  #renewAfter(wall: number): number {
    return Math.max(shortestPause, renewalPause(Math.min(this.#options.window, this.#snapshot.until - wall)));
  }

  #facts({ workerId, fence, from, until }: LeaseSnapshot): LeaseFacts {
    return { namespace: this.#options.namespace, workerId, fence, from, until };
  }

  #acquiredBy(grant: Grant): LeaseEvents["acquired"] {
    return { ...this.#facts(this.#snapshot), rollback: grant.rollback, continued: grant.recents !== undefined };
  }
}

function snapshotOf(grant: Grant, generation: number, since: number): LeaseSnapshot {
  const { workerId, fence, from, until, recents, shared = false, store } = grant;
  return { generation, workerId, fence, from, until, knownFrom: recents?.from ?? from, recents, since, shared, store };
}
