import { bothClocks, type BothClocks, type Clock, jumpBetween, monotonic, stepTolerance } from "../clock.ts";
import { checkRenewal, claimWorkerId, type Claim, giveBackUnused, type LeaseHost, type LeaseOptions } from "./claim.ts";
import { asSnowleaseError, configInvalid, type SnowleaseError, timeText } from "../id/errors.ts";
import { Emitter, type LeaseEvents, type LeaseFacts } from "./events.ts";
import type { LeaseView, LeaseState, UsageTracker, LeaseSnapshot } from "./lease-view.ts";
import { askInTime } from "./late-request.ts";
import { lostError, setBackError } from "./lease-errors.ts";
import type { Layout } from "../id/layout.ts";
import { quarantineRetryIn } from "./quarantine-retry.ts";
import { freshToken, HolderTurns } from "./turns.ts";
import { renewalPause } from "./window-length.ts";
import { scopeText } from "../rule/scope.ts";
import type { BlocksRequest, ClaimKey, Grant, LossReason, Lost, Usage } from "../rule/registry.ts";

export type { LeaseView, LeaseHost, LeaseOptions, LeaseState, UsageTracker, LeaseSnapshot };

/** Node's `inspect`, which each call passes. */
type Inspect = (value: object, options: object) => string;

/** The time between two comparisons of the wall clock with the monotonic one, ms. */
const watchInterval = 1000;
/** The time between two checks for a replaced store, for programs that make IDs elsewhere, ms. */
const lookInterval = 100;
/** Pauses between tries to claim while the lease has none, ms. */
const [shortestPause, longestPause] = [50, 1000];

/** What only the holder of a claim knows of it. */
interface ClaimSecrets {
  readonly token: string;
  readonly turns: HolderTurns;
  /** The receipt of the registry's last answer. */
  receipt: string | undefined;
  /** The wall clock when the last two answered requests were sent. */
  heard: readonly [before: number, last: number];
  /**
   * The wall clock has jumped ahead: this process may be a copy that was resumed later, and may not know what the other copy used before.
   */
  hasJumped: boolean;
}

