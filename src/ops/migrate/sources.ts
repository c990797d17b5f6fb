import { parseAddress, type ServerAddress } from "../../core/address.ts";
import { SnowleaseError } from "../../core/errors.ts";
import type { Layout } from "../../core/layout.ts";
import type { Findings, SourceKind, SourceRequest } from "./source.ts";

/** What can be read, how, and at what kinds of server. */
const readers: Readonly<
  Record<
    Exclude<SourceKind, "ip">,
    {
      readonly kinds: readonly ServerAddress["kind"][];
      /** The parameter of the URL that says which of several. */
      readonly parameter?: string;
      load(): Promise<(request: SourceRequest) => Promise<Findings>>;
    }
  >
> = {
  "westid-redis": { kinds: ["redis"], load: async () => (await import("./sources/westid.ts")).readWestidRedis },
  "westid-sql": {
    kinds: ["mysql", "postgres", "oracle"],
    load: async () => (await import("./sources/westid.ts")).readWestidSql,
  },
  "uid-generator": {
    kinds: ["mysql", "postgres", "oracle"],
    load: async () => (await import("./sources/uid-generator.ts")).readUidGenerator,
  },
  leaf: { kinds: ["zookeeper"], parameter: "name", load: async () => (await import("./sources/leaf.ts")).readLeaf },
  "cosid-redis": {
    kinds: ["redis"],
    parameter: "namespace",
    load: async () => (await import("./sources/cosid.ts")).readCosidRedis,
  },
  "cosid-sql": {
    kinds: ["mysql", "postgres", "oracle"],
    parameter: "namespace",
    load: async () => (await import("./sources/cosid.ts")).readCosidSql,
  },
};

/**
 * Reads where the worker IDs of a fleet come from today. Nothing is written there.
 * @returns what it holds, and its URL without a password.
 * @throws SnowleaseError CONFIG_INVALID for a URL of another kind of server, NOT_FOUND where nothing of the kind is there, and what a
 * registry at this URL would.
 */
export async function readSource(
  from: Exclude<SourceKind, "ip">,
  url: string,
  { layout, operationTimeout }: { readonly layout: Layout; readonly operationTimeout: number },
): Promise<{ readonly findings: Findings; readonly source: string }> {
  const { kinds, parameter, load } = readers[from];
  const address = parseAddress(url);
  if (!("servers" in address) || !kinds.includes(address.kind)) {
    throw new SnowleaseError(
      "CONFIG_INVALID",
      `Expected \`--from ${from}\` with a URL of ${kinds.join(", ")}, got ${address.redacted}; correct it.`,
    );
  }
  const unknown = Object.keys(address.parameters).find((name) => name !== parameter);
  if (unknown !== undefined) {
    throw new SnowleaseError(
      "CONFIG_INVALID",
      `Expected the URL of ${from} without \`${unknown}\`${parameter === undefined ? "" : ` (only \`${parameter}\`)`}; leave it out.`,
    );
  }
  const read = await load();
  return { findings: await read({ address, layout, operationTimeout }), source: address.redacted };
}
