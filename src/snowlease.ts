import { randomBytes } from "node:crypto";
import { performance } from "node:perf_hooks";
import { customAssigner } from "./assigners/custom.ts";
import { envAssigner } from "./assigners/env.ts";
import { hostAddress, ipAssigner } from "./assigners/ip.ts";
import { ordinalAssigner } from "./assigners/ordinal.ts";
import { propertyAssigner } from "./assigners/property.ts";
import { borrows, type Config, generatorOptions, leaseDefaults, resolveConfig } from "./config/config.ts";
import { type AssignRequest, firstOf, type WorkerIdAssigner } from "./lease/assigner.ts";
import { checkTruth } from "./id/check.ts";
import type { Duration } from "./id/duration.ts";
import type { ClientWithSettings, RegistryClient } from "./registries/driver-client.ts";
import { type Clock, systemClock } from "./clock.ts";
import { configInvalid, isSnowleaseError, shown, SnowleaseError, timeText } from "./id/errors.ts";
import type { Layout } from "./id/layout.ts";
import type { PoolBounds } from "./id/pool-bounds.ts";
import { Lease, type LeaseHost, type LeaseOptions } from "./lease/lease.ts";
import { endWithProcess } from "./lease/process-end.ts";
import type { NamespaceInfo } from "./rule/limits.ts";
import type { Refusal, Registry } from "./rule/registry.ts";
import { Snowflake } from "./generator/snowflake.ts";
import type { Mode } from "./generator/tick-allocator.ts";
import { lentName, ownWorkerId, withoutLent } from "./config/lent-lease.ts";
import { warnOfAddress, warnOfWindow } from "./config/warnings.ts";
import { guardedRegistry } from "./registries/host-guard/guarded.ts";
import { lazyRegistry } from "./registries/lazy.ts";
import { LeaseClient } from "./sharing/lease-client.ts";
import { SharedSnowflake } from "./sharing/shared-snowflake.ts";

/**
 * The options of `snowlease`. Most of them may also come from the environment, such as `claimTimeout` from `SNOWLEASE_CLAIM_TIMEOUT`. An
 * option that is passed here is stronger. A time that is a number is in ms. An option that decides which IDs are unique is refused if it is
 * undefined.
 *
 * The comments are those of the table in options.ts: scripts/docs.mjs writes them.
 */
