import { hostname, userInfo } from "node:os";
import { isAbsolute, join, resolve } from "node:path";
import { readConfigFile } from "./config-file.ts";
import { pathAddress, type RegistryAddress } from "./registries/address.ts";
import { numberWithin, type WorkerIdAssigner } from "./lease/assigner.ts";
import { withSource, shown, SnowleaseError } from "./id/errors.ts";
import { defaultLayout, type Layout } from "./id/layout.ts";
import type { PoolBounds } from "./id/pool-bounds.ts";
import type { LeaseOptions } from "./lease/lease.ts";
import { didYouMean } from "./id/did-you-mean.ts";
import { defaultLimits, type NamespaceLimits, type Registry } from "./rule/registry.ts";
import { defaultRollback } from "./generator/rollback.ts";
import type { Mode, SnowflakeOptions } from "./generator/tick-allocator.ts";
import { checkSpread } from "./generator/spread.ts";
import { checkWindowLength, defaultWindow } from "./lease/window-length.ts";
import { isFrom, type LentLease, lentLease } from "./lent.ts";
import {
  decisiveOptions,
  type OptionName,
  type OptionScope,
  optionTable,
  type OptionValues,
  readOption,
} from "./options.ts";
import { checkVariables } from "./variables.ts";

export { type Option, type OptionScope, optionTable } from "./options.ts";

/** Where options come from, the strongest first: what a program passes, flags, environment, config file. */
export interface ConfigSources {
  /** As passed to `snowlease()`. One that is undefined counts as not given, or is refused: see `decisiveOptions`. */
  readonly options?: object | undefined;
  /** By name without dashes, `claim-timeout`, as `node:util.parseArgs` returns them; names that are no options are somebody else's. */
  readonly flags?: Readonly<Record<string, unknown>> | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The folder in which to look for `snowlease.json`. Left out: no config file is read, whatever names one. */
  readonly cwd?: string | undefined;
}

/** All options, resolved. Times in ms. */
export interface Config {
  readonly registry: RegistryAddress | Registry;
  /** named: by an option. default: the embedded file. borrowed: the lease of the `snowlease exec` that started this process. */
  readonly registryFrom: "named" | "default" | "borrowed";
  readonly namespace: string;
  readonly layout: Layout;
  /** What may be leased: of `fixed`, what the option `pool` leaves. */
  readonly pool: PoolBounds;
  /** The worker IDs that have the fixed fields; all of the layout where none is fixed. */
  readonly fixed: PoolBounds;
  /** Undefined, like `claimTimeout` and `onLost`: see `leaseDefaults`. */
  readonly window: number | undefined;
  readonly claimTimeout: number | undefined;
  readonly operationTimeout: number;
  readonly maxWait: number;
  readonly maxTell: number;
  readonly mode: Mode;
  readonly spread: number;
  /** Only those that were given. */
  readonly limits: Partial<NamespaceLimits>;
  readonly reuse: "any" | "never";
  readonly onLost: "switch" | "stop" | undefined;
  /** From any source but the environment, which an assigner reads. */
  readonly workerId: number | undefined;
  readonly properties: Readonly<Record<string, unknown>> | undefined;
  readonly env: string | undefined;
  readonly assigner: WorkerIdAssigner | string | undefined;
  readonly ordinal: boolean;
  readonly ordinalBase: number;
  readonly ip: string | undefined;
  readonly interface: string | undefined;
  readonly host: string;
  readonly instance: string;
  readonly listen: { readonly host: string; readonly port: number } | undefined;
  readonly socket: string | undefined;
  readonly tokens: string | undefined;
  readonly tlsCert: string | undefined;
  readonly tlsKey: string | undefined;
  readonly tlsClientCa: string | undefined;
  readonly claimsPerSecond: number | undefined;
  readonly clientQuota: number | undefined;
  readonly maxOwnLeases: number | undefined;
  readonly maxConnections: number | undefined;
  readonly insecure: boolean;
  /** Where each option that was given came from. */
  readonly sources: Readonly<Partial<Record<OptionName, ConfigSource>>>;
}

/** Where an option came from. */
interface ConfigSource {
  readonly level: "program" | "environment" | "file";
  /** For people: "--window", "SNOWLEASE_WINDOW". */
  readonly text: string;
}

/** The options given at one level. */
interface Level {
  readonly level: ConfigSource["level"];
  readonly values: Partial<Record<OptionName, unknown>>;
  readonly sources: Partial<Record<OptionName, ConfigSource>>;
}

