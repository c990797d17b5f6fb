import { isSnowleaseError } from "../../id/errors.ts";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import { bucketOf, bucketSize, type Nodes } from "./nodes.ts";
import { type StoredNode, readRest, restBytes } from "./records.ts";
import type { ZooKeeperSession } from "./session.ts";

/*
 * A claim that has looked at all numbers of a bucket that nobody holds, and found that they rest, notes until when: the claims behind
 * it pass the bucket by. The note counts as long as no ephemeral node of the bucket has gone since: then there is another number that
 * nobody holds. Whatever else may free a number before its window has passed writes to the note, which is worth nothing then.
 */

/** What is to be known before a bucket is looked at. */
interface RestNote {
  readonly bucket: number;
  /** Ephemeral nodes of the bucket that have gone so far. */
  readonly removed: number;
  /** Of the note: another one since, and what was found is not noted. */
  readonly version: number;
  /** None of its numbers comes free before, Unix ms; undefined where that is not known. */
  readonly until?: number | undefined;
}

/** Reads the note of a bucket, and makes it where it is missing. */
export async function readNote(
  session: ZooKeeperSession,
  nodes: Nodes,
  bucket: number,
  { first, last }: PoolBounds,
): Promise<RestNote | undefined> {
  const path = nodes.rest(bucket);
  const read = (): Promise<readonly [Awaited<ReturnType<ZooKeeperSession["get"]>>, number | undefined]> =>
    Promise.all([session.get(path), session.removed(nodes.ephemerals(bucket))]);
  let [node, removed = 0] = await read();
  if (node === undefined) {
    await session.create(path);
    [node, removed = 0] = await read();
  }
  // A namespace of an older version has no place for notes.
  if (node === undefined) return undefined;
  const begun = { bucket, removed, version: node.version };
  const note = readRest(node);
  if (note === undefined || note.removed !== removed) return begun;
  const [from, to] = limitsIn(bucket, { first, last });
  return note.first <= from && note.last >= to ? { ...begun, until: note.until } : begun;
}

/** Notes until when numbers rest that nobody holds: all that the bucket has in a pool. */
export async function noteRest(
  session: ZooKeeperSession,
  nodes: Nodes,
  { bucket, removed, version }: RestNote,
  pool: PoolBounds,
  until: number,
): Promise<void> {
  const [first, last] = limitsIn(bucket, pool);
  try {
    await session.set(nodes.rest(bucket), restBytes({ first, last, until, removed }), version);
  } catch (error) {
    // It is a hint.
    if (!isSnowleaseError(error)) throw error;
  }
}

/** Until when none of these can be had by anybody, Unix ms; undefined where that cannot be told. `latest`: the end of any window. */
export function restOf(kept: readonly (StoredNode | undefined)[], latest: number): number | undefined {
  let until = latest;
  for (const each of kept) {
    // Unused, or unreadable; or given back, and then it depends on the claimer's clock.
    if (each === undefined || (each.record.clean && each.record.pinned === undefined)) return undefined;
    if (each.record.pinned === undefined) until = Math.min(until, each.record.until);
  }
  return until;
}

function limitsIn(bucket: number, { first, last }: PoolBounds): readonly [first: number, last: number] {
  return [Math.max(first, bucket * bucketSize), Math.min(last, (bucket + 1) * bucketSize - 1)];
}

/** What goes with a write that may free a number which nobody holds: its bucket is looked at again. */
export function forgetRest(session: ZooKeeperSession, nodes: Nodes, workerId: number): Promise<unknown> {
  return session.touch(nodes.rest(bucketOf(workerId)));
}