export interface SnowleaseOptions {
  /**
   * The URL of the registry that leases worker IDs. Its query takes every option marked so. A program may also pass a registry, which
   * stays open, or a driver's ready client, alone or with settings of its store: `{ client, wait: 1 }`. Default: `sqlite:` +
   * `$XDG_STATE_HOME` or `~/.local/state` + `/snowlease/registry.db`.
   */
  readonly registry?: string | Registry | RegistryClient | ClientWithSettings;
  /**
   * The ID space: all its generators share one layout and one pool of worker IDs. It matches `[a-z][a-z0-9_]{0,31}`. Default:
   * `default`.
   */
  readonly namespace?: string;
  /**
   * The bits of an ID: `westid`, `twitter`, `rollback`, `uid`, `uid-datacenter`, `sonyflake`, `discord`, `instagram`, `mastodon`,
   * `safe53`, `scene`, or a notation: fields from the top bit down, `@`, the epoch in Unix ms, `/`, the tick in ms, and `/wraps` for
   * a timestamp that starts again at 0, like `timestamp:41,worker:10,sequence:12@1490346283706/1`. Default: `westid`.
   */
  readonly layout?: string | Layout;
  /** The range of worker IDs to lease from, such as `512-1023`. Default: the whole layout. */
  readonly pool?: string | PoolBounds;
  /** Fixes the layout's field `datacenter`: only worker IDs with this value are leased. */
  readonly datacenter?: number | string;
  /** Fixes the layout's field `machine`: only worker IDs with this value are leased. */
  readonly machine?: number | string;
  /** Fixes the layout's field `process`: only worker IDs with this value are leased. The fields above it have to be fixed, too. */
  readonly process?: number | string;
  /**
   * Fixes identity fields of the layout by name, from the top field down: `{ datacenter: 3 }`. In a URL, each field is a parameter
   * with its own name.
   */
  readonly fields?: Readonly<Record<string, number>>;
  /**
   * How far ahead a lease reaches, at least 3 ticks. A holder survives a registry outage of this length, and the worker ID of a
   * crashed holder rests this long. Default: 60 s; 2 s for a fixed worker ID in an embedded registry; at least 4 ticks.
   */
  readonly window?: Duration | undefined;
  /**
   * How long a claim waits for a free worker ID, and then for its window to open. Default: 0 for a free worker ID, one window for a
   * fixed one; `maxWindow` + `maxClockSkew` for a window to open.
   */
  readonly claimTimeout?: Duration | undefined;
  /**
   * The deadline of one registry operation. An operation that waits for a locked registry file fails after this time without a write
   * by another process. Default: 5 s.
   */
  readonly operationTimeout?: Duration | undefined;
  /** How long a generator waits after its clock was set back. Default: 500 ms. */
  readonly maxWait?: Duration | undefined;
  /**
   * After a setback of the clock up to this size, callers get an error with the time to try again. After a larger one, the lease
   * ends. Default: 1 m.
   */
  readonly maxTell?: Duration | undefined;
  /**
   * `wall`: timestamps never lead the clock. `lead`: timestamps may lead the clock by up to the window, for bursts of more IDs than a
   * tick has. Default: `wall`.
   */
  readonly mode?: Mode | undefined;
  /**
   * How many different sequences a tick may begin with, a power of two. With 2^k, IDs are even in `id % 2^k` also where a generator
   * makes few IDs. Default: 1.
   */
  readonly spread?: number | string | undefined;
  /**
   * The largest tolerated difference between a holder's clock and the registry's clock. Fixed when the namespace is created. Default:
   * 10 s.
   */
  readonly maxClockSkew?: Duration | undefined;
  /**
   * The longest window that a claim may ask for. Fixed when the namespace is created. A registry that lost the record of it waits for
   * windows of up to 10 m: with longer ones, stop all holders after such a loss. Default: 2 m.
   */
  readonly maxWindow?: Duration | undefined;
  /** `never`: lease only worker IDs that were never used, until the pool is used up. Default: `any`. */
  readonly reuse?: "any" | "never" | undefined;
  /**
   * After a lease is lost: `switch` claims another worker ID and goes on, `stop` ends. Default: `switch`; `stop` for a fixed worker
   * ID.
   */
  readonly onLost?: "switch" | "stop" | undefined;
  /** The one worker ID to claim. Where fields are fixed: its number within them. */
  readonly workerId?: number | string;
  /** System properties. `westid.workerId` or `snowlease.workerId` is the worker ID to claim. */
  readonly properties?: Readonly<Record<string, unknown>>;
  /** The environment variable that holds the worker ID to claim. Default: `SNOWLEASE_WORKER_ID`, then `WESTID_WORKERID`. */
  readonly env?: string;
  /**
   * A WorkerIdAssigner, or the path of a module whose default export is one. It has to answer within `operationTimeout` plus
   * `claimTimeout`.
   */
  readonly assigner?: WorkerIdAssigner | string;
  /** Claims the number at the end of the host's name, as in `orders-3`. Default: `false`. */
  readonly ordinal?: boolean;
  /** A number to add to the ordinal. Default: 0. */
  readonly ordinalBase?: number | string;
  /**
   * This host's address. Its last bits are the worker ID where no option names a worker ID or a registry. Default: the first IPv4
   * that is not loopback, else IPv6.
   */
  readonly ip?: string;
  /** The network interface that has this host's address. Default: any. */
  readonly interface?: string;
  /** The name of this host in the registry. A claim prefers a worker ID that this host used before. Default: the host's name. */
  readonly host?: string | undefined;
  /** The name of this process in the registry. */
  readonly instance?: string | undefined;
  /**
   * The token for a daemon whose URL has none (`http://:TOKEN@HOST:PORT`). The environment and the URL's query are safer places than
   * the arguments, which every user can read.
   */
  readonly token?: string | undefined;
  /**
   * Lets worker threads (`share()`, `joinLease`) and child processes (`lendLease`) make IDs on the same lease, also where this process
   * borrows it. Neither with `mode: "lead"` nor with `spread`. Default false.
   */
  readonly shared?: boolean | undefined;
  /**
   * Makes IDs on the lease of a daemon that runs with `lend`, together with other processes, instead of on a lease of its own.
   * Neither with `mode: "lead"` nor with `spread`. Default: `false`.
   */
  readonly borrow?: boolean | undefined;
  /** Aborts the search for a worker ID: `snowlease` then rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** Default: the machine's clock. */
  readonly clock?: Clock | undefined;
}

