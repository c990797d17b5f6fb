import { hostname, userInfo } from "node:os";
import { isAbsolute, join, resolve } from "node:path";
import { readConfigFile } from "./config-file.ts";
import { pathAddress, type RegistryAddress, storeOf } from "../registries/index.ts";
import { numberWithin } from "../lease/assigner.ts";
import { configInvalid, shown, type SnowleaseError, withSource } from "../id/errors.ts";
import { defaultLayout, type Layout } from "../id/layout.ts";
import type { PoolBounds } from "../id/pool-bounds.ts";
import type { LeaseOptions } from "../lease/lease.ts";
import { didYouMean } from "../id/did-you-mean.ts";
import { type Registry } from "../rule/registry.ts";
import { defaultLimits, type NamespaceLimits } from "../rule/limits.ts";
import { defaultRollback } from "../generator/rollback.ts";
import type { Mode, SnowflakeOptions } from "../generator/tick-allocator.ts";
import { checkSpread } from "../generator/spread.ts";
import { checkWindowLength, defaultWindow } from "../lease/window-length.ts";
import { isFrom, type LentLease, lentLease } from "./lent-lease.ts";
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
  /** As passed to `snowlease()`. An undefined option counts as not given, or is refused: see `decisiveOptions`. */
  readonly options?: object | undefined;
  /** By name without dashes, `claim-timeout`, as `node:util.parseArgs` returns them. Names of no option are ignored. */
  readonly flags?: Readonly<Record<string, unknown>> | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The folder in which to look for `snowlease.json`. Left out: no config file is read, also where a flag or variable names one. */
  readonly cwd?: string | undefined;
}

