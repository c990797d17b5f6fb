import { cannotDrop, isTrialName } from "../rule/drop.ts";
import { SnowleaseError } from "../id/errors.ts";
import type { Dropped, Registry } from "../rule/registry.ts";

/**
 * An operator drops a namespace, whichever id it has now; one of a trial for good, with all that an interrupted drop left of it.
 * @throws SnowleaseError NOT_FOUND for an unknown namespace; WORKER_ID_HELD, QUARANTINE and CONFIG_INVALID as `Registry.dropNamespace`.
 */
export async function dropNamespace(registry: Registry, namespace: string, where: string): Promise<Dropped> {
  if (registry.dropNamespace === undefined) throw cannotDrop(registry.kind);
  if (isTrialName(namespace)) return registry.dropNamespace({ namespace, id: "", final: true });
  const info = await registry.describe(namespace);
  if (info === undefined) {
    throw new SnowleaseError(
      "NOT_FOUND",
      `The registry ${where} has no namespace \`${namespace}\`; check the name and \`--registry\`.`,
    );
  }
  return registry.dropNamespace({ namespace, id: info.id ?? "" });
}