/** The options of `snowlease.init`: those of the programs that will use the namespace, and what an operator confirms. */
export interface InitOptions extends SnowleaseOptions {
  /**
   * Confirms that this namespace never existed: Redis, which may have forgotten it, then grants at once. Refused if data of the namespace
   * exists or a quarantine of it is recorded. May be repeated until the first claim. Default: `false`.
   */
  readonly new?: boolean | undefined;
  /**
   * Confirms that the IDs of this namespace never meet those of a namespace of this name in another schema or database. Default: `false`.
   */
  readonly separate?: boolean | undefined;
}

/** The options of `openRegistry`, as in `SnowleaseOptions`. */
export type RegistryToOpen = Pick<SnowleaseOptions, "registry" | "operationTimeout" | "token" | "clock">;

const forOpening: readonly string[] = ["registry", "operationTimeout", "token"];

/** The function `snowlease`, with the function that prepares a registry for it. */
interface SnowleaseFunction {
  (options: SnowleaseOptions & { readonly shared: true }): Promise<SharedSnowflake>;
  (options?: SnowleaseOptions): Promise<Snowflake>;
  /**
   * Makes a namespace, as `snowlease init` does, or checks that an existing one has these options. A service needs it once for each new
   * namespace, with Redis before the first claim. A test with a fresh server needs it before each run. Without `new`, a repeated call
   * changes nothing.
   *
   * Rejects with CONFIG_INVALID (also for `new` if the namespace is not new, and without `registry`), LAYOUT_MISMATCH, QUARANTINE,
   * REGISTRY_UNAVAILABLE, SCHEMA_INCOMPATIBLE, UNAUTHORIZED, FORBIDDEN, DRIVER_MISSING.
   */
  init(options: InitOptions): Promise<NamespaceInfo>;
}

/**
 * Leases a worker ID and returns a generator of IDs on it. `close()` gives the worker ID back.
 *
 * The first source that has a worker ID decides: the option `workerId`, a system property, the environment, the option `assigner`, the
 * ordinal (if the option asks for it), the registry (if an option names one), the last bits of the IP address. Every worker ID is claimed:
 * in the named registry, or else in the embedded one.
 *
 * A process that `snowlease exec` or `lendLease` started borrows their lease; the lease's namespace is then the default. Options, system
 * properties and a worker ID that was added to the environment have to fit that lease: CONFIG_INVALID for another worker ID or pool,
 * LAYOUT_MISMATCH for another layout. With another namespace, or an option `registry` that names another registry than the lease's, the
 * process makes its own claim: CONFIG_INVALID if no registry is named then.
 *
 * When the process has nothing left to do, the lease is closed, which takes up to `operationTimeout`. A process that ends in another way,
 * such as `process.exit()`, has to wait for `close()` first. Otherwise its worker ID rests until the window has passed, and a warning says
 * so.
 *
 * Call it once per process and namespace, and share the generator. Each call makes its own lease. A second call gets another worker ID,
 * which is safe, and uses one more of the pool. If both calls name the same worker ID, the second one rejects with WORKER_ID_HELD.
 *
 * Rejects with CONFIG_INVALID, WORKER_ID_HELD (the message names the holder), POOL_EXHAUSTED, LAYOUT_MISMATCH, CLOCK_SKEW, CLOCK_ROLLBACK,
 * QUARANTINE, REGISTRY_UNAVAILABLE, DRIVER_MISSING. After a rejection, nothing stays open.
 */
export const snowlease: SnowleaseFunction = Object.assign(generator, { init });

