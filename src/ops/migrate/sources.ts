import type { ServerAddress } from "../../registries/url.ts";
import { parseAddress, type RegistryAddress } from "../../registries/index.ts";
import { configInvalid } from "../../id/errors.ts";
import type { SourceContents, SourceKind, SourceRequest } from "./source.ts";

/** The layout of the IDs of a source, unless its programs are configured otherwise. */
export const sourceLayouts: Readonly<Record<SourceKind, string>> = {
  ip: "westid",
  "westid-redis": "westid",
  "westid-sql": "westid",
  "uid-generator": "uid",
  leaf: "twitter",
  // CosId's own epoch, 2019-12-24T16:00:00Z.
  "cosid-redis": "timestamp:41,worker:10,sequence:12@1577203200000/1",
  "cosid-sql": "timestamp:41,worker:10,sequence:12@1577203200000/1",
};

/** The reader of a kind of source. */
interface SourceReader {
  /** The kinds of server that can have this source. */
  readonly kinds: readonly ServerAddress["kind"][];
  /** The parameter of the URL that selects one of several sources on a server. */
  readonly parameter?: string;
  load(): Promise<(request: SourceRequest) => Promise<SourceContents>>;
}

const databases = ["mysql", "postgres", "oracle"];
const westid = () => import("./sources/westid.ts");
const uidGenerator = () => import("./sources/uid-generator.ts");
const leaf = () => import("./sources/leaf.ts");
const cosid = () => import("./sources/cosid.ts");

const readers: Readonly<Record<Exclude<SourceKind, "ip">, SourceReader>> = {
  "westid-redis": { kinds: ["redis"], load: async () => (await westid()).readWestidRedis },
  "westid-sql": { kinds: databases, load: async () => (await westid()).readWestidSql },
  "uid-generator": { kinds: databases, load: async () => (await uidGenerator()).readUidGenerator },
  leaf: { kinds: ["zookeeper"], parameter: "name", load: async () => (await leaf()).readLeaf },
  "cosid-redis": { kinds: ["redis"], parameter: "namespace", load: async () => (await cosid()).readCosidRedis },
  "cosid-sql": { kinds: databases, parameter: "namespace", load: async () => (await cosid()).readCosidSql },
};

/** Whether a registry keeps its leases in the store of a source. Two different texts of an address count as two stores. */
export function isSameStore(from: SourceKind, url: string, registry: RegistryAddress, namespace: string): boolean {
  if (from !== "westid-redis" && from !== "westid-sql") return false;
  const source = parseAddress(url);
  if (!("servers" in source && "servers" in registry) || namespace !== "default") return false;
  return keyOf(source) === keyOf(registry);
}

function keyOf({ kind, servers, path }: ServerAddress): string {
  const hosts = servers.map(({ host, port }) => `${host.toLowerCase()}:${port}`).toSorted();
  return JSON.stringify([kind, hosts, kind === "redis" && path === "" ? "0" : path]);
}

/**
 * Reads the present source of a fleet's worker IDs.
 * @returns its contents, and its URL without a login and settings.
 * @throws SnowleaseError CONFIG_INVALID for a URL of another kind of server, NOT_FOUND if the server has no such source, and the errors
 * of a registry at this URL.
 */
export async function readSource(
  from: Exclude<SourceKind, "ip">,
  url: string,
  how: Pick<SourceRequest, "numbers" | "operationTimeout">,
): Promise<{ readonly findings: SourceContents; readonly source: string }> {
  const { kinds, parameter, load } = readers[from];
  const address = parseAddress(url);
  if (!("servers" in address) || !kinds.includes(address.kind)) {
    throw configInvalid(
      `Expected \`--from ${from}\` with a URL of ${kinds.join(", ")}, got ${address.redacted}; correct it.`,
    );
  }
  const unknown = Object.keys(address.parameters).find((name) => name !== parameter);
  if (unknown !== undefined) {
    throw configInvalid(
      `Expected the URL of ${from} without \`${unknown}\`${parameter === undefined ? "" : ` (only \`${parameter}\`)`}; leave it out.`,
    );
  }
  const read = await load();
  const named = parameter === undefined ? undefined : address.parameters[parameter];
  const own = named === undefined ? "" : `?${parameter}=${encodeURIComponent(named)}`;
  return { findings: await read({ address, ...how }), source: `${address.redacted}${own}` };
}
