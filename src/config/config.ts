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
import type { SnowflakeOptions } from "../generator/tick-allocator.ts";
import { checkSpread } from "../generator/spread.ts";
import { checkWindowLength, defaultWindow } from "../lease/window-length.ts";
import { isFrom, type LentLease, lentLease } from "./lent-lease.ts";
import {
  decisiveOptions,
  type OptionName,
  type OptionScope,
  optionTable,
  type OptionTypes,
  type OptionValues,
  readOption,
} from "./options.ts";
import { checkVariables } from "./variables.ts";

/** The sources of options, the strongest first: what a program passes, flags, environment, config file. */
export interface ConfigSources {
  /** As passed to `snowlease()`. An undefined option counts as not given, or is refused: see `decisiveOptions`. */
  readonly options?: object | undefined;
  /** By name without dashes, `claim-timeout`, as `node:util.parseArgs` returns them. Other names are ignored. */
  readonly flags?: Readonly<Record<string, unknown>> | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The folder in which to look for `snowlease.json`. Left out: no config file is read, even if a flag or variable names one. */
  readonly cwd?: string | undefined;
}

/** The defaults that depend on nothing. Times in ms. */
const defaults = {
  operationTimeout: 5000,
  mode: "wall",
  spread: 1,
  reuse: "any",
  ordinal: false,
  ordinalBase: 0,
  instance: "",
  insecure: false,
} as const;

/** Options that have a value when nothing gives them. */
type Defaulted = keyof typeof defaults | keyof typeof defaultRollback | "registry" | "namespace" | "layout" | "host";

/** All options, with defaults. Times in ms. */
export interface Config extends Omit<OptionValues, Defaulted | "pool" | "workerId">, Pick<OptionTypes, Defaulted> {
  /** named: by an option. default: the embedded file. borrowed: the lease of the `snowlease exec` that started this process. */
  readonly registryFrom: "named" | "default" | "borrowed";
  /** The worker IDs that may be leased: the option `pool` within `fixed`. */
  readonly pool: PoolBounds;
  /** The worker IDs that have the fixed fields; all of the layout if none is fixed. */
  readonly fixed: PoolBounds;
  /** Only those that were given. */
  readonly limits: Partial<NamespaceLimits>;
  /** From any source but the environment, which an assigner reads. */
  readonly workerId: number | undefined;
  /** The source of each option that was given. */
  readonly sources: Readonly<Partial<Record<OptionName, ConfigSource>>>;
}

/** The source of an option. */
interface ConfigSource {
  readonly level: "program" | "environment" | "file";
  /** For people: "--window", "SNOWLEASE_WINDOW". */
  readonly text: string;
}

/** An option that a level gives. */
interface Given {
  readonly name: OptionName;
  readonly value: unknown;
  readonly source: ConfigSource;
}

const inScope = (...scopes: readonly OptionScope[]): readonly OptionName[] =>
  optionTable.filter((option) => option.scopes.some((scope) => scopes.includes(scope))).map(({ name }) => name);
const libraryOptions = inScope("library");
const urlOptions = inScope("url");
const fileOptions = inScope("cli", "daemon").filter((name) => name !== "config");

const ownWindow = 60_000;
/** A registry in a file has no outages of its own, so a short window is enough, and the worker ID of a crashed holder rests briefly. */
const embeddedWindow = 2000;
/** The claim timeout of a borrower, ms: a borrower that has ended may keep its place for 10 s. */
const borrowTimeout = 15_000;

/**
 * Reads all options. Checks every value that is given, even if a stronger source overrides it. Options in the query of a registry URL count
 * at the level of the URL, after that level's own options; the query of an overridden URL is ignored.
 * @throws SnowleaseError CONFIG_INVALID that names option, rule, value and source.
 */
