import type { ClientTarget } from "../store-kind.ts";
import { SnowleaseError } from "../../id/errors.ts";

/** The part of a ready client of ioredis, 5.9 or 6, that this file uses. */
interface ReadyClient {
  readonly options: IoredisSettings & { readonly redisOptions?: IoredisSettings };
  duplicate(...nodesAndOptions: readonly unknown[]): unknown;
  readonly isCluster?: boolean;
  /** Present only for a cluster. */
  readonly startupNodes?: readonly unknown[];
}

type IoredisSettings = Readonly<Record<string, unknown>>;

/** The settings that name the servers of a client, the way to them, and the login. */
const placeSettings: readonly string[] = [
  "host",
  "port",
  "path",
  "family",
  "db",
  "tls",
  "Connector",
  "natMap",
  "protocol",
  "disableClientInfo",
  "username",
  "password",
  "name",
  "sentinels",
  "sentinelUsername",
  "sentinelPassword",
  "sentinelTLS",
  "enableTLSForSentinelMode",
  "useSRVRecords",
  "resolveSrv",
  "dnsLookup",
];

/**
 * Where a ready client of ioredis connects to; undefined for any other object.
 * @throws SnowleaseError CONFIG_INVALID for a client that would put the keys elsewhere.
 */
export function redisClient(client: object): ClientTarget | undefined {
  const { options, duplicate, callBuffer } = client as IoredisSettings;
  if (typeof options !== "object" || options === null) return undefined;
  if (typeof duplicate !== "function" || typeof callBuffer !== "function") return undefined;
  const ready = client as ReadyClient;
  const { isCluster, startupNodes = [] } = ready;
  const node: IoredisSettings = isCluster === true ? (ready.options.redisOptions ?? {}) : ready.options;
  if (ready.options["keyPrefix"] || node["keyPrefix"]) {
    throw new SnowleaseError(
      "CONFIG_INVALID",
      'Expected a client without `keyPrefix`, which would hide the registry from other programs; give client.duplicate({ keyPrefix: "" }), and `namespace` to set registries apart.',
    );
  }
  const { username } = node;
  const user = typeof username === "string" && username !== "" ? username : undefined;
  if (isCluster === true) {
    return { scheme: "redis+cluster", servers: startupNodes.map(nodeServer), user, path: "" };
  }
  const { sentinels, name, path, db = 0, tls } = ready.options;
  if (Array.isArray(sentinels)) {
    const servers = (sentinels as readonly IoredisSettings[]).map(sentinelServer);
    return { scheme: "redis+sentinel", servers, user, path: `${String(name)}/${String(db)}` };
  }
  const servers = typeof path === "string" ? [{ host: path, port: 0 }] : [serverOf(ready.options, 6379)];
  return { scheme: tls ? "rediss" : "redis", servers, user, path: String(db) };
}

/**
 * A client of our own that connects as a ready client does, but only to the given servers. It does not take over other settings (queues,
 * retries, reads from replicas, changed replies). What `settings` leaves out has the driver's default.
 */
export function sameTarget(
  client: object,
  servers: ClientTarget["servers"],
  settings: IoredisSettings,
  clusterSettings: IoredisSettings,
): unknown {
  const ready = client as ReadyClient;
  const { isCluster, options, startupNodes = [] } = ready;
  const isMeant = ({ host, port }: ClientTarget["servers"][number]): boolean =>
    servers.some((server) => server.host === host && server.port === port);
  if (isCluster !== true) {
    const { sentinels } = options;
    const few = Array.isArray(sentinels) && {
      sentinels: (sentinels as readonly IoredisSettings[]).filter((one) => isMeant(sentinelServer(one))),
    };
    return ready.duplicate({ ...places(options), ...few, ...settings });
  }
  const nodes = startupNodes
    .filter((node) => isMeant(nodeServer(node)))
    .map((node) => (typeof node === "object" ? places(node as IoredisSettings) : node));
  const redisOptions = { ...places(options.redisOptions ?? {}), ...settings };
  return ready.duplicate(nodes, { ...places(options), ...clusterSettings, redisOptions });
}

/** Sets all other settings to undefined, which means the driver's default. A duplicate copies each setting that the caller leaves out. */
function places(settings: IoredisSettings): IoredisSettings {
  return Object.fromEntries(
    Object.entries(settings).map(([name, value]) => [name, placeSettings.includes(name) ? value : undefined]),
  );
}

function nodeServer(node: unknown): ClientTarget["servers"][number] {
  if (typeof node === "object" && node !== null) return serverOf(node as IoredisSettings, 6379);
  if (typeof node === "number") return { host: "127.0.0.1", port: node };
  // Skip the login, which is secret.
  const [, host = "", port = 6379] = /^(?:\w+:\/\/)?(?:[^@/]*@)?([^@/:]+)(?::(\d+))?/.exec(String(node)) ?? [];
  return { host, port: Number(port) };
}

function sentinelServer(sentinel: IoredisSettings): ClientTarget["servers"][number] {
  return serverOf(sentinel, 26_379);
}

function serverOf({ host, port }: IoredisSettings, usualPort: number): ClientTarget["servers"][number] {
  return { host: typeof host === "string" ? host : "localhost", port: Number(port ?? usualPort) };
}
