import { configInvalid, SnowleaseError } from "../id/errors.ts";
import type { NamespaceInfo } from "../rule/limits.ts";
import { checkEra } from "../rule/quarantine.ts";
import type { Registry, SeparateRequest } from "../rule/registry.ts";
import { checkUnheld } from "./unheld.ts";

/** A copy that was separated from its original. */
export interface SeparatedCopy {
  /** The id of the original; absent where it had none. */
  readonly originalId: string | undefined;
  readonly info: NamespaceInfo;
}

/**
 * An operator's word that this registry is a copy which is put to another use than its original, and that no process uses it. `where`: the
 * registry for people.
 * @throws SnowleaseError NOT_FOUND for an unknown namespace; CONFIG_INVALID for another era than the present one, and for a registry that
 * only passes requests on; WORKER_ID_HELD while a holder's window is open: an original in use has such a window at any time.
 */
export async function separateCopy(
  registry: Registry,
  request: SeparateRequest,
  where: string,
): Promise<SeparatedCopy> {
  const { namespace, era } = request;
  if (registry.separate === undefined) {
    throw configInvalid(
      `Expected the store itself, got a registry of the kind \`${registry.kind}\`, which separates no copy; name the store behind it with \`--registry\`.`,
    );
  }
  const before = await registry.describe(namespace);
  if (before === undefined) {
    throw new SnowleaseError(
      "NOT_FOUND",
      `The registry ${where} knows no namespace \`${namespace}\`, so there is no copy of it to separate; check \`--namespace\` and \`--registry\`.`,
    );
  }
  checkEra({ namespace, era }, before.era ?? "");
  await checkUnheld(
    registry,
    namespace,
    where,
    "If it is the original, name the copy with `--registry`; if it is the copy, stop each process that uses it, and repeat this after that time.",
  );
  return { originalId: before.id, info: await registry.separate(request) };
}
