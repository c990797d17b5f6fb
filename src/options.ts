import type { RegistryAddress } from "./registries/address.ts";
import type { WorkerIdAssigner } from "./lease/assigner.ts";
import { classText } from "./registries/driver-client.ts";
import { withSource, shown, SnowleaseError } from "./id/errors.ts";
import type { Layout } from "./id/layout.ts";
import type { PoolBounds } from "./id/pool-bounds.ts";
import { presetNames, presets } from "./id/notation.ts";
import type { Registry } from "./rule/registry.ts";
import type { Mode } from "./generator/tick-allocator.ts";
import {
  assigner,
  duration,
  fields,
  hostAndPort,
  integer,
  ipAddress,
  type Kind,
  label,
  layout,
  matching,
  oneOf,
  path,
  pool,
  properties,
  registryUrl,
  truth,
  workerId,
} from "./option-kinds.ts";

/*
 * One table makes the validation, the command line's flags and --help, the names in the environment, and the table of
 * docs/options.md.
 */

/** Every option that was given, as read. Times in ms. */
export interface OptionValues {
  readonly registry?: RegistryAddress | Registry;
  readonly namespace?: string;
  readonly layout?: Layout;
  readonly pool?: PoolBounds;
  readonly datacenter?: number;
  readonly machine?: number;
  readonly process?: number;
  readonly fields?: Readonly<Record<string, number>>;
  readonly window?: number;
  readonly claimTimeout?: number;
  readonly operationTimeout?: number;
  readonly maxWait?: number;
  readonly maxTell?: number;
  readonly mode?: Mode;
  readonly spread?: number;
  readonly maxClockSkew?: number;
  readonly maxWindow?: number;
  readonly reuse?: "any" | "never";
  readonly onLost?: "switch" | "stop";
  readonly workerId?: number | string;
  readonly properties?: Readonly<Record<string, unknown>>;
  readonly env?: string;
  readonly assigner?: WorkerIdAssigner | string;
  readonly ordinal?: boolean;
  readonly ordinalBase?: number;
  readonly ip?: string;
  readonly interface?: string;
  readonly host?: string;
  readonly instance?: string;
  readonly listen?: { readonly host: string; readonly port: number };
  readonly socket?: string;
  readonly tokens?: string;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly tlsClientCa?: string;
  readonly claimsPerSecond?: number;
  readonly clientQuota?: number;
  readonly maxOwnLeases?: number;
  readonly maxConnections?: number;
  readonly insecure?: boolean;
  readonly token?: string;
  readonly config?: string;
}

export type OptionName = keyof OptionValues;

/** Where an option may be given. A config file takes those of `cli` and `daemon`, but for `config` itself. */
export type OptionScope = "library" | "cli" | "url" | "daemon";

/** An option as documentation and the command line see it. */
export interface Option {
  readonly name: OptionName;
  /** `--claim-timeout`; undefined for an option that only the library has. */
  readonly flag: string | undefined;
  /** `SNOWLEASE_CLAIM_TIMEOUT`; undefined like `flag`. */
  readonly env: string | undefined;
  /** Stands for the value in `--help`; undefined for a flag without one. */
  readonly value: string | undefined;
  readonly description: string;
  readonly default: string;
  readonly scopes: readonly OptionScope[];
}

interface Definition<Value> extends Kind<Value> {
  /** What a message must not quote. */
  readonly secret?: boolean;
  readonly scopes: readonly OptionScope[];
  readonly default: string;
  readonly description: string;
}

const everywhere: readonly OptionScope[] = ["library", "cli", "url", "daemon"];
const claims: readonly OptionScope[] = ["library", "cli", "url"];
const sources: readonly OptionScope[] = ["library", "cli"];
const holders: readonly OptionScope[] = ["library", "cli", "daemon"];

function define<Value>(
  kind: Kind<Value>,
  scopes: readonly OptionScope[],
  byDefault: string,
  description: string,
): Definition<Value> {
  return { ...kind, scopes, default: byDefault, description };
}

