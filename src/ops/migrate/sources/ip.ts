import { addressWorkerId } from "../../../assigners/ip.ts";
import type { Layout } from "../../../id/layout.ts";
import { firstBytes, type Host, whyShared } from "../addresses.ts";
import type { SourceContents, Maker, RetiredRange } from "../source.ts";

/**
 * Hosts that take the last bits of their address. Of an IPv6 address Java's westid takes those of the first 4 bytes: both numbers may
 * be in use, so no host gets that one.
 */
export function hostFindings(hosts: readonly Host[], layout: Layout): SourceContents {
  const makers: Maker[] = [];
  const retired = new Map<number, RetiredRange>();
  const remarks: string[] = [];
  const retire = (workerId: number, why: string): void => {
    if (!retired.has(workerId)) retired.set(workerId, { first: workerId, last: workerId, why });
  };
  /** Addresses that several hosts may have, by why they do. */
  const shared = new Map<string, Set<string>>();
  /** IPv6 addresses by the number that westid takes from them. */
  const westid = new Map<number, string[]>();
  for (const { name, address } of hosts) {
    const workerId = addressWorkerId(address, layout);
    const why = whyShared(address);
    if (address.includes(":")) {
      const java = addressWorkerId(firstBytes(address), layout);
      const those = westid.get(java);
      if (those === undefined) westid.set(java, [address]);
      else those.push(address);
    }
    if (why === undefined) makers.push({ name, address, workerId });
    else {
      shared.set(why, (shared.get(why) ?? new Set()).add(address));
      if (name === address) retire(workerId, `taken from ${address}: ${why}`);
      else makers.push({ name, workerId });
    }
  }
  for (const [workerId, those] of westid) {
    const [first] = those;
    const text = those.length === 1 ? `${first}` : `${first} and ${those.length - 1} more IPv6 addresses`;
    retire(workerId, `taken by westid, if these hosts run it, from ${text}`);
    remarks.push(
      `Java's westid takes worker ${workerId} from the first 4 bytes of ${text}, and Snowlease the last bits: no host gets that number.`,
    );
  }
  for (const [why, those] of shared) {
    const [first = "", ...more] = those;
    const text = more.length === 0 ? first : `${first} and ${more.length} more addresses`;
    const tells = more.length === 0 ? "tells" : "tell";
    remarks.push(
      `${text} ${tells} no host apart: ${why}. Hosts that take a worker ID from it make the same IDs now: no host gets that one, and each of them gets another.`,
    );
  }
  return { makers, retired: [...retired.values()], reach: { next: "none", highest: -1 }, takesOver: true, remarks };
}
