import type { Lease } from "../lease/lease.ts";
import { Snowflake } from "../generator/snowflake.ts";
import type { SnowflakeOptions } from "../generator/tick-allocator.ts";
import { defaultRollback } from "../generator/rollback.ts";
import type { BorrowedLanes } from "./lease-client.ts";
import { SharedLedger } from "./usage-tracker.ts";
import { StoreFile } from "../store-file.ts";
import type { SharedLease } from "./member.ts";

/** A generator whose lease may be used by other threads and by child processes, too. */
export class SharedSnowflake extends Snowflake {
  /** What all of them have of the lease; where that is borrowed itself, what its lender has given. */
  readonly lanes: SharedLedger | BorrowedLanes;
  /** What a child process would call the registry of the lease; undefined where it has no name. */
  readonly origin: string | undefined;
  readonly #handle: SharedLease;

  /** Takes over the accounting of this lease. CONFIG_INVALID when it has a generator, or is borrowed and `lanes` are left out. */
  constructor(lease: Lease, options: SnowflakeOptions = {}, origin?: string, lanes?: BorrowedLanes) {
    const share = lanes ?? new SharedLedger(lease, true, options.rollback?.maxTell);
    super(lease, { ...options, share });
    this.lanes = share;
    this.origin = origin;
    const { namespace, layout } = lease;
    const rollback = { ...defaultRollback, ...options.rollback };
    const store = lease.tenure?.store;
    const file = store instanceof StoreFile ? store.identity.path : undefined;
    this.#handle = { namespace, layout: layout.fingerprint, buffer: share.grid.buffer, rollback, file };
  }

  /** What `joinLease` needs in a worker thread: pass it as `workerData` or in a message. */
  share(): SharedLease {
    return this.#handle;
  }
}
