import { systemClock } from "../../lease/clock.ts";
import { presentNamespace } from "../../rule/namespace.ts";
import type { Registry } from "../../rule/registry.ts";
import { noNamespace, shownRecord } from "../../rule/window.ts";
import { selectClaims } from "../compare-and-set/claim-row.ts";
import { compareAndSetRegistry } from "../compare-and-set/registry.ts";
import type { RegistryOptions } from "../store-kind.ts";
import { type KubernetesParts, readKubernetesSettings } from "./address.ts";
import { KubernetesAttempt } from "./attempt.ts";
import { clientOf } from "./client.ts";
import { findCluster } from "./cluster.ts";
import { rehearse } from "./rehearsal.ts";
import type { Leases } from "./leases.ts";
import { LeaseNames } from "./objects.ts";
import { type LeaseRecord, readRows, schemaVersion, withRows } from "./records.ts";
import { KubernetesStore, listedRecord, readAt } from "./store.ts";

const durability =
  "Acknowledged writes survive as long as a majority of the disks of the cluster's etcd does: the API server answers once a majority has each; a backup that is put back loses what came after it.";

/**
 * A registry in Lease objects of Kubernetes. A renewal takes four requests to the API server, a claim ten or more, any other operation
 * two to four; a removal one for each object, and some more.
 *
 * @throws SnowleaseError CONFIG_INVALID where the surroundings do not say how to reach an API server.
 */
export async function kubernetesRegistry(
  address: KubernetesParts,
  { operationTimeout, clock = systemClock }: RegistryOptions,
): Promise<Registry> {
  const settings = readKubernetesSettings(address);
  const cluster = await findCluster(address, settings, { operationTimeout, clock });
  const client = clientOf(cluster, { operationTimeout, clock });
  const store = new KubernetesStore(client, cluster.place, clock);

  /** All records, by worker ID: the names of their objects are in another order. */
  async function recordsOf(leases: Leases, names: LeaseNames): Promise<readonly LeaseRecord[]> {
    const objects = await leases.listAll(names.selector(), "exact");
    const found = objects.flatMap((object) => listedRecord(names, object) ?? []);
    return found.toSorted((a, b) => a.record.workerId - b.record.workerId);
  }

  const registry = compareAndSetRegistry<LeaseRecord>({
    kind: "kubernetes",
    title: store.title,
    pinsTogether: false,

    attempt: (namespace, options, work) =>
      store.run((tried) => work(new KubernetesAttempt(store, new LeaseNames(namespace), tried)), options),

    async *pages(namespace, { after = -1, state }) {
      // Every program that takes worker IDs here keeps a window.
      if (state === "foreign") return;
      yield await store.run(async ({ leases }) => {
        const records = await recordsOf(leases, new LeaseNames(namespace));
        const now = store.now(leases);
        return records.filter(({ record }) => record.workerId > after).map(({ record }) => shownRecord(record, now));
      });
    },

    worker: (namespace, workerId) =>
      store.run(async ({ leases }) => {
        const found = await readAt(leases, new LeaseNames(namespace), workerId);
        return found && shownRecord(found.record, store.now(leases));
      }),

    history: (namespace, workerId, range = {}) =>
      store.run(async ({ leases }) => {
        const found = await readAt(leases, new LeaseNames(namespace), workerId);
        return found === undefined ? [] : selectClaims(found.record, onePage(readRows(found)), range);
      }),

    async prune(namespace, before) {
      await presentNamespace(registry, namespace);
      const names = new LeaseNames(namespace);
      const all = await store.run(({ leases }) => recordsOf(leases, names));
      let pruned = 0;
      for (const { record } of all) {
        pruned += await store.run(async ({ leases }) => {
          const found = await readAt(leases, names, record.workerId);
          if (found === undefined) return 0;
          const rows = readRows(found);
          const kept = rows.filter(({ fence, until }) => fence === found.record.fence || until >= before);
          if (kept.length < rows.length) await leases.replace(found.object, withRows(found, kept));
          return rows.length - kept.length;
        });
      }
      return pruned;
    },

    rehearse: (namespace) =>
      store.run(async ({ leases }) => {
        const names = new LeaseNames(namespace);
        const { state } = await store.read(leases, names);
        if (state === undefined) throw noNamespace(namespace);
        await rehearse(leases, names, state.facts);
      }),

    scope: async () => `all who use the namespace \`${cluster.place}\` of ${store.title}`,

    ping: () =>
      store.run(async ({ leases }) => {
        await leases.list("snowlease/ping", "recent");
        return { clock: store.now(leases), durability, schema: schemaVersion };
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

async function* onePage<Item>(items: Item): AsyncGenerator<Item, void, undefined> {
  yield items;
}
