import type { Lease } from "../lease/lease.ts";
import { Snowflake } from "../generator/snowflake.ts";
import type { SnowflakeOptions } from "../generator/tick-allocator.ts";
import { defaultRollback } from "../generator/rollback.ts";
import type { LeaseClient } from "./lease-client.ts";
import { SharedUsageTracker } from "./usage-tracker.ts";
import { StoreFile } from "../store-file.ts";
import type { SharedLease } from "./joined-lease.ts";

/** A generator whose lease other threads and child processes may use, too. */
export class SharedSnowflake extends Snowflake {
  /** The blocks of the lease, for all its generators; if another process lends the lease, the blocks that it lent. */
  readonly blocks: SharedUsageTracker | LeaseClient;
  /** The address of the lease's registry for a child process; undefined if it has none. */
  readonly origin: string | undefined;
  readonly #handle: SharedLease;

  /**
   * Takes over the accounting of this lease. CONFIG_INVALID when it has a generator, or another process lends it and `blocks` is missing.
   */
  constructor(lease: Lease, options: SnowflakeOptions = {}, origin?: string, blocks?: LeaseClient) {
    const share = blocks ?? new SharedUsageTracker(lease, true, options.rollback?.maxTell);
    super(lease, { ...options, share });
    this.blocks = share;
    this.origin = origin;
    const { namespace, layout } = lease;
    const rollback = { ...defaultRollback, ...options.rollback };
    const store = lease.snapshot?.store;
    const file = store instanceof StoreFile ? store.identity.path : undefined;
    this.#handle = { namespace, layout: layout.fingerprint, buffer: share.allocator.buffer, rollback, file };
  }

  /** What `joinLease` needs in a worker thread: pass it as `workerData` or in a message. */
  share(): SharedLease {
    return this.#handle;
  }
}
