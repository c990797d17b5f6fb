import { isIP, isIPv6 } from "node:net";
import { networkInterfaces } from "node:os";
import { numberWithin, type WorkerIdAssigner } from "../lease/assigner.ts";
import { configInvalid, shown } from "../id/errors.ts";
import type { Layout } from "../id/layout.ts";

/** The result of `networkInterfaces` of `node:os`. A program may not have the types of that module. */
type Interfaces = Readonly<Record<string, readonly HostAddress[] | undefined>>;

interface HostAddress {
  readonly address: string;
  readonly family: string;
  readonly internal: boolean;
}

/**
 * The worker ID from the last bits of this host's address, as many as the layout has for worker IDs. If the pool is smaller, an address
 * outside it is CONFIG_INVALID. So is a layout without identity bits. `undefined` for a host without an address.
 * @param ip the address; default: the option `ip`, else `hostAddress`.
 * @param interface the network interface whose address is used; default: the option `interface`, else any.
 */
export function ipAssigner(given: { ip?: string; interface?: string } = {}): WorkerIdAssigner {
  return {
    name: "ip",
    async assign(request) {
      const { layout, options } = request;
      const ip = given.ip ?? options.ip ?? hostAddress(given.interface ?? options.interface);
      if (ip === undefined) return undefined;
      if (layout.workerBits === 0) {
        throw configInvalid(
          `Every host has worker ID 0 in the layout ${layout.fingerprint}, so an address cannot tell them apart; name a registry (SNOWLEASE_REGISTRY), or a layout with identity bits.`,
        );
      }
      const workerId = addressWorkerId(ip, layout);
      return numberWithin(workerId, `the address \`${ip}\` (its last ${layout.workerBits} bits)`, request);
    },
  };
}

/**
 * This host's address: the first IPv4 that is not loopback, else the first IPv6 that is neither loopback nor link-local.
 * @throws SnowleaseError CONFIG_INVALID if `name` is not an interface of this host, or has no such address.
 */
export function hostAddress(name?: string, interfaces: Interfaces = networkInterfaces()): string | undefined {
  const addresses = Object.entries(interfaces).flatMap(([key, list = []]) => (key === (name ?? key) ? list : []));
  const outer = addresses.filter(({ internal, address }) => !internal && !/^fe[89ab].:/i.test(address));
  const found = outer.find(({ family }) => family === "IPv4") ?? outer.find(({ family }) => family === "IPv6");
  if (found === undefined && name !== undefined) {
    throw configInvalid(
      `Expected \`interface\` to be one of ${Object.keys(interfaces).join(", ")}, with an address that is not loopback, got ${shown(name)}; name one of them, or the address (\`ip\`).`,
    );
  }
  return found?.address;
}

/** The last bits of an address, as many as the layout has for worker IDs. @throws SnowleaseError CONFIG_INVALID for text that is no address. */
export function addressWorkerId(ip: string, { workerBits }: Layout): number {
  if (isIP(ip) === 0) {
    throw configInvalid(`Expected \`ip\` to be an IPv4 or IPv6 address, got ${shown(ip)}; correct it.`);
  }
  return lastBits(ip) % 2 ** workerBits;
}

/** The last 32 bits of an address. */
function lastBits(ip: string): number {
  if (!isIPv6(ip)) return ip.split(".").reduce((bits, octet) => bits * 256 + Number(octet), 0);
  // The URL parser writes every form the same way, without dots: at most one `::`, and groups without leading zeros.
  const { hostname } = new URL(`http://[${ip.replace(/%.*$/, "")}]`);
  const [upper = 0, lower = 0] = hostname
    .slice(1, -1)
    .split(":")
    .slice(-2)
    .map((group) => Number.parseInt(group || "0", 16));
  return upper * 65_536 + lower;
}