export function resolveConfig(from: ConfigSources): Config {
  const { env } = from;
  checkVariables(env);
  const program = readProgram(from);
  const levels = [program, readEnvironment(env), readFile(from)];
  const named = levels.find((level) => valuesOf(level).registry !== undefined);
  const query = named === undefined ? new Map<string, string>() : readQuery(named);
  const values = { ...defaults, ...defaultRollback, ...valuesOf(levels.flat()) };
  const sources: Config["sources"] = byName(levels.flat(), ({ source }) => source);

  checkTokenTarget(from, values, sources);
  const lent = lentLease(env);
  const namespace = values.namespace ?? lent?.namespace ?? "default";
  const borrows = lent?.namespace === namespace && isFrom(lent, valuesOf(program).registry);
  const borrowed = borrows ? lent : undefined;
  if (lent !== undefined && !borrows && named === undefined) throw unborrowed(namespace, lent, sources);
  // The borrowed lease was made with the same environment and file. Only what the program itself asks for has to fit the lease.
  const wishes = borrows ? valuesOf(program) : values;
  const layout = wishes.layout ?? borrowed?.layout ?? defaultLayout;
  const { pool, fixed } = narrowed(wishes, sources, layout, borrows && named !== program ? new Map() : query);
  const { maxWindow, maxClockSkew } = values;
  const { workerId } = wishes;
  checkWindows(values, layout, sources);
  if (values.borrow === true) checkBorrow(values, sources);

  return {
    ...values,
    registry: borrowed?.address ?? withToken(values.registry ?? defaultRegistry(env), values.token),
    registryFrom: borrows ? "borrowed" : named === undefined ? "default" : "named",
    namespace,
    layout,
    pool,
    fixed,
    spread: withSource(sources.spread?.text ?? "", () => checkSpread(values.spread, layout)),
    limits: {
      ...(maxWindow !== undefined && !borrows && { maxWindow }),
      ...(maxClockSkew !== undefined && !borrows && { maxClockSkew }),
    },
    workerId:
      workerId === undefined
        ? undefined
        : numberWithin(workerId, sources.workerId?.text ?? "", { layout, pool, fixed }),
    env: wishes.env,
    assigner: wishes.assigner,
    ordinal: wishes.ordinal ?? defaults.ordinal,
    host: values.host ?? hostname(),
    sources,
  };
}

/** Whether the process borrows a lease: that of the process that started it, or of a daemon. */
export function borrows({ registryFrom, borrow }: Pick<Config, "registryFrom" | "borrow">): boolean {
  return registryFrom === "borrowed" || borrow === true;
}

export function generatorOptions({ mode, spread, maxWait, maxTell }: Config): SnowflakeOptions {
  return { mode, spread, rollback: { maxWait, maxTell } };
}

/**
 * The options whose default depends on the claim.
 * @param fixed the claim names the worker ID.
 * @param kind of the registry that is asked.
 */
export function leaseDefaults(
  { window, claimTimeout, onLost, layout, limits, registryFrom, borrow }: Config,
  fixed: boolean,
  kind: string,
): Pick<LeaseOptions, "window" | "claimTimeout" | "openTimeout" | "onLost"> {
  const embedded = fixed && kind === "sqlite";
  const borrowed = borrows({ registryFrom, borrow });
  const usual = embedded || borrowed ? embeddedWindow : ownWindow;
  const length = window ?? defaultWindow(usual, layout, limits.maxWindow ?? defaultLimits.maxWindow);
  return {
    window: length,
    // After a crash, the same worker ID comes free within one window. A borrower that has ended keeps its place for a while.
    claimTimeout: claimTimeout ?? (borrow === true ? borrowTimeout : fixed || borrowed ? length : 0),
    // The worker ID is granted: giving up would only make the next start wait. No registry stores a window that opens later.
    openTimeout: claimTimeout ?? longestOpening(limits),
    // The lender lends the same worker ID again.
    onLost: onLost ?? (fixed && !borrowed ? "stop" : "switch"),
  };
}