const definitions: { readonly [Name in OptionName]-?: Definition<NonNullable<OptionValues[Name]>> } = {
  registry: define(
    registryUrl,
    holders,
    "`sqlite:` + `$XDG_STATE_HOME` or `~/.local/state` + `/snowlease/registry.db`",
    "Where worker IDs are leased from. The URL's query takes every option marked so.",
  ),
  namespace: define(
    matching("NAME", /^[a-z][a-z0-9_]{0,31}$/, "to match [a-z][a-z0-9_]{0,31}"),
    claims,
    "`default`",
    "The ID space: one layout, one pool of worker IDs.",
  ),
  layout: define(
    layout,
    everywhere,
    "`westid`",
    `The bits of an ID: ${presetNames.map((name) => `\`${name}\``).join(", ")}, or a notation: fields from the top bit down, \`@\`, the epoch in Unix ms, \`/\`, the tick in ms, \`/wraps\` where the timestamp starts again at 0, like \`${presets.westid}\`.`,
  ),
  pool: define(pool, everywhere, "the whole layout", "The worker IDs that may be leased, such as `512-1023`."),
  datacenter: define(
    integer("NUMBER"),
    claims,
    "none",
    "Fixes the layout's field `datacenter`, which narrows the pool.",
  ),
  machine: define(integer("NUMBER"), claims, "none", "Fixes the layout's field `machine`, which narrows the pool."),
  process: define(
    integer("NUMBER"),
    claims,
    "none",
    "Fixes the layout's field `process`, which narrows the pool; with what is above it.",
  ),
  fields: define(
    fields,
    ["library"],
    "none",
    "Fixes identity fields of the layout, the topmost first: `{ datacenter: 3 }`. In a URL each is a parameter by its own name.",
  ),
  window: define(
    duration(1),
    everywhere,
    "60 s; 2 s for a fixed worker ID in an embedded registry; at least 4 ticks",
    "How far ahead a lease reaches: the longest outage of the registry a holder survives, and how long a crashed one's worker ID rests.",
  ),
  claimTimeout: define(
    duration(0),
    claims,
    "0; one window for a fixed worker ID",
    "How long a claim may wait for a worker ID to come free.",
  ),
  operationTimeout: define(
    duration(1),
    everywhere,
    "5 s",
    "Deadline of one registry operation. Of one that waits for a registry file: longest time in which nobody writes to it.",
  ),
  maxWait: define(duration(0), claims, "500 ms", "How long to wait for a clock that was set back."),
  maxTell: define(
    duration(0),
    claims,
    "1 m",
    "Up to which setback of the clock callers are told to try again; beyond it the lease is given up.",
  ),
  mode: define(
    oneOf("wall", "lead"),
    claims,
    "`wall`",
    "`wall`: timestamps never lead the clock. `lead`: they may, as far as the window reaches, for bursts of more IDs than a tick has.",
  ),
  spread: define(
    integer("NUMBER"),
    claims,
    "1",
    "With how many different sequences a tick may begin, a power of two: with 2^k also the IDs of a generator that makes few are even in `id % 2^k`.",
  ),
  maxClockSkew: define(
    duration(1),
    everywhere,
    "10 s",
    "Largest tolerated difference between a holder's clock and the registry's. Fixed when the namespace is created.",
  ),
  maxWindow: define(
    duration(1),
    everywhere,
    "10 m",
    "Longest window that may be asked for. Fixed when the namespace is created.",
  ),
  reuse: define(
    oneOf("any", "never"),
    claims,
    "`any`",
    "`never`: only worker IDs that nobody ever used, until the pool is used up.",
  ),
  onLost: define(
    oneOf("switch", "stop"),
    claims,
    "`switch`; `stop` for a fixed worker ID",
    "When a lease is lost: claim another worker ID and go on, or end.",
  ),
  workerId: define(
    workerId,
    sources,
    "none",
    "The one worker ID to claim; where fields are fixed, its number within them.",
  ),
  properties: define(
    properties,
    ["library"],
    "none",
    "System properties: `westid.workerId` or `snowlease.workerId` is the worker ID to claim.",
  ),
  env: define(
    matching("NAME", /^[A-Za-z_][A-Za-z0-9_]*$/, "to be the name of an environment variable"),
    sources,
    "`SNOWLEASE_WORKER_ID`, then `WESTID_WORKERID`",
    "The environment variable that holds the worker ID to claim.",
  ),
  assigner: define(
    assigner,
    sources,
    "none",
    "A WorkerIdAssigner, or the path of a module whose default export is one.",
  ),
  ordinal: define(truth, sources, "`false`", "Claim the number that ends the host's name, as in `orders-3`."),
  ordinalBase: define(integer("NUMBER"), sources, "0", "Added to that number."),
  ip: define(
    ipAddress,
    sources,
    "the first IPv4 that is not loopback, else IPv6",
    "The address whose last bits are claimed where nothing else names a worker ID or a registry.",
  ),
  interface: define(
    matching("NAME", /^\S{1,255}$/, "to be the name of a network interface"),
    sources,
    "any",
    "The network interface whose address that is.",
  ),
  host: define(
    label,
    holders,
    "the host's name",
    "Names this host in the registry; a worker ID that it used before is preferred.",
  ),
  instance: define(label, holders, "none", "Names this process in the registry."),
  listen: define(hostAndPort, ["daemon"], "`127.0.0.1:7070`", "Where the daemon listens."),
  socket: define(path, ["daemon"], "none", "Unix socket on which the daemon listens, too."),
  tokens: define(
    path,
    ["daemon"],
    "none: whoever reaches the daemon may do everything",
    "File of the tokens that the daemon takes, a line `TOKEN-SHA256 ROLE [NAMESPACE-GLOB]` each; roles `worker`, `read`, `admin`. Read again at SIGHUP.",
  ),
  tlsCert: define(
    path,
    ["daemon"],
    "none: plain HTTP",
    "PEM file of the daemon's certificate, and of those between it and its authority. TLS 1.2 or newer; read again at SIGHUP.",
  ),
  tlsKey: define(path, ["daemon"], "none", "PEM file of its private key, without a passphrase."),
  tlsClientCa: define(
    path,
    ["daemon"],
    "none: clients need no certificate",
    "PEM file of authorities: every client has to have a certificate of one of them, besides a token.",
  ),
  claimsPerSecond: define(
    integer("NUMBER"),
    ["daemon"],
    "100",
    "Claims a second that one client (a token, else an address; a socket is one) may go on making, after 10 times as many at once. `0`: any number.",
  ),
  clientQuota: define(
    integer("PERCENT", 1, 100),
    ["daemon"],
    "none: one client may lease all of a pool",
    "How many percent of a namespace's worker IDs (of `pool`, or else of the layout) one client (as for `claimsPerSecond`) may have at once.",
  ),
  maxOwnLeases: define(
    integer("NUMBER", 1),
    ["daemon"],
    "100",
    "In how many namespaces at once the daemon makes IDs (`POST …/ids`), each on a lease of its own. For one more, the lease that was used the longest ago goes back. One that is not used for 5 windows goes back by itself.",
  ),
  maxConnections: define(
    integer("NUMBER", 1),
    ["daemon"],
    "10,000, or what the process may open as files less 128",
    "Connections at once. When there is no room, the daemon ends idle ones, those without a token first. One address may have a quarter of all before it shows a token. Health checks always get through.",
  ),
  insecure: define(
    truth,
    ["daemon"],
    "`false`",
    "Listen where other machines can reach the daemon, also without tokens and TLS; and on a socket that any user of this machine could replace.",
  ),
  token: {
    ...define(
      matching("TOKEN", /^[\x21-\x7e]{1,1024}$/, "to be 1 to 1024 visible ASCII characters"),
      claims,
      "none",
      "The token that a daemon is shown whose URL has none (`http://:TOKEN@HOST:PORT`). Better in the environment or the URL's query than among the arguments.",
    ),
    secret: true,
  },
  config: define(
    path,
    ["cli", "daemon"],
    "`snowlease.json`, where there is one",
    "JSON file of these options. The library reads none. One that is only found in the current folder has to belong to this user or root, with no other user or group that may write to it, and names no `assigner` and no daemon that would get `SNOWLEASE_TOKEN`.",
  ),
};

