import type { Stored } from "../../rule/window.ts";
import type { Nodes } from "./nodes.ts";
import type { ZooKeeperReader } from "./reader.ts";
import type { Exchange } from "./session.ts";

/** How many rows are deleted at once. */
const batch = 100;

/** Deletes the rows of a worker ID whose window ended before a time, except the row of its last claim. Returns how many rows it deleted. */
export async function pruneRows(
  exchange: Exchange,
  reader: ZooKeeperReader,
  nodes: Nodes,
  { record: { workerId, fence }, before }: { readonly record: Stored; readonly before: number },
): Promise<number> {
  const old: number[] = [];
  for (let next: number | undefined = fence; next !== undefined;) {
    const below: number = next;
    const part = await exchange(async (session) => {
      await reader.begin(session);
      return reader.ended(workerId, below, Infinity);
    });
    old.push(...part.rows.filter((row) => row.until < before).map((row) => row.fence));
    next = part.next;
  }
  // Deletes the oldest rows first, so that an interruption leaves no gap.
  const paths = old.toReversed().map((each) => nodes.row(workerId, each));
  for (let at = 0; at < paths.length; at += batch) {
    await exchange((session) => Promise.all(paths.slice(at, at + batch).map((path) => session.remove(path))));
  }
  return paths.length;
}