const inScope = (...scopes: readonly OptionScope[]): readonly OptionName[] =>
  optionTable.filter((option) => option.scopes.some((scope) => scopes.includes(scope))).map(({ name }) => name);
const libraryOptions = inScope("library");
const urlOptions = inScope("url");
const fileOptions = inScope("cli", "daemon").filter((name) => name !== "config");

const ownWindow = 60_000;
/** Where the registry is a file on this host, a short outage is the end of the host; a crashed holder's ID should rest briefly. */
const embeddedWindow = 2000;

/**
 * Reads all options. Every value that is given is checked, also one that a stronger source overrides. The query of a registry
 * URL counts where the URL was given, behind what is given there by itself; that of an overridden URL does not count.
 * @throws SnowleaseError CONFIG_INVALID that names option, rule, value and source.
 */
export function resolveConfig(from: ConfigSources): Config {
  const { env } = from;
  checkVariables(env);
  const levels = [readProgram(from), readEnvironment(env), readFile(from)];
  const named = levels.find(({ values }) => values.registry !== undefined);
  const query = named === undefined ? new Map<string, string>() : readQuery(named);
  const values = Object.assign({}, ...levels.map((level) => level.values).toReversed()) as OptionValues;
  const sources: Config["sources"] = Object.assign({}, ...levels.map((level) => level.sources).toReversed());

  checkTokensWay(from, values, sources);
  const [program] = levels as [Level, ...Level[]];
  const lent = lentLease(env);
  const namespace = values.namespace ?? lent?.namespace ?? "default";
  const borrows = lent?.namespace === namespace && isFrom(lent, (program.values as OptionValues).registry);
  const borrowed = borrows ? lent : undefined;
  if (lent !== undefined && !borrows && named === undefined) throw unborrowed(namespace, lent, sources);
  // What surrounds a borrower went into the lease that it borrows; what it asks for itself has to fit that.
  const wishes = borrows ? (program.values as OptionValues) : values;
  const layout = wishes.layout ?? borrowed?.layout ?? defaultLayout;
  const { pool, fixed } = narrowed(wishes, sources, layout, borrows && named !== program ? new Map() : query);
  const { maxWindow, maxClockSkew } = values;
  const { workerId } = wishes;
  checkWindow("window", values, layout, sources);
  checkWindow("maxWindow", values, layout, sources);
  checkLongest(values, sources);

  return {
    registry: borrowed?.address ?? withToken(values.registry ?? defaultRegistry(env), values.token),
    registryFrom: borrows ? "borrowed" : named === undefined ? "default" : "named",
    namespace,
    layout,
    pool,
    fixed,
    window: values.window,
    claimTimeout: values.claimTimeout,
    operationTimeout: values.operationTimeout ?? 5000,
    maxWait: values.maxWait ?? defaultRollback.maxWait,
    maxTell: values.maxTell ?? defaultRollback.maxTell,
    mode: values.mode ?? "wall",
    spread: withSource(sources.spread?.text ?? "", () => checkSpread(values.spread ?? 1, layout)),
    limits: {
      ...(maxWindow !== undefined && !borrows && { maxWindow }),
      ...(maxClockSkew !== undefined && !borrows && { maxClockSkew }),
    },
    reuse: values.reuse ?? "any",
    onLost: values.onLost,
    workerId:
      workerId === undefined
        ? undefined
        : numberWithin(workerId, sources.workerId?.text ?? "", { layout, pool, fixed }),
    properties: values.properties,
    env: wishes.env,
    assigner: wishes.assigner,
    ordinal: wishes.ordinal ?? false,
    ordinalBase: values.ordinalBase ?? 0,
    ip: values.ip,
    interface: values.interface,
    host: values.host ?? hostname(),
    instance: values.instance ?? "",
    listen: values.listen,
    socket: values.socket,
    tokens: values.tokens,
    tlsCert: values.tlsCert,
    tlsKey: values.tlsKey,
    tlsClientCa: values.tlsClientCa,
    claimsPerSecond: values.claimsPerSecond,
    clientQuota: values.clientQuota,
    maxOwnLeases: values.maxOwnLeases,
    maxConnections: values.maxConnections,
    insecure: values.insecure ?? false,
    sources,
  };
}

/** How a generator with these options behaves. */
export function generatorOptions({ mode, spread, maxWait, maxTell }: Config): SnowflakeOptions {
  return { mode, spread, rollback: { maxWait, maxTell } };
}

/**
 * The options whose default depends on the claim.
 * @param fixed the claim names the worker ID.
 * @param kind of the registry that is asked.
 */
