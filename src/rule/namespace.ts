import { configInvalid, type SnowleaseError, timeText } from "../id/errors.ts";
import type { InitRequest, Registry, WorkerState } from "./registry.ts";
import type { NamespaceInfo } from "./limits.ts";
import { noNamespace } from "./window.ts";

/** The layout and limits of a namespace that has to exist. @throws SnowleaseError NOT_FOUND */
export async function presentNamespace(
  registry: Pick<Registry, "describe">,
  namespace: string,
): Promise<NamespaceInfo> {
  const info = await registry.describe(namespace);
  if (info === undefined) throw noNamespace(namespace);
  return info;
}

/** The states of worker IDs that a holder used or an operator pinned. */
const ours: readonly WorkerState[] = ["live", "resting", "free", "pinned"];

/**
 * After `init`: refuses `new` if a worker ID of the namespace was used, or if a quarantine is recorded. A repeated `init` before the first
 * claim passes, since its first answer may have been lost. @throws SnowleaseError CONFIG_INVALID
 */
export async function checkNew(
  registry: Pick<Registry, "workers">,
  { namespace, new: isNew = false }: InitRequest,
  { quarantineEnd, quarantineUntil }: NamespaceInfo,
): Promise<void> {
  if (!isNew) return;
  checkUnnoted(namespace, quarantineEnd, quarantineUntil !== undefined);
  for (const state of ours) {
    const [found] = await registry.workers(namespace, { state, limit: 1 });
    if (found !== undefined) throw notNew(namespace, `worker ${found.workerId} of it was used or is pinned`);
  }
}

/**
 * Refuses `new` before a namespace is made, if the end of a quarantine is noted. `isShown`: the quarantine lasts, and operators can look at
 * it.
 * @throws SnowleaseError CONFIG_INVALID
 */
export function checkUnnoted(namespace: string, quarantineEnd: number | undefined, isShown: boolean = false): void {
  // 0 means an era without a quarantine: another client is just making the namespace.
  if (quarantineEnd === undefined || quarantineEnd === 0) return;
  throw notNew(namespace, `a quarantine of it is recorded, until ${timeText(quarantineEnd)}`, isShown);
}

/**
 * The refusal of `new` for a namespace. `evidence`: shows that it is not new. `isShown`: a quarantine lasts, and operators can look at it.
 */
export function notNew(namespace: string, evidence: string, isShown: boolean = false): SnowleaseError {
  const look = isShown ? "run `snowlease quarantine`, which shows how long it lasts and what ends it, or " : "";
  return configInvalid(
    `Namespace \`${namespace}\` is not new: ${evidence}; nothing was changed; ${look}ask again without \`new\` (of the command line, \`--new\`).`,
  );
}
