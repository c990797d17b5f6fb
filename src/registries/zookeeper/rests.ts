import { isSnowleaseError } from "../../id/errors.ts";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import { boundsIn, bucketOf, type Nodes } from "./nodes.ts";
import { jsonBytes, readRest, type Rest, type StoredNode } from "./records.ts";
import type { ChildCounts, Node, ZooKeeperSession } from "./session.ts";

/*
 * A number without an ephemeral node is idle. A claim that has read all idle numbers of a bucket, and found that all of them rest, notes
 * until when: later claims skip the bucket. The note is void once an ephemeral node of the bucket is removed, since that makes another
 * number idle. Any other write that may free a number before its window has passed empties the note.
 */

/** What a claim knows of a bucket before it reads the bucket's records. */
interface RestNote {
  readonly bucket: number;
  /** How many ephemeral nodes of the bucket have been removed so far. */
  readonly removed: number;
  /** The version of the note. With another one in between, the claim's own note is not written. */
  readonly version: number;
  /** None of its idle numbers comes free before, Unix ms; undefined where that is unknown. */
  readonly until?: number | undefined;
}

/** Reads the note of a bucket, and creates an empty one where it is missing. */
export async function readNote(
  session: ZooKeeperSession,
  nodes: Nodes,
  bucket: number,
  pool: PoolBounds,
): Promise<RestNote | undefined> {
  const path = nodes.rest(bucket);
  const read = (): Promise<[Node | undefined, ChildCounts | undefined]> =>
    Promise.all([session.get(path), session.count(nodes.ephemerals(bucket))]);
  let [node, live] = await read();
  if (node === undefined) {
    await session.create(path);
    [node, live] = await read();
  }
  // An operator deleted the parent of the notes.
  if (node === undefined) return undefined;
  const removed = live?.removed ?? 0;
  const begun = { bucket, removed, version: node.version };
  const note = readRest(node);
  if (note === undefined || note.removed !== removed) return begun;
  const { first, last } = boundsIn(bucket, pool);
  return note.first <= first && note.last >= last ? { ...begun, until: note.until } : begun;
}

/** Notes until when all idle numbers of a bucket rest that belong to a pool. */
export async function noteRest(
  session: ZooKeeperSession,
  nodes: Nodes,
  { bucket, removed, version }: RestNote,
  pool: PoolBounds,
  until: number,
): Promise<void> {
  const note: Rest = { ...boundsIn(bucket, pool), until, removed };
  try {
    await session.set(nodes.rest(bucket), jsonBytes(note), version);
  } catch (error) {
    // The note is only a hint.
    if (!isSnowleaseError(error)) throw error;
  }
}

/** The time before which no claim can get any of these, Unix ms; undefined where that is unknown. `latest`: no window ends later. */
export function restOf(kept: readonly (StoredNode | undefined)[], latest: number): number | undefined {
  let until = latest;
  for (const each of kept) {
    // Unused, or unreadable; or given back: then it depends on the claimer's clock.
    if (each === undefined || (each.record.clean && each.record.pinned === undefined)) return undefined;
    if (each.record.pinned === undefined) until = Math.min(until, each.record.until);
  }
  return until;
}

/** Empties the note of a number's bucket. It goes with each write that may free an idle number. */
export function forgetRest(session: ZooKeeperSession, nodes: Nodes, workerId: number): Promise<unknown> {
  return session.touch(nodes.rest(bucketOf(workerId)));
}