/**
 * Options that decide among which generators an ID is unique: the registry, the bits, the numbers, and from where a number comes. One
 * that is passed as undefined was meant, and leaving it out would change that without a word.
 */
export const decisiveOptions: ReadonlySet<OptionName> = new Set([
  "registry",
  "namespace",
  "layout",
  "pool",
  "datacenter",
  "machine",
  "process",
  "fields",
  "workerId",
  "properties",
  "env",
  "assigner",
  "ordinal",
  "ordinalBase",
  "ip",
  "interface",
]);

const names = Object.keys(definitions) as OptionName[];

/** Every option. */
export const optionTable: readonly Option[] = names.map((name) => {
  const { value, description, scopes, default: byDefault } = definitions[name];
  const words = name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  const named = scopes.some((scope) => scope === "cli" || scope === "daemon");
  return {
    name,
    flag: named ? `--${words}` : undefined,
    env: named ? `SNOWLEASE_${words.replaceAll("-", "_").toUpperCase()}` : undefined,
    value,
    description,
    default: byDefault,
    scopes,
  };
});

/**
 * Reads the value of an option.
 * @param from what to correct, for the message.
 * @throws SnowleaseError CONFIG_INVALID that names option, rule, value and source.
 */
export function readOption<Name extends OptionName>(
  name: Name,
  value: unknown,
  from: string,
): NonNullable<OptionValues[Name]> {
  const { read, rule, secret = false } = definitions[name];
  const result = withSource(from, () => read(value));
  if (result !== undefined) return result as NonNullable<OptionValues[Name]>;
  // An object may hold a password somewhere inside, and need not have a JSON form.
  const got = secret
    ? "another text"
    : value === null || !["object", "function"].includes(typeof value)
      ? shown(value)
      : classText(value);
  throw new SnowleaseError("CONFIG_INVALID", `Expected \`${name}\` ${rule}, got ${got}; correct ${from}.`);
}
