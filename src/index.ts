export { customAssigner } from "./assigners/custom.ts";
export { envAssigner } from "./assigners/env.ts";
export { ipAssigner } from "./assigners/ip.ts";
export { ordinalAssigner } from "./assigners/ordinal.ts";
export { propertyAssigner } from "./assigners/property.ts";
export { registryAssigner } from "./assigners/registry.ts";
export { type AssignOptions, type AssignRequest, firstOf, type WorkerIdAssigner } from "./lease/assigner.ts";
export type {
  ClientWithSettings,
  MysqlPool,
  PostgresPool,
  RedisClient,
  RegistryClient,
} from "./registries/driver-client.ts";
export { type Clock, type SleepOptions, systemClock } from "./clock.ts";
export type { Duration } from "./id/duration.ts";
export { type Encoding, type EncodingName, encodings } from "./id/encodings.ts";
export { type ErrorCode, errorCodes, type ErrorDetails, isSnowleaseError, SnowleaseError } from "./id/errors.ts";
export type { LeaseEvents, LeaseFacts } from "./lease/events.ts";
export { type ComposeParts, type IdParts, Layout, type LayoutField, layouts, type LayoutSpec } from "./id/layout.ts";
export type { PoolBounds } from "./id/pool-bounds.ts";
export {
  Lease,
  type LeaseHost,
  type LeaseOptions,
  type LeaseState,
  type UsageTracker,
  type LeaseSnapshot,
} from "./lease/lease.ts";
export { collectMetrics, type MetricsTarget } from "./generator/metrics.ts";
export { listRecents } from "./generator/recent-ticks.ts";
export type { EraInfo, NamespaceInfo, NamespaceLimits } from "./rule/limits.ts";
export type * from "./rule/registry.ts";
export { Ring, type RingOptions } from "./generator/ring.ts";
export type { RollbackOptions } from "./generator/rollback.ts";
export { type Health, Snowflake, type WaitOptions } from "./generator/snowflake.ts";
export type { Mode, Share, SnowflakeOptions } from "./generator/tick-allocator.ts";
export type { TextOptions } from "./generator/decimal-writer.ts";
export { lendLease, type Lender } from "./lend.ts";
export { JoinedLease, joinLease, type SharedLease } from "./sharing/joined-lease.ts";
export { SharedSnowflake } from "./sharing/shared-snowflake.ts";
export { type InitOptions, openRegistry, type RegistryToOpen, snowlease, type SnowleaseOptions } from "./snowlease.ts";
