import { randomBytes } from "node:crypto";
import { performance } from "node:perf_hooks";
import { customAssigner } from "./assigners/custom.ts";
import { envAssigner } from "./assigners/env.ts";
import { hostAddress, ipAssigner } from "./assigners/ip.ts";
import { ordinalAssigner } from "./assigners/ordinal.ts";
import { propertyAssigner } from "./assigners/property.ts";
import { type Config, generatorOptions, leaseDefaults, resolveConfig } from "./config.ts";
import { type AssignRequest, firstOf, type WorkerIdAssigner } from "./lease/assigner.ts";
import { checkTruth } from "./id/check.ts";
import type { ClientWithSettings, RegistryClient } from "./registries/driver-client.ts";
import { type Clock, systemClock } from "./lease/clock.ts";
import { isSnowleaseError, shown, SnowleaseError, timeText } from "./id/errors.ts";
import type { Layout } from "./id/layout.ts";
import type { PoolBounds } from "./id/pool-bounds.ts";
import { Lease, type LeaseOptions } from "./lease/lease.ts";
import type { Refusal, Registry } from "./rule/registry.ts";
import { Snowflake } from "./generator/snowflake.ts";
import type { Mode } from "./generator/tick-allocator.ts";
import { lentName, ownWorkerId } from "./lent.ts";
import { deferredRegistry } from "./registries/lazy.ts";
import { LeaseClient } from "./sharing/lease-client.ts";
import { SharedSnowflake } from "./sharing/shared-snowflake.ts";

/** A time: ms, or text with its unit such as `500ms`, `2s`, `1m`, `1h`. */
export type Duration = number | string;

/**
 * What `snowlease` takes. Each may also stand in the environment, `claimTimeout` as `SNOWLEASE_CLAIM_TIMEOUT`; what is passed
 * here comes first. Times default to ms. An option that decides which IDs are unique is refused where it is passed as undefined.
 */
export interface SnowleaseOptions {
  /**
   * A registry URL, whose query may hold options; a registry, which stays open; or a driver's ready client, alone or with settings of
   * its store: `{ client, wait: 1 }`. Default: a file in this user's home.
   */
  readonly registry?: string | Registry | RegistryClient | ClientWithSettings;
  /** `[a-z][a-z0-9_]{0,31}`; default `default`. */
  readonly namespace?: string;
  /** Default `westid`. */
  readonly layout?: string | Layout;
  /** The worker IDs that may be leased: `512-1023`. Default: all of the layout. */
  readonly pool?: string | PoolBounds;
  /** Fixes the layout's field `datacenter`, and so narrows the pool. */
  readonly datacenter?: number | string;
  /** The same for its field `machine`. */
  readonly machine?: number | string;
  /** The same for its field `process`; with what is above it. */
  readonly process?: number | string;
  /** Fixes identity fields of the layout by their names, the topmost first. */
  readonly fields?: Readonly<Record<string, number>>;
  /** How far ahead the lease reaches; at least 3 ticks. Default 60 s; 2 s for a fixed worker ID in an embedded registry. */
  readonly window?: Duration | undefined;
  /** How long a claim may wait for a worker ID to come free. Default 0; one window for a fixed worker ID. */
  readonly claimTimeout?: Duration | undefined;
  /** Deadline of one registry operation. Default 5 s. */
  readonly operationTimeout?: Duration | undefined;
  /** How long to wait for a clock that was set back. Default 500 ms. */
  readonly maxWait?: Duration | undefined;
  /** Up to which setback of the clock callers are told to try again. Default 60 s. */
  readonly maxTell?: Duration | undefined;
  /** `lead`: timestamps may lead the clock, as far as the window reaches. Default `wall`: they never do. */
  readonly mode?: Mode | undefined;
  /** With how many different sequences a tick may begin, a power of two. Default 1. */
  readonly spread?: number | string | undefined;
  /** Fixed when the namespace is created. Default 10 s. */
  readonly maxClockSkew?: Duration | undefined;
  /** Fixed when the namespace is created. Default 10 min. */
  readonly maxWindow?: Duration | undefined;
  /** `never`: only worker IDs that nobody ever used. Default `any`. */
  readonly reuse?: "any" | "never" | undefined;
  /** What a lost lease does: claim another worker ID, or end. Default `switch`; `stop` for a fixed worker ID. */
  readonly onLost?: "switch" | "stop" | undefined;
  /** The one worker ID to claim; where fields are fixed, its number within them. */
  readonly workerId?: number | string;
  /** System properties: `westid.workerId` or `snowlease.workerId` is the worker ID to claim. */
  readonly properties?: Readonly<Record<string, unknown>>;
  /** Name of the environment variable that holds the worker ID to claim. */
  readonly env?: string;
  /**
   * An assigner of your own, or the path of a module whose default export is one. It has `operationTimeout` and `claimTimeout`
   * together to answer.
   */
  readonly assigner?: WorkerIdAssigner | string;
  /** Claim the number that ends the host's name. Default false. */
  readonly ordinal?: boolean;
  /** Added to that number. Default 0. */
  readonly ordinalBase?: number | string;
  /** Address whose last bits are claimed where nothing else names a worker ID or a registry. */
  readonly ip?: string;
  /** Network interface whose address that is. */
  readonly interface?: string;
  /** Names this host in the registry. Default: the host's name. */
  readonly host?: string | undefined;
  /** Names this process in the registry. */
  readonly instance?: string | undefined;
  /**
   * Lets worker threads (`share()`, `joinLease`) and child processes (`lendLease`) make IDs on the same lease, also where this process
   * borrows it. Default false. Not with `mode: "lead"` nor `spread`.
   */
  readonly shared?: boolean | undefined;
  /** Ends the search for a worker ID: `snowlease` then rejects with its reason. */
  readonly signal?: AbortSignal | undefined;
  /** Default: the machine's. */
  readonly clock?: Clock | undefined;
}