/** The longest time from a claim until its window opens, ms, if the namespace has these limits. */
function longestOpening(limits: Partial<NamespaceLimits>): number {
  const { maxWindow, maxClockSkew } = { ...defaultLimits, ...limits };
  return maxWindow + maxClockSkew;
}

function given(level: ConfigSource["level"], name: OptionName, value: unknown, text: string): Given {
  return { name, value: readOption(name, value, text), source: { level, text } };
}

/** The note of each option, by name. The first entry of an option is the strongest. */
function byName<Value>(options: readonly Given[], note: (option: Given) => Value): Record<string, Value> {
  return Object.fromEntries(options.toReversed().map((option) => [option.name, note(option)]));
}

function valuesOf(options: readonly Given[]): Partial<OptionTypes> {
  return byName(options, ({ value }) => value);
}

function readProgram({ options = {}, flags = {} }: ConfigSources): Given[] {
  const passed = Object.entries(options).flatMap(([key, value]) => {
    const name = knownName(key, libraryOptions, "the options");
    if (value !== undefined) return [given("program", name, value, `the option \`${name}\``)];
    if (!decisiveOptions.has(name)) return [];
    throw configInvalid(
      `Expected the option \`${name}\` to have a value, got undefined (is an environment variable unset?): other generators could then make the same IDs; set the value, or leave the option out.`,
    );
  });
  const flagged = optionTable.flatMap(({ name, flag = "" }) => {
    const value = flags[flag.slice(2)];
    return value === undefined ? [] : [given("program", name, value, flag)];
  });
  return [...passed, ...flagged];
}

function readEnvironment(env: ConfigSources["env"]): Given[] {
  return optionTable.flatMap(({ name, env: variable = "" }) => {
    const value = env[variable];
    // An assigner reads the worker ID: a property comes before it.
    return value === undefined || name === "workerId" ? [] : [given("environment", name, value, variable)];
  });
}

function readFile({ flags = {}, env, cwd }: ConfigSources): Given[] {
  if (cwd === undefined) return [];
  const named = flags["config"] ?? env["SNOWLEASE_CONFIG"];
  const path = resolve(cwd, typeof named === "string" ? named : "snowlease.json");
  return Object.entries(readConfigFile(path, named !== undefined)).map(([key, value]) => {
    const name = knownName(key, fileOptions, path);
    if (named !== undefined || name !== "assigner") return given("file", name, value, `\`${name}\` in ${path}`);
    throw configInvalid(
      `\`assigner\` in ${path} would run a program, and no option names this file; name the file with --config, or give the assigner with a flag.`,
    );
  });
}

/** Refuses to send a token of the environment to a registry that is named in a config file which was found, but which no option names. */
function checkTokenTarget({ flags = {}, env }: ConfigSources, values: OptionValues, sources: Config["sources"]): void {
  const { registry } = values;
  const isNamed = (flags["config"] ?? env["SNOWLEASE_CONFIG"]) !== undefined;
  if (isNamed || sources.registry?.level !== "file" || sources.token?.level !== "environment") return;
  if (registry === undefined || !takesToken(registry)) return;
  throw configInvalid(
    `${sources.registry.text} would receive ${sources.token.text}, and no option names this file; name the file with --config, or the registry with SNOWLEASE_REGISTRY.`,
  );
}

