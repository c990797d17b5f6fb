import { isSnowleaseError } from "../../id/errors.ts";
import type { Registry } from "../../rule/registry.ts";
import { noNamespace } from "../../rule/window.ts";

/** Whether an operation failed because tables are missing. */
export function isMissingTables(error: unknown): boolean {
  return isSnowleaseError(error, "SCHEMA_INCOMPATIBLE") && error.details["missing"] === true;
}

/**
 * The same registry, which answers for a namespace without tables as other stores do for one that does not exist. Claims and renewals still say how the
 * tables are made. Where only another table than the one of what is fixed is missing, the error about it stays.
 */
export function knowingAbsence(registry: Registry): Registry {
  async function ifThere<Answer>(namespace: string, asked: Promise<Answer>, absent: () => Answer): Promise<Answer> {
    try {
      return await asked;
    } catch (error) {
      if (!isMissingTables(error) || (await registry.describe(namespace)) !== undefined) throw error;
      return absent();
    }
  }

  function required<Asked extends readonly unknown[], Answer>(
    ask: (namespace: string, ...asked: Asked) => Promise<Answer>,
  ): (namespace: string, ...asked: Asked) => Promise<Answer> {
    return (namespace, ...asked) =>
      ifThere(namespace, ask(namespace, ...asked), () => {
        throw noNamespace(namespace);
      });
  }

  const { unpinAll, pinAll } = registry;
  return {
    ...registry,
    workers: (namespace, ...asked) => ifThere(namespace, registry.workers(namespace, ...asked), () => []),
    worker: (namespace, ...asked) => ifThere(namespace, registry.worker(namespace, ...asked), () => undefined),
    history: (namespace, ...asked) => ifThere(namespace, registry.history(namespace, ...asked), () => []),
    forceRelease: (request) =>
      ifThere(request.namespace, registry.forceRelease(request), () => ({ outcome: "absent" })),
    pin: required(registry.pin),
    unpin: (namespace, ...asked) => ifThere(namespace, registry.unpin(namespace, ...asked), () => false),
    prune: required(registry.prune),
    ...(pinAll && { pinAll: required(pinAll) }),
    ...(unpinAll && {
      unpinAll: (namespace, ...asked) => ifThere(namespace, unpinAll(namespace, ...asked), () => []),
    }),
  };
}
