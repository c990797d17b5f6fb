import { createHash } from "node:crypto";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import type { Stored } from "../../rule/window.ts";
import type { Standing } from "../engine/port.ts";

/*
 * The nodes of a registry.
 *
 *     /snowlease/.clock                             written to for the leader's clock; no namespace can have this name
 *     /snowlease/NAMESPACE/meta                     id, layout, limits, schema version, era: each write expects its version. Without a
 *                                                   layout: the era that is noted for a namespace which does not exist
 *                         /meta/MARK                the mark of what stands there: each write expects it, because versions begin again
 *                         /unpins                   each deletion of a record writes it: the next record's versions begin again
 *                         /state/SLOT/ID            the record of a worker ID
 *                         /state/SLOT/ID/TOKEN-SEQUENCE   ephemeral: its holder's session lives
 *                         /idle/SLOT/UNTIL-ID       a worker ID that is not pinned, by the end of its window
 *                         /owner/ADDRESS/UNTIL-ID   a worker ID that is pinned for this address
 *                         /host/HOST/ID             a worker ID that is not pinned, and whose last holder ran on this host
 *                         /token/TOKEN              the worker ID that this token holds
 *                         /history/SLOT/ID/FENCE    a claim that has ended
 *                         /next/FIRST-LAST          in this pool, worker IDs below this number had a record: a search begins here
 *
 * TOKEN, HOST and ADDRESS are hashes. The token itself is not stored. A SLOT has 1,000 worker IDs, because a server sends a list as a
 * whole.
 */

/** How many worker IDs a slot has. */
export const slotSize = 1000;

/** The slot of a worker ID. */
export function slotOf(workerId: number): number {
  return Math.floor(workerId / slotSize);
}

/** The slots of a pool. */
export function slotsIn({ first, last }: PoolBounds): readonly number[] {
  return Array.from({ length: slotOf(last) - slotOf(first) + 1 }, (_, i) => slotOf(first) + i);
}

/** The place of a worker ID in an index. */
export interface IndexPlace {
  readonly workerId: number;
  /** The end of its window, Unix ms. */
  readonly until: number;
}

/** The paths of the nodes of one namespace. */
export class Nodes {
  readonly namespace: string;
  readonly root: string;
  readonly meta: string;
  /** Each deletion of a record writes to this node. */
  readonly unpins: string;
  /** The parents of all other nodes. */
  readonly folders: readonly string[];

  /** `base`: the node above all namespaces. */
  constructor(base: string, namespace: string) {
    this.namespace = namespace;
    this.root = `${base}/${namespace}`;
    this.meta = `${this.root}/meta`;
    this.unpins = `${this.root}/unpins`;
    const names = ["state", "idle", "owner", "host", "token", "history", "next"];
    this.folders = names.map((name) => `${this.root}/${name}`);
  }

  readonly states = (slot: number): string => `${this.root}/state/${slot}`;
  readonly state = (workerId: number): string => `${this.states(slotOf(workerId))}/${padded(workerId)}`;
  readonly idle = (slot: number): string => `${this.root}/idle/${slot}`;
  readonly owner = (ip: string): string => `${this.root}/owner/${hashOf(ip)}`;
  readonly host = (host: string): string => `${this.root}/host/${hashOf(host)}`;
  readonly token = (token: string): string => `${this.root}/token/${token}`;
  /** The beginning of the path of an ephemeral node. The server adds the sequence. */
  readonly live = (workerId: number, token: string): string => `${this.state(workerId)}/${token}-`;
  /** The parent of the history rows of a worker ID. */
  readonly rows = (workerId: number): string => `${this.root}/history/${slotOf(workerId)}/${padded(workerId)}`;
  readonly row = (workerId: number, fence: number): string => `${this.rows(workerId)}/${padded(fence)}`;
  readonly next = ({ first, last }: PoolBounds): string => `${this.root}/next/${first}-${last}`;

  /** The node that marks what stands under the name. Nothing else that ever stood there has this node. */
  readonly mark = ({ made, noted }: Standing): string | undefined => {
    const name = made?.info.id ?? noted?.era;
    return name === undefined ? undefined : `${this.meta}/${name}`;
  };

  /** Whether a node only holds other nodes. Such nodes are at most two levels below the namespace. */
  readonly isFolder = (path: string): boolean => {
    const depth = path.split("/").length - this.root.split("/").length;
    return (
      path === this.root || (depth <= 2 && this.folders.some((each) => path === each || path.startsWith(`${each}/`)))
    );
  };

  /** The nodes by which claims find a record. */
  indexes({ workerId, until, pinned, owner, holder }: Stored): readonly string[] {
    const place = `${String(until).padStart(16, "0")}-${padded(workerId)}`;
    if (pinned !== undefined) return owner === undefined ? [] : [`${this.owner(owner)}/${place}`];
    const idle = `${this.idle(slotOf(workerId))}/${place}`;
    return holder === undefined ? [idle] : [idle, `${this.host(holder.host)}/${padded(workerId)}`];
  }
}

/** The stored form of a name: 128 bits of its SHA-256. */
function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 32);
}

function padded(number: number): string {
  return String(number).padStart(10, "0");
}

/** The number in a node's name; undefined for a name that Snowlease did not write. */
export function numberOf(name: string): number | undefined {
  const number = Number(name);
  return /^\d{10,16}$/.test(name) && padded(number) === name ? number : undefined;
}

/** The place in a node's name; undefined for a name that Snowlease did not write. */
export function placeOf(name: string): IndexPlace | undefined {
  if (!/^\d{16}-\d{10,16}$/.test(name)) return undefined;
  return { until: Number(name.slice(0, 16)), workerId: Number(name.slice(17)) };
}

/**
 * The token in the name of an ephemeral node: the hash of the holder's token; undefined for a name that Snowlease did not write. The name
 * ends in a signed counter of 32 bits, padded to ten characters. After 2,147,483,647 come -2147483648, and so on up to -000000001.
 */
export function tokenIn(name: string): string | undefined {
  const [, token] = /^([0-9a-f]{32})-(?:\d{10,19}|-\d{9,18})$/.exec(name) ?? [];
  return token;
}
