import { isIn, type PoolBounds } from "../../src/id/pool-bounds.ts";
import { systemClock } from "../../src/lease/clock.ts";
import { bandAt } from "../../src/registries/bands.ts";
import { readEtcdSettings } from "../../src/registries/etcd/address.ts";
import { gatewayTo } from "../../src/registries/etcd/gateway.ts";
import { readBands } from "../../src/registries/etcd/records.ts";
import { EtcdStore } from "../../src/registries/etcd/store.ts";
import { changeOf } from "../../src/registries/etcd/writes.ts";
import { parseAddress } from "../../src/registries/index.ts";
import type { ServerAddress } from "../../src/registries/url.ts";
import { unusedRecord } from "../../src/rule/pin.ts";
import type { Stored } from "../../src/rule/window.ts";

/** A store in the form of the registry at this URL. */
export function etcdStore(url: string): EtcdStore {
  const address = parseAddress(url) as ServerAddress;
  const settings = readEtcdSettings(address);
  const gateway = gatewayTo(address, settings, { operationTimeout: 60_000, clock: systemClock });
  return new EtcdStore(gateway, settings.prefix, systemClock);
}

/**
 * Writes records of a pool without claims, as if all worker IDs had been used until then: many more than a test can claim.
 * It needs an earlier claim of this pool, which creates the bands.
 */
export async function makeRecords(
  url: string,
  namespace: string,
  pool: PoolBounds,
  untilOf: (workerId: number) => number,
): Promise<void> {
  const store = etcdStore(url);
  const keys = store.keys(namespace);
  const bands = await store.run(async ({ tx }) => readBands(await tx.get(keys.bands)));
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
      const changes = ids.map((id) =>
        changeOf(keys, { before: undefined, after: record(id), band: bandAt(bands, id)?.name }),
      );
      const writes = changes.flatMap((change) => change.writes);
      await store.run(({ tx }) => tx.commit([], writes));
    }
  }
  await Promise.all(Array.from({ length: 16 }, fill));
  const hint = { key: keys.hint(pool), value: String(pool.last + 1) };
  await store.run(({ tx }) => tx.commit([], [hint]));
  store.close();
}
