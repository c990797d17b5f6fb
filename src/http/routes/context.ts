import type { Clock } from "../../lease/clock.ts";
import type { Layout } from "../../id/layout.ts";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import type { NamespaceLimits, Registry } from "../../rule/registry.ts";
import type { ClientQuota } from "../access/client-quota.ts";
import type { Log } from "../log.ts";

/** What the routes work on. */
export interface AppContext {
  readonly registry: Registry;
  readonly takeBlocks: Registry["takeBlocks"];
  readonly layout: Layout;
  readonly pool: PoolBounds | undefined;
  readonly window: number;
  readonly limits: Partial<NamespaceLimits> | undefined;
  readonly clock: Clock;
  readonly makeToken: () => string;
  /** How many worker IDs each client may have. */
  readonly quota: ClientQuota | undefined;
  readonly log: Log;
}
