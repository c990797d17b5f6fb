import { type Clock, systemClock } from "../clock.ts";
import { configInvalid, shown } from "../id/errors.ts";
import { Layout } from "../id/layout.ts";
import type { LeaseView, UsageTracker, LeaseState, LeaseSnapshot } from "../lease/lease.ts";
import type { RollbackOptions } from "../generator/rollback.ts";
import type { GrantingStore } from "../rule/registry.ts";
import { Snowflake } from "../generator/snowflake.ts";
import type { Share } from "../generator/tick-allocator.ts";
import { SharedAllocator } from "./shared-allocator.ts";
import { BlockTicks } from "./block-ticks.ts";

/** What another thread needs to make IDs on this lease: pass it to `postMessage` or as `workerData`. */
export interface SharedLease {
  readonly namespace: string;
  /** Notation of the layout. */
  readonly layout: string;
  readonly buffer: SharedArrayBuffer;
  readonly rollback: RollbackOptions;
  /** Path of the registry, if it is a file on this machine. */
  readonly file?: string | undefined;
}

/** How often a waiting generator checks whether the lease has changed, ms. */
const lookInterval = 5;
/**
 * How often a generator checks that the lender's thread is there, ms, and after how many missed checks in a row the thread counts as gone.
 * It counts checks and not ms, because a stopped process has missed all the ms.
 */
const [watchInterval, mostMissed] = [1000, 20];

/** A lease that another thread holds, as a generator in this thread sees it: read from the allocator, into which the lender writes. */
export class JoinedLease implements LeaseView, Share {
  readonly namespace: string;
  readonly layout: Layout;
  readonly clock: Clock;
  readonly #allocator: SharedAllocator;
  readonly #participant: number;
  readonly #file: string | undefined;
  #store: GrantingStore | undefined;
  /** The claim whose store was replaced; the lender finds out, too. */
  #replacedGeneration = 0;
  #version = -1;
  #snapshot: LeaseSnapshot | undefined;
  #last: LeaseSnapshot | undefined;
  #usage: UsageTracker | undefined;
  #isOpen = true;
  readonly #closed = new AbortController();
  /** The lender's thread is gone: the present window is the last one. */
  #isLenderGone = false;

  constructor({ namespace, layout, buffer, file }: SharedLease, clock: Clock = systemClock) {
    this.namespace = namespace;
    this.layout = Layout.parse(layout);
    this.clock = clock;
    this.#file = file;
    this.#allocator = new SharedAllocator(this.layout, buffer);
    this.#participant = this.#allocator.join(clock.now());
    void this.#watch();
  }

  get state(): LeaseState {
    if (!this.#isOpen) return "closed";
    if (this.snapshot !== undefined) return "held";
    return this.#allocator.isOver || this.#isLenderGone ? "lost" : "switching";
  }

  get workerId(): number {
    return this.#seen?.workerId ?? 0;
  }

  get fence(): number {
    return this.#seen?.fence ?? 0;
  }

  get from(): number {
    return this.#seen?.from ?? 0;
  }

  get until(): number {
    return this.#seen?.until ?? 0;
  }

  /** Another thread renews the lease: when to check again. */
  get renewsIn(): number {
    return lookInterval;
  }

  get snapshot(): LeaseSnapshot | undefined {
    if (!this.#isOpen) return undefined;
    if (this.#version !== this.#allocator.version) {
      const { version, snapshot } = this.#allocator.read();
      this.#version = version;
      this.#snapshot = snapshot && { ...snapshot, shared: true };
      this.#last = this.#snapshot ?? this.#last;
      this.#store = this.#snapshot && this.#file !== undefined ? this.#allocator.storeAt(this.#file) : undefined;
    }
    if (this.#isLenderGone && this.clock.now() >= (this.#snapshot?.until ?? 0)) return undefined;
    return this.#snapshot?.generation === this.#replacedGeneration ? undefined : this.#snapshot;
  }

  attach(usage: UsageTracker): void {
    this.#usage = usage;
  }

  onChange(listener: () => void): () => void {
    // Compare with the version at the last look: the lender may have changed the lease since then.
    const version = this.#version;
    const timer = setInterval(() => {
      if (this.#allocator.version !== version) listener();
    }, lookInterval).unref();
    return () => clearInterval(timer);
  }

  noteRollback(behind: number, action: string): void {
    if ((action !== "switch" && action !== "stop") || this.snapshot === undefined) return;
    this.#allocator.report(this.snapshot.generation, this.clock.now() + behind);
  }

  look(): void {
    const { snapshot } = this;
    if (snapshot !== undefined && this.#store?.isReplaced === true) this.#replacedGeneration = snapshot.generation;
  }

  /** Leaves the lease to the other generators. */
  async close(): Promise<void> {
    if (!this.#isOpen) return;
    this.#usage?.seal();
    this.#isOpen = false;
    this.#closed.abort();
    this.#allocator.leave(this.#participant);
  }

  /** The ticks of a claim, as far as this generator may use them. */
  ticks(snapshot: LeaseSnapshot): BlockTicks {
    return new BlockTicks(this.#allocator, this.#participant, snapshot);
  }

  get #seen(): LeaseSnapshot | undefined {
    return this.snapshot ?? this.#last;
  }

  /** Detects that the lender's thread ended without `close()`, as a terminated thread does. A late thread counts again when it is back. */
  async #watch(): Promise<void> {
    for (let beats = -1, missed = 0; this.#isOpen && !this.#allocator.isOver;) {
      await this.clock.sleep(watchInterval, { signal: this.#closed.signal, keepAlive: false });
      missed = this.#allocator.beats === beats ? missed + 1 : 0;
      beats = this.#allocator.beats;
      this.#isLenderGone = missed >= mostMissed;
    }
  }
}

/**
 * Makes a generator in a worker thread, on the lease that another thread holds. `shared` comes from `share()` of that thread's generator.
 * Both generators make IDs of one worker ID at the same time, and never the same IDs. `close()` ends only this generator.
 *
 * Throws CONFIG_INVALID for any other value. `next()` throws LEASE_LOST when the lease was closed or lost for good.
 */
export function joinLease(
  shared: SharedLease,
  options: { readonly clock?: Clock | undefined } = {},
): Snowflake<JoinedLease> {
  if (!(shared?.buffer instanceof SharedArrayBuffer)) {
    throw configInvalid(
      `Expected what \`share()\` of a generator returned, got ${shown(shared)}; pass it to the thread as workerData or in a message.`,
    );
  }
  const lease = new JoinedLease(shared, options.clock);
  return new Snowflake(lease, { rollback: shared.rollback, share: lease });
}
