import { configInvalid, isSnowleaseError, type SnowleaseError, timeText } from "../id/errors.ts";
import type { InitRequest, NamespacesPage, Registry, WorkerState } from "./registry.ts";
import type { NamespaceInfo } from "./limits.ts";
import { noNamespace } from "./window.ts";

/** What every name of a namespace matches. */
export const namespacePattern: RegExp = /^[a-z][a-z0-9_]{0,31}$/;

/** Namespaces that are looked at, at the same time. */
const lookedAt = 16;
/** Names that one answer lists at most. */
const longestPage = 10_000;

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
 * After `init`: refuses `new` where a worker ID of the namespace was used, or a quarantine is recorded. A repeated `init` before the
 * first claim passes, since its first answer may have been lost. @throws SnowleaseError CONFIG_INVALID
 */
export async function checkNew(
  registry: Pick<Registry, "workers">,
  { namespace, new: isNew = false }: InitRequest,
  { quarantineEnd }: NamespaceInfo,
): Promise<void> {
  if (!isNew) return;
  checkUnnoted(namespace, quarantineEnd);
  for (const state of ours) {
    const [found] = await registry.workers(namespace, { state, limit: 1 });
    if (found !== undefined) throw notNew(namespace, `worker ${found.workerId} of it was used or is pinned`);
  }
}

/** Refuses `new` where the end of a quarantine is noted, before a namespace is made. @throws SnowleaseError CONFIG_INVALID */
export function checkUnnoted(namespace: string, quarantineEnd: number | undefined): void {
  if (quarantineEnd === undefined) return;
  throw notNew(namespace, `a quarantine of it is recorded, until ${timeText(quarantineEnd)}`);
}

/** The refusal of `new` for a namespace. `evidence`: what shows that it is not new. */
export function notNew(namespace: string, evidence: string): SnowleaseError {
  return configInvalid(
    `Namespace \`${namespace}\` is not new: ${evidence}; nothing was changed; ask again without \`new\` (of the command line, \`--new\`).`,
  );
}

/**
 * `Registry.namespaces`, for a store that knows under which names there may be a namespace. `names`: in ascending order; any other text among
 * them is left out. `describe`: as of the registry.
 */
export async function existingNamespaces(
  names: AsyncIterable<string>,
  describe: (name: string) => Promise<unknown>,
  { after = "", limit = 1000 }: NamespacesPage = {},
): Promise<readonly string[]> {
  const most = Math.min(limit, longestPage);
  const found: string[] = [];
  let batch: string[] = [];
  const look = async (): Promise<void> => {
    const asked = batch;
    batch = [];
    const exist = await Promise.all(asked.map((name) => exists(name, describe)));
    found.push(...asked.filter((_, i) => exist[i]));
  };
  if (most < 1) return found;
  for await (const name of names) {
    if (name <= after || !namespacePattern.test(name)) continue;
    batch.push(name);
    if (batch.length === Math.min(lookedAt, most - found.length)) await look();
    if (found.length === most) return found;
  }
  await look();
  return found;
}

/** Whether a namespace exists, as far as this user can see. */
async function exists(name: string, describe: (name: string) => Promise<unknown>): Promise<boolean> {
  try {
    return (await describe(name)) !== undefined;
  } catch (error) {
    // Only a quarantine is noted.
    if (isSnowleaseError(error, "QUARANTINE")) return false;
    if (isSnowleaseError(error, "SCHEMA_INCOMPATIBLE") || isSnowleaseError(error, "FORBIDDEN")) return true;
    throw error;
  }
}

/** The refusal of a registry that lists no namespaces. `kind`: `Registry.kind`. */
export function cannotList(kind: string): SnowleaseError {
  return configInvalid(
    `Expected a registry that can list its namespaces, got the kind \`${kind}\`, which cannot; name each namespace with \`--namespace\`.`,
  );
}
