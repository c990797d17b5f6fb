import { BlockList, isIP } from "node:net";

const loopback = new BlockList();
loopback.addSubnet("127.0.0.0", 8);
loopback.addAddress("::1", "ipv6");

/** Whether only programs of this machine can reach a host. The host is written as in a URL or an option, but without brackets. */
export function isLoopback(host: string): boolean {
  const version = isIP(host);
  if (version === 0) return /^localhost\.?$/i.test(host);
  return loopback.check(host, version === 4 ? "ipv4" : "ipv6");
}
