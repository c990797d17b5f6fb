import type { HistoryRow } from "../../rule/registry.ts";
import { type Keys, endOf } from "./keys.ts";
import { readRow } from "./records.ts";
import type { EtcdTransaction } from "./transaction.ts";

/** Rows that are read at once. */
const page = 500;
/** Rows that one transaction deletes. */
const deletedTogether = 100;

/** The rows of a worker ID, the newest first, page by page. */
export async function* rowPages(
  tx: EtcdTransaction,
  keys: Keys,
  workerId: number,
): AsyncGenerator<readonly HistoryRow[], void, undefined> {
  const from = keys.claims(workerId);
  for (let end = endOf(from); ;) {
    const found = await tx.list({ from, end, limit: page, descending: true });
    yield found.map(readRow);
    if (found.length < page) return;
    end = found.at(-1)?.key ?? from;
  }
}

/**
 * Deletes the rows of a worker ID up to and without this fence whose window ended before a time, the oldest first: where this is
 * interrupted, it leaves no gap. Returns how many.
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