/**
 * Leases a worker ID and returns a generator of IDs on it. `close()` gives the worker ID back.
 *
 * The worker ID is that of the first source which has one: the option `workerId`, a system property, the environment, the
 * option `assigner`, the ordinal (when asked for), the registry (when one is named), the last bits of the IP address. From
 * wherever it comes, it is claimed: in the registry that is named, or else in the embedded one.
 *
 * Started by `snowlease exec`, or as a child of `lendLease`, a process borrows the lease, whose namespace is then the default. What it
 * asks for by itself (options, system properties, a worker ID that was put in the environment since) has to fit that lease: CONFIG_INVALID
 * names another worker ID or pool, LAYOUT_MISMATCH another layout. With another namespace, or an option `registry` that is not the one
 * of the lease, it claims for itself: CONFIG_INVALID where no registry is named then.
 *
 * Call it once in a process for each namespace, and share the generator. Each call makes a lease of its own: a second one gets
 * another worker ID, which is as safe and costs a number of the pool; or WORKER_ID_HELD where it names the same one.
 *
 * Rejects with CONFIG_INVALID, WORKER_ID_HELD (the message names the holder), POOL_EXHAUSTED, LAYOUT_MISMATCH, CLOCK_SKEW,
 * CLOCK_ROLLBACK, QUARANTINE, REGISTRY_UNAVAILABLE, DRIVER_MISSING; nothing stays open then.
 */
export function snowlease(options: SnowleaseOptions & { readonly shared: true }): Promise<SharedSnowflake>;
export function snowlease(options?: SnowleaseOptions): Promise<Snowflake>;
export async function snowlease(options: SnowleaseOptions = {}): Promise<Snowflake> {
  if (typeof options !== "object" || options === null) {
    throw new SnowleaseError(
      "CONFIG_INVALID",
      `Expected the options to be an object, got ${shown(options)}; pass one like { registry: "sqlite:./registry.db" }.`,
    );
  }
  const { signal, clock, shared, ...others } = options;
  const isShared = checkTruth("shared", shared);
  const config = resolveConfig({ options: others, env: process.env });
  const lease = await openLease(config, { signal, clock });
  return generatorOn(lease, config, isShared);
}

/** A generator on a lease that was opened with this configuration. */
export async function generatorOn(lease: Lease, config: Config, isShared: boolean = false): Promise<Snowflake> {
  const options = generatorOptions(config);
  const { registry } = config;
  const origin = "claim" in registry ? undefined : lentName(registry);
  if (lease.snapshot?.shared !== true) {
    return isShared ? new SharedSnowflake(lease, options, origin) : new Snowflake(lease, options);
  }
  const blocks = await LeaseClient.open(lease, isShared).catch(async (error: unknown) => {
    await lease.close();
    throw error;
  });
  return isShared
    ? new SharedSnowflake(lease, options, origin, blocks)
    : new Snowflake(lease, { ...options, share: blocks });
}

/** What surrounds a process; all default to this one's. */
export interface Surroundings {
  readonly signal?: AbortSignal | undefined;
  readonly clock?: Clock | undefined;
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
  /** The program's arguments, in which system properties are looked for. */
  readonly argv?: readonly string[] | undefined;
}

