import { createHash } from "node:crypto";
import type { PoolBounds } from "../../id/pool-bounds.ts";

/*
 * The nodes of a registry. A node that is listed has at most 1,000 children, unless one host or one worker ID makes more of them: a
 * list of 40,000 names is longer than a server sends.
 *
 *     /snowlease/.clock                             written to for the leader's clock
 *     /snowlease/NAMESPACE/meta                     layout, limits, schema version; made last
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

/** The nodes of one namespace. */
export interface Nodes {
  readonly root: string;
  readonly meta: string;
  /** The nodes that exist before the first claim, parents before children. */
  readonly folders: readonly string[];
  readonly bands: string;
  state(workerId: number): string;
  states(bucket: number): string;
  /** The parent of the buckets of records. */
  readonly buckets: string;
  /** The beginning of the name of an ephemeral node; the server adds the sequence. */
  ephemeral(workerId: number, token: string): string;
  ephemerals(bucket: number): string;
  rest(bucket: number): string;
  /** The parent of the history rows of a worker ID. */
  rows(workerId: number): string;
  row(workerId: number, fence: number): string;
  token(token: string): string;
  host(host: string): string;
  ofHost(host: string, workerId: number): string;
  /** The parent of the worker IDs that are pinned for an address. */
  owner(ip: string): string;
  ofOwner(ip: string, workerId: number): string;
  next(pool: PoolBounds): string;
  /** The nodes that a bucket needs. */
  bucket(bucket: number): readonly string[];
}

/** `base`: the node above all namespaces. */
export function nodesOf(base: string, namespace: string): Nodes {
  const root = `${base}/${namespace}`;
  const place = (workerId: number): string => `${bucketOf(workerId)}/${padded(workerId)}`;
  return {
    root,
    meta: `${root}/meta`,
    folders: [
      root,
      ...["state", "live", "rest", "history", "token", "host", "owner", "next"].map((name) => `${root}/${name}`),
    ],
    bands: `${root}/next`,
    state: (workerId) => `${root}/state/${place(workerId)}`,
    buckets: `${root}/state`,
    states: (bucket) => `${root}/state/${bucket}`,
    ephemeral: (workerId, token) => `${root}/live/${bucketOf(workerId)}/w${padded(workerId)}-${token}-`,
    ephemerals: (bucket) => `${root}/live/${bucket}`,
    rest: (bucket) => `${root}/rest/${bucket}`,
    rows: (workerId) => `${root}/history/${place(workerId)}`,
    row: (workerId, fence) => `${root}/history/${place(workerId)}/${padded(fence)}`,
    token: (token) => `${root}/token/${token}`,
    host: (host) => `${root}/host/${hashOf(host)}`,
    ofHost: (host, workerId) => `${root}/host/${hashOf(host)}/${padded(workerId)}`,
    owner: (ip) => `${root}/owner/${hashOf(ip)}`,
    ofOwner: (ip, workerId) => `${root}/owner/${hashOf(ip)}/${padded(workerId)}`,
    next: ({ first, last }) => `${root}/next/${first}-${last}`,
    bucket: (bucket) => ["state", "live", "history"].map((name) => `${root}/${name}/${bucket}`),
  };
}

/** The node above all namespaces. */
export function baseOf(chroot: string): string {
  return `${chroot}/snowlease`;
}

/** The node that each operation writes for the clock. No namespace can have its name. */
export function clockOf(base: string): string {
  return `${base}/.clock`;
}

export function bucketOf(workerId: number): number {
  return Math.floor(workerId / bucketSize);
}

/** The stored form of a token, or of a host's name: 128 bits of its SHA-256. */
export function hashOf(text: string): string {
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

/** What the name of an ephemeral node says. */
export interface EphemeralName {
  readonly workerId: number;
  /** The hash of the holder's token. */
  readonly token: string;
}

/**
 * Reads the name of an ephemeral node; undefined for a name that Snowlease did not give. It ends in a signed counter of 32 bits, padded
 * to ten characters: 2,147,483,647 is followed by -2147483648, and so on up to -000000001. The counter does not even give an order.
 */
export function parseEphemeral(name: string): EphemeralName | undefined {
  const [, workerId, token] = /^w(\d{10,16})-([0-9a-f]{32})-(?:\d{10,19}|-\d{9,18})$/.exec(name) ?? [];
  return workerId === undefined || token === undefined ? undefined : { workerId: Number(workerId), token };
}
