import { presentNamespace } from "../../rule/namespace.ts";
import type { Registry } from "../../rule/registry.ts";
import { shownRecord } from "../../rule/window.ts";
import type { RegistryOptions } from "../store-kind.ts";
import type { ServerAddress } from "../url.ts";
import { compareAndSetRegistry } from "../compare-and-set/registry.ts";
import { ZooKeeperAttempt } from "./attempt.ts";
import { openConnection } from "./connection.ts";
import { asShown, ephemeralsOf } from "./ephemeral.ts";
import { listClaims, pruneClaims } from "./history.ts";
import { readZooKeeperSettings } from "./settings.ts";
import { schemaVersion, type StoredNode } from "./records.ts";
import { rehearse } from "./rehearsal.ts";
import { readNode, ZooKeeperStore } from "./store.ts";
import { pagesOf } from "./workers.ts";

const durability =
  "Acknowledged writes survive as long as a majority of the ensemble's disks does: a majority has each on disk before it is acknowledged (unless forceSync is off); holds across partitions.";

/**
 * A registry in ZooKeeper. A claim takes three or four round trips, any other operation two. It connects at the first operation.
 *
 * The clock is the leader's: each operation begins with a write to one node, and the leader's time of this write is the time of the
 * operation. Because of this write, the reads behind it see everything that was acknowledged before. A new leader with another clock
 * is a step of the registry's clock: it only decides how soon a number is used again.
 *
 * @throws SnowleaseError CONFIG_INVALID for settings that make no sense, DRIVER_MISSING.
 */
export async function zooKeeperRegistry(
  address: ServerAddress,
  { operationTimeout }: Pick<RegistryOptions, "operationTimeout">,
): Promise<Registry> {
  const settings = readZooKeeperSettings(address);
  const connection = await openConnection(address, settings, operationTimeout);
  const store = new ZooKeeperStore(connection, settings.chroot);

  const registry = compareAndSetRegistry<StoredNode>({
    kind: "zookeeper",
    title: `ZooKeeper ${connection.where}`,
    pinsTogether: false,

    attempt: (namespace, options, work) =>
      store.run((tried) => work(new ZooKeeperAttempt(store, namespace, tried)), options),

    async *pages(namespace, { after = -1, state }) {
      // Every program that takes worker IDs here keeps a window.
      if (state === "foreign") return;
      for await (const page of pagesOf(store, namespace, after)) yield page.map(({ shown }) => shown);
    },

    async worker(namespace, workerId) {
      const nodes = store.nodes(namespace);
      const { clock, read } = await store.read(nodes, (session) =>
        Promise.all([readNode(session, nodes, workerId), ephemeralsOf(session, nodes, workerId)]),
      );
      const [node, ephemerals] = read;
      return node && shownRecord(asShown(node.record, ephemerals), clock);
    },

    history: (namespace, workerId, range = {}) =>
      store.run(async ({ exchange }) => {
        const nodes = store.nodes(namespace);
        const { read: node } = await store.begin(exchange, nodes, (session) => readNode(session, nodes, workerId));
        return node === undefined ? [] : listClaims(exchange, nodes, node.record, range);
      }),

    async prune(namespace, before) {
      await presentNamespace(registry, namespace);
      const nodes = store.nodes(namespace);
      let pruned = 0;
      for await (const page of pagesOf(store, namespace, -1)) {
        for (const { record } of page) {
          pruned += await store.run(({ exchange }) => pruneClaims(exchange, nodes, record, before));
        }
      }
      return pruned;
    },

    rehearse: (namespace) => store.run(({ exchange }) => rehearse(exchange, store.nodes(namespace))),

    scope: async () => {
      const nodes = settings.chroot === "" ? "the root" : `the node \`${settings.chroot}\``;
      return `all who use ${nodes} of ZooKeeper ${connection.where}`;
    },

    ping: () =>
      store.run(async ({ exchange }) => ({ clock: await store.now(exchange), durability, schema: schemaVersion })),

    close: () => store.close(),
  });
  return registry;
}
