import type { RegistryAddress } from "../registries/index.ts";
import type { WorkerIdAssigner } from "../lease/assigner.ts";
import { classText } from "../registries/driver-client.ts";
import { configInvalid, shown, withSource } from "../id/errors.ts";
import type { Layout } from "../id/layout.ts";
import { namespaceForm } from "../id/namespace.ts";
import type { PoolBounds } from "../id/pool-bounds.ts";
import { presetNames, presets } from "../id/notation.ts";
import type { Registry } from "../rule/registry.ts";
import type { Mode } from "../generator/tick-allocator.ts";
import * as kind from "./option-kinds.ts";

/*
 * One table declares every option: validation, flags and --help, variables, the table of docs/options.md and (by scripts/docs.mjs) the
 * comments of `SnowleaseOptions` follow from it.
 */

/** The value of each option after it is read. Times in ms. */
export interface OptionTypes {
  readonly registry: RegistryAddress | Registry;
  readonly namespace: string;
  readonly layout: Layout;
  readonly pool: PoolBounds;
  readonly datacenter: number;
  readonly machine: number;
  readonly process: number;
  readonly fields: Readonly<Record<string, number>>;
  readonly window: number;
  readonly claimTimeout: number;
  readonly operationTimeout: number;
  readonly maxWait: number;
  readonly maxTell: number;
  readonly mode: Mode;
  readonly spread: number;
  readonly maxClockSkew: number;
  readonly maxWindow: number;
  readonly reuse: "any" | "never";
  readonly onLost: "switch" | "stop";
  readonly workerId: number | string;
  readonly properties: Readonly<Record<string, unknown>>;
  readonly env: string;
  readonly assigner: WorkerIdAssigner | string;
  readonly ordinal: boolean;
  readonly ordinalBase: number;
  readonly ip: string;
  readonly interface: string;
  readonly host: string;
  readonly instance: string;
  readonly listen: { readonly host: string; readonly port: number };
  readonly socket: string;
  readonly resp: kind.ListenPlace;
  readonly respIntegers: boolean;
  readonly allowHost: readonly string[];
  readonly tokens: string;
  readonly receiptKeys: string;
  readonly tlsCert: string;
  readonly tlsKey: string;
  readonly tlsClientCa: string;
  readonly claimsPerSecond: number;
  readonly clientQuota: number;
  readonly maxOwnLeases: number;
  readonly maxConnections: number;
  readonly lend: boolean;
  readonly insecure: boolean;
  readonly borrow: boolean;
  readonly token: string;
  readonly config: string;
}

export type OptionName = keyof OptionTypes;

/** The options that were given. */
export type OptionValues = { readonly [Name in OptionName]?: OptionTypes[Name] | undefined };

/** Where an option may be given. A config file takes those of `cli` and `daemon`, except `config` itself. */
export type OptionScope = "library" | "cli" | "url" | "daemon";

/** An option as documentation and the command line show it. */
export interface Option {
  readonly name: OptionName;
  /** `--claim-timeout`; undefined for an option that only the library has. */
  readonly flag: string | undefined;
  /** `SNOWLEASE_CLAIM_TIMEOUT`; undefined like `flag`. */
  readonly env: string | undefined;
  /** Stands for the value in `--help`; absent for a flag without one. */
  readonly value?: string;
  readonly description: string;
  /** The part of the description that holds only if a program passes the option to `snowlease`. */
  readonly program?: string;
  readonly default: string;
  readonly scopes: readonly OptionScope[];
}

interface Definition<Value> extends kind.Kind<Value>, Omit<Option, "name" | "flag" | "env" | "value"> {
  /** Messages must not quote the value. */
  readonly secret?: boolean;
  /** See `decisiveOptions`. */
  readonly decisive?: boolean;
}

/** Returns a function that makes the definitions of options with these scopes. */
function takenBy(scopes: readonly OptionScope[], decisive: boolean = false) {
  return <Value>(
    ofKind: kind.Kind<Value>,
    byDefault: string,
    description: string,
    more: Pick<Definition<Value>, "program" | "secret" | "decisive"> = {},
  ): Definition<Value> => ({ ...ofKind, scopes, default: byDefault, description, decisive, ...more });
}