/** Adds the query of this level's registry URL to the level. Returns the parameters that are no options: fields of the layout. */
function readQuery(level: Given[]): Map<string, string> {
  const rest = new Map<string, string>();
  const { registry } = valuesOf(level);
  const source = level.find(({ name }) => name === "registry")?.source;
  if (source === undefined || registry === undefined || "claim" in registry) return rest;
  for (const [key, value] of Object.entries(registry.parameters)) {
    const name = urlOptions.find((name) => name === key);
    if (name === undefined) rest.set(key, value);
    else level.push(given(source.level, name, value, `\`${key}\` in the registry URL from ${source.text}`));
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
  const inQuery = Array.from(query, ([key, value]) => [
    knownName(key, [...urlOptions, ...own, ...identity], url),
    // Any other text stays as it is: `narrow` then names it.
    /^(?:0|[1-9][0-9]{0,9})$/.test(value) ? Number(value) : value,
  ]);
  const named = Object.entries({ datacenter, machine, process }).filter(([, value]) => value !== undefined);
  const fixed: Record<string, number> = { ...Object.fromEntries(inQuery), ...fields, ...Object.fromEntries(named) };
  const options = ["pool", "datacenter", "machine", "process", "fields"] as const;
  const blamed = [...options.flatMap((name) => sources[name]?.text ?? []), ...(query.size > 0 ? [url] : [])];
  return withSource(blamed.join(" or "), () => ({
    pool: layout.narrow(fixed, pool),
    fixed: layout.narrow(fixed),
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

function withToken(registry: RegistryAddress | Registry, token: string | undefined): RegistryAddress | Registry {
  return token !== undefined && takesToken(registry) ? ({ ...registry, token } as RegistryAddress) : registry;
}

function takesToken(registry: RegistryAddress | Registry): registry is RegistryAddress {
  return !("claim" in registry) && storeOf(registry).registryKind === "daemon";
}

/** Refuses to borrow if there cannot be a lender, and refuses options that a shared window cannot have. */
function checkBorrow(values: Partial<OptionTypes>, sources: Config["sources"]): void {
  const { registry, mode, spread, workerId, pool, reuse } = values;
  const from = sources.borrow?.text ?? "";
  const isNamed = registry !== undefined && ("claim" in registry || isOneDaemon(registry));
  if (!isNamed) {
    const got = registry === undefined ? undefined : registry.redacted;
    throw configInvalid(
      `Expected \`registry\` to be one daemon's address, such as unix:/run/snowlease/daemon.sock, since ${from} asks to borrow its lease, got ${shown(got)}; name the daemon, or leave \`borrow\` out.`,
    );
  }
  if (mode !== undefined && mode !== "wall") throw excluded("mode", "wall", mode, from);
  if (spread !== undefined && spread !== 1) throw excluded("spread", "1", spread, from);
  if (workerId !== undefined) throw excluded("workerId", "the lender's", workerId, from);
  if (pool !== undefined) throw excluded("pool", "the lender's", pool, from);
  if (reuse === "never") throw excluded("reuse", "any", reuse, from);
}

function isOneDaemon(address: RegistryAddress): boolean {
  return storeOf(address).registryKind === "daemon" && !("urls" in address && address.urls.length > 1);
}

function excluded(name: string, rule: string, value: unknown, from: string): SnowleaseError {
  return configInvalid(
    `Expected \`${name}\` to be ${rule}, since ${from} asks to borrow a lease, which other processes use, too, got ${shown(value)}; correct one of them.`,
  );
}

/** Another namespace than the lent one needs a named registry: the default registry is not the lender's. */
function unborrowed(namespace: string, lent: LentLease, sources: Config["sources"]): SnowleaseError {
  return configInvalid(
    `This process was started with a lease of namespace \`${lent.namespace}\` to borrow, and asks for namespace \`${namespace}\` without a registry; ` +
      `leave ${sources.namespace?.text} out to borrow that lease, or name the registry to lease from (SNOWLEASE_REGISTRY).`,
  );
}

/** The option of this name. CONFIG_INVALID if there is none, with the most similar name. */
function knownName<Name extends string>(name: string, names: readonly Name[], from: string): Name {
  const found = names.find((known) => known === name);
  if (found !== undefined) return found;
  const meant = didYouMean(name, names);
  const quoted = shown(name).replace(/ \(string\)$/, "");
  const advice = meant === undefined ? `remove it from ${from}` : `did you mean \`${meant}\`? Correct ${from}`;
  throw configInvalid(`There is no option ${quoted}; ${advice}.`);
}
