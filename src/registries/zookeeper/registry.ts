import { systemClock } from "../../clock.ts";
import { configInvalid } from "../../id/errors.ts";
import type { Registry } from "../../rule/registry.ts";
import { Changed, operate } from "../engine/operate.ts";
import { type AttemptOptions, optimistic, type RemoteStore } from "../engine/optimistic.ts";
import type { RegistryOptions } from "../store-kind.ts";
import { together } from "../together.ts";
import type { ServerAddress } from "../url.ts";
import { openConnection } from "./connection.ts";
import { OwnEphemerals } from "./ephemerals.ts";
import { silentError } from "./errors.ts";
import { pruneRows } from "./history.ts";
import { Nodes } from "./nodes.ts";
import { ZooKeeperReader } from "./reader.ts";
import { schemaVersion } from "./records.ts";
import { rehearse } from "./rehearsal.ts";
import type { Exchange, ZooKeeperSession } from "./session.ts";
import { readZooKeeperSettings } from "./settings.ts";
import { ZooKeeperAttempt } from "./store.ts";

const durability =
  "Acknowledged writes survive as long as a majority of the ensemble's disks does: a majority has each on disk before it is acknowledged (unless forceSync is off); holds across partitions.";

/**
 * A registry in ZooKeeper: `zooKeeperStore`.
 * @throws SnowleaseError CONFIG_INVALID for impossible settings, DRIVER_MISSING.
 */
export async function zooKeeperRegistry(
  address: ServerAddress,
  options: Pick<RegistryOptions, "operationTimeout">,
): Promise<Registry> {
  return optimistic(await zooKeeperStore(address, options));
}

/**
 * A store in ZooKeeper. A claim takes two to four round trips, any other operation mostly two. The first operation connects.
 *
 * The clock is the leader's. Each operation begins with a write to one node. The leader's time of this write is the time of the operation.
 * Because of this write, the reads after it see everything that was acknowledged before. If a new leader has another clock, the registry's
 * clock makes a step. This only decides how soon a worker ID is used again.
 *
 * @throws SnowleaseError as `zooKeeperRegistry`.
 */
export async function zooKeeperStore(
  address: ServerAddress,
  { operationTimeout }: Pick<RegistryOptions, "operationTimeout">,
): Promise<RemoteStore> {
  const settings = readZooKeeperSettings(address);
  const connection = await openConnection(address, settings, operationTimeout);
  const { where } = connection;
  const ephemerals = new OwnEphemerals(connection);
  const title = `ZooKeeper ${where}`;
  /** The node above all namespaces, and the node that each operation writes for the clock. */
  const base = `${settings.chroot}/snowlease`;
  const clockNode = `${base}/.clock`;

  /** Writes the node of the clock. Returns the leader's time of that write. */
  async function touch(session: ZooKeeperSession): Promise<number> {
    const found = await session.touch(clockNode);
    if (found !== undefined) return found;
    const [, , made] = await together([session.create(base), session.create(clockNode), session.touch(clockNode)]);
    // Reads that were sent meanwhile may show an older state.
    if (made !== undefined) throw new Changed("the node of the clock was made");
    throw configInvalid(
      `${title} has no node \`${settings.chroot}\`, which the registry URL names: create it, or correct the URL.`,
    );
  }

  const owns = ({ id }: ZooKeeperSession, begin: string): boolean => ephemerals.at(id, begin) !== undefined;
  const nodesOf = (namespace: string): Nodes => new Nodes(base, namespace);
  const readerOf = (
    namespace: string,
    how: Pick<AttemptOptions, "kind" | "races" | "spread"> = { kind: "read", races: 0, spread: 1 },
  ): ZooKeeperReader => new ZooKeeperReader(nodesOf(namespace), { ...how, owns, touch });
  /** Runs an operation of the store itself. */
  const run = <Answer>(work: (exchange: Exchange) => Promise<Answer>): Promise<Answer> =>
    operate(store, { repeatable: true }, async ({ deadline }) => work(await connection.exchanges(deadline)));

  const store: RemoteStore = {
    kind: "zookeeper",
    title,
    clock: systemClock,
    operationTimeout,
    samples: true,
    pinsTogether: false,
    silent: (lost, isUnknown) => silentError(where, operationTimeout, isUnknown, lost),

    async attempt(namespace, { deadline, kind, races, spread }, work) {
      const exchange = await connection.exchanges(deadline);
      const [nodes, reader] = [nodesOf(namespace), readerOf(namespace, { kind, races, spread })];
      const halt = deadline - operationTimeout / 2;
      return work(new ZooKeeperAttempt({ exchange, nodes, reader, ephemerals, kind, halt }));
    },

    async prune(namespace, before) {
      let pruned = 0;
      for (let next: number | undefined = -1; next !== undefined;) {
        const after: number = next;
        const part = await run((exchange) =>
          exchange(async (session) => {
            const reader = readerOf(namespace);
            await reader.begin(session);
            return reader.page(after, Infinity);
          }),
        );
        for (const record of part.rows) {
          pruned += await run((exchange) =>
            pruneRows(exchange, readerOf(namespace), nodesOf(namespace), { record, before }),
          );
        }
        next = part.next;
      }
      return { pruned, isDone: true };
    },

    rehearse: (namespace) => run((exchange) => rehearse(exchange, nodesOf(namespace))),

    scope: async () => {
      const nodes = settings.chroot === "" ? "the root" : `the node \`${settings.chroot}\``;
      return `all who use ${nodes} of ${title}`;
    },

    ping: () => run(async (exchange) => ({ clock: await exchange(touch), durability, schema: schemaVersion })),

    async close() {
      ephemerals.close();
      await connection.close();
    },
  };
  return store;
}