const everywhere = takenBy(["library", "cli", "url", "daemon"]);
const claims = takenBy(["library", "cli", "url"]);
const holders = takenBy(["library", "cli", "daemon"]);
const daemon = takenBy(["daemon"]);
/** Each source of a worker ID is decisive, and so is each option that only the library has. */
const sources = takenBy(["library", "cli"], true);
const library = takenBy(["library"], true);
const decisive = true;

function fixes(field: string): string {
  return `Fixes the layout's field \`${field}\`: only worker IDs with this value are leased.`;
}

const definitions: { readonly [Name in OptionName]: Definition<OptionTypes[Name]> } = {
  registry: holders(
    kind.registryUrl,
    "`sqlite:` + `$XDG_STATE_HOME` or `~/.local/state` + `/snowlease/registry.db`",
    "The URL of the registry that leases worker IDs. Its query takes every option marked so.",
    {
      decisive,
      program:
        "A program may also pass a registry, which stays open, or a driver's ready client, alone or with settings of its store: `{ client, wait: 1 }`.",
    },
  ),
  namespace: claims(
    kind.namespace,
    "`default`",
    `The ID space: all its generators share one layout and one pool of worker IDs. It matches \`${namespaceForm}\`.`,
    { decisive },
  ),
  layout: everywhere(
    kind.layout,
    "`westid`",
    `The bits of an ID: ${presetNames.map((name) => `\`${name}\``).join(", ")}, or a notation: fields from the top bit down, \`@\`, the epoch in Unix ms, \`/\`, the tick in ms, and \`/wraps\` for a timestamp that starts again at 0, like \`${presets.westid}\`.`,
    { decisive },
  ),
  pool: everywhere(kind.pool, "the whole layout", "The range of worker IDs to lease from, such as `512-1023`.", {
    decisive,
  }),
  datacenter: claims(kind.integer("NUMBER"), "none", fixes("datacenter"), { decisive }),
  machine: claims(kind.integer("NUMBER"), "none", fixes("machine"), { decisive }),
  process: claims(kind.integer("NUMBER"), "none", `${fixes("process")} The fields above it have to be fixed, too.`, {
    decisive,
  }),
  fields: library(
    kind.fields,
    "none",
    "Fixes identity fields of the layout by name, from the top field down: `{ datacenter: 3 }`. In a URL, each field is a parameter with its own name.",
  ),
  window: everywhere(
    kind.duration(1),
    "60 s; 2 s for a fixed worker ID in an embedded registry; at least 4 ticks",
    "How far ahead a lease reaches, at least 3 ticks. A holder survives a registry outage of this length, and the worker ID of a crashed holder rests this long.",
  ),
  claimTimeout: claims(
    kind.duration(0),
    "0 for a free worker ID, one window for a fixed one; `maxWindow` + `maxClockSkew` for a window to open",
    "How long a claim waits for a free worker ID, and then for its window to open.",
  ),
  operationTimeout: everywhere(
    kind.duration(1),
    "5 s",
    "The deadline of one registry operation. An operation that waits for a locked registry file fails after this time without a write by another process.",
  ),
  maxWait: claims(kind.duration(0), "500 ms", "How long a generator waits after its clock was set back."),
  maxTell: claims(
    kind.duration(0),
    "1 m",
    "After a setback of the clock up to this size, callers get an error with the time to try again. After a larger one, the lease ends.",
  ),
  mode: claims(
    kind.oneOf("wall", "lead"),
    "`wall`",
    "`wall`: timestamps never lead the clock. `lead`: timestamps may lead the clock by up to the window, for bursts of more IDs than a tick has.",
  ),
  spread: claims(
    kind.integer("NUMBER"),
    "1",
    "How many different sequences a tick may begin with, a power of two. With 2^k, IDs are even in `id % 2^k` also where a generator makes few IDs.",
  ),
  maxClockSkew: everywhere(
    kind.duration(1),
    "10 s",
    "The largest tolerated difference between a holder's clock and the registry's clock. Fixed when the namespace is created.",
  ),
  maxWindow: everywhere(
    kind.duration(1),
    "2 m",
    "The longest window that a claim may ask for. Fixed when the namespace is created. A registry that lost the record of it waits for windows of up to 10 m: with longer ones, stop all holders after such a loss.",
  ),
  reuse: claims(
    kind.oneOf("any", "never"),
    "`any`",
    "`never`: lease only worker IDs that were never used, until the pool is used up.",
  ),
  onLost: claims(
    kind.oneOf("switch", "stop"),
    "`switch`; `stop` for a fixed worker ID",
    "After a lease is lost: `switch` claims another worker ID and goes on, `stop` ends.",
  ),
  workerId: sources(
    kind.workerId,
    "none",
    "The one worker ID to claim. Where fields are fixed: its number within them.",
  ),
  properties: library(
    kind.properties,
    "none",
    "System properties. `westid.workerId` or `snowlease.workerId` is the worker ID to claim.",
  ),
  env: sources(
    kind.matching("NAME", /^[A-Za-z_][A-Za-z0-9_]*$/, "to be the name of an environment variable"),
    "`SNOWLEASE_WORKER_ID`, then `WESTID_WORKERID`",
    "The environment variable that holds the worker ID to claim.",
  ),
  assigner: sources(kind.assigner, "none", "A WorkerIdAssigner, or the path of a module whose default export is one.", {
    program: "It has to answer within `operationTimeout` plus `claimTimeout`.",
  }),
  ordinal: sources(kind.truth, "`false`", "Claims the number at the end of the host's name, as in `orders-3`."),
  ordinalBase: sources(kind.integer("NUMBER"), "0", "A number to add to the ordinal."),
  ip: sources(
    kind.ipAddress,
    "the first IPv4 that is not loopback, else IPv6",
    "This host's address. Its last bits are the worker ID where no option names a worker ID or a registry.",
  ),
  interface: sources(
    kind.matching("NAME", /^\S{1,255}$/, "to be the name of a network interface"),
    "any",
    "The network interface that has this host's address.",
  ),
  host: holders(
    kind.label,
    "the host's name",
    "The name of this host in the registry. A claim prefers a worker ID that this host used before.",
  ),
  instance: holders(kind.label, "none", "The name of this process in the registry."),
  listen: daemon(
    kind.hostAndPort,
    "`127.0.0.1:7070`, or none where `socket` is given",
    "The address and port on which the daemon listens. A port alone means `127.0.0.1`. Port 0 takes a free port.",
  ),
  socket: daemon(kind.path, "none", "The Unix socket on which the daemon listens as well."),
  resp: daemon(
    kind.listenPlace,
    "none",
    "Where the daemon also answers in the Redis protocol: an address and port, as for `listen`, or the path of a Unix socket, with a `/` in it. `GET NAMESPACE` makes an ID.",
  ),
  respIntegers: daemon(
    kind.truth,
    "`false`",
    "Has `INCR` answer with an integer in the Redis protocol also where IDs have more than 53 bits. Many clients round such numbers, and get the same one twice.",
  ),
  allowHost: daemon(
    kind.hostNames,
    "none: those that `listen` allows",
    "More names by which clients may call the daemon, separated by commas, such as `snowlease.default.svc.cluster.local`. Without tokens, the daemon refuses a Host that is neither an address nor a name of one word, since a page in a browser can have any other name lead to it.",
  ),
  tokens: daemon(
    kind.path,
    "none: every client that reaches the daemon may do everything",
    "A file of the tokens that the daemon accepts, one line `TOKEN-SHA256 ROLE [NAMESPACE-GLOB]` each. The roles are `worker`, `read` and `admin`. The daemon reads the file again at SIGHUP.",
  ),
  receiptKeys: daemon(
    kind.path,
    "none: each namespace's own key",
    "A file of keys for receipts, one line `NAME KEY` each; KEY is 32 to 128 hexadecimal digits. The first key signs, each key is accepted. A namespace's own key in the registry is always accepted, too. Give the same keys to each daemon of one registry, and to no other daemon. The daemon reads the file again at SIGHUP.",
  ),
  tlsCert: daemon(
    kind.path,
    "none: plain HTTP",
    "A PEM file with the daemon's certificate and its intermediate certificates. TLS 1.2 or newer. The daemon reads the file again at SIGHUP.",
  ),
  tlsKey: daemon(kind.path, "none", "A PEM file with the private key of `tlsCert`, without a passphrase."),
  tlsClientCa: daemon(
    kind.path,
    "none: clients need no certificate",
    "A PEM file of certificate authorities. Every client needs a certificate of one of them, in addition to a token.",
  ),
  claimsPerSecond: daemon(
    kind.integer("NUMBER"),
    "100",
    "How many claims a second one client may make, after a burst of 10 times as many. A client is a token, else an address; a socket is one client. `0`: no limit.",
  ),
  clientQuota: daemon(
    kind.integer("PERCENT", 1, 100),
    "none: one client may lease a whole pool",
    "How many percent of a namespace's worker IDs (of `pool`, or else of the layout) one client may hold at once. A client is the same as for `claimsPerSecond`.",
  ),
  maxOwnLeases: daemon(
    kind.integer("NUMBER", 1),
    "100",
    "In how many namespaces at once the daemon makes IDs (`POST …/ids`), each with its own lease. For one more, the daemon gives back the lease that was unused for the longest time. It gives back a lease that is unused for 5 windows, too.",
  ),
  maxConnections: daemon(
    kind.integer("NUMBER", 1),
    "10,000, or the process's limit of open files less 128",
    "How many connections may be open at once. When there is no room, the daemon closes idle ones, those without a token first. One address may have a quarter of all before it shows a token. Health checks always get through.",
  ),
  lend: daemon(
    kind.truth,
    "`false`",
    "Lends the daemon's own lease of a namespace, with which it makes IDs, to clients that ask for it with `borrow`: up to 24 processes share one worker ID.",
  ),
  insecure: daemon(
    kind.truth,
    "`false`",
    "Allows the daemon to listen without tokens and TLS where other machines can reach it, and on a socket that any user of this machine could replace.",
  ),
  borrow: takenBy(["library", "url"])(
    kind.truth,
    "`false`",
    'Makes IDs on the lease of a daemon that runs with `lend`, together with other processes, instead of on a lease of its own. Neither with `mode: "lead"` nor with `spread`.',
  ),
  token: claims(
    kind.matching("TOKEN", /^[\x21-\x7e]{1,1024}$/, "to be 1 to 1024 visible ASCII characters"),
    "none",
    "The token for a daemon whose URL has none (`http://:TOKEN@HOST:PORT`). The environment and the URL's query are safer places than the arguments, which every user can read.",
    { secret: true },
  ),
  config: takenBy(["cli", "daemon"])(
    kind.path,
    "`snowlease.json`, where it exists",
    "A JSON file with these options. The library reads none. A file that is only found in the current folder has to belong to this user or root, must not be writable for other users or groups, and may name no `assigner` and no daemon that would get `SNOWLEASE_TOKEN`.",
  ),
};

