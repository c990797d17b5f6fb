import { Layout } from "../../id/layout.ts";
import type { NamespaceInfo } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";
import { seen } from "./ephemeral.ts";
import { bucketOf, bucketSize, type Nodes, numberOf, parseLive } from "./nodes.ts";
import { readKept, type Store } from "./store.ts";

/** Records that are read at once. */
const page = 200;
/** Buckets that are listed at once. */
const bucketPage = 16;

/** Some records, and the clock when they were read. */
interface Page {
  readonly clock: number;
  readonly records: readonly { readonly stored: Stored; /** As it is shown. */ readonly shown: Stored }[];
}

/** All records of worker IDs above one, used or pinned, in ascending order, a page at a time. */
export async function* pagesOf(store: Store, namespace: string, after: number): AsyncGenerator<Page, void, undefined> {
  const nodes = store.nodes(namespace);
  const { info } = await store.run(({ deadline }) => store.begin(deadline, nodes, async () => undefined));
  if (info === undefined) return;
  const buckets = (await bucketsOf(store, nodes, info)).filter((bucket) => bucket >= bucketOf(after));
  while (buckets.length > 0) {
    const some = buckets.splice(0, bucketPage);
    const lists = await store.run(({ deadline }) =>
      store.connection.exchange(deadline, (session) =>
        Promise.all(some.map((each) => session.list(nodes.states(each)))),
      ),
    );
    for (const [i, names = []] of lists.entries()) {
      const bucket = some[i] ?? 0;
      const ids = names.flatMap((name) => numberOf(name) ?? []).filter((id) => id > after && bucketOf(id) === bucket);
      ids.sort((a, b) => a - b);
      while (ids.length > 0) yield readPage(store, nodes, bucket, ids.splice(0, page));
    }
  }
}

/** Buckets that may have records, in ascending order. */
function bucketsOf(store: Store, nodes: Nodes, { layout }: NamespaceInfo): Promise<number[]> {
  return store.run(({ deadline }) =>
    store.connection.exchange(deadline, async (session) => {
      const count = (await session.count(nodes.buckets)) ?? 0;
      if (count > bucketSize) return Array.from({ length: bucketOf(Layout.parse(layout).pool.last) + 1 }, (_, i) => i);
      const names = (await session.list(nodes.buckets)) ?? [];
      return names.flatMap((name) => (/^\d{1,7}$/.test(name) ? Number(name) : [])).toSorted((a, b) => a - b);
    }),
  );
}

async function readPage(store: Store, nodes: Nodes, bucket: number, ids: readonly number[]): Promise<Page> {
  const { clock, read } = await store.run(({ deadline }) =>
    store.begin(deadline, nodes, (session) =>
      Promise.all([session.list(nodes.lives(bucket)), ...ids.map((id) => readKept(session, nodes, id))]),
    ),
  );
  const [names = [], ...kept] = read;
  const tokens = new Set(names.flatMap((name) => parseLive(name)?.token ?? []));
  const records = kept.flatMap((each) => (each === undefined ? [] : [each.stored]));
  return {
    clock,
    records: records.map((stored) => {
      const lives = stored.token !== undefined && tokens.has(stored.token) ? [stored.token] : [];
      return { stored, shown: seen(stored, lives) };
    }),
  };
}
