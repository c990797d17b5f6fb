import type { Keys } from "./keys.ts";
import { readRow } from "./records.ts";
import type { EtcdTransaction } from "./transaction.ts";

/** The rows that one transaction deletes. */
const deletedTogether = 100;

/**
 * Deletes the rows of a worker ID that have a lower fence than this one and whose window ended before a time. Deletes the oldest rows
 * first, so that an interruption leaves no gap. Returns how many rows it deleted.
 */
export async function pruneRows(
  tx: EtcdTransaction,
  keys: Keys,
  { workerId, fence }: { readonly workerId: number; readonly fence: number },
  before: number,
): Promise<number> {
  const end = keys.claim(workerId, fence);
  for (let pruned = 0; ;) {
    const found = await tx.list({ from: keys.claims(workerId), end, limit: deletedTogether });
    const old = found.filter((entry) => readRow(entry).until < before);
    const writes = old.map(({ key }) => ({ key, value: undefined }));
    if (writes.length > 0) await tx.commit([], writes);
    pruned += writes.length;
    if (old.length < deletedTogether) return pruned;
  }
}