const names = Object.keys(definitions) as OptionName[];

/**
 * Options that decide among which generators an ID is unique: the registry, the bits, the worker IDs, and the source of a worker ID. Such
 * an option is refused if it is passed as undefined: ignoring it would silently change which IDs are unique.
 */
export const decisiveOptions: ReadonlySet<OptionName> = new Set(names.filter((name) => definitions[name].decisive));

/** Every option. */
export const optionTable: readonly Option[] = names.map((name) => {
  const definition: Definition<unknown> = definitions[name];
  const dashed = name.replace(/[A-Z]/g, "-$&").toLowerCase();
  const isNamed = definition.scopes.some((scope) => scope === "cli" || scope === "daemon");
  return {
    ...definition,
    name,
    flag: isNamed ? `--${dashed}` : undefined,
    env: isNamed ? `SNOWLEASE_${dashed.replaceAll("-", "_").toUpperCase()}` : undefined,
  };
});

/**
 * Reads the value of an option.
 * @param from the place to correct, for the message.
 * @throws SnowleaseError CONFIG_INVALID that names option, rule, value and source.
 */
export function readOption<Name extends OptionName>(name: Name, value: unknown, from: string): OptionTypes[Name] {
  const { read, rule, secret = false } = definitions[name];
  const result = withSource(from, () => read(value));
  if (result !== undefined) return result;
  // An object may hold a password somewhere inside, and need not have a JSON form.
  const got = secret
    ? "another text"
    : value === null || !["object", "function"].includes(typeof value)
      ? shown(value)
      : classText(value);
  const expected = typeof rule === "string" ? rule : rule(value);
  throw configInvalid(`Expected \`${name}\` ${expected}, got ${got}; correct ${from}.`);
}
