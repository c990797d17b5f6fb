import { addressWorkerId } from "../../../assigners/ip.ts";
import type { Layout } from "../../../id/layout.ts";
import { firstBytes, type Host, whyShared } from "../addresses.ts";
import { grouped } from "../plan.ts";
import type { SourceContents, Maker, RetiredRange } from "../source.ts";

/**
 * Hosts that take the last bits of their address. Of an IPv6 address, Java's westid takes the last bits of the first 4 bytes. Both worker
 * IDs may be in use, so no host gets that one.
 */
export function hostFindings(hosts: readonly Host[], layout: Layout): SourceContents {
  const makers: Maker[] = [];
  const retired = new Map<number, RetiredRange>();
  const remarks: string[] = [];
  const retire = (workerId: number, why: string): void => {
    if (!retired.has(workerId)) retired.set(workerId, { first: workerId, last: workerId, why });
  };
  for (const { name, address } of hosts) {
    const workerId = addressWorkerId(address, layout);
    const why = whyShared(address);
    if (why === undefined) makers.push({ name, address, workerId });
    else if (name === address) retire(workerId, `taken from ${address}: ${why}`);
    else makers.push({ name, workerId });
  }
  const addresses = hosts.map(({ address }) => address);
  const six = addresses.filter((address) => address.includes(":"));
  for (const [workerId, those] of grouped(six, (address) => addressWorkerId(firstBytes(address), layout))) {
    const text = firstOf(those, "IPv6 addresses");
    retire(workerId, `taken by westid, if these hosts run it, from ${text}`);
    remarks.push(
      `Java's westid takes worker ${workerId} from the first 4 bytes of ${text}, and Snowlease the last bits: no host gets that number.`,
    );
  }
  for (const [why, those] of grouped([...new Set(addresses)], whyShared)) {
    if (why === undefined) continue;
    remarks.push(
      `${firstOf(those, "addresses")} ${those.length === 1 ? "tells" : "tell"} no host apart: ${why}. Hosts that take a worker ID from it make the same IDs now: no host gets that one, and each of them gets another.`,
    );
  }
  return { makers, retired: [...retired.values()], reach: { next: "none", highest: -1 }, takesOver: true, remarks };
}

/** Addresses for people: the first one, and the number of others. */
function firstOf([first, ...others]: readonly string[], what: string): string {
  return others.length === 0 ? `${first}` : `${first} and ${others.length} more ${what}`;
}
