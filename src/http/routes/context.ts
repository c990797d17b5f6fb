import type { Clock } from "../../clock.ts";
import type { Layout } from "../../id/layout.ts";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import type { ShareKey } from "../../ops/lending.ts";
import type { Registry } from "../../rule/registry.ts";
import type { NamespaceLimits } from "../../rule/limits.ts";
import type { ClientQuota } from "../access/client-quota.ts";
import type { Log } from "../../serving/log.ts";
import type { Receipts } from "../access/receipts.ts";

/** What the routes work on, and what they assume where a request leaves something out. */
export interface AppContext {
  readonly registry: Registry;
  /** Gives blocks to the holders of one lease that is lent; without it there is no such route. */
  readonly takeBlocks: Registry["takeBlocks"];
  /** Whether a claim is a share of the daemon's own lease. Default: none is. */
  readonly lends: (key: ShareKey) => boolean;
  /** Layout of a namespace that does not exist yet. Default: westid. */
  readonly layout: Layout;
  /** Worker IDs of a claim that names no pool. Default: all of the layout. */
  readonly pool: PoolBounds | undefined;
  /** Window of a claim that names none, as far as the namespace allows it, ms. Default 60 s. */
  readonly window: number;
  /** Limits of a namespace that does not exist yet, where the request names none. */
  readonly limits: Partial<NamespaceLimits> | undefined;
  readonly clock: Clock;
  /** Makes a token for a claim that brings none: 32 hex digits. */
  readonly makeToken: () => string;
  /** Signs and verifies the receipts of leases. */
  readonly receipts: Receipts;
  /** How many worker IDs each client may have. Default: any number. */
  readonly quota: ClientQuota | undefined;
  readonly log: Log;
}
