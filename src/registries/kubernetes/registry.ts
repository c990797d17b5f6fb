import { monotonic, systemClock } from "../../clock.ts";
import type { Registry } from "../../rule/registry.ts";
import { noNamespace } from "../../rule/window.ts";
import { operate } from "../engine/operate.ts";
import { optimistic, type RemoteStore } from "../engine/optimistic.ts";
import type { RegistryOptions } from "../store-kind.ts";
import { type KubernetesParts, readKubernetesSettings } from "./settings.ts";
import { ClaimMemory } from "./claim-memory.ts";
import { clientOf } from "./client.ts";
import { findCluster } from "./cluster.ts";
import { silentError } from "./errors.ts";
import { pruneRows } from "./history.ts";
import { Leases, type Seen } from "./leases.ts";
import { LeaseNames } from "./objects.ts";
import { schemaVersion } from "./records.ts";
import { rehearse } from "./rehearsal.ts";
import { KubernetesAttempt } from "./store.ts";
import { StoredObjects } from "./stored-objects.ts";

const durability =
  "Acknowledged writes survive as long as a majority of the disks of the cluster's etcd does: the API server answers once a majority has each; a backup that is put back loses what came after it.";

/**
 * A registry in Lease objects of Kubernetes. A renewal takes four requests to the API server, a claim ten or more, any other operation two
 * to four. A removal takes one request for each object, and some more.
 *
 * @throws SnowleaseError CONFIG_INVALID if no configuration says how to reach an API server.
 */
export async function kubernetesRegistry(
  address: KubernetesParts,
  { operationTimeout, clock = systemClock }: RegistryOptions,
): Promise<Registry> {
  const settings = readKubernetesSettings(address);
  const cluster = await findCluster(address, settings, { operationTimeout, clock });
  const { place } = cluster;
  const client = clientOf(cluster, { operationTimeout, clock });
  const title = `Kubernetes ${client.where}/${place}`;
  const memory = new ClaimMemory();
  const seen: Seen = { version: 0 };
  const leasesUntil = (deadline = monotonic(clock) + operationTimeout): Leases =>
    new Leases(client, place, deadline, seen);
  const objectsOf = (namespace: string, deadline?: number): StoredObjects =>
    new StoredObjects(leasesUntil(deadline), new LeaseNames(namespace));

  const store: RemoteStore = {
    kind: "kubernetes",
    title,
    clock,
    operationTimeout,
    samples: true,
    pinsTogether: false,
    silent: (lost, isUnknown) => silentError(client.where, operationTimeout, isUnknown, lost),
    attempt: (namespace, options, work) =>
      work(new KubernetesAttempt(objectsOf(namespace, options.deadline), memory, options)),

    async prune(namespace, before) {
      let pruned = 0;
      for (const { workerId } of await objectsOf(namespace).list("exact")) {
        pruned += await operate(store, { repeatable: true }, ({ deadline }) =>
          pruneRows(objectsOf(namespace, deadline), workerId, before),
        );
      }
      return { pruned, isDone: true };
    },

    async rehearse(namespace) {
      await operate(store, { repeatable: true }, async ({ deadline }) => {
        const objects = objectsOf(namespace, deadline);
        const { standing, object } = await objects.begin();
        if (standing.made === undefined || object === undefined) throw noNamespace(namespace);
        await rehearse(objects.leases, objects.names, object);
      });
    },

    scope: async () => `all who use the namespace \`${place}\` of ${title}`,

    async ping() {
      const leases = leasesUntil();
      await leases.list("snowlease/ping", "recent");
      return { clock: leases.now(), durability, schema: schemaVersion };
    },

    close: async () => client.close(),
  };
  return optimistic(store);
}
