import { mostPins, type Pin, type Registry } from "../rule/registry.ts";

/** How many pins run at once in a store without batches. A store that syncs each write to disk then syncs several together. */
const width = 8;

/** Splits a list into batches of a size that a store accepts in one call. */
export function batchesOf<Item>(items: readonly Item[]): readonly (readonly Item[])[] {
  return Array.from({ length: Math.ceil(items.length / mostPins) }, (_, i) =>
    items.slice(i * mostPins, (i + 1) * mostPins),
  );
}

/**
 * Pins any number of worker IDs. If a worker ID has several pins, the last one counts. Repeatable: after an error of `pin`, some are
 * pinned.
 */
export async function pinEach(registry: Registry, namespace: string, pins: readonly Pin[]): Promise<void> {
  const each = new Map(pins.map((pin) => [pin.workerId, pin]));
  for (const batch of batchesOf([...each.values()])) {
    if (registry.pinAll !== undefined) await registry.pinAll(namespace, batch);
    else await several(batch, ({ workerId, reason, owner }) => registry.pin(namespace, workerId, reason, owner));
  }
}

/** Unpins any number of worker IDs. Returns the worker IDs that were pinned. */
export async function unpinEach(
  registry: Registry,
  namespace: string,
  workerIds: readonly number[],
): Promise<readonly number[]> {
  const unpinned: number[] = [];
  for (const batch of batchesOf([...new Set(workerIds)])) {
    if (registry.unpinAll !== undefined) unpinned.push(...(await registry.unpinAll(namespace, batch)));
    else for (const workerId of batch) if (await registry.unpin(namespace, workerId)) unpinned.push(workerId);
  }
  return unpinned;
}

/** Runs `work` for each item, `width` at a time. Before it throws, it waits until all running work ends. */
async function several<Item>(items: readonly Item[], work: (item: Item) => Promise<unknown>): Promise<void> {
  const left = [...items];
  const worker = async (): Promise<void> => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) {
      try {
        await work(item);
      } catch (error) {
        left.length = 0;
        throw error;
      }
    }
  };
  const workers = Array.from({ length: width }, worker);
  await Promise.allSettled(workers);
  await Promise.all(workers);
}
