import { type Clock, systemClock } from "../lease/clock.ts";
import { shown, SnowleaseError } from "../id/errors.ts";
import { Layout } from "../id/layout.ts";
import type { Holding, Ledger, LeaseState, Tenure } from "../lease/lease.ts";
import type { RollbackOptions } from "../generator/rollback.ts";
import type { Store } from "../rule/registry.ts";
import { Snowflake } from "../generator/snowflake.ts";
import type { Share } from "../generator/tick-allocator.ts";
import { Grid } from "./shared-allocator.ts";
import { type LaneTicks, laneTicks } from "./blocks.ts";

/** What another thread needs to make IDs on a lease of this one: `postMessage` and `workerData` take it. */
export interface SharedLease {
  readonly namespace: string;
  /** Notation of the layout. */
  readonly layout: string;
  readonly buffer: SharedArrayBuffer;
  readonly rollback: RollbackOptions;
  /** Where the registry is a file on this machine: its path. */
  readonly file?: string | undefined;
}

/** How often a generator that waits looks whether the lease has changed, ms. */
const lookInterval = 5;
/**
 * How often a generator looks whether the lender's thread is there, ms, and at how many looks in a row it has to be away to count as gone.
 * Looks are counted, not ms: a process that was stopped has missed all of them.
 */
const [watchInterval, mostMissed] = [1000, 20];

/** A lease that another thread keeps, as a generator in this one sees it: read from the grid, where the lender writes it. */
export class JoinedLease implements Holding, Share {
  readonly namespace: string;
  readonly layout: Layout;
  readonly clock: Clock;
  readonly #grid: Grid;
  readonly #seat: number;
  readonly #file: string | undefined;
  #store: Store | undefined;
  /** The tenure whose store was found replaced; its lender will hear of it, too. */
  #lost = 0;
  #version = -1;
  #tenure: Tenure | undefined;
  #last: Tenure | undefined;
  #ledger: Ledger | undefined;
  #isOpen = true;
  /** Ends the sleeps. */
  readonly #closed = new AbortController();
  /** Nobody renews any more: what the lender's thread has left is all that there is. */
  #isLeft = false;

  constructor({ namespace, layout, buffer, file }: SharedLease, clock: Clock = systemClock) {
    this.namespace = namespace;
    this.layout = Layout.parse(layout);
    this.clock = clock;
    this.#file = file;
    this.#grid = new Grid(this.layout, buffer);
    this.#seat = this.#grid.join(this.#grid.cut.spanOf(this.layout.tickOf(clock.now())));
    void this.#watch();
  }

  get state(): LeaseState {
    if (!this.#isOpen) return "closed";
    if (this.tenure !== undefined) return "held";
    return this.#grid.isOver || this.#isLeft ? "lost" : "switching";
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

  /** It is renewed elsewhere: when to look again. */
  get renewsIn(): number {
    return lookInterval;
  }

  get tenure(): Tenure | undefined {
    if (!this.#isOpen) return undefined;
    if (this.#version !== this.#grid.version) {
      const { version, tenure } = this.#grid.read();
      this.#version = version;
      this.#tenure = tenure && { ...tenure, shared: true };
      this.#last = this.#tenure ?? this.#last;
      this.#store = this.#tenure && this.#file !== undefined ? this.#grid.storeAt(this.#file) : undefined;
    }
    if (this.#isLeft && this.clock.now() >= (this.#tenure?.until ?? 0)) return undefined;
    return this.#tenure?.generation === this.#lost ? undefined : this.#tenure;
  }

  attach(ledger: Ledger): void {
    this.#ledger = ledger;
  }

  onChange(listener: () => void): () => void {
    // As of the last look: the lender may have changed the lease since.
    const version = this.#version;
    const timer = setInterval(() => {
      if (this.#grid.version !== version) listener();
    }, lookInterval).unref();
    return () => clearInterval(timer);
  }

  noteRollback(behind: number, action: string): void {
    if ((action !== "switch" && action !== "stop") || this.tenure === undefined) return;
    this.#grid.report(this.tenure.generation, this.clock.now() + behind);
  }

  look(): void {
    const { tenure } = this;
    if (tenure !== undefined && this.#store?.isReplaced === true) this.#lost = tenure.generation;
  }

  /** Leaves the lease to the others. */
  async close(): Promise<void> {
    if (!this.#isOpen) return;
    this.#ledger?.seal();
    this.#isOpen = false;
    this.#closed.abort();
    this.#grid.leave(this.#seat);
  }

  /** What this generator has of the ticks of a tenure. */
  ticks(tenure: Tenure): LaneTicks {
    return laneTicks(this.layout, this.#grid, this.#seat, tenure);
  }

  get #seen(): Tenure | undefined {
    return this.tenure ?? this.#last;
  }

  /** Finds out that the lender's thread has ended without a word, as one that is terminated does. It may be late, too: then it is back. */
  async #watch(): Promise<void> {
    for (let beats = -1, missed = 0; this.#isOpen && !this.#grid.isOver;) {
      await this.clock.sleep(watchInterval, { signal: this.#closed.signal, keepAlive: false });
      missed = this.#grid.beats === beats ? missed + 1 : 0;
      beats = this.#grid.beats;
      this.#isLeft = missed >= mostMissed;
    }
  }
}

/**
 * A generator in a worker thread, on the lease that another thread holds: `shared` is what its generator's `share()` returned. Both
 * make IDs of one worker ID at the same time, and never the same. `close()` ends this generator only.
 *
 * Throws CONFIG_INVALID for anything else. `next()` throws LEASE_LOST when the lease was closed or lost for good.
 */
export function joinLease(
  shared: SharedLease,
  options: { readonly clock?: Clock | undefined } = {},
): Snowflake<JoinedLease> {
  if (!(shared?.buffer instanceof SharedArrayBuffer)) {
    throw new SnowleaseError(
      "CONFIG_INVALID",
      `Expected what \`share()\` of a generator returned, got ${shown(shared)}; pass it to the thread as workerData or in a message.`,
    );
  }
  const lease = new JoinedLease(shared, options.clock);
  return new Snowflake(lease, { rollback: shared.rollback, share: lease });
}
