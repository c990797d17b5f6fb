import { SnowleaseError } from "../id/errors.ts";
import type { InitRequest, NamespaceInfo, Registry, WorkerState } from "./registry.ts";
import { noNamespace } from "./window.ts";

/**
 * What is fixed for a namespace that has to exist.
 * @throws SnowleaseError NOT_FOUND
 */
export async function presentNamespace(
  registry: Pick<Registry, "describe">,
  namespace: string,
): Promise<NamespaceInfo> {
  const info = await registry.describe(namespace);
  if (info === undefined) throw noNamespace(namespace);
  return info;
}

/** What a worker ID is that a holder used, or an operator pinned. */
const ours: readonly WorkerState[] = ["live", "resting", "free", "pinned"];

/**
 * For a registry that forgets nothing, after `init`: refuses an operator's word that a namespace is new where a worker ID in it was
 * used. Said again before the first claim, the word still holds: a caller whose answer was lost asks once more.
 * @throws SnowleaseError CONFIG_INVALID
 */
export async function checkNew(
  registry: Pick<Registry, "workers">,
  { namespace, new: isNew = false }: InitRequest,
): Promise<void> {
  if (!isNew) return;
  for (const state of ours) {
    const [found] = await registry.workers(namespace, { state, limit: 1 });
    if (found !== undefined) throw notNew(namespace, `worker ${found.workerId} of it was used or is pinned`);
  }
}

/** The refusal of an operator's word that a namespace is new, where `evidence` contradicts it. */
export function notNew(namespace: string, evidence: string): SnowleaseError {
  return new SnowleaseError(
    "CONFIG_INVALID",
    `Namespace \`${namespace}\` is not new: ${evidence}; nothing was changed; ask again without \`new\` (of the command line, \`--new\`).`,
  );
}
