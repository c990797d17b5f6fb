import { presentNamespace } from "../../rule/namespace.ts";
import type { Registry } from "../../rule/registry.ts";
import { shownRecord } from "../../rule/window.ts";
import type { ServerAddress } from "../url.ts";
import { compareAndSetRegistry } from "../compare-and-set/registry.ts";
import { ZooKeeperAttempt } from "./attempt.ts";
import { openConnection } from "./connection.ts";
import { asShown, ephemeralsOf } from "./ephemeral.ts";
import { listClaims, pruneClaims } from "./history.ts";
import { hashOf } from "./nodes.ts";
import { readZooKeeperSettings } from "./address.ts";
import { schemaVersion, type StoredNode } from "./records.ts";
import { rehearse } from "./rehearsal.ts";
import { readNode, ZooKeeperStore } from "./store.ts";
import { pagesOf } from "./workers.ts";

interface ZooKeeperOptions {
  /** Deadline of one operation, connecting included, ms. */
  readonly operationTimeout: number;
}

const promise =
  "Acknowledged writes survive as long as a majority of the ensemble's disks does: a majority has each on disk before it is acknowledged (unless forceSync is off); holds across partitions.";

/**
 * A registry in ZooKeeper. An operation reads what it needs, decides, and writes in one transaction that takes effect only where
 * nothing of that has changed. A claim takes three or four round trips, any other operation two. It connects at the first operation.
 *
 * The clock is the leader's: each operation begins with a write to one node, and the leader's time of this write is the time of the
 * operation. Because of this write, the reads behind it see everything that was acknowledged before. A new leader with another clock
 * is a step of the registry's clock: it only decides how soon a number is used again.
 *
 * An ephemeral node says that the session of a worker ID's holder lives. Without it, the claim is shown as resting, and `release` ends
 * it without force. The window stays closed, and the holder may still renew, which creates the node again.
 *
 * @throws SnowleaseError CONFIG_INVALID for settings that make no sense, DRIVER_MISSING.
 */
export async function zooKeeperRegistry(
  address: ServerAddress,
  { operationTimeout }: ZooKeeperOptions,
): Promise<Registry> {
  const { chroot, ...settings } = readZooKeeperSettings(address);
  const connection = await openConnection(address, { ...settings, operationTimeout });
  const store = new ZooKeeperStore(connection, chroot);

  const registry = compareAndSetRegistry<StoredNode>({
    kind: "zookeeper",
    title: `ZooKeeper ${connection.where}`,
    pinsTogether: false,
    tokenOf: hashOf,

    attempt: (namespace, _, work) => store.run((tried) => work(new ZooKeeperAttempt(store, namespace, tried))),

    async *pages(namespace, { after = -1, state }) {
      // Every program that takes worker IDs here keeps a window.
      if (state === "foreign") return;
      for await (const { clock, records } of pagesOf(store, namespace, after)) {
        yield records.map(({ shown }) => shownRecord(shown, clock));
      }
    },

    worker: (namespace, workerId) =>
      store.run(async ({ deadline }) => {
        const nodes = store.nodes(namespace);
        const { clock, read } = await store.begin(deadline, nodes, (session) =>
          Promise.all([readNode(session, nodes, workerId), ephemeralsOf(session, nodes, workerId)]),
        );
        const [node, ephemerals] = read;
        return node && shownRecord(asShown(node.record, ephemerals.values()), clock);
      }),

    history: (namespace, workerId, range = {}) =>
      store.run(async ({ deadline }) => {
        const nodes = store.nodes(namespace);
        const { read: node } = await store.begin(deadline, nodes, (session) => readNode(session, nodes, workerId));
        return node === undefined ? [] : listClaims(connection, deadline, nodes, node.record, range);
      }),

    async prune(namespace, before) {
      await presentNamespace(registry, namespace);
      const nodes = store.nodes(namespace);
      let pruned = 0;
      for await (const { records } of pagesOf(store, namespace, -1)) {
        for (const { record } of records) {
          pruned += await store.run(({ deadline }) => pruneClaims(connection, deadline, nodes, record, before));
        }
      }
      return pruned;
    },

    rehearse: (namespace) => store.run(({ deadline }) => rehearse(store, deadline, store.nodes(namespace))),

    ping: () =>
      store.run(async ({ deadline }) => ({ clock: await store.now(deadline), promise, schema: schemaVersion })),

    close: () => store.close(),
  });
  return registry;
}
