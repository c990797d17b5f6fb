import { createHash } from "node:crypto";
import type { PoolBounds } from "../../id/pool-bounds.ts";

/*
 * The nodes of a registry. A node that is listed has at most 1,000 children, unless one host or one worker ID makes more of them: a
 * list of 40,000 names is longer than a server sends. Only a removal lists the others, too.
 *
 *     /snowlease/.clock                             written to for the leader's clock; no namespace can have this name
 *     /snowlease/NAMESPACE/meta                     id, layout, limits, schema version; made last
 *                         /era                      the present era; each write of a record expects its version. Without `meta`: the era
 *                                                   that is noted for a namespace which does not exist: src/rule/unknown-namespace.ts
 *                         /state/BUCKET/ID          the record of a worker ID
 *                         /live/BUCKET/wID-TOKEN-SEQUENCE   ephemeral: its holder's session lives
 *                         /rest/BUCKET              until when its idle numbers rest: see rests.ts
 *                         /history/BUCKET/ID/FENCE  a claim that has ended
 *                         /token/TOKEN              the worker ID that this token holds
 *                         /host/HOST/ID             a worker ID whose last holder ran on this host
 *                         /owner/ADDRESS/ID         a worker ID that is pinned for this address
 *                         /next/FIRST-LAST          of this pool, all numbers below this one have a record
 *                         /next                     itself written with each record without a claim: see guardUnused
 *
 * TOKEN, HOST and ADDRESS are hashes. The token itself is not stored.
 */

/** Worker IDs of one bucket. */
export const bucketSize = 1000;

/** The paths of the nodes of one namespace. */
export class Nodes {
  readonly namespace: string;
  readonly root: string;
  readonly meta: string;
  readonly era: string;
  /** The nodes that exist before the first claim, parents before children. */
  readonly folders: readonly string[];
  /** The parent of the hints. */
  readonly hints: string;
  /** The parent of the buckets of records. */
  readonly buckets: string;

  /** `base`: the node above all namespaces. */
  constructor(base: string, namespace: string) {
    this.namespace = namespace;
    this.root = `${base}/${namespace}`;
    this.meta = `${this.root}/meta`;
    this.era = `${this.root}/era`;
    const folders = ["state", "live", "rest", "history", "token", "host", "owner", "next"];
    this.folders = [this.root, ...folders.map((name) => `${this.root}/${name}`)];
    this.hints = `${this.root}/next`;
    this.buckets = `${this.root}/state`;
  }

  readonly state = (workerId: number): string => `${this.root}/state/${placeOf(workerId)}`;
  readonly states = (bucket: number): string => `${this.root}/state/${bucket}`;
  /** The beginning of the path of an ephemeral node; the server adds the sequence. */
  readonly ephemeral = (workerId: number, token: string): string =>
    `${this.ephemerals(bucketOf(workerId))}/w${padded(workerId)}-${token}-`;
  readonly ephemerals = (bucket: number): string => `${this.root}/live/${bucket}`;
  readonly rest = (bucket: number): string => `${this.root}/rest/${bucket}`;
  /** The parent of the history rows of a worker ID. */
  readonly rows = (workerId: number): string => `${this.root}/history/${placeOf(workerId)}`;
  readonly row = (workerId: number, fence: number): string => `${this.rows(workerId)}/${padded(fence)}`;
  readonly token = (token: string): string => `${this.root}/token/${token}`;
  readonly host = (host: string): string => `${this.root}/host/${hashOf(host)}`;
  readonly ofHost = (host: string, workerId: number): string => `${this.host(host)}/${padded(workerId)}`;
  /** The parent of the worker IDs that are pinned for an address. */
  readonly owner = (ip: string): string => `${this.root}/owner/${hashOf(ip)}`;
  readonly ofOwner = (ip: string, workerId: number): string => `${this.owner(ip)}/${padded(workerId)}`;
  readonly hint = ({ first, last }: PoolBounds): string => `${this.hints}/${first}-${last}`;
  /** The buckets of a worker ID. */
  readonly bucketsOf = (workerId: number): readonly string[] =>
    ["state", "live", "history"].map((name) => `${this.root}/${name}/${bucketOf(workerId)}`);
}

export function bucketOf(workerId: number): number {
  return Math.floor(workerId / bucketSize);
}

function placeOf(workerId: number): string {
  return `${bucketOf(workerId)}/${padded(workerId)}`;
}

/** The stored form of a host's name: 128 bits of its SHA-256. */
function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 32);
}

function padded(number: number): string {
  return String(number).padStart(10, "0");
}

/** The number in a node's name; undefined for a name that Snowlease did not give. */
export function numberOf(name: string): number | undefined {
  const number = Number(name);
  return /^\d{10,16}$/.test(name) && padded(number) === name ? number : undefined;
}

/**
 * Reads the name of an ephemeral node; undefined for a name that Snowlease did not give. `token`: the hash of the holder's token. It ends in a signed counter of 32 bits, padded
 * to ten characters: 2,147,483,647 is followed by -2147483648, and so on up to -000000001. The counter does not even give an order.
 */
export function parseEphemeral(name: string): { readonly workerId: number; readonly token: string } | undefined {
  const [, workerId, token] = /^w(\d{10,16})-([0-9a-f]{32})-(?:\d{10,19}|-\d{9,18})$/.exec(name) ?? [];
  return workerId === undefined || token === undefined ? undefined : { workerId: Number(workerId), token };
}

/** The worker IDs of a pool that belong to a bucket. */
export function boundsIn(bucket: number, { first, last }: PoolBounds): PoolBounds {
  return { first: Math.max(first, bucket * bucketSize), last: Math.min(last, (bucket + 1) * bucketSize - 1) };
}
