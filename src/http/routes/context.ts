import type { Clock } from "../../clock.ts";
import type { Layout } from "../../id/layout.ts";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import type { ShareKey } from "../../ops/lending.ts";
import type { Registry } from "../../rule/registry.ts";
import type { NamespaceLimits } from "../../rule/limits.ts";
import type { ClientQuota } from "../access/client-quota.ts";
import type { Log } from "../../serving/log.ts";
import type { Receipts } from "../access/receipts.ts";

/** The objects that routes use, and the defaults for fields that a request leaves out. */
export interface AppContext {
  readonly registry: Registry;
  /** Gives blocks to the lease clients of a shared lease. Without it, the route does not exist. */
  readonly takeBlocks: Registry["takeBlocks"];
  /** Whether a claim is a share of the daemon's own lease. Default: none is. */
  readonly lends: (key: ShareKey) => boolean;
  /** Layout of a namespace that does not exist yet. Default: westid. */
  readonly layout: Layout;
  /** Pool of a claim that names none. Default: all worker IDs of the layout. */
  readonly pool: PoolBounds | undefined;
  /** Window of a claim that names none, ms. It is limited by the namespace. Default 60 s. */
  readonly window: number;
  /** Limits of a namespace that does not exist yet, if the request names none. */
  readonly limits: Partial<NamespaceLimits> | undefined;
  readonly clock: Clock;
  /** Makes a token of 32 hex digits for a claim without one. */
  readonly makeToken: () => string;
  /** Signs and verifies the receipts of leases. */
  readonly receipts: Receipts;
  /** How many worker IDs each client may have. Default: any number. */
  readonly quota: ClientQuota | undefined;
  readonly log: Log;
}
