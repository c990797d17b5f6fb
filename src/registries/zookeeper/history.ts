import type { Stored } from "../../rule/window.ts";
import type { Nodes } from "./nodes.ts";
import type { ZooKeeperReader } from "./reader.ts";
import type { ZooKeeperSession } from "./session.ts";

/** Deletes the rows of a worker ID whose window ended before a time, but for that of its last claim. Returns how many. */
export async function pruneRows(
  session: ZooKeeperSession,
  nodes: Nodes,
  reader: ZooKeeperReader,
  { record: { workerId, fence }, before }: { readonly record: Stored; readonly before: number },
): Promise<number> {
  const old: number[] = [];
  for (let next: number | undefined = fence; next !== undefined;) {
    const part = await reader.ended(workerId, next, Infinity);
    old.push(...part.rows.filter((row) => row.until < before).map((row) => row.fence));
    next = part.next;
  }
  // The oldest first: where this is interrupted, it leaves no gap.
  for (const each of old.toReversed()) await session.remove(nodes.row(workerId, each));
  return old.length;
}