function generator(options: SnowleaseOptions & { readonly shared: true }): Promise<SharedSnowflake>;
function generator(options?: SnowleaseOptions): Promise<Snowflake>;
async function generator(options: SnowleaseOptions = {}): Promise<Snowflake> {
  checkObject(options);
  const { signal, clock, shared, ...others } = options;
  const isShared = checkTruth("shared", shared);
  const config = resolveConfig({ options: others, env: process.env });
  const lease = await openLease(config, { signal, clock });
  const ids = await generatorOn(lease, config, isShared);
  endWithProcess(lease, restsAfter(config));
  return ids;
}

/**
 * Whether a worker ID that is not given back rests. The lender of a borrowed lease gives it back. A registry in memory ends with the
 * process.
 */
function restsAfter(config: Config): boolean {
  return !borrows(config) && config.registry.kind !== "memory";
}

/**
 * Opens a registry for several leases: `snowlease({ registry, namespace })` for each namespace, all over the connections of this one. It
 * stays open until its `close()`. Close it after the generators. If the option is a registry already, it is returned as it is.
 *
 * Rejects with CONFIG_INVALID, also if neither the option nor SNOWLEASE_REGISTRY names a registry, and for options of a lease, such as in
 * the query of a URL; REGISTRY_UNAVAILABLE, SCHEMA_INCOMPATIBLE, UNAUTHORIZED, DRIVER_MISSING.
 */
export async function openRegistry(options: RegistryToOpen): Promise<Registry> {
  checkObject(options);
  const { clock = systemClock, ...others } = options;
  const { target, config } = namedTarget(others, "openRegistry");
  const given = Object.entries(others).flatMap(([name, value]) => (value === undefined ? [] : [name]));
  const inQuery = "claim" in target ? [] : Object.keys(target.parameters);
  const ofLease = [...given, ...inQuery].find((name) => !forOpening.includes(name));
  if (ofLease !== undefined) {
    const place = given.includes(ofLease) ? "the options" : `the registry URL from ${config.sources.registry?.text}`;
    throw configInvalid(
      `Expected no \`${ofLease}\` in ${place}: \`openRegistry\` makes no lease; pass it to \`snowlease()\`.`,
    );
  }
  if ("claim" in target) return target;
  const registry = lazyRegistry(target, { operationTimeout: config.operationTimeout, clock });
  await registry.open();
  return registry;
}

/** The registry that a program names, not the default one, and not a lease that `snowlease exec` lends to this process. */
function namedTarget(
  options: object,
  caller: string,
): { readonly target: Config["registry"]; readonly config: Config } {
  const config = resolveConfig({ options, env: withoutLent(process.env) });
  if (config.registryFrom !== "default") return { target: config.registry, config };
  throw configInvalid(
    `Expected the option \`registry\` of \`${caller}\`, got none: the default is a file that no other host or user sees, and that the first claim makes; name the registry of your programs.`,
  );
}

async function init(options: InitOptions): Promise<NamespaceInfo> {
  checkObject(options);
  const { signal: _, clock = systemClock, shared: __, new: isNew, separate, ...others } = options;
  const words = { new: checkTruth("new", isNew), separate: checkTruth("separate", separate) };
  const { target, config } = namedTarget(others, "snowlease.init");
  const { operationTimeout, namespace, layout, limits } = config;
  const registry = "claim" in target ? target : lazyRegistry(target, { operationTimeout, clock });
  try {
    return await registry.init({ namespace, layout: layout.fingerprint, ...limits, ...words });
  } finally {
    if (registry !== target) await registry.close().catch(() => undefined);
  }
}

/** @throws SnowleaseError CONFIG_INVALID */
function checkObject(options: unknown): void {
  if (typeof options === "object" && options !== null) return;
  throw configInvalid(
    `Expected the options to be an object, got ${shown(options)}; pass one like { registry: "sqlite:/var/lib/snowlease/registry.db" }.`,
  );
}

/** Makes a generator on a lease of this configuration. */
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

/** The surroundings of a process; the default is this process. */
export interface Surroundings {
  readonly signal?: AbortSignal | undefined;
  readonly clock?: Clock | undefined;
  readonly onWait?: LeaseHost["onWait"];
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
  /** The program's arguments; system properties among them count. */
  readonly argv?: readonly string[] | undefined;
}

