import { isIn, type PoolBounds } from "../../src/id/pool-bounds.ts";
import { monotonic, systemClock } from "../../src/clock.ts";
import { readEtcdSettings } from "../../src/registries/etcd/settings.ts";
import { gatewayTo } from "../../src/registries/etcd/gateway.ts";
import { Keys } from "../../src/registries/etcd/keys.ts";
import { EtcdReader } from "../../src/registries/etcd/reader.ts";
import { recordText } from "../../src/registries/etcd/records.ts";
import { EtcdAttempt } from "../../src/registries/etcd/store.ts";
import { EtcdTransaction } from "../../src/registries/etcd/transaction.ts";
import { parseAddress } from "../../src/registries/index.ts";
import type { ServerAddress } from "../../src/registries/url.ts";
import { unusedRecord } from "../../src/rule/pin.ts";
import type { Stored } from "../../src/rule/window.ts";

/** What a registry at a URL uses to read and write. */
interface EtcdParts {
  readonly keysOf: (namespace: string) => Keys;
  readonly transaction: () => EtcdTransaction;
  readonly attempt: (namespace: string) => EtcdAttempt;
  readonly close: () => void;
}

export function etcdParts(url: string): EtcdParts {
  const address = parseAddress(url) as ServerAddress;
  const { prefix, ...settings } = readEtcdSettings(address);
  const gateway = gatewayTo(address, settings, { operationTimeout: 60_000, clock: systemClock });
  const keysOf = (namespace: string): Keys => new Keys(prefix, namespace);
  const transaction = (): EtcdTransaction => new EtcdTransaction(gateway, monotonic(systemClock) + 60_000);
  return {
    keysOf,
    transaction,
    attempt(namespace) {
      const tx = transaction();
      const keys = keysOf(namespace);
      return new EtcdAttempt(tx, keys, new EtcdReader(tx, keys, { spread: 1, now: Date.now }));
    },
    close: () => gateway.close(),
  };
}

/**
 * Writes records of a pool without a claim for each, as if every worker ID had been used until then. Claims could not make so many in a
 * test.
 */
export async function makeRecords(
  url: string,
  namespace: string,
  pool: PoolBounds,
  untilOf: (workerId: number) => number,
): Promise<void> {
  const { keysOf, transaction, close } = etcdParts(url);
  const keys = keysOf(namespace);
  const record = (workerId: number): Stored => {
    const until = untilOf(workerId);
    const holder = { host: `host-${workerId % 1000}`, ip: "", pid: 1, instance: "" };
    return { ...unusedRecord(workerId), fence: 1, from: until - 1, until, knownFrom: until, holder, claimedAt: until };
  };
  const together = 25;
  let next = pool.first;
  async function fill(): Promise<void> {
    while (next <= pool.last) {
      const first = next;
      next += together;
      const ids = Array.from({ length: together }, (_, i) => first + i).filter((id) => isIn(pool, id));
      const writes = ids
        .map(record)
        .flatMap((each) => [
          { key: keys.worker(each.workerId), value: recordText(each, undefined) },
          ...[...keys.indexes(each)].map(([key, value]) => ({ key, value })),
        ]);
      await transaction().commit([], writes);
    }
  }
  await Promise.all(Array.from({ length: 16 }, fill));
  await transaction().commit([], [{ key: keys.next(pool), value: String(pool.last + 1) }]);
  close();
}
