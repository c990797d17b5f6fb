import { isIP } from "node:net";
import { configInvalid, shown } from "../../id/errors.ts";

/** A host by its address, and its name for people. */
export interface Host {
  readonly name: string;
  readonly address: string;
}

/** Most addresses of a file, including the addresses of its ranges. */
const mostHosts = 65_536;

/** An address in the form of a holder's label: IPv6 in its shortest form, without a zone. Undefined for other text. */
export function plainAddress(text: string): string | undefined {
  const address = text.replace(/%.*$/, "");
  if (isIP(address) === 4) return address;
  if (isIP(address) !== 6) return undefined;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  return mapped ?? new URL(`http://[${address}]`).hostname.slice(1, -1);
}

/** Addresses that do not identify a host, and why. */
const sharedAddresses: readonly (readonly [RegExp, string])[] = [
  [/^(127\.|::1$)/, "each host has this loopback address"],
  [/^(169\.254\.|fe[89ab].:)/, "each network may have this link-local address again"],
  [/^172\.17\./, "Docker gives this address to a container or a bridge of each host"],
  [/^172\.(1[89]|2\d|3[01])\.0\.1$/, "Docker gives this address to a bridge of each host"],
  [/^10\.88\.0\.1$/, "Podman gives this address to the bridge of each host"],
  [/^192\.168\.122\.1$/, "libvirt gives this address to the bridge of each host"],
];

/** Why several hosts may have an address. Undefined if it belongs to one host. */
export function whyShared(address: string): string | undefined {
  return sharedAddresses.find(([pattern]) => pattern.test(address))?.[1];
}

/**
 * Reads a list of hosts, one a line: an address, a range (`10.0.0.0/24`: its addresses that hosts can have), a name and an address, or
 * an address and its names (as in /etc/hosts: the first name counts). Empty lines and comments after a `#` are skipped. A host that is
 * both listed and in a range counts once. Several hosts may have the same address if it does not identify a host.
 * @param file for messages.
 * @throws SnowleaseError CONFIG_INVALID that names the line.
 */
export function readHosts(text: string, file: string): readonly Host[] {
  if (/[\u0000\uFFFD]/.test(text)) {
    throw configInvalid(`Expected a text in UTF-8, got another encoding; save ${file} anew.`);
  }
  const hosts = new Map<string, Host & { readonly line: number }>();
  const byName = new Map<string, Host & { readonly line: number }>();
  for (const [i, raw] of text.split(/\r\n?|\n/).entries()) {
    const line = i + 1;
    const refuse = (rule: string, got: string): never => {
      throw configInvalid(`Expected ${rule}, got ${shown(got)}; correct ${file}:${line}.`);
    };
    const words = raw.replace(/#.*$/, "").trim().split(/\s+/);
    if (words[0] === "") continue;
    const places = words.filter((word) => plainAddress(word) !== undefined);
    if (places.length > 1) refuse("one address in a line", words.join(" "));
    if (words.length > 2 && places[0] !== words[0]) {
      refuse("an address, a range, or a name and an address", words.join(" "));
    }
    const place = places[0] ?? words.at(-1) ?? "";
    const name = words.find((word) => word !== place);
    if (name !== undefined && isPlace(name)) refuse(`a name beside ${place}`, name);
    const addresses = place.includes("/") && name === undefined ? rangeOf(place) : [plainAddress(place)];
    if (typeof addresses === "string") refuse(addresses, place);
    for (const address of addresses) {
      if (typeof address !== "string") return refuse("an IPv4 or IPv6 address", place);
      if (isNobodys(address)) refuse("the address of a host", place);
      const key = name !== undefined && whyShared(address) !== undefined ? `${address} ${name}` : address;
      const known = hosts.get(key);
      const host = { name: name ?? address, address, line };
      if (known === undefined || name !== undefined) hosts.set(key, host);
      if (name !== undefined) {
        // A host without a name has its address as its name.
        if (known !== undefined && ![name, address].includes(known.name)) {
          refuse(`one name for ${address}, which line ${known.line} calls ${known.name}`, name);
        }
        const other = byName.get(name);
        if (other !== undefined && other.address !== address) {
          refuse(`one address for ${name}, which line ${other.line} gives ${other.address}`, address);
        }
        byName.set(name, host);
      }
      if (hosts.size > mostHosts) refuse(`at most ${mostHosts} addresses in the file`, place);
    }
  }
  if (hosts.size > 0) return Array.from(hosts.values(), ({ name, address }) => ({ name, address }));
  throw configInvalid(`Expected one host per line, got none; correct ${file}.`);
}

/** Whether no host can have an address: unspecified, multicast or reserved. */
function isNobodys(address: string): boolean {
  return /^(0|22[4-9]|23\d|24\d|25[0-5])\./.test(address) || /^(::$|ff..:)/.test(address);
}

/** Whether a word is not a host's name, but an address or a range, or an attempt at one. */
function isPlace(word: string): boolean {
  return /^[\d.]*\.[\d.]*$|[:/]/.test(word);
}

/** The addresses of a range, or the rule that the text breaks. */
function rangeOf(text: string): readonly string[] | string {
  const [, base = "", length = ""] = /^([^/]+)\/(\d{1,3})$/.exec(text) ?? [];
  const address = plainAddress(base);
  const bits = isIP(base) === 6 ? 128 : 32;
  const hostBits = bits - Number(length);
  if (address === undefined || length === "" || hostBits < 0) return "a range like 10.0.0.0/24";
  if (hostBits > 16) return `a range of at most ${mostHosts} addresses (/${bits - 16})`;
  const size = 2 ** hostBits;
  const isSix = bits === 128;
  // The addresses of a range differ only in their last 16 bits.
  const [a = 0, b = 0, c = 0, d = 0] = address.split(".").map(Number);
  const groups = isSix ? expanded(address) : [];
  const last = isSix ? Number.parseInt(groups.at(-1) ?? "0", 16) : 256 * c + d;
  const lasts = Array.from({ length: size }, (_, i) => last - (last % size) + i);
  if (isSix) return lasts.flatMap((n) => plainAddress([...groups.slice(0, -1), n.toString(16)].join(":")) ?? []);
  // The first address is the network's own, and the last one is for broadcast.
  const usable = hostBits < 2 ? lasts : lasts.slice(1, -1);
  return usable.map((n) => [a, b, n >> 8, n & 255].join("."));
}

/** The first 4 bytes of an IPv6 address, written like an IPv4 address, as westid does it. */
export function firstBytes(address: string): string {
  const [first = 0, second = 0] = expanded(address).map((group) => Number.parseInt(group, 16));
  return [first >> 8, first & 255, second >> 8, second & 255].join(".");
}

/** The eight groups of an IPv6 address. */
function expanded(address: string): readonly string[] {
  const [front = [], back = []] = address.split("::").map((part) => part.split(":").filter((group) => group !== ""));
  return [...front, ...Array.from({ length: 8 - front.length - back.length }, () => "0"), ...back];
}
