import { monotonic, systemClock } from "../../clock.ts";
import type { Registry } from "../../rule/registry.ts";
import { noNamespace } from "../../rule/window.ts";
import { serverNow } from "../answer-clock.ts";
import { operate } from "../engine/operate.ts";
import { optimistic, type RemoteStore } from "../engine/optimistic.ts";
import type { RegistryOptions } from "../store-kind.ts";
import type { ServerAddress } from "../url.ts";
import { readEtcdSettings } from "./settings.ts";
import { silentError } from "./errors.ts";
import { gatewayTo } from "./gateway.ts";
import { pruneRows } from "./history.ts";
import { Keys } from "./keys.ts";
import { EtcdReader } from "./reader.ts";
import { schemaVersion } from "./records.ts";
import { EtcdAttempt } from "./store.ts";
import { EtcdTransaction } from "./transaction.ts";

const durability =
  "Acknowledged writes survive as long as a majority of the members' disks does: a majority has each on disk before it is acknowledged (unless --unsafe-no-fsync); holds across partitions.";

/**
 * A registry in etcd, through the JSON gateway of its members. A claim takes two to five round trips, any other operation two.
 *
 * @throws SnowleaseError CONFIG_INVALID for impossible settings.
 */
export async function etcdRegistry(
  address: ServerAddress,
  { operationTimeout, clock = systemClock }: RegistryOptions,
): Promise<Registry> {
  const { prefix, ...connection } = readEtcdSettings(address);
  const gateway = gatewayTo(address, connection, { operationTimeout, clock });
  const { where } = gateway;
  const title = `etcd ${where}`;
  const keysOf = (namespace: string): Keys => new Keys(prefix, namespace);
  const begin = (deadline = monotonic(clock) + operationTimeout): EtcdTransaction =>
    new EtcdTransaction(gateway, deadline);
  const readerOf = (tx: EtcdTransaction, namespace: string, spread: number): EtcdReader =>
    new EtcdReader(tx, keysOf(namespace), { spread, now: () => serverNow(clock, tx.clock) });

  const store: RemoteStore = {
    kind: "etcd",
    title,
    clock,
    operationTimeout,
    samples: true,
    pinsTogether: false,
    silent: (lost, isUnknown) => silentError(where, operationTimeout, isUnknown, lost),

    attempt(namespace, { deadline, spread }, work) {
      const tx = begin(deadline);
      return work(new EtcdAttempt(tx, keysOf(namespace), readerOf(tx, namespace, spread)));
    },

    async prune(namespace, before) {
      let pruned = 0;
      for (let next: number | undefined = -1; next !== undefined;) {
        const part = await readerOf(begin(), namespace, 1).page(next, Infinity, undefined);
        for (const record of part.rows) {
          pruned += await operate(store, { repeatable: true }, ({ deadline }) =>
            pruneRows(begin(deadline), keysOf(namespace), record, before),
          );
        }
        next = part.next;
      }
      return { pruned, isDone: true };
    },

    async rehearse(namespace) {
      const keys = keysOf(namespace);
      const tx = begin();
      const { meta } = await readerOf(tx, namespace, 1).begin();
      if (meta === undefined) throw noNamespace(namespace);
      await tx.rehearse(keys.meta, [keys.worker(0), keys.token(""), keys.claim(0, 0), keys.idle(0)]);
    },

    scope: async () => `all who use the prefix \`${prefix}\` in ${title}`,

    async ping() {
      const tx = begin();
      await tx.get(prefix);
      return { clock: serverNow(clock, tx.clock), durability, schema: schemaVersion };
    },

    close: async () => gateway.close(),
  };
  return optimistic(store);
}
