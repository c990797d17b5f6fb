import { Layout } from "../../id/layout.ts";
import type { NamespaceInfo } from "../../rule/limits.ts";
import type { WorkerRecord } from "../../rule/registry.ts";
import { shownRecord, type Stored } from "../../rule/window.ts";
import { asShown } from "./ephemeral.ts";
import { bucketOf, bucketSize, type Nodes, numberOf, parseEphemeral } from "./nodes.ts";
import { readNode, type ZooKeeperStore } from "./store.ts";

/** Records that are read at once. */
const page = 200;
/** Buckets that are listed at once. */
const bucketPage = 16;

/** A record, also as people see it. */
interface ListedRecord {
  readonly record: Stored;
  readonly shown: WorkerRecord;
}

/** The records of all worker IDs above `after`, in ascending order, page by page. */
export async function* pagesOf(
  store: ZooKeeperStore,
  namespace: string,
  after: number,
): AsyncGenerator<readonly ListedRecord[], void, undefined> {
  const nodes = store.nodes(namespace);
  const { state } = await store.read(nodes, async () => undefined);
  if (state === undefined) return;
  const buckets = (await bucketsOf(store, nodes, state.info)).filter((bucket) => bucket >= bucketOf(after));
  while (buckets.length > 0) {
    const some = buckets.splice(0, bucketPage);
    const lists = await store.ask((session) => Promise.all(some.map((each) => session.list(nodes.states(each)))));
    for (const [i, names = []] of lists.entries()) {
      const bucket = some[i] ?? 0;
      const ids = names.flatMap((name) => numberOf(name) ?? []).filter((id) => id > after && bucketOf(id) === bucket);
      ids.sort((a, b) => a - b);
      while (ids.length > 0) yield readPage(store, nodes, bucket, ids.splice(0, page));
    }
  }
}

/** Buckets that may have records, in ascending order. */
function bucketsOf(store: ZooKeeperStore, nodes: Nodes, { layout }: NamespaceInfo): Promise<number[]> {
  return store.ask(async (session) => {
    const { present = 0 } = (await session.count(nodes.buckets)) ?? {};
    if (present > bucketSize) return Array.from({ length: bucketOf(Layout.parse(layout).pool.last) + 1 }, (_, i) => i);
    const names = (await session.list(nodes.buckets)) ?? [];
    return names.flatMap((name) => (/^\d{1,7}$/.test(name) ? Number(name) : [])).toSorted((a, b) => a - b);
  });
}

async function readPage(
  store: ZooKeeperStore,
  nodes: Nodes,
  bucket: number,
  ids: readonly number[],
): Promise<readonly ListedRecord[]> {
  const { clock, read } = await store.read(nodes, (session) =>
    Promise.all([session.list(nodes.ephemerals(bucket)), ...ids.map((id) => readNode(session, nodes, id))]),
  );
  const [names = [], ...found] = read;
  const tokens = new Set(names.flatMap((name) => parseEphemeral(name)?.token ?? []));
  return found
    .flatMap((node) => node?.record ?? [])
    .map((record) => ({ record, shown: shownRecord(asShown(record, tokens), clock) }));
}