/** Leases a worker ID without a generator; otherwise like `snowlease`. */
export async function openLease(config: Config, surroundings: Surroundings = {}): Promise<Lease> {
  const { signal = new AbortController().signal, clock = systemClock, onWait } = surroundings;
  warnOfWindow(config);
  const target = config.registry;
  const { operationTimeout, registryFrom, namespace, layout, pool, fixed, host } = config;
  // Opened at its first use: an assigner that refuses, or returns a lease, must not leave a file behind.
  const registry = "claim" in target ? target : lazyRegistry(target, { operationTimeout, clock });
  const isOurs = registry !== target;
  // Each user has their own default registry, with the same worker IDs in it.
  const guarded = registryFrom === "default" ? guardedRegistry(registry, clock) : undefined;
  const onEnd = async (): Promise<void> => {
    guarded?.free();
    if (isOurs) await registry.close();
  };
  try {
    // An assigner has to answer in time: its lease does not wait for the window to open.
    const terms = { ...leaseOptionsOf(config, registry.kind), openTimeout: undefined };
    const options = { ...config, lease: terms, clock, makeToken };
    const named = registryFrom === "default" ? undefined : registry;
    const request: AssignRequest = { namespace, layout, pool, fixed, registry: named, host, options };
    const answer = await assignersOf(config, surroundings).assign(request, signal);
    if (answer instanceof Lease) {
      await onEnd().catch(() => undefined);
      return answer;
    }
    const byAddress = answer === undefined && registryFrom === "default";
    const workerId = byAddress ? await lastBits(request, signal) : answer;
    if (byAddress) warnOfAddress();
    const leaseHost = { registry: guarded ?? registry, clock, makeToken, onEnd, onWait };
    const claim = Lease.claim(leaseHost, leaseOptionsOf(config, registry.kind, workerId), signal);
    return await claim.catch((error: unknown) => {
      throw isSnowleaseError(error, "WORKER_ID_HELD") ? advised(error, host, byAddress) : error;
    });
  } catch (error) {
    await onEnd().catch(() => undefined);
    throw error;
  }
}

const makeToken = (): string => randomBytes(16).toString("hex");

function leaseOptionsOf(config: Config, kind: string = "", workerId?: number): LeaseOptions {
  const { namespace, layout, pool, maxWait, mode, operationTimeout, reuse, limits, host, instance } = config;
  const ip = config.ip ?? hostAddress(config.interface) ?? "";
  const holder = { host, ip, pid: process.pid, instance };
  const claimed = { namespace, layout, pool, limits, holder, borrows: config.borrow };
  const terms = { ...claimed, maxWait, operationTimeout, reuse, leads: mode === "lead" };
  return { ...terms, workerId, ...leaseDefaults(config, workerId !== undefined, kind) };
}

/** All sources of a worker ID before the registry picks one, in their order. */
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

async function lastBits(request: AssignRequest, signal: AbortSignal): Promise<number> {
  const answer = await firstOf(ipAssigner()).assign(request, signal);
  if (typeof answer === "number") return answer;
  throw configInvalid(
    "This host has no address to take a worker ID from; name a registry (SNOWLEASE_REGISTRY) or a worker ID (SNOWLEASE_WORKER_ID).",
  );
}

/** The refusal of a worker ID, with better advice where possible. */
function advised(error: SnowleaseError, host: string, byAddress: boolean): SnowleaseError {
  const { details } = error;
  const refusal = (details["refusal"] ?? {}) as Partial<Extract<Refusal, { outcome: "held" }>>;
  const { holder, since = 0, workerId, elsewhere } = refusal;
  if (elsewhere !== undefined) return error;
  const withMessage = (message: string): SnowleaseError =>
    new SnowleaseError(error.code, message, details, { cause: error });
  // An earlier container may have had the same host name and pid.
  if (holder?.pid === process.pid && holder.host === host && since >= performance.timeOrigin) {
    return withMessage(
      `Worker ${workerId} of namespace \`${String(details["namespace"])}\` is held by this process itself, since ${timeText(since)}; use that generator, or close it first.`,
    );
  }
  if (!byAddress) return error;
  // Another worker ID would belong to another host: only a registry knows a free one.
  return withMessage(
    `${error.message} The worker ID is the end of this host's address; name a registry, as in SNOWLEASE_REGISTRY=sqlite:/var/lib/snowlease/registry.db, to get a free one.`,
  );
}
