export { customAssigner } from "./assigners/custom.ts";
export { envAssigner } from "./assigners/env.ts";
export { ipAssigner } from "./assigners/ip.ts";
export { ordinalAssigner } from "./assigners/ordinal.ts";
export { propertyAssigner } from "./assigners/property.ts";
export { registryAssigner } from "./assigners/registry.ts";
export { type AssignOptions, type AssignRequest, firstOf, type WorkerIdAssigner } from "./core/assigner.ts";
export type { ClientWithSettings, MysqlPool, PostgresPool, RedisClient, RegistryClient } from "./core/client.ts";
export { type Clock, type SleepOptions, systemClock } from "./core/clock.ts";
export { type Encoding, type EncodingName, encodings } from "./core/encoding.ts";
export { type ErrorCode, errorCodes, type ErrorDetails, isSnowleaseError, SnowleaseError } from "./core/errors.ts";
export type { LeaseEvents, LeaseFacts } from "./core/events.ts";
export {
  type ComposeParts,
  type IdParts,
  Layout,
  type LayoutField,
  layouts,
  type LayoutSpec,
  type PoolBounds,
} from "./core/layout.ts";
export { Lease, type LeaseHost, type LeaseOptions, type LeaseState, type Ledger, type Tenure } from "./core/lease.ts";
export { listRecents } from "./core/recent.ts";
export type * from "./core/registry.ts";
export { Ring, type RingOptions } from "./core/ring.ts";
export type { RollbackOptions } from "./core/rollback.ts";
export { Snowflake, type WaitOptions } from "./core/snowflake.ts";
export type { Mode, Share, SnowflakeOptions } from "./core/tick-book.ts";
export type { TextOptions } from "./core/text-run.ts";
export { lendLease, type Lender } from "./lend.ts";
export { JoinedLease, joinLease, type SharedLease } from "./shared/member.ts";
export { SharedSnowflake } from "./shared/shared-snowflake.ts";
export { type Duration, snowlease, type SnowleaseOptions } from "./snowlease.ts";
