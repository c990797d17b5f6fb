import { configInvalid, SnowleaseError } from "../id/errors.ts";
import type { NamespaceInfo } from "../rule/limits.ts";
import { checkEra } from "../rule/quarantine.ts";
import type { Registry, SeparateRequest } from "../rule/registry.ts";
import { checkUnheld } from "./unheld.ts";

/** A copy of a registry that was separated from its original. */
export interface SeparatedCopy {
  /** The id of the original. Undefined if it had none. */
  readonly originalId: string | undefined;
  readonly info: NamespaceInfo;
}

/**
 * Separates a copy of a registry from its original. With it, an operator confirms that the copy is for another use, and that no process
 * uses it. `where`: the registry for people.
 * @throws SnowleaseError NOT_FOUND for an unknown namespace; CONFIG_INVALID for another era than the present one, and for a registry that
 * only passes requests on; WORKER_ID_HELD while a holder's window is open. An original in use always has such a window.
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
