import type { ClientTarget } from "../store-kind.ts";
import { SnowleaseError } from "../../id/errors.ts";

/** What is used of a ready client of ioredis, 5.9 or 6. */
interface Single {
  readonly isCluster?: false;
  readonly options: Settings;
  duplicate(options: object): unknown;
}

interface Cluster {
  readonly isCluster: true;
  readonly options: Settings & { readonly redisOptions?: Settings };
  readonly startupNodes: readonly unknown[];
  duplicate(nodes: readonly unknown[], options: object): unknown;
}

type Settings = Readonly<Record<string, unknown>>;

/** Of a client's settings those that say where servers are, how to get there, and who logs in. */
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

/** A ready client of ioredis. @throws SnowleaseError CONFIG_INVALID for one that would put the keys elsewhere. */
export function redisClient(client: object): ClientTarget | undefined {
  const { options, duplicate, callBuffer } = client as Settings;
  if (typeof options !== "object" || options === null) return undefined;
  if (typeof duplicate !== "function" || typeof callBuffer !== "function") return undefined;
  const ready = client as Single | Cluster;
  const { isCluster } = ready;
  const node: Settings = isCluster === true ? (ready.options.redisOptions ?? {}) : ready.options;
  if (ready.options["keyPrefix"] || node["keyPrefix"]) {
    throw new SnowleaseError(
      "CONFIG_INVALID",
      'Expected a client without `keyPrefix`, under which nobody else would find the registry; give client.duplicate({ keyPrefix: "" }), and `namespace` to set registries apart.',
    );
  }
  const { username } = node;
  const user = typeof username === "string" && username !== "" ? username : undefined;
  if (isCluster === true) {
    return { scheme: "redis+cluster", servers: ready.startupNodes.map(nodeServer), user, path: "" };
  }
  const { sentinels, name, path, db = 0, tls } = ready.options;
  if (Array.isArray(sentinels)) {
    const servers = sentinels.map((sentinel: Settings) => serverOf(sentinel, 26_379));
    return { scheme: "redis+sentinel", servers, user, path: `${String(name)}/${String(db)}` };
  }
  const servers = typeof path === "string" ? [{ host: path, port: 0 }] : [serverOf(ready.options, 6379)];
  return { scheme: tls ? "rediss" : "redis", servers, user, path: String(db) };
}

/**
 * A client of our own that connects as a ready one does. Whatever else that was told (to queue, to retry, to read from replicas, to
 * change replies), this one is not: what `settings` leaves out is as the driver has it by default.
 */
export function sameTarget(client: object, settings: Settings, clusterSettings: Settings): unknown {
  const ready = client as Single | Cluster;
  if (ready.isCluster !== true) return ready.duplicate({ ...places(ready.options), ...settings });
  const nodes = ready.startupNodes.map((node) => (typeof node === "object" ? places(node as Settings) : node));
  const redisOptions = { ...places(ready.options.redisOptions ?? {}), ...settings };
  return ready.duplicate(nodes, { ...places(ready.options), ...clusterSettings, redisOptions });
}

/** What is not given to a duplicate it takes from its original; what is undefined is the driver's default. */
function places(settings: Settings): Settings {
  return Object.fromEntries(
    Object.entries(settings).map(([name, value]) => [name, placeSettings.includes(name) ? value : undefined]),
  );
}

function nodeServer(node: unknown): ClientTarget["servers"][number] {
  if (typeof node === "object" && node !== null) return serverOf(node as Settings, 6379);
  if (typeof node === "number") return { host: "127.0.0.1", port: node };
  // All that follows the login, which is nothing to show.
  const [, host = "", port = 6379] = /^(?:\w+:\/\/)?(?:[^@/]*@)?([^@/:]+)(?::(\d+))?/.exec(String(node)) ?? [];
  return { host, port: Number(port) };
}

function serverOf({ host, port }: Settings, usualPort: number): ClientTarget["servers"][number] {
  return { host: typeof host === "string" ? host : "localhost", port: Number(port ?? usualPort) };
}
