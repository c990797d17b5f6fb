import { Layout } from "../../id/layout.ts";
import { systemClock } from "../../lease/clock.ts";
import { noNamespace, shownRecord, type Stored } from "../../rule/window.ts";
import { presentNamespace } from "../../rule/namespace.ts";
import type { Registry } from "../../rule/registry.ts";
import { selectClaims } from "../compare-and-set/claim-row.ts";
import { compareAndSetRegistry } from "../compare-and-set/registry.ts";
import type { RegistryOptions } from "../store-kind.ts";
import type { ServerAddress } from "../url.ts";
import { readEtcdSettings } from "./address.ts";
import { EtcdAttempt, readAt } from "./attempt.ts";
import { gatewayTo } from "./gateway.ts";
import { pruneRows, rowPages } from "./history.ts";
import { type EtcdRecord, readRecord, schemaVersion } from "./records.ts";
import { EtcdStore } from "./store.ts";
import { numberIn } from "./keys.ts";

const durability =
  "Acknowledged writes survive as long as a majority of the members' disks does: a majority has each on disk before it is acknowledged (unless --unsafe-no-fsync); holds across partitions.";

/** Records that are listed at once: with all of their recents, some 9 MB. */
const page = 100;

/** Records that were read at once. */
interface RecordPage {
  /** Unix ms. */
  readonly clock: number;
  readonly records: readonly Stored[];
}

/**
 * A registry in etcd, by the JSON gateway of its members. A claim takes three to seven round trips, any other operation two.
 *
 * @throws SnowleaseError CONFIG_INVALID for settings that make no sense.
 */
export async function etcdRegistry(
  address: ServerAddress,
  { operationTimeout, clock = systemClock }: RegistryOptions,
): Promise<Registry> {
  const settings = readEtcdSettings(address);
  const gateway = gatewayTo(address, settings, { operationTimeout, clock });
  const store = new EtcdStore(gateway, settings.prefix, clock);

  /** The records of all worker IDs above `after`, page by page. */
  async function* pagesOf(namespace: string, after: number): AsyncGenerator<RecordPage, void, undefined> {
    const keys = store.keys(namespace);
    const { state } = await store.run(({ tx }) => store.read(tx, keys));
    const end = state === undefined ? 0 : Layout.parse(state.info.layout).pool.last + 1;
    for (let [from, width] = [after + 1, page]; from < end;) {
      const next = Math.min(from + width, end);
      const { found, clock } = await store.run(async ({ tx }) => ({
        found: await tx.list({ from: keys.worker(from), end: keys.worker(next), limit: page }),
        clock: store.now(tx),
      }));
      const records = found.map((entry) => readRecord(entry, numberIn(entry.key) ?? -1).record);
      yield { clock, records };
      // A read costs as much as all keys of its range: it is wider only where there are few.
      const isFull = found.length === page;
      from = isFull ? (records.at(-1)?.workerId ?? next) + 1 : next;
      width = isFull ? page : 4 * width;
    }
  }

  const registry = compareAndSetRegistry<EtcdRecord>({
    kind: "etcd",
    title: store.title,
    pinsTogether: false,

    attempt: (namespace, options, work) =>
      store.run((tried) => work(new EtcdAttempt(store, store.keys(namespace), tried)), options),

    async *pages(namespace, { after = -1, state }) {
      // Every program that takes worker IDs here keeps a window.
      if (state === "foreign") return;
      for await (const { clock, records } of pagesOf(namespace, after)) {
        yield records.map((record) => shownRecord(record, clock));
      }
    },

    worker: (namespace, workerId) =>
      store.run(async ({ tx }) => {
        const found = await readAt(tx, store.keys(namespace), workerId);
        return found && shownRecord(found.record, store.now(tx));
      }),

    history: (namespace, workerId, range = {}) =>
      store.run(async ({ tx }) => {
        const keys = store.keys(namespace);
        const found = await readAt(tx, keys, workerId);
        return found === undefined ? [] : selectClaims(found.record, rowPages(tx, keys, workerId), range);
      }),

    async prune(namespace, before) {
      await presentNamespace(registry, namespace);
      const keys = store.keys(namespace);
      let pruned = 0;
      for await (const { records } of pagesOf(namespace, -1)) {
        for (const record of records) pruned += await store.run(({ tx }) => pruneRows(tx, keys, record, before));
      }
      return pruned;
    },

    rehearse: (namespace) =>
      store.run(async ({ tx }) => {
        const keys = store.keys(namespace);
        const { state } = await store.read(tx, keys);
        if (state === undefined) throw noNamespace(namespace);
        await tx.rehearse(keys.meta, [keys.worker(0), keys.token(""), keys.claim(0, 0), keys.idle("", 0)]);
      }),

    scope: async () => `all who use the prefix \`${settings.prefix}\` in ${store.title}`,

    ping: () =>
      store.run(async ({ tx }) => {
        await tx.get(settings.prefix);
        return { clock: store.now(tx), durability, schema: schemaVersion };
      }),

    close: async () => store.close(),
  });
  return {
    ...registry,
    async claim(request) {
      store.claiming++;
      try {
        return await registry.claim(request);
      } finally {
        store.claiming--;
      }
    },
  };
}
