import { storeOf, type RegistryAddress } from "./index.ts";
import { isLoopback } from "./loopback.ts";
import type { Encryption } from "./store-kind.ts";
import { shownUrl, whereOf } from "./url.ts";

/** How requests reach one of the addresses of a registry. */
interface Way {
  /** For people, without a password. */
  readonly shown: string;
  readonly scheme: string;
  /** Undefined: a socket in the file system. */
  readonly host: string | undefined;
}

/**
 * Whether others on the network can read what is sent to a registry. Undefined if nothing is sent: the registry is a file, or memory.
 * Rejects if a configuration outside of the URL says how to reach a server, and cannot be read.
 */
export async function encryptionOf(
  address: RegistryAddress,
  operationTimeout: number,
): Promise<Encryption | undefined> {
  const store = storeOf(address);
  const { schemes, parameters = {} } = store;
  if (store.encryption !== undefined) return store.encryption(address, operationTimeout);
  const ways = waysTo(address);
  if (ways === undefined) return undefined;
  const settings = "settings" in address ? address.settings : {};
  const hasTls = parameters["tls"]?.read(settings["tls"] ?? "") === true;
  const seen = ways.filter(
    ({ scheme, host }) => host !== undefined && !(isLoopback(host) && !schemes[scheme]?.announces),
  );
  if (seen.length === 0) return { is: "local" };
  const plain = seen.filter(({ scheme }) => !hasTls && schemes[scheme]?.encrypted !== true);
  if (plain.length === 0) return { is: "encrypted" };
  const secure = Object.keys(schemes).find((scheme) => schemes[scheme]?.encrypted);
  return {
    is: "plain",
    addresses: plain.map(({ shown }) => shown),
    remedy: `\`${Object.hasOwn(parameters, "tls") ? "tls=true" : `${secure}:`}\` in the registry URL`,
  };
}

function waysTo(address: RegistryAddress): readonly Way[] | undefined {
  if ("urls" in address) {
    return address.urls.map((text) => {
      const url = new URL(text);
      return {
        shown: shownUrl(url),
        scheme: url.protocol.slice(0, -1),
        host: url.hostname.replace(/^\[|\]$/g, ""),
      };
    });
  }
  if ("servers" in address) {
    const { scheme, servers } = address;
    return servers.map((server) => ({
      shown: whereOf([server]),
      scheme,
      host: server.host.startsWith("/") ? undefined : server.host,
    }));
  }
  return address.kind === "unix" ? [] : undefined;
}