/** Leases a worker ID as the configuration says, without a generator; otherwise as `snowlease`. */
export async function openLease(config: Config, surroundings: Surroundings = {}): Promise<Lease> {
  const { signal = new AbortController().signal, clock = systemClock } = surroundings;
  const target = config.registry;
  const { operationTimeout, registryFrom, namespace, layout, pool, fixed, host } = config;
  // Opened when it is first asked something: an assigner that refuses, or answers a lease, must not leave a file behind.
  const registry = "claim" in target ? target : deferredRegistry(target, { operationTimeout, clock });
  const isOurs = registry !== target;
  const dismiss = async (): Promise<void> => {
    if (isOurs) await registry.close().catch(() => undefined);
  };
  try {
    const leaseOptions = leaseOptionsOf(config);
    const options = { ...config, lease: leaseOptions(undefined, registry.kind), clock, makeToken };
    const named = registryFrom === "default" ? undefined : registry;
    const request: AssignRequest = { namespace, layout, pool, fixed, registry: named, host, options };
    const answer = await assignersOf(config, surroundings).assign(request, signal);
    if (answer instanceof Lease) {
      await dismiss();
      return answer;
    }
    const byAddress = answer === undefined && registryFrom === "default";
    const workerId = byAddress ? await lastBits(request, signal) : answer;
    if (byAddress) warnOfAddress();
    const leaseHost = { registry, clock, makeToken, onEnd: isOurs ? () => registry.close() : undefined };
    const claim = Lease.claim(leaseHost, leaseOptions(workerId, registry.kind), signal);
    return await claim.catch((error: unknown) => {
      throw isSnowleaseError(error, "WORKER_ID_HELD") ? advised(error, host, byAddress) : error;
    });
  } catch (error) {
    await dismiss();
    throw error;
  }
}

const makeToken = (): string => randomBytes(16).toString("hex");

function leaseOptionsOf(config: Config): (workerId: number | undefined, kind: string | undefined) => LeaseOptions {
  const { namespace, layout, pool, maxWait, mode, operationTimeout, reuse, limits, host, instance } = config;
  const ip = config.ip ?? hostAddress(config.interface) ?? "";
  const holder = { host, ip, pid: process.pid, instance };
  const terms = { namespace, layout, pool, maxWait, operationTimeout, reuse, leads: mode === "lead", limits, holder };
  return (workerId, kind = "") => {
    const defaults = leaseDefaults(config, workerId !== undefined, kind);
    return { ...terms, workerId, ...defaults };
  };
}

/** Everything that may name a worker ID before the registry picks one, in the order in which it is asked. */
function assignersOf(config: Config, { env = process.env, argv }: Surroundings): WorkerIdAssigner {
  const { assigner, ordinal, sources, workerId } = config;
  const option: WorkerIdAssigner = { name: "option", assign: async () => workerId };
  const isInFile = sources.workerId?.level === "file";
  return firstOf(
    ...(isInFile ? [] : [option]),
    propertyAssigner({ argv }),
    envAssigner({ env: ownWorkerId(env) }),
    ...(isInFile ? [option] : []),
    ...(assigner === undefined ? [] : [customAssigner(assigner)]),
    ...(ordinal ? [ordinalAssigner()] : []),
  );
}

let hasWarned = false;

/** Once in a process: each of many leases would say the same. */
function warnOfAddress(): void {
  if (hasWarned) return;
  hasWarned = true;
  process.emitWarning(
    "No registry is named: the worker ID is the end of this host's address, leased in a file that no other host sees. " +
      "Hosts whose addresses end alike make the same IDs; name a registry that all of them reach (SNOWLEASE_REGISTRY).",
    { type: "SnowleaseWarning", code: "SNOWLEASE_NO_REGISTRY" },
  );
}

async function lastBits(request: AssignRequest, signal: AbortSignal): Promise<number> {
  const answer = await firstOf(ipAssigner()).assign(request, signal);
  if (typeof answer === "number") return answer;
  throw new SnowleaseError(
    "CONFIG_INVALID",
    "This host has no address to take a worker ID from; name a registry (SNOWLEASE_REGISTRY) or a worker ID (SNOWLEASE_WORKER_ID).",
  );
}

/** The refusal of a worker ID, with what else can be done where that is known. */
function advised(error: SnowleaseError, host: string, byAddress: boolean): SnowleaseError {
  const { details } = error;
  const { holder, since = 0, workerId } = (details["refusal"] ?? {}) as Partial<Extract<Refusal, { outcome: "held" }>>;
  const withMessage = (message: string): SnowleaseError =>
    new SnowleaseError(error.code, message, details, { cause: error });
  // A host's name and a pid alone may be those of a container that ran here before.
  if (holder?.pid === process.pid && holder.host === host && since >= performance.timeOrigin) {
    return withMessage(
      `Worker ${workerId} of namespace \`${String(details["namespace"])}\` is held by this very process, since ${timeText(since)}; use the generator that it has, or close that first.`,
    );
  }
  if (!byAddress) return error;
  // Another number would be another host's: only a registry can tell which one is free.
  return withMessage(
    `${error.message} The number is the end of this host's address; name a registry, as in SNOWLEASE_REGISTRY=sqlite:./registry.db, to be given a free one.`,
  );
}
