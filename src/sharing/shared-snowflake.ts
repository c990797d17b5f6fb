import type { Lease } from "../lease/lease.ts";
import { Snowflake } from "../generator/snowflake.ts";
import type { SnowflakeOptions } from "../generator/tick-allocator.ts";
import { defaultRollback } from "../generator/rollback.ts";
import type { LeaseClient } from "./lease-client.ts";
import { SharedUsageTracker } from "./usage-tracker.ts";
import { StoreFile } from "../store-file.ts";
import type { SharedLease } from "./member.ts";

/** A generator whose lease may be used by other threads and by child processes, too. */
export class SharedSnowflake extends Snowflake {
  /** What all of them have of the lease; where that is borrowed itself, what its lender has given. */
  readonly blocks: SharedUsageTracker | LeaseClient;
  /** What a child process would call the registry of the lease; undefined where it has no name. */
  readonly origin: string | undefined;
  readonly #handle: SharedLease;

  /** Takes over the accounting of this lease. CONFIG_INVALID when it has a generator, or is borrowed and `blocks` are left out. */
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
