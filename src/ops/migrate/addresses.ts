import { isIP } from "node:net";
import { shown, SnowleaseError } from "../../core/errors.ts";

/** A host by its address, and by the name that people give it. */
export interface Host {
  readonly name: string;
  readonly address: string;
}

/** Most addresses that a file may stand for. */
const mostHosts = 65_536;

/** An address the way a holder's label has it: IPv6 in its shortest form, without a zone. Undefined for what is none. */
export function plainAddress(text: string): string | undefined {
  const address = text.replace(/%.*$/, "");
  if (isIP(address) === 4) return address;
  if (isIP(address) !== 6) return undefined;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  return mapped ?? new URL(`http://[${address}]`).hostname.slice(1, -1);
}

/**
 * Reads a list of hosts: a line an address, a range (`10.0.0.0/24`: each address of it, less those that no host can have), or a name
 * and an address. Empty lines and what follows a `#` are skipped. A host that is listed and lies in a range is one host.
 * @param file for messages.
 * @throws SnowleaseError CONFIG_INVALID that names the line.
 */
export function readHosts(text: string, file: string): readonly Host[] {
  const hosts = new Map<string, Host & { readonly line: number; readonly named: boolean }>();
  for (const [i, raw] of text
    .replace(/^\uFEFF/, "")
    .split("\n")
    .entries()) {
    const line = i + 1;
    const refuse = (rule: string, got: string): never => {
      throw new SnowleaseError("CONFIG_INVALID", `Expected ${rule}, got ${shown(got)}; correct ${file}:${line}.`);
    };
    const words = raw.replace(/#.*$/, "").trim().split(/\s+/);
    if (words[0] === "") continue;
    if (words.length > 2) refuse("an address, a range, or a name and an address", raw.trim());
    const [first = "", second] = words;
    const place = second ?? first;
    const addresses = place.includes("/") && second === undefined ? rangeOf(place) : [plainAddress(place)];
    if (typeof addresses === "string") refuse(addresses, place);
    for (const address of addresses) {
      if (typeof address !== "string") return refuse("an IPv4 or IPv6 address", place);
      if (isNobodys(address)) refuse("the address of one host in its network", place);
      const known = hosts.get(address);
      const named = second !== undefined;
      if (known?.named === true && named && known.name !== first) {
        refuse(`one name for ${address}, which line ${known.line} calls ${known.name}`, first);
      }
      if (known === undefined || named) hosts.set(address, { name: named ? first : address, address, line, named });
      if (hosts.size > mostHosts) refuse(`at most ${mostHosts} addresses in the file`, place);
    }
  }
  if (hosts.size > 0) return Array.from(hosts.values(), ({ name, address }) => ({ name, address }));
  throw new SnowleaseError("CONFIG_INVALID", `Expected a line a host, got none; correct ${file}.`);
}

/** Loopback, unspecified or multicast: no host is told apart by it. */
function isNobodys(address: string): boolean {
  return /^(0|127|22[4-9]|23\d)\./.test(address) || /^(::1?|ff..:.*)$/.test(address);
}

/** The addresses of a range, or what it should have been. */
function rangeOf(text: string): readonly string[] | string {
  const [, base = "", length = ""] = /^([^/]+)\/(\d{1,3})$/.exec(text) ?? [];
  const address = plainAddress(base);
  const bits = isIP(base) === 6 ? 128 : 32;
  const hostBits = bits - Number(length);
  if (address === undefined || length === "" || hostBits < 0) return "a range like 10.0.0.0/24";
  if (hostBits > 16) return `a range of at most ${mostHosts} addresses (/${bits - 16})`;
  const size = 2 ** hostBits;
  if (bits === 128) {
    const groups = expanded(address);
    const last = Number.parseInt(groups.at(-1) ?? "0", 16);
    const begin = last - (last % size);
    return numbers(size).flatMap(
      (i) => plainAddress([...groups.slice(0, -1), (begin + i).toString(16)].join(":")) ?? [],
    );
  }
  const number = address.split(".").reduce((sum, octet) => sum * 256 + Number(octet), 0);
  const begin = number - (number % size);
  // The first is the network's own, the last means all of them.
  const usable = hostBits < 2 ? numbers(size) : numbers(size).slice(1, -1);
  return usable.map((i) => [24, 16, 8, 0].map((shift) => Math.floor((begin + i) / 2 ** shift) % 256).join("."));
}

/** The eight groups of an IPv6 address. */
function expanded(address: string): readonly string[] {
  const [head = "", tail] = address.split("::");
  const [front, back] = [head, tail ?? ""].map((part) => part.split(":").filter((group) => group !== ""));
  const missing = 8 - (front?.length ?? 0) - (back?.length ?? 0);
  return [...(front ?? []), ...Array.from({ length: tail === undefined ? 0 : missing }, () => "0"), ...(back ?? [])];
}

function numbers(count: number): readonly number[] {
  return Array.from({ length: count }, (_, i) => i);
}