export function leaseDefaults(
  { window, claimTimeout, onLost, layout, limits, registryFrom }: Config,
  fixed: boolean,
  kind: string,
): Pick<LeaseOptions, "window" | "claimTimeout" | "onLost"> {
  const embedded = fixed && kind === "sqlite";
  const borrowed = registryFrom === "borrowed";
  const usual = embedded || borrowed ? embeddedWindow : ownWindow;
  const length = window ?? defaultWindow(usual, layout, limits.maxWindow ?? defaultLimits.maxWindow);
  return {
    window: length,
    // After a crash, the same worker ID comes free within one window.
    claimTimeout: claimTimeout ?? (fixed || borrowed ? length : 0),
    // The one number that is lent can be borrowed again.
    onLost: onLost ?? (fixed && !borrowed ? "stop" : "switch"),
  };
}

function emptyLevel(level: ConfigSource["level"]): Level {
  return { level, values: {}, sources: {} };
}

function give({ level, values, sources }: Level, name: OptionName, value: unknown, text: string): void {
  values[name] = readOption(name, value, text);
  sources[name] = { level, text };
}

function readProgram({ options = {}, flags = {} }: ConfigSources): Level {
  const level = emptyLevel("program");
  for (const [key, value] of Object.entries(options)) {
    const name = known(key, libraryOptions, "the options");
    if (value !== undefined) give(level, name, value, `the option \`${name}\``);
    else if (decisiveOptions.has(name)) throw unset(name);
  }
  for (const { name, flag } of optionTable) {
    const value = flag === undefined ? undefined : flags[flag.slice(2)];
    if (value !== undefined) give(level, name, value, `${flag}`);
  }
  return level;
}

function readEnvironment(env: ConfigSources["env"]): Level {
  const level = emptyLevel("environment");
  for (const { name, env: variable } of optionTable) {
    // Read by an assigner, since the order of assigners puts a property before it.
    if (name === "workerId" || variable === undefined) continue;
    const value = env[variable];
    if (value !== undefined) give(level, name, value, variable);
  }
  return level;
}

function readFile({ flags = {}, env, cwd }: ConfigSources): Level {
  const level = emptyLevel("file");
  if (cwd === undefined) return level;
  const named = flags["config"] ?? env["SNOWLEASE_CONFIG"];
  const path = resolve(cwd, typeof named === "string" ? named : "snowlease.json");
  for (const [key, value] of Object.entries(readConfigFile(path, named !== undefined))) {
    const name = known(key, fileOptions, path);
    if (named === undefined && name === "assigner") throw notFromFound(name, path, "runs a program");
    give(level, name, value, `\`${name}\` in ${path}`);
  }
  return level;
}

/** Refuses to send a token of the environment to a registry that a file names which was only found in the folder. */
function checkTokensWay({ flags = {}, env }: ConfigSources, values: OptionValues, sources: Config["sources"]): void {
  const { registry } = values;
  const isNamed = (flags["config"] ?? env["SNOWLEASE_CONFIG"]) !== undefined;
  if (isNamed || sources.registry?.level !== "file" || sources.token?.level !== "environment") return;
  if (registry === undefined || "claim" in registry) return;
  if (registry.kind !== "http" && registry.kind !== "unix") return;
  throw new SnowleaseError(
    "CONFIG_INVALID",
    `${sources.registry.text} names where ${sources.token.text} would be sent, and was only found there; name the file with --config, or the registry with SNOWLEASE_REGISTRY.`,
  );
}

/** An option that only a file may give which was named. */
function notFromFound(name: OptionName, path: string, does: string): SnowleaseError {
  return new SnowleaseError(
    "CONFIG_INVALID",
    `\`${name}\` in ${path} ${does}, and the file was only found there; name the file with --config, or give the option with a flag.`,
  );
}

/** Adds the query of this level's registry URL to the level. Returns what is no option: it may be a field of the layout. */
function readQuery(level: Level): Map<string, string> {
  const { registry } = level.values as OptionValues;
  const rest = new Map<string, string>();
  if (registry === undefined || !("parameters" in registry)) return rest;
  for (const [key, value] of Object.entries(registry.parameters)) {
    const name = urlOptions.find((name) => name === key);
    const text = `\`${key}\` in the registry URL from ${level.sources.registry?.text}`;
    if (name === undefined) rest.set(key, value);
    else if (level.values[name] === undefined) give(level, name, value, text);
    else readOption(name, value, text);
  }
  return rest;
}