/** All options, with defaults. Times in ms. */
export interface Config extends OptionValues {
  readonly registry: RegistryAddress | Registry;
  /** named: by an option. default: the embedded file. borrowed: the lease of the `snowlease exec` that started this process. */
  readonly registryFrom: "named" | "default" | "borrowed";
  readonly namespace: string;
  readonly layout: Layout;
  /** The worker IDs that may be leased: the option `pool` within `fixed`. */
  readonly pool: PoolBounds;
  /** The worker IDs that have the fixed fields; all of the layout where none is fixed. */
  readonly fixed: PoolBounds;
  readonly operationTimeout: number;
  readonly maxWait: number;
  readonly maxTell: number;
  readonly mode: Mode;
  readonly spread: number;
  /** Only those that were given. */
  readonly limits: Partial<NamespaceLimits>;
  readonly reuse: "any" | "never";
  /** From any source but the environment, which an assigner reads. */
  readonly workerId: number | undefined;
  readonly ordinal: boolean;
  readonly ordinalBase: number;
  readonly host: string;
  readonly instance: string;
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
/** A registry in a file has no outages of its own, so a short window is enough, and the ID of a crashed holder rests briefly. */
const embeddedWindow = 2000;

/**
 * Reads all options. Checks every value that is given, also where a stronger source overrides it. Options in the query of a registry URL
 * count at the level of the URL, after that level's own options; the query of an overridden URL is ignored.
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

  checkTokenTarget(from, values, sources);
  const [program] = levels as [Level, ...Level[]];
  const lent = lentLease(env);
  const namespace = values.namespace ?? lent?.namespace ?? "default";
  const borrows = lent?.namespace === namespace && isFrom(lent, (program.values as OptionValues).registry);
  const borrowed = borrows ? lent : undefined;
  if (lent !== undefined && !borrows && named === undefined) throw unborrowed(namespace, lent, sources);
  // Environment and file of a borrower went into the lease that it borrows. Only what the program itself asks for has to fit it.
  const wishes = borrows ? (program.values as OptionValues) : values;
  const layout = wishes.layout ?? borrowed?.layout ?? defaultLayout;
  const { pool, fixed } = narrowed(wishes, sources, layout, borrows && named !== program ? new Map() : query);
  const { maxWindow, maxClockSkew } = values;
  const { workerId } = wishes;
  checkWindows(values, layout, sources);

  return {
    ...values,
    registry: borrowed?.address ?? withToken(values.registry ?? defaultRegistry(env), values.token),
    registryFrom: borrows ? "borrowed" : named === undefined ? "default" : "named",
    namespace,
    layout,
    pool,
    fixed,
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
    workerId:
      workerId === undefined
        ? undefined
        : numberWithin(workerId, sources.workerId?.text ?? "", { layout, pool, fixed }),
    env: wishes.env,
    assigner: wishes.assigner,
    ordinal: wishes.ordinal ?? false,
    ordinalBase: values.ordinalBase ?? 0,
    host: values.host ?? hostname(),
    instance: values.instance ?? "",
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
    // The lender lends the same worker ID again.
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
    const name = knownName(key, libraryOptions, "the options");
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
    // An assigner reads it: a property comes before it.
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
    const name = knownName(key, fileOptions, path);
    if (named === undefined && name === "assigner") {
      throw configInvalid(
        `\`assigner\` in ${path} would run a program, and no option names this file; name the file with --config, or give the assigner with a flag.`,
      );
    }
    give(level, name, value, `\`${name}\` in ${path}`);
  }
  return level;
}

/** Refuses to send a token of the environment to a registry that a merely found config file names. */
function checkTokenTarget({ flags = {}, env }: ConfigSources, values: OptionValues, sources: Config["sources"]): void {
  const { registry } = values;
  const isNamed = (flags["config"] ?? env["SNOWLEASE_CONFIG"]) !== undefined;
  if (isNamed || sources.registry?.level !== "file" || sources.token?.level !== "environment") return;
  if (registry === undefined || "claim" in registry) return;
  if (registry.kind !== "http" && registry.kind !== "unix") return;
  throw configInvalid(
    `${sources.registry.text} would receive ${sources.token.text}, and no option names this file; name the file with --config, or the registry with SNOWLEASE_REGISTRY.`,
  );
}

/** Adds the query of this level's registry URL to the level. Returns the parameters that are no options: fields of the layout. */
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
  { registry, pool, datacenter, machine, process, fields }: OptionValues,
  sources: Config["sources"],
  layout: Layout,
  query: ReadonlyMap<string, string>,
): Pick<Config, "pool" | "fixed"> {
  const url = `the query of the registry URL from ${sources.registry?.text}`;
  const own = registry === undefined || "claim" in registry ? [] : Object.keys(storeOf(registry).parameters ?? {});
  const identity = Object.keys(layout.split(0));
  const fixed: Record<string, unknown> = {};
  for (const [key, value] of query) {
    const name = knownName(key, [...urlOptions, ...own, ...identity], url);
    // Any other text stays as it is: `narrow` then names it.
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

/** Refuses windows that the layout cannot have, and a window above `maxWindow`. */
function checkWindows(values: OptionValues, layout: Layout, sources: Config["sources"]): void {
  for (const name of ["window", "maxWindow"] as const) {
    const value = values[name];
    if (value !== undefined) withSource(sources[name]?.text ?? "", () => checkWindowLength(name, value, layout));
  }
  const { window, maxWindow = Infinity } = values;
  if (window === undefined || window <= maxWindow) return;
  throw configInvalid(
    `Expected \`window\` to be at most ${maxWindow} ms (\`maxWindow\`), got ${shown(window)}; correct ${sources.window?.text} or ${sources.maxWindow?.text}.`,
  );
}

/** The default registry, by the XDG rules: a relative folder is ignored. */
function defaultRegistry({ XDG_STATE_HOME: state = "", HOME: home = "" }: ConfigSources["env"]): RegistryAddress {
  const folder = isAbsolute(state) ? state : join(isAbsolute(home) ? home : homeOfUser(), ".local/state");
  return pathAddress("sqlite", join(folder, "snowlease/registry.db"));
}

function homeOfUser(): string {
  try {
    return userInfo().homedir;
  } catch (cause) {
    throw configInvalid(
      "This user has no home folder for the default registry; set HOME or XDG_STATE_HOME, or name a registry.",
      cause,
    );
  }
}

/** The address with the token for a daemon there. */
function withToken(registry: RegistryAddress | Registry, token: string | undefined): RegistryAddress | Registry {
  if (token === undefined || "claim" in registry) return registry;
  return registry.kind === "http" || registry.kind === "unix" ? { ...registry, token } : registry;
}

/** Another namespace than the lent one needs a named registry: the default registry is not the lender's. */
function unborrowed(namespace: string, lent: LentLease, sources: Config["sources"]): SnowleaseError {
  return configInvalid(
    `This process was started with a lease of namespace \`${lent.namespace}\` to borrow, and asks for namespace \`${namespace}\` without a registry; ` +
      `leave ${sources.namespace?.text} out to borrow that lease, or name the registry to lease from (SNOWLEASE_REGISTRY).`,
  );
}

/** A decisive option without a value. */
function unset(name: OptionName): SnowleaseError {
  return configInvalid(
    `Expected the option \`${name}\` to have a value, got undefined (is an environment variable unset?): other generators could then make the same IDs; set the value, or leave the option out.`,
  );
}

/** The option of this name. CONFIG_INVALID where there is none, with the most similar name. */
function knownName<Name extends string>(name: string, names: readonly Name[], from: string): Name {
  const found = names.find((known) => known === name);
  if (found !== undefined) return found;
  const meant = didYouMean(name, names);
  const quoted = shown(name).replace(/ \(string\)$/, "");
  throw configInvalid(
    meant === undefined
      ? `There is no option ${quoted}; remove it from ${from}.`
      : `There is no option ${quoted}; did you mean \`${meant}\`? Correct ${from}.`,
  );
}
