/**
 * Does the work for each item, for at most `together` items at the same time. Rejects with the first error, after all started work has
 * ended.
 */
export async function eachOf<Item>(
  items: readonly Item[],
  together: number,
  work: (item: Item, place: number, count: number) => Promise<void>,
): Promise<void> {
  const places = items.keys();
  const failures: unknown[] = [];
  const workers = Array.from({ length: together }, async () => {
    for (const place of places) {
      if (failures.length > 0) return;
      await work(items[place] as Item, place, items.length).catch((error: unknown) => failures.push(error));
    }
  });
  await Promise.all(workers);
  if (failures.length > 0) throw failures[0];
}