/**
 * Claims a worker ID, renews it and releases it.
 *
 * A lease is lost when another holder claims the worker ID after its window has passed; when an operator ends the claim; when a
 * program without a window takes the worker ID; when the registry goes back in time; when a copy of this process renews it; or when the
 * wall clock goes back too far. With `onLost: "switch"` it then claims another worker ID. A lease whose window has passed and that no other
 * holder claimed is *not* lost: a later renewal reopens it.
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
  #secrets: ClaimSecrets;
  #tracker: UsageTracker | undefined;
  #renewal: Promise<boolean> | undefined;
  #end: Promise<void> | undefined;
  #hasEnded = false;
  readonly #changeListeners = new Set<() => void>();
  /** Ends the switch that is under way. */
  #switchEnd = new AbortController();
  /** The give-back of `suspend`, while under way. */
  #suspending: Promise<void> | undefined;
  /** The release of one worker ID and the claim of the next, while under way. */
  #switching: Promise<void> | undefined;
  #failure: SnowleaseError | undefined;
  #blocksFailure: SnowleaseError | undefined;
  /** Whether the lease waits for a clock that was set back too far. */
  #isEnding = false;
  /** What both clocks showed at the last comparison. */
  #seen: BothClocks;
  /** On the monotonic clock, ms. */
  #renewAt: number;
  #acquired: LeaseEvents["acquired"];

  private constructor(host: LeaseHost, options: LeaseOptions, claim: Claim) {
    this.#host = host;
    this.#options = options;
    this.#snapshot = snapshotOf(claim.grant, 1, claim.since);
    this.#secrets = this.#secretsOf(claim);
    // After a wait, a renewal reports at once to the registry that the open window is in use.
    this.#renewAt = claim.hasWaited ? claim.asked : claim.asked + this.#renewAfter(claim.since);
    this.#acquired = this.#acquiredBy(claim.grant);
    this.#seen = bothClocks(host.clock);
    // What `console.log` shows. A method of such a name has no type that a declaration can name.
    const value = (_: number, options: object, inspect: Inspect): string => this.#shown(options, inspect);
    Object.defineProperty(this, Symbol.for("nodejs.util.inspect.custom"), { value });
    void this.#keep();
  }

  /** For people: no token. */
  #shown(options: object, inspect: Inspect): string {
    const { state, namespace, workerId, fence } = this;
    const [from, until] = [timeText(this.from), timeText(this.until)];
    return `Lease ${inspect({ state, namespace, workerId, fence, from, until }, options)}`;
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

  /** Whether `close()` has ended, and with it everything that was under way. It may have failed. */
  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  get renewsIn(): number {
    return Math.max(1, Math.ceil(this.#renewAt - monotonic(this.#host.clock)));
  }

  get failure(): SnowleaseError | undefined {
    return this.#failure;
  }

  get blocksFailure(): SnowleaseError | undefined {
    return this.#blocksFailure;
  }

  /** Aborts with a LEASE_LOST when the lease is lost for good. `close` does not abort it. */
  get signal(): AbortSignal {
    return this.#lostForGood.signal;
  }

  /** The source of time, also for generators on this lease. */
  get clock(): Clock {
    return this.#host.clock;
  }

  /**
   * Adds a listener for an event; returns the function that removes it. A listener for `acquired` is also called at once. A listener for
   * `scope` is called once, after the registry's answer.
   */
  on<Name extends keyof LeaseEvents>(name: Name, listener: (event: LeaseEvents[Name]) => void): () => void {
    if (name === "acquired") (listener as (event: LeaseEvents["acquired"]) => void)(this.#acquired);
    if (name === "scope") return this.#onScope(listener as (event: LeaseEvents["scope"]) => void);
    return this.#events.on(name, listener);
  }

  /** Asks the registry only if a listener wants to know. Programs do not need the scope, so errors are not reported. */
  #onScope(listener: (event: LeaseEvents["scope"]) => void): () => void {
    let isRemoved = false;
    const asked = this.#host.registry.scope?.(this.#options.namespace).catch(() => undefined);
    void asked?.then((scope) => {
      if (scope !== undefined && !isRemoved) listener({ text: scopeText(scope) });
    });
    return () => (isRemoved = true);
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
    this.#events.emit("lost", { ...this.#facts(snapshot), error, reason: "released" });
    this.#loseForGood(error);
    // If this fails, the worker ID rests for a window.
    this.#switching = this.#giveBack(snapshot, used).catch(() => undefined);
  }

  look(): void {
    if (this.#state !== "held" || this.#snapshot.store?.isReplaced !== true) return;
    this.#lose("replaced");
  }

  /** Renews now. False if the renewal failed or was refused for now, or if the lease is lost. Concurrent calls share one renewal. */
  renew(): Promise<boolean> {
    this.#renewal ??= this.#renewOnce().finally(() => (this.#renewal = undefined));
    return this.#renewal;
  }

  /** Takes blocks of a shared window; undefined if this claim is over. */
  async takeBlocks(asked: Omit<BlocksRequest, keyof ClaimKey>): Promise<readonly number[] | undefined> {
    const { namespace, workerId, fence } = this;
    const secrets = this.#secrets;
    const { token, turns } = secrets;
    const note = (failure: SnowleaseError | undefined): void => {
      if (this.#secrets === secrets) this.#blocksFailure = failure;
    };
    const ask = async () => {
      const key = { namespace, workerId, fence, token, ...turns.present };
      try {
        const answer = await this.#host.registry.takeBlocks?.({ ...key, ...asked });
        note(undefined);
        return answer;
      } catch (cause) {
        const error = asSnowleaseError(cause);
        note(error);
        throw error;
      }
    };
    const { turn } = turns.present;
    let answer = await ask();
    // A renewal overtook the request.
    if (answer?.outcome === "lost" && turn !== turns.present.turn) answer = await ask();
    // The lease server has another worker ID now, or none: a renewal finds out.
    if (answer?.outcome === "lost") void this.renew();
    return answer?.outcome === "taken" && fence === this.fence ? answer.blocks : undefined;
  }

  /**
   * Stops the generator for good, then releases the worker ID with its usage. Rejects if the registry does not answer: the worker ID then
   * rests until its window has passed.
   */
  close(): Promise<void> {
    this.#end ??= this.#endAs("closed");
    return this.#end;
  }

  /**
   * For a program before a snapshot of the process or its machine: stops the generator and gives the worker ID back. No ID is made until
   * `resume`. Does nothing if no worker ID is held. Rejects if the registry does not answer: the worker ID then rests until its window has
   * passed, and the lease is suspended nevertheless.
   */
  async suspend(): Promise<void> {
    if (this.#state === "switching") {
      this.#state = "suspended";
      this.#failure = undefined;
      this.#switchEnd.abort();
      this.#notify();
      await this.#switching;
    }
    if (this.#state === "held") {
      const used = this.#tracker?.seal();
      this.#state = "suspended";
      this.#failure = undefined;
      this.#notify();
      this.#suspending = this.#giveBack(this.#snapshot, used).finally(() => (this.#suspending = undefined));
    }
    await this.#suspending;
  }

  /** After `suspend`: claims a worker ID for the same generator. Resolves when the worker ID is held, or the lease is lost or closed. */
  async resume(): Promise<void> {
    await this.#suspending?.catch(() => undefined);
    if (this.#state === "suspended") this.#switch(false);
    await this.#switching;
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
      if (held && state === "closed") await this.#giveBack(this.#snapshot, used);
      await this.#suspending?.catch(() => undefined);
      // A claim under way may still be granted; it is then released.
      await this.#switching;
    } finally {
      try {
        await this.#host.onEnd?.();
      } finally {
        this.#hasEnded = true;
        this.#notify();
      }
    }
  }

  async #giveBack(snapshot: LeaseSnapshot, used: Usage | undefined): Promise<void> {
    const { clock, registry } = this.#host;
    const { workerId, fence } = snapshot;
    const { namespace } = this.#options;
    const secrets = this.#secrets;
    const { token, turns, receipt, hasJumped } = secrets;
    const isKnown = !hasJumped && jumpBetween(this.#seen, bothClocks(clock)) < stepTolerance;
    const claim = { namespace, workerId, fence, token, ...turns.present, receipt };
    const usage = isKnown ? used : undefined;
    const answer = await registry.release({ ...claim, clock: clock.now(), used: usage });
    if (answer.outcome === "lost") {
      this.#noteDoubt(answer, snapshot, secrets);
      return;
    }
    // Nothing is left to recall.
    secrets.receipt = undefined;
    this.#events.emit("released", { ...this.#facts(snapshot), clean: usage !== undefined });
  }

  /** Reports IDs that may exist twice when the lease ends: no other process knows of them. */
  #noteDoubt(answer: Lost, snapshot: LeaseSnapshot, secrets: ClaimSecrets): void {
    const doubt = doubtOf(answer, secrets, snapshot);
    const { reason = "taken" } = answer;
    if (doubt === undefined) return;
    const error = lostError(snapshot, this.#options.namespace, reason, doubt);
    this.#events.emit("lost", { ...this.#facts(snapshot), error, reason, doubt });
  }

  /** Renews when due and watches the wall clock, until the lease ends. */
  async #keep(): Promise<void> {
    const { clock } = this.#host;
    const { signal } = this.#stop;
    while (!signal.aborted) {
      // During a switch there is nothing to renew.
      const due = this.#state === "held" ? this.#renewAt - monotonic(clock) : watchInterval;
      const longest = this.#snapshot.store === undefined ? watchInterval : lookInterval;
      await clock.sleep(Math.max(0, Math.min(due, longest)), { signal, keepAlive: false });
      if (signal.aborted) return;
      this.look();
      // One reading ends this span and begins the next: a jump between two readings would be in neither span.
      const seen = bothClocks(clock);
      const by = jumpBetween(this.#seen, seen);
      this.#seen = seen;
      if (Math.abs(by) >= stepTolerance) {
        this.#events.emit("clock.jump", { by });
        if (by > 0) this.#secrets.hasJumped = true;
        this.#secrets.turns.noteJump();
        // After a step ahead (the machine slept) the window may pass before a renewal is due.
        this.#renewAt = monotonic(clock);
      }
      if (this.#state === "held" && monotonic(clock) >= this.#renewAt) await this.renew();
    }
  }

  async #renewOnce(): Promise<boolean> {
    if (this.#state !== "held") return false;
    const { clock, registry } = this.#host;
    const { namespace, window } = this.#options;
    const asked = this.#snapshot;
    const { workerId, fence } = asked;
    const secrets = this.#secrets;
    const { token, turns, receipt } = secrets;
    // Counted from before the request: the registry's window may begin then.
    const sent = monotonic(clock);
    const asking = clock.now();
    try {
      const checkpoint = this.#tracker?.checkpoint();
      const claim = { namespace, workerId, fence, token, ...turns.forRenewal(asking, asked.until), receipt };
      const renewal = { ...claim, window, clock: asking, checkpoint };
      const answer = await askInTime(clock, renewal, (request) => registry.renew(request));
      // Closed or switched meanwhile: the answer is about an earlier claim.
      if (this.#state !== "held" || this.#secrets !== secrets) return false;
      if (answer.outcome === "lost") {
        this.#lose(answer.reason ?? "taken", doubtOf(answer, secrets, asked));
        return false;
      }
      const renewed = checkRenewal(answer);
      turns.acknowledge(answer.turn);
      secrets.receipt = answer.receipt ?? receipt;
      secrets.heard = [secrets.heard[1], asking];
      const from = Math.max(asked.from, renewed.from);
      this.#snapshot = {
        ...this.#snapshot,
        from,
        until: Math.max(this.#snapshot.until, renewed.until),
        knownFrom: from > asked.from ? from : asked.knownFrom,
      };
      this.#renewAt = sent + this.#renewAfter(asking);
      this.#failure = undefined;
      this.#events.emit("renewed", this.#facts(this.#snapshot));
      this.#notify();
      return true;
    } catch (cause) {
      if (this.#state !== "held" || this.#secrets !== secrets) return false;
      const error = asSnowleaseError(cause);
      this.#failure = error;
      const pause = Math.min(longestPause, Math.max(shortestPause, window / 10));
      this.#renewAt = monotonic(clock) + (quarantineRetryIn(error, window, token) ?? pause);
      this.#events.emit("renew-failed", { ...this.#facts(asked), error });
      if (error.code === "QUARANTINE") {
        this.#closeBefore(asking);
        this.#events.emit("quarantine", { error });
        this.#notify();
      }
      return false;
    }
  }

  /**
   * Gives up the times before `asking`. A registry in quarantine compared the request's clock with the windows of other claims that it had
   * granted meanwhile. Those windows ended before that clock, whatever the clock shows later.
   */
  #closeBefore(asking: number): void {
    const { from, until, knownFrom } = this.#snapshot;
    const floor = Math.min(asking, until);
    this.#snapshot = { ...this.#snapshot, from: Math.max(from, floor), knownFrom: Math.max(knownFrom, floor) };
  }

  #lose(loss: LossReason | "replaced", doubt?: Lost["doubt"]): void {
    const error = lostError(this.#snapshot, this.#options.namespace, loss, doubt);
    const reason = loss === "replaced" ? "forgotten" : loss;
    this.#events.emit("lost", { ...this.#facts(this.#snapshot), error, reason, doubt });
    // A store that replaced the old one learns from the give-back that there were windows that it does not know.
    const givesBack = loss === "replaced";
    if (this.#options.onLost === "switch") return this.#switch(givesBack);
    const [snapshot, used] = [this.#snapshot, this.#tracker?.seal()];
    this.#loseForGood(error);
    if (givesBack) this.#switching = this.#giveBack(snapshot, used).catch(() => undefined);
  }

  #loseForGood(error: SnowleaseError): void {
    this.#tracker?.seal();
    this.#state = "lost";
    this.#stop.abort();
    this.#lostForGood.abort(error);
    this.#notify();
  }

  /** Claims another worker ID, however long it takes. */
  #switch(giveBack: boolean): void {
    const used = this.#tracker?.seal();
    this.#state = "switching";
    this.#failure = undefined;
    this.#notify();
    this.#switchEnd = new AbortController();
    const signal = AbortSignal.any([this.#stop.signal, this.#switchEnd.signal]);
    this.#switching = this.#claimAnother(giveBack, used, signal).finally(() => (this.#switching = undefined));
  }

  async #claimAnother(giveBack: boolean, used: Usage | undefined, signal: AbortSignal): Promise<void> {
    const old = this.#snapshot;
    // If this fails, the old worker ID only rests for a window.
    if (giveBack) await this.#giveBack(old, used).catch(() => undefined);
    for (let pause = shortestPause; !signal.aborted; pause = Math.min(longestPause, pause * 2)) {
      try {
        const recall = old.until <= this.#host.clock.now() ? undefined : this.#secrets.receipt;
        // Wait at most `claimTimeout` for the window to open: generators can wait for it, or report when it opens.
        const options = { ...this.#options, openTimeout: undefined };
        const claim = await claimWorkerId(this.#host, options, signal, recall);
        if (signal.aborted) return await giveBackUnused(this.#host, this.#options, claim);
        this.#snapshot = snapshotOf(claim.grant, old.generation + 1, claim.since);
        this.#secrets = this.#secretsOf(claim);
        this.#blocksFailure = undefined;
        this.#renewAt = claim.asked + this.#renewAfter(claim.since);
        this.#failure = undefined;
        this.#acquired = this.#acquiredBy(claim.grant);
        this.#state = "held";
        this.#events.emit("switched", { ...this.#facts(this.#snapshot), previousWorkerId: old.workerId });
        this.#notify();
        return;
      } catch (cause) {
        if (signal.aborted) return;
        const error = asSnowleaseError(cause);
        this.#failure = error;
        // A program error may come from a driver, and pass. A daemon that lends nothing may for a time have replaced one that lends.
        const mayPass = error.code === "DEFECT" || error.details["lends"] === false;
        if (!error.retryable && !mayPass) return this.#loseForGood(error);
        const wait = quarantineRetryIn(error, this.#options.window, this.#secrets.token) ?? pause;
        await this.#host.clock.sleep(wait, { signal, keepAlive: false });
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

  #secretsOf({ grant, token, since, hasJumped }: Claim): ClaimSecrets {
    const { clock, makeToken } = this.#host;
    const turns = new HolderTurns(() => freshToken(clock, makeToken()));
    return { token, turns, receipt: grant.receipt, heard: [since, since], hasJumped };
  }

  #acquiredBy(grant: Grant): LeaseEvents["acquired"] {
    return { ...this.#facts(this.#snapshot), rollback: grant.rollback, continued: grant.recents !== undefined };
  }
}

/** The times that another holder may have used, too, as far as registry and holder know. */
function doubtOf({ reason, doubt }: Lost, { heard }: ClaimSecrets, { until }: LeaseSnapshot): Lost["doubt"] {
  const [before, last] = heard;
  // If a copy was made while an answer was on its way, both copies may have received it.
  if (reason === "cloned") return { from: Math.min(before, until), until };
  // Another claim of the same times came after the last request that the registry answered. If these times end before that request, another
  // clock is behind, or a copy of this process was at work: then nothing more is known.
  return doubt && doubt.until > last ? { ...doubt, from: Math.max(doubt.from, last) } : doubt;
}

function snapshotOf(grant: Grant, generation: number, since: number): LeaseSnapshot {
  const { workerId, fence, from, until, recents, shared = false, store } = grant;
  return { generation, workerId, fence, from, until, knownFrom: recents?.from ?? from, recents, since, shared, store };
}
