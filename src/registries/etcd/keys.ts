import { createHash } from "node:crypto";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import type { Stored } from "../../rule/window.ts";

/*
 * The keys of a registry. Numbers are padded, so that keys are in their order.
 *
 *     PREFIX/NAMESPACE/meta                        id, layout, limits, schema version, era: each write expects its revision
 *                     /era                         only without `meta`: the era that is noted for a namespace which does not exist
 *                     /worker/ID                   the record of a worker ID
 *                     /idle/SLOT/UNTIL/ID          a worker ID that is not pinned, by the end of its window
 *                     /host/HOST/UNTIL/ID          the same, of those whose last holder ran on this host
 *                     /owner/ADDRESS/UNTIL/ID      a worker ID that is pinned for this address
 *                     /token/TOKEN                 the worker ID that this token holds
 *                     /next/FIRST-LAST             in this pool, worker IDs below this number had a record: a search begins here
 *                     /history/ID/FENCE            a claim that has ended
 *
 * TOKEN and HOST are hashes. The token itself is not stored. A SLOT has 256 worker IDs. A read of a few keys costs a member as much as all
 * keys of the range, so each range has to be small.
 */

/** Keys from `from` on and before `end`. */
interface KeySpan {
  readonly from: string;
  readonly end: string;
}

/** The keys of one namespace. */
export class Keys {
  readonly namespace: string;
  readonly #root: string;

  constructor(prefix: string, namespace: string) {
    this.namespace = namespace;
    this.#root = `${prefix}/${namespace}`;
  }

  get meta(): string {
    return `${this.#root}/meta`;
  }

  get era(): string {
    return `${this.#root}/era`;
  }

  /** The prefix of the keys of all records. */
  get workers(): string {
    return `${this.#root}/worker/`;
  }

  /**
   * The keys of this namespace except `meta` and `era`, as ranges. Another registry may have a prefix that begins with this namespace's
   * keys.
   */
  get parts(): readonly KeySpan[] {
    return ["history", "idle", "host", "owner", "token", "next", "worker"].map((name) => {
      const from = `${this.#root}/${name}/`;
      return { from, end: endOf(from) };
    });
  }

  readonly worker = (workerId: number): string => `${this.workers}${padded(workerId)}`;
  readonly idle = (slot: number): string => `${this.#root}/idle/${padded(slot)}/`;
  readonly ofHost = (host: string): string => `${this.#root}/host/${hashOf(host)}/`;
  readonly ofOwner = (ip: string): string => `${this.#root}/owner/${ip}/`;
  readonly token = (token: string): string => `${this.#root}/token/${token}`;
  readonly next = ({ first, last }: PoolBounds): string => `${this.#root}/next/${first}-${last}`;
  readonly claims = (workerId: number): string => `${this.#root}/history/${padded(workerId)}/`;
  readonly claim = (workerId: number, fence: number): string => `${this.claims(workerId)}${padded(fence)}`;

  /** The keys by which claims find a record, and their values. */
  indexes({ workerId, until, token, pinned, owner, holder }: Stored): Map<string, string> {
    const place = `${padded(until)}/${padded(workerId)}`;
    const found = new Map<string, string>();
    if (token !== undefined) found.set(this.token(token), String(workerId));
    if (owner !== undefined) found.set(this.ofOwner(owner) + place, "");
    if (pinned !== undefined) return found;
    found.set(this.idle(slotOf(workerId)) + place, "");
    if (holder !== undefined) found.set(this.ofHost(holder.host) + place, "");
    return found;
  }
}

/** How many worker IDs a slot has. */
export const slotSize = 256;

/** The slot of a worker ID. */
export function slotOf(workerId: number): number {
  return Math.floor(workerId / slotSize);
}

/** The end of a window and the worker ID, from a key of an index; undefined for a key that Snowlease did not write. */
export function placeIn(key: string): { readonly until: number; readonly workerId: number } | undefined {
  const [, until, workerId] = /\/(\d{16})\/(\d{16})$/.exec(key) ?? [];
  return until === undefined ? undefined : { until: Number(until), workerId: Number(workerId) };
}

/** The number at the end of a key; undefined for a key that Snowlease did not write. */
export function numberIn(key: string): number | undefined {
  const [, number] = /\/(\d{16})$/.exec(key) ?? [];
  return number === undefined ? undefined : Number(number);
}

/** The first key after all keys that begin with this prefix. */
export function endOf(prefix: string): string {
  return prefix.slice(0, -1) + String.fromCharCode(prefix.charCodeAt(prefix.length - 1) + 1);
}

/** The first key after this key. */
export function behind(key: string): string {
  return `${key}\0`;
}

/** 128 bits of the text's SHA-256. */
function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 32);
}

function padded(number: number): string {
  return String(number).padStart(16, "0");
}