/** The worker IDs that have the fixed fields, and the pool within them. */
function narrowed(
  { pool, datacenter, machine, process, fields }: OptionValues,
  sources: Config["sources"],
  layout: Layout,
  query: ReadonlyMap<string, string>,
): Pick<Config, "pool" | "fixed"> {
  const url = `the query of the registry URL from ${sources.registry?.text}`;
  const identity = Object.keys(layout.split(0));
  const fixed: Record<string, unknown> = {};
  for (const [key, value] of query) {
    const name = known(key, [...urlOptions, ...identity], url);
    // Left as text when it is no number: `narrow` then names it.
    fixed[name] = /^(?:0|[1-9][0-9]{0,9})$/.test(value) ? Number(value) : value;
  }
  Object.assign(fixed, fields);
  for (const [name, value] of Object.entries({ datacenter, machine, process })) {
    if (value !== undefined) fixed[name] = value;
  }
  const blamed = [sources.pool, sources.datacenter, sources.machine, sources.process, sources.fields].map(
    (source) => source?.text,
  );
  if (query.size > 0) blamed.push(url);
  return withSource(blamed.filter((text) => text !== undefined).join(" or "), () => ({
    pool: layout.narrow(fixed as Record<string, number>, pool),
    fixed: layout.narrow(fixed as Record<string, number>),
  }));
}

function checkWindow(
  name: "window" | "maxWindow",
  { [name]: value }: OptionValues,
  layout: Layout,
  sources: Config["sources"],
): void {
  if (value !== undefined) withSource(sources[name]?.text ?? "", () => checkWindowLength(name, value, layout));
}

function checkLongest({ window, maxWindow }: OptionValues, sources: Config["sources"]): void {
  if (window === undefined || maxWindow === undefined || window <= maxWindow) return;
  throw new SnowleaseError(
    "CONFIG_INVALID",
    `Expected \`window\` to be at most ${maxWindow} ms (\`maxWindow\`), got ${shown(window)}; correct ${sources.window?.text} or ${sources.maxWindow?.text}.`,
  );
}

/** The folder that is the default registry's, by the XDG rules: a relative one does not count. */
function defaultRegistry({ XDG_STATE_HOME: state = "", HOME: home = "" }: ConfigSources["env"]): RegistryAddress {
  const folder = isAbsolute(state) ? state : join(isAbsolute(home) ? home : homeOfUser(), ".local/state");
  return pathAddress("sqlite", join(folder, "snowlease/registry.db"));
}

function homeOfUser(): string {
  try {
    return userInfo().homedir;
  } catch (cause) {
    const message = "There is no home folder for the default registry; set HOME or XDG_STATE_HOME, or name a registry.";
    throw new SnowleaseError("CONFIG_INVALID", message, {}, { cause });
  }
}

/** The address with what to show to a daemon there. */
function withToken(registry: RegistryAddress | Registry, token: string | undefined): RegistryAddress | Registry {
  if (token === undefined || "claim" in registry) return registry;
  return registry.kind === "http" || registry.kind === "unix" ? { ...registry, token } : registry;
}

/** A namespace that is not the lent one is leased from a registry that is named: the default one is another than the lender's. */
function unborrowed(namespace: string, lent: LentLease, sources: Config["sources"]): SnowleaseError {
  return new SnowleaseError(
    "CONFIG_INVALID",
    `This process was started with a lease of namespace \`${lent.namespace}\` to borrow, and asks for namespace \`${namespace}\` without a registry; ` +
      `leave ${sources.namespace?.text} out to borrow that lease, or name the registry to lease from (SNOWLEASE_REGISTRY).`,
  );
}

/** An option that was meant, and has no value. */
function unset(name: OptionName): SnowleaseError {
  return new SnowleaseError(
    "CONFIG_INVALID",
    `Expected the option \`${name}\` to have a value, got undefined, as from an environment variable that is not set: the IDs could then be those of other generators; set the value, or leave the option out.`,
  );
}

/** The option of this name. CONFIG_INVALID when there is none, with the one that was probably meant. */
function known<Name extends string>(name: string, names: readonly Name[], from: string): Name {
  const found = names.find((known) => known === name);
  if (found !== undefined) return found;
  const meant = didYouMean(name, names);
  const quoted = shown(name).replace(/ \(string\)$/, "");
  throw new SnowleaseError(
    "CONFIG_INVALID",
    meant === undefined
      ? `There is no option ${quoted}; remove it from ${from}.`
      : `There is no option ${quoted}, the nearest is \`${meant}\`; correct ${from}.`,
  );
}
